//! Why a request has no response.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use tollgate_headers::Reading;

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError<E> {
    /// A limit denied the request.
    #[error(transparent)]
    Limited(#[from] Limited),
    /// The client itself failed.
    #[error("{0}")] // no source, since a boxed error cannot be one
    Service(E),
}

/// A limit denied the request: the time of a retry, and whether the request was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limited {
    /// The side whose limit denied the request.
    pub by: LimitedBy,
    /// Time until the same request may be sent; `None` where no wait helps, or where too many requests wait
    /// already.
    pub retry_after: Option<Duration>,
    /// Whether the request was sent, and the server denied it; otherwise it never left.
    pub was_sent: bool,
    /// The status of the server's answer to it.
    pub status: Option<StatusCode>,
    /// Limits that the server reported in that answer.
    pub reading: Option<Box<Reading>>,
}

/// The side whose limit denied a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitedBy {
    /// A limit of the server's.
    Server,
    /// The limit that the client keeps for itself.
    Client,
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.by {
            LimitedBy::Server => "the server's rate limit is exceeded",
            LimitedBy::Client => "the client's own rate limit is exceeded",
        })?;
        match self.retry_after {
            Some(span) => write!(f, "; retry in {span:?}")?,
            None => f.write_str("; retry later")?,
        }
        f.write_str(if self.was_sent { "; the server denied the request" } else { "; nothing was sent" })
    }
}

impl std::error::Error for Limited {}
