//! Errors as `application/problem+json` (RFC 9457).

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde::Serialize;

use crate::reply::{Reply, reply};

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Kind of rejection, for metrics: few, whatever clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The bytes do not follow the protocol.
    Malformed,
    /// Larger, or of more parts, than a bound allows.
    TooLarge,
    /// The content is invalid.
    Invalid,
    /// There is no such path, method or thing.
    Unknown,
    /// The caller is not allowed to.
    Unauthorized,
    /// It did not arrive in time.
    Late,
    /// All clients together have exceeded a shared bound.
    Overload,
    /// The rules or the store are missing.
    Unavailable,
    /// A bug of this server.
    Internal,
}

impl Reason {
    /// As metrics and logs call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Invalid => "invalid",
            Self::Unknown => "unknown",
            Self::Unauthorized => "unauthorized",
            Self::Late => "late",
            Self::Overload => "overload",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }

    /// The usual one of a status.
    const fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            401 | 403 | 429 => Self::Unauthorized,
            404 | 405 => Self::Unknown,
            408 => Self::Late,
            413 | 414 | 431 => Self::TooLarge,
            503 => Self::Unavailable,
            500..=599 => Self::Internal,
            _ => Self::Invalid,
        }
    }
}

/// Why a request is not answered as asked. Nothing was done, unless the detail says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", .status.as_u16())]
pub struct Problem {
    /// The status of the reply.
    pub status: StatusCode,
    /// The error, its place, and the remedy.
    pub detail: String,
    /// For `Retry-After`: seconds until the same request may be answered.
    pub retry_after: Option<u64>,
    pub reason: Reason,
}

/// [`Problem`] on the wire.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody<'a> {
    /// `about:blank`: the status says it all.
    r#type: &'a str,
    /// The status in words.
    title: &'a str,
    status: u16,
    /// What is wrong, where, and what to do instead.
    detail: &'a str,
}

impl Problem {
    /// A problem of this status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), retry_after: None, reason: Reason::of(status) }
    }

    /// Replaces the reason that the status implies.
    #[must_use]
    pub const fn because(mut self, reason: Reason) -> Self {
        self.reason = reason;
        self
    }

    /// Sets `Retry-After`, in seconds.
    #[must_use]
    pub const fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// 400: the request is invalid.
    pub fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 500: a bug of this server, not the client's.
    #[must_use]
    pub fn internal() -> Self {
        let detail =
            "internal error: the request may or may not have taken effect; the server's log says more";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }

    /// The reply that reports it.
    #[must_use]
    pub fn reply(&self) -> Reply {
        let status = self.status;
        let title = status.canonical_reason().unwrap_or_default();
        let body =
            ProblemBody { r#type: "about:blank", title, status: status.as_u16(), detail: &self.detail };
        let body = serde_json::to_vec(&body).unwrap_or_default(); // texts and numbers cannot fail
        let mut reply = reply(status, PROBLEM_JSON, body);
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"tollgate\"");
            reply.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        if let Some(seconds) = self.retry_after {
            reply.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        reply
    }
}
