//! Failures as `application/problem+json`, with a pointer to each member at fault.

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use tollgate_api::views::{Conflict, Fault, Problem};
use tollgate_control::ControlError;
use tollgate_http_kit::{Reply, reply::reply};

use super::json::sorted;
use crate::web::{Failure, Visit, status_of};

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
    let mut errors: Vec<Fault> = Vec::new();
    let mut conflicts: Vec<Conflict> = Vec::new();
    let mut retry_after = None;
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
            match &error {
                ControlError::TooMany { seconds } => retry_after = Some(*seconds),
                ControlError::Invalid(faults) => errors = faults.iter().cloned().map(Fault::from).collect(),
                ControlError::Faulty(faults) => errors = faults.iter().cloned().map(Fault::from).collect(),
                ControlError::Conflict(sides) => {
                    conflicts = sides.iter().cloned().map(Conflict::from).collect();
                }
                _ => {}
            }
            of_control(visit, &error)
        }
        Failure::Page(error) => {
            tracing::error!(request = %visit.request_id, %error, "an operation failed");
            (StatusCode::INTERNAL_SERVER_ERROR, "internal", "internal error; nothing was changed".to_owned())
        }
        // A panic may come after the commit.
        Failure::Panic => {
            tracing::error!(request = %visit.request_id, "an operation panicked");
            let detail = "internal error; the change may or may not have been made";
            (StatusCode::INTERNAL_SERVER_ERROR, "internal", detail.to_owned())
        }
    };
    debug_assert!(PROBLEMS.contains(&kind), "{kind} is not described");
    let problem = Problem {
        r#type: format!("/problems/{kind}"),
        title: status.canonical_reason().unwrap_or_default(),
        status: status.as_u16(),
        detail,
        request_id: visit.request_id.clone(),
        errors,
        conflicts,
    };
    let body = sorted(&problem).to_string();
    let mut made = reply(status, HeaderValue::from_static("application/problem+json"), body);
    if status == StatusCode::UNAUTHORIZED {
        made.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tollgate\""));
    }
    if let Some(seconds) = retry_after {
        made.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    made
}

/// Its own text, except where that would tell of the inside of this program.
fn of_control(visit: &Visit, error: &ControlError) -> (StatusCode, &'static str, String) {
    let (status, kind) = status_of(error);
    let detail = match kind {
        "internal" => "internal error; nothing was changed".to_owned(),
        "unavailable" => {
            "the database or this program failed; the log says more under this request id".to_owned()
        }
        _ => error.to_string(),
    };
    match kind {
        "database-gone" => tracing::error!(request = %visit.request_id, %error, "a change was rejected"),
        "internal" | "unavailable" => {
            tracing::error!(request = %visit.request_id, %error, "an operation failed");
        }
        _ => {}
    }
    (status, kind, detail)
}
