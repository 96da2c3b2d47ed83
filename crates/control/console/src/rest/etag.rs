//! Etags: what a reply carries, and what a change must send.

use hyper::StatusCode;
use hyper::header::{ETAG, HeaderValue};
use serde_json::Value;
use tollgate_http_kit::{Reply, reply};

use crate::web::{Failure, Visit};

/// `shape` with an `ETag`.
pub(super) fn tagged(status: StatusCode, shape: &Value, etag: i64) -> Reply {
    let mut reply = reply::json(status, shape);
    if let Ok(etag) = HeaderValue::try_from(format!("\"{etag}\"")) {
        reply.headers_mut().insert(ETAG, etag);
    }
    reply
}

/// The etag of `If-Match`, without which nothing is changed.
pub(super) fn if_match(visit: &Visit) -> Result<i64, Failure> {
    let given = visit.if_match.as_deref().ok_or(Failure::NoMatch)?;
    let number = given.trim().strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    // Another form is an etag that was never given out.
    Ok(number.and_then(|it| it.parse().ok()).unwrap_or(-1))
}
