//! Failures as `application/problem+json`, with a pointer to each member at fault.

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::{Value, json};
use tollgate_control::ControlError;
use tollgate_db::DbError;
use tollgate_http_kit::{Reply, reply::reply};

use super::content::{fault, sides};
use crate::web::{Failure, Visit};

/// The kinds of problems: what follows `/problems/` in their `type`. `docs/control-api.md` describes each.
pub const PROBLEMS: &[&str] = &[
    "body",
    "cap",
    "conflict",
    "database-gone",
    "disk-full",
    "foreign",
    "frozen",
    "if-match",
    "internal",
    "invalid",
    "login",
    "login-only",
    "needs-approval",
    "no-right",
    "not-found",
    "old-nodes",
    "rollout-open",
    "stale",
    "token",
    "too-many",
    "unanswered",
    "unavailable",
    "wrong-state",
];

pub(crate) fn failed(visit: &Visit, failure: Failure) -> Reply {
    let (mut errors, mut conflicts, mut retry_after) = (Vec::new(), Vec::new(), None);
    let (status, kind, detail) = match failure {
        Failure::NoLogin => (StatusCode::UNAUTHORIZED, "login", "log in by POST /api/v1/login".to_owned()),
        Failure::NoToken => {
            let detail = "the token is unknown, expired or revoked";
            (StatusCode::UNAUTHORIZED, "token", detail.to_owned())
        }
        Failure::NoPage => {
            (StatusCode::NOT_FOUND, "not-found", "unknown path; /openapi.json lists all".to_owned())
        }
        Failure::NoMatch => {
            let detail = "send `If-Match` with the ETag of the object that you read";
            (StatusCode::PRECONDITION_REQUIRED, "if-match", detail.to_owned())
        }
        Failure::Bad(detail) => (StatusCode::BAD_REQUEST, "body", detail),
        Failure::Foreign(detail) => (StatusCode::FORBIDDEN, "foreign", detail.to_owned()),
        Failure::Body(problem) => (problem.status, "body", problem.detail),
        Failure::Control(error) => {
            if let ControlError::TooMany { seconds } = error {
                retry_after = Some(seconds);
            }
            if let ControlError::Invalid(faults) = &error {
                errors = faults
                    .iter()
                    .map(|it| json!({"pointer": format!("/{}", it.field), "message": it.fault.to_string()}))
                    .collect();
            }
            match &error {
                ControlError::Faulty(faults) => errors = faults.iter().map(fault).collect(),
                ControlError::Conflict(found) => conflicts = found.iter().map(sides).collect(),
                _ => {}
            }
            of_control(visit, &error)
        }
        Failure::Page(error) => {
            tracing::error!(request = %visit.request_id, %error, "an operation failed");
            (StatusCode::INTERNAL_SERVER_ERROR, "internal", "internal error; nothing was changed".to_owned())
        }
        Failure::Panic => {
            tracing::error!(request = %visit.request_id, "an operation panicked");
            let detail = "internal error; the change may or may not have been made";
            (StatusCode::INTERNAL_SERVER_ERROR, "internal", detail.to_owned())
        }
    };
    debug_assert!(PROBLEMS.contains(&kind), "{kind} is not described");
    let mut body = json!({
        "type": format!("/problems/{kind}"),
        "title": status.canonical_reason().unwrap_or_default(),
        "status": status.as_u16(),
        "detail": detail,
        "request_id": visit.request_id,
    });
    if !errors.is_empty() {
        body["errors"] = Value::from(errors);
    }
    if !conflicts.is_empty() {
        body["conflicts"] = Value::from(conflicts);
    }
    let mut reply = reply(status, HeaderValue::from_static("application/problem+json"), body.to_string());
    if status == StatusCode::UNAUTHORIZED {
        reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tollgate\""));
    }
    if let Some(seconds) = retry_after {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply
}

fn of_control(visit: &Visit, error: &ControlError) -> (StatusCode, &'static str, String) {
    let (status, kind) = match error {
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
        ControlError::WrongLogin | ControlError::WrongCode | ControlError::WrongLink => {
            (StatusCode::UNAUTHORIZED, "login")
        }
        ControlError::TooMany { .. } => (StatusCode::TOO_MANY_REQUESTS, "too-many"),
        ControlError::Db(DbError::Gone { .. }) => {
            tracing::error!(request = %visit.request_id, %error, "a change was rejected");
            (StatusCode::SERVICE_UNAVAILABLE, "database-gone")
        }
        ControlError::Db(DbError::DiskFull) => (StatusCode::INSUFFICIENT_STORAGE, "disk-full"),
        error if error.is_internal() => {
            tracing::error!(request = %visit.request_id, %error, "an operation failed");
            let detail = "internal error; nothing was changed";
            return (StatusCode::INTERNAL_SERVER_ERROR, "internal", detail.to_owned());
        }
        error => {
            tracing::error!(request = %visit.request_id, %error, "an operation failed");
            let detail = "the database or this program failed; the log says more under this request id";
            return (StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail.to_owned());
        }
    };
    (status, kind, error.to_string())
}
