//! Making replies: status, type, body.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

/// Reply of an operation.
pub type Reply = Response<Full<Bytes>>;

pub const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// A reply with a body of this type.
pub fn reply(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, content_type);
    reply
}

/// A line for people.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    reply(status, TEXT, body)
}

/// `shape` as JSON.
pub fn json(status: StatusCode, shape: &impl Serialize) -> Reply {
    match serde_json::to_vec(shape) {
        Ok(body) => reply(status, JSON, body),
        // Shapes of texts and numbers cannot fail.
        Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "internal error\n"),
    }
}
