//! Making answers: status, type, body, and errors as `application/problem+json` (RFC 9457).

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tollgate_headers::PROBLEM_JSON;

/// What a route answers.
pub(crate) type Answer = Response<Full<Bytes>>;

pub(crate) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(crate) const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
pub(crate) const PROBLEM: HeaderValue = HeaderValue::from_static(PROBLEM_JSON);

/// An answer with a body.
pub(crate) fn answer(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A line for people.
pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(status, TEXT, body)
}

/// `shape` as JSON.
pub(crate) fn json(status: StatusCode, shape: &impl Serialize) -> Answer {
    match serde_json::to_vec(shape) {
        Ok(body) => answer(status, JSON, body),
        Err(_) => Refusal::fault().answer(), // shapes of texts and numbers cannot fail
    }
}

/// A request that is not answered as asked, and why. Nothing was decided and no permit taken, unless it says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", .status.as_u16())]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
}

/// [`Refusal`] on the wire.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Problem<'a> {
    /// `about:blank`: the status says it all.
    r#type: &'a str,
    /// The status in words.
    title: &'a str,
    status: u16,
    /// What is wrong, where, and what to do instead.
    detail: &'a str,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    /// 400.
    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 500: ours, not the client's.
    pub(crate) fn fault() -> Self {
        let detail = "a fault of this server; permits may or may not have been taken. The log has more.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }

    pub(crate) fn answer(&self) -> Answer {
        let status = self.status;
        let title = status.canonical_reason().unwrap_or_default();
        let problem = Problem { r#type: "about:blank", title, status: status.as_u16(), detail: &self.detail };
        let body = serde_json::to_vec(&problem).unwrap_or_default(); // texts and numbers cannot fail
        answer(status, PROBLEM, body)
    }
}
