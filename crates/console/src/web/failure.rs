//! Why a request is not answered as asked.

use tollgate_control::ControlError;

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
    /// There is no such page.
    NoPage,
    /// A change without `If-Match`.
    NoMatch,
    /// A template failed.
    Page(String),
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}
