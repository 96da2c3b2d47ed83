//! The outcome of a change that a form or a program asks for, and the status of each error: one table for
//! pages and API.

use hyper::StatusCode;
use tollgate_control::{ControlError, FieldFault};
use tollgate_db::DbError;

use super::failure::Failure;

/// The outcome of a change, as far as the one who asked for it can mend it.
pub(crate) enum Outcome<T> {
    Done(T),
    Invalid(Vec<FieldFault>),
    /// The object was changed since it was read.
    Stale,
}

impl<T> Outcome<T> {
    /// Every other error is a failure.
    pub(crate) fn of(changed: Result<T, ControlError>) -> Result<Self, Failure> {
        match changed {
            Ok(done) => Ok(Self::Done(done)),
            Err(ControlError::Invalid(faults)) => Ok(Self::Invalid(faults)),
            Err(ControlError::Stale { .. }) => Ok(Self::Stale),
            Err(error) => Err(error.into()),
        }
    }
}

/// The result of a change; `None` if its object was changed since it was read.
pub(crate) fn unless_stale<T>(changed: Result<T, ControlError>) -> Result<Option<T>, Failure> {
    match Outcome::of(changed)? {
        Outcome::Done(done) => Ok(Some(done)),
        Outcome::Stale => Ok(None),
        Outcome::Invalid(faults) => Err(ControlError::Invalid(faults).into()),
    }
}

/// The status of a reply about `error`, and its kind of problem.
pub(crate) fn status_of(error: &ControlError) -> (StatusCode, &'static str) {
    match error {
        ControlError::Invalid(_) | ControlError::Faulty(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
        ControlError::NoRight { .. } => (StatusCode::FORBIDDEN, "no-right"),
        ControlError::LoginOnly => (StatusCode::FORBIDDEN, "login-only"),
        ControlError::NotFound { .. } => (StatusCode::NOT_FOUND, "not-found"),
        ControlError::Stale { .. } => (StatusCode::PRECONDITION_FAILED, "stale"),
        ControlError::Conflict(_) => (StatusCode::CONFLICT, "conflict"),
        ControlError::NeedsApproval { .. } => (StatusCode::CONFLICT, "needs-approval"),
        ControlError::OldNodes { .. } => (StatusCode::CONFLICT, "old-nodes"),
        ControlError::Frozen { .. } => (StatusCode::CONFLICT, "frozen"),
        ControlError::Unanswered { .. } => (StatusCode::BAD_GATEWAY, "unanswered"),
        ControlError::WrongState { .. }
        | ControlError::WrongRolloutState { .. }
        | ControlError::NodeLive { .. } => (StatusCode::CONFLICT, "wrong-state"),
        ControlError::RolloutOpen { .. } => (StatusCode::CONFLICT, "rollout-open"),
        ControlError::OwnChange | ControlError::NotAuthor { .. } => (StatusCode::FORBIDDEN, "no-right"),
        ControlError::Cap { .. } => (StatusCode::CONFLICT, "cap"),
        ControlError::NoLogin
        | ControlError::WrongLogin
        | ControlError::WrongCode
        | ControlError::WrongLink => (StatusCode::UNAUTHORIZED, "login"),
        ControlError::NoToken => (StatusCode::UNAUTHORIZED, "token"),
        ControlError::TooMany { .. } => (StatusCode::TOO_MANY_REQUESTS, "too-many"),
        ControlError::Db(DbError::Gone { .. }) => (StatusCode::SERVICE_UNAVAILABLE, "database-gone"),
        ControlError::Db(DbError::DiskFull) => (StatusCode::INSUFFICIENT_STORAGE, "disk-full"),
        error if error.is_internal() => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    }
}
