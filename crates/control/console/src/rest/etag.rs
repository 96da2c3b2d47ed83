//! Etags: what a reply carries, and what a change must send.

use hyper::StatusCode;
use hyper::header::{ETAG, HeaderValue};
use serde::Serialize;
use tollgate_http_kit::Reply;

use super::json::json;
use crate::web::{Failure, Visit};

/// `view` with an `ETag`.
pub(super) fn tagged(status: StatusCode, view: &impl Serialize, etag: i64) -> Reply {
    let mut reply = json(status, view);
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
