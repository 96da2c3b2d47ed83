//! Replies to clients: fields on responses that pass, and the reply to a request that does not.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use tollgate::RetryAfter;
use tollgate_headers::{
    Content, LimitState, PROBLEM_JSON, Style, Template, TemplateError, Values, detail, fill,
    most_restrictive, problem, write,
};

use crate::grpc::{self, Code};

const PROBLEM: HeaderValue = HeaderValue::from_static(PROBLEM_JSON);

/// Replies to clients: which fields, and the status and body of a denial.
///
/// Calls of gRPC get the status `RESOURCE_EXHAUSTED` with a `RetryInfo` instead, and the same fields.
///
/// # Example
/// ```
/// use http::StatusCode;
/// use tollgate_tower::Replies;
///
/// let replies = Replies::default()
///     .headers("draft-11".parse()?)
///     .status(StatusCode::SERVICE_UNAVAILABLE)
///     .body("application/json", r#"{"error": "slow down", "retry_after": {{retry_after}}}"#)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Replies {
    style: Style,
    status: StatusCode,
    body: Option<(HeaderValue, Content, Template)>,
}

impl Default for Replies {
    fn default() -> Self {
        Self { style: Style::default(), status: StatusCode::TOO_MANY_REQUESTS, body: None }
    }
}

/// Why a body cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// Its type cannot be the value of a header field.
    #[error("invalid content type {0:?}: expected something like application/json")]
    ContentType(String),
    /// Its text is not a template.
    #[error("invalid body")]
    Template(#[from] TemplateError),
}

impl Replies {
    /// Sets the fields of all responses; `legacy` if nothing is set, that is `X-RateLimit-…` and, on a
    /// denial, `Retry-After`. [`Style::OFF`] sends none.
    #[must_use]
    pub const fn headers(mut self, style: Style) -> Self {
        self.style = style;
        self
    }

    /// Sets the status of a denial; 429 if nothing is set.
    #[must_use]
    pub const fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Sets the body of a denial, with placeholders such as `{{retry_after}}`, `{{limit}}`, `{{policy}}` and
    /// `{{detail}}`; `application/problem+json` if nothing is set.
    ///
    /// # Errors
    /// [`BodyError`]: the type or the text is invalid.
    pub fn body(mut self, content_type: &str, template: &str) -> Result<Self, BodyError> {
        let value = HeaderValue::try_from(content_type)
            .map_err(|_| BodyError::ContentType(content_type.to_owned()))?;
        self.body = Some((value, Content::of(content_type), template.parse()?));
        Ok(self)
    }

    pub(crate) fn has_fields(&self) -> bool {
        self.style != Style::OFF
    }

    /// Adds the fields to a response that passed, unless it is a denial of its own: then its fields stay.
    pub(crate) fn mark(&self, limits: &[LimitState<'_>], status: StatusCode, fields: &mut HeaderMap) {
        if status != StatusCode::TOO_MANY_REQUESTS && !grpc::is_exhausted(fields) {
            write(limits, true, &self.style, fields);
        }
    }

    /// The reply to a request that a limit denied.
    pub(crate) fn denial(&self, limits: &[LimitState<'_>], is_grpc: bool) -> Response<Bytes> {
        let shown = most_restrictive(limits);
        let mut response = Response::new(Bytes::new());
        write(limits, false, &self.style, response.headers_mut());
        if is_grpc {
            let message = shown.map(detail).unwrap_or_default();
            let retry_after = shown.and_then(|limit| match limit.retry_after {
                RetryAfter::After(span) => Some(span),
                RetryAfter::Now | RetryAfter::Never => None,
            });
            grpc::write(Code::ResourceExhausted, &message, retry_after, response.headers_mut());
            return response;
        }
        *response.status_mut() = self.status;
        let (content_type, body) = match &self.body {
            Some((content_type, content, template)) => {
                let name = shown.map_or("", |limit| limit.name);
                let values = Values { domain: "", rule: name, limit: shown.copied() };
                (content_type.clone(), fill(template, *content, &values))
            }
            None => (PROBLEM, problem(limits, self.status.as_u16())),
        };
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        *response.body_mut() = body.into();
        response
    }
}

/// The reply to a request that no limit has decided about.
pub(crate) fn rejection(status: StatusCode, message: &'static str, is_grpc: bool) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    if is_grpc {
        let code = match status {
            StatusCode::UNAUTHORIZED => Code::Unauthenticated,
            StatusCode::FORBIDDEN => Code::PermissionDenied,
            StatusCode::INTERNAL_SERVER_ERROR => Code::Internal,
            status if status.is_server_error() => Code::Unavailable,
            _ => Code::InvalidArgument,
        };
        grpc::write(code, message, None, response.headers_mut());
        return response;
    }
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    *response.body_mut() = Bytes::from_static(message.as_bytes());
    response
}

/// The reply to a request for which there is no room now.
pub(crate) fn busy(
    status: StatusCode,
    message: &'static str,
    retry_after: Duration,
    is_grpc: bool,
) -> Response<Bytes> {
    let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
    let mut response = if is_grpc {
        let is_limit = status == StatusCode::TOO_MANY_REQUESTS;
        let code = if is_limit { Code::ResourceExhausted } else { Code::Unavailable };
        let mut response = Response::new(Bytes::new());
        let delay = (!retry_after.is_zero()).then_some(retry_after);
        grpc::write(code, message, delay, response.headers_mut());
        response
    } else {
        rejection(status, message, false)
    };
    if seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
