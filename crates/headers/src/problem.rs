//! A refusal as `application/problem+json` (RFC 9457), with the type that the IETF draft registers for it.

use std::time::Duration;

use serde::Serialize;
use tollgate_core::RetryAfter;

use crate::span::{seconds, wait};
use crate::{LimitState, most_restrictive};

/// The `Content-Type` of [`problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

const TYPE: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const TITLE: &str = "Request cannot be satisfied as assigned quota has been exceeded";

#[derive(Serialize)]
struct Problem<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(rename = "violated-policies")]
    violated_policies: Vec<&'a str>,
    /// Whole seconds; null when no wait helps.
    retry_after: Option<u64>,
}

/// The body that tells a refused client which limits it ran into, and when to come back.
///
/// `limits` are all that were asked; those that refuse are named. `retry_after` is in whole seconds, rounded up, and
/// `null` where no wait helps.
#[must_use]
pub fn problem(limits: &[LimitState<'_>], status: u16) -> String {
    let shown = most_restrictive(limits);
    let sentence = shown.map_or_else(|| "The request was refused.".to_owned(), detail);
    let refusing = limits.iter().filter(|limit| limit.retry_after != RetryAfter::Now);
    let problem = Problem {
        r#type: TYPE,
        title: TITLE,
        status,
        detail: &sentence,
        violated_policies: refusing.map(|limit| shown_name(limit.name)).collect(),
        retry_after: shown.and_then(|limit| wait(limit.retry_after)).map(seconds),
    };
    serde_json::to_string(&problem).unwrap_or_default() // texts and numbers cannot fail
}

/// A sentence for people: which limit it was, and when to come back.
#[must_use]
pub fn detail(limit: &LimitState<'_>) -> String {
    let name = shown_name(limit.name);
    let rate = match limit.window {
        Duration::ZERO => limit.limit.to_string(),
        window => format!("{} in {}", limit.limit, words(window)),
    };
    match wait(limit.retry_after) {
        Some(span) => format!("The limit {name} ({rate}) is used up; try again in {}.", words(span)),
        None if limit.retry_after == RetryAfter::Never => {
            format!(
                "The request asks for more than the limit {name} ({rate}) can ever give; waiting does not help."
            )
        }
        None => format!("The limit {name} ({rate}) has {} left.", limit.remaining),
    }
}

fn shown_name(name: &str) -> &str {
    if name.is_empty() { "default" } else { name }
}

fn words(span: Duration) -> String {
    match seconds(span) {
        1 => "1 second".to_owned(),
        seconds => format!("{seconds} seconds"),
    }
}
