//! Replies of views as JSON. Members are in the order of their names, whatever order a view has them in.

use hyper::StatusCode;
use serde::Serialize;
use serde_json::Value;
use tollgate_http_kit::{Reply, reply};

/// 200 with `view`.
pub(super) fn ok(view: &impl Serialize) -> Reply {
    json(StatusCode::OK, view)
}

/// `view` with this status.
pub(super) fn json(status: StatusCode, view: &impl Serialize) -> Reply {
    reply::json(status, &sorted(view))
}

/// `view`, with its members in the order of their names.
pub(super) fn sorted(view: &impl Serialize) -> Value {
    serde_json::to_value(view).unwrap_or_default() // views of texts and numbers cannot fail
}
