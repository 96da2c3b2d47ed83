//! Why a request is not answered as asked.

use tollgate_api::query::BadQuery;
use tollgate_control::{ControlError, ModelError};

/// Why a page or an operation is not answered as asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// From the services.
    Control(ControlError),
    /// A form, a body or a parameter that makes no sense.
    Bad(String),
    /// A change that another site asked for, or a `Host` that is not this server's.
    Foreign(&'static str),
    /// The body is too large, too slow, or broke off.
    Body(tollgate_http_kit::Problem),
    /// A login is needed.
    NoLogin,
    /// The token is unknown, expired or revoked.
    NoToken,
    /// There is no such page.
    NoPage,
    /// A change without `If-Match`.
    NoMatch,
    /// A template failed.
    Page(String),
    /// A function of ours panicked.
    Panic,
}

impl Failure {
    /// Why, for the audit: without anything that the caller entered.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Control(ControlError::NotFound { what, .. }) => format!("unknown {what}"),
            Self::Control(error) => error.to_string(),
            Self::Bad(_) | Self::Body(_) => "invalid request".to_owned(),
            Self::Foreign(why) => (*why).to_owned(),
            Self::NoLogin | Self::NoToken => "no login".to_owned(),
            Self::NoPage => "unknown path".to_owned(),
            Self::NoMatch => "no etag".to_owned(),
            Self::Page(_) | Self::Panic => "internal error".to_owned(),
        }
    }
}

impl From<BadQuery> for Failure {
    fn from(BadQuery(detail): BadQuery) -> Self {
        Self::Bad(detail)
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::NoLogin => Self::NoLogin,
            ControlError::NoToken => Self::NoToken,
            error => Self::Control(error),
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::Control(error.into())
    }
}
