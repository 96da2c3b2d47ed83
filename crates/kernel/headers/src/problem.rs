//! A denial as `application/problem+json` (RFC 9457), with the type that the IETF draft registers for it.

use std::fmt;

use http::StatusCode;
use tollgate_core::RetryAfter;

use crate::span::{seconds, wait};
use crate::{LimitState, most_restrictive};

/// The `Content-Type` of [`problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Type, title and the beginning of the status.
const USED_UP: &str = concat!(
    r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
    r#""title":"Request cannot be satisfied as assigned quota has been exceeded","status":"#
);

/// The same where it was not counted.
const UNKNOWN: &str = concat!(
    r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","#,
    r#""title":"Request cannot be satisfied due to temporary server capacity constraints","status":"#
);

/// The name of the limit of 0 that a request meets which an operator has blocked.
pub const BLOCKED: &str = "blocked";

/// The body for a client that was denied without a limit: by the rule at the path `rule` or, if that is
/// empty, because no rule admits its request. No wait helps. The type is `about:blank`: none is registered
/// for it.
#[must_use]
pub fn problem_without_limit(rule: &str, status: u16) -> String {
    let title = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let mut body = String::with_capacity(256);
    body.push_str("{\"type\":\"about:blank\",\"title\":");
    quote(title.unwrap_or("Denied"), &mut body);
    body.push_str(",\"status\":");
    body.push_str(&status.to_string());
    body.push_str(",\"detail\":");
    quote(&detail_without_limit(rule), &mut body);
    body.push_str(",\"violated-policies\":[");
    if !rule.is_empty() {
        quote(rule, &mut body);
    }
    body.push_str("],\"retry_after\":null}");
    body
}

/// The body for a denied client: which limits denied, and when to retry. Where none did, see
/// [`problem_without_limit`].
///
/// `limits` are all that were checked; those that are known to deny are named. Where the most restrictive one
/// could not be checked, the type is that of a server with reduced capacity. `retry_after` is in whole
/// seconds, rounded up, and `null` where no wait helps.
#[must_use]
pub fn problem(limits: &[LimitState<'_>], status: u16) -> String {
    let shown = most_restrictive(limits);
    let sentence = shown.map_or_else(|| "The request was denied.".to_owned(), detail);
    // By hand, for speed: denials come in floods.
    let mut body = String::with_capacity(384);
    body.push_str(if shown.is_some_and(|limit| limit.is_unknown) { UNKNOWN } else { USED_UP });
    body.push_str(&status.to_string());
    body.push_str(",\"detail\":");
    quote(&sentence, &mut body);
    body.push_str(",\"violated-policies\":[");
    let denying = limits.iter().filter(|limit| limit.retry_after != RetryAfter::Now && !limit.is_unknown);
    for (index, limit) in denying.enumerate() {
        if index > 0 {
            body.push(',');
        }
        quote(shown_name(limit.name), &mut body);
    }
    body.push_str("],\"retry_after\":");
    match shown.and_then(|limit| wait(limit.retry_after)).map(seconds) {
        Some(seconds) => body.push_str(&seconds.to_string()),
        None => body.push_str("null"),
    }
    body.push('}');
    body
}

/// A text as JSON has it.
fn quote(text: &str, out: &mut String) {
    if text.bytes().any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        return out.push_str(&serde_json::Value::from(text).to_string());
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

/// A sentence for people: which limit denied, and when to retry.
#[must_use]
pub fn detail(limit: &LimitState<'_>) -> String {
    if let (BLOCKED, 0, Some(span)) = (limit.name, limit.limit, wait(limit.retry_after)) {
        return format!("Such requests are blocked; try again in {}.", ShownSeconds(seconds(span)));
    }
    let name = shown_name(limit.name);
    let rate = ShownRate(limit);
    match wait(limit.retry_after) {
        Some(span) if limit.is_unknown => {
            format!(
                "The limit {name} ({rate}) cannot be checked now; try again in {}.",
                ShownSeconds(seconds(span))
            )
        }
        Some(span) => {
            let left = match limit.remaining {
                0 => "is used up".to_owned(),
                left => format!("has {left} left, which is not enough"),
            };
            format!("The limit {name} ({rate}) {left}; try again in {}.", ShownSeconds(seconds(span)))
        }
        None if limit.retry_after == RetryAfter::Never && limit.window.is_zero() => {
            format!(
                "The limit {name} ({rate}) has {} left and is never refilled; waiting does not help.",
                limit.remaining
            )
        }
        None if limit.retry_after == RetryAfter::Never => {
            format!(
                "The request asks for more than the limit {name} ({rate}) can ever give; waiting does not help."
            )
        }
        None => format!("The limit {name} ({rate}) has {} left.", limit.remaining),
    }
}

/// The same of a denial without a limit, by `rule` or because no rule matched.
pub(crate) fn detail_without_limit(rule: &str) -> String {
    match rule {
        "" => "No rule admits this request; waiting does not help.".to_owned(),
        rule => format!("The rule {rule} denies this request; waiting does not help."),
    }
}

fn shown_name(name: &str) -> &str {
    if name.is_empty() { "default" } else { name }
}

/// `10 per minute`, `10 in 30 seconds`, or `10` without a window.
struct ShownRate<'s, 'a>(&'s LimitState<'a>);

impl fmt::Display for ShownRate<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimitState { limit, window, .. } = self.0;
        if window.is_zero() {
            return write!(f, "{limit}");
        }
        if window.subsec_nanos() > 0 {
            return write!(f, "{limit} in {window:?}");
        }
        match UNITS.iter().find(|(seconds, _)| *seconds == window.as_secs()) {
            Some((_, unit)) => write!(f, "{limit} per {unit}"),
            None => write!(f, "{limit} in {}", ShownSeconds(window.as_secs())),
        }
    }
}

const UNITS: [(u64, &str); 4] = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];

/// Seconds in the two largest units that they fill, rounded up: `42 seconds`, `1 hour 5 minutes`, `27 days`.
struct ShownSeconds(u64);

impl fmt::Display for ShownSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest =
            |seconds: u64| UNITS.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(UNITS.len() - 1);
        let place = largest(self.0);
        let (fine, _) = UNITS[(place + 1).min(UNITS.len() - 1)];
        let up = self.0.next_multiple_of(fine);
        let (unit, name) = UNITS[largest(up)]; // 59 minutes and 59.5 seconds become an hour
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        write!(f, "{} {name}{}", up / unit, plural(up / unit))?;
        let rest = up % unit;
        let place = largest(up % unit);
        if rest > 0 {
            let (unit, name) = UNITS[place];
            write!(f, " {} {name}{}", rest / unit, plural(rest / unit))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn spans_and_rates_read_as_people_say_them_and_never_too_short() {
        for (seconds, want) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (42, "42 seconds"),
            (60, "1 minute"),
            (61, "1 minute 1 second"),
            (3_599, "59 minutes 59 seconds"),
            (3_600, "1 hour"),
            (3_601, "1 hour 1 minute"),
            (86_399, "1 day"),
            (86_401, "1 day 1 hour"),
            (2_297_012, "26 days 15 hours"),
        ] {
            assert_eq!(ShownSeconds(seconds).to_string(), want);
        }
        for (millis, want) in [
            (0, "5"),
            (100, "5 in 100ms"),
            (1_000, "5 per second"),
            (60_000, "5 per minute"),
            (90_000, "5 in 1 minute 30 seconds"),
            (86_400_000, "5 per day"),
            (604_800_000, "5 in 7 days"),
        ] {
            let limit = LimitState {
                name: "",
                limit: 5,
                burst: 5,
                window: Duration::from_millis(millis),
                remaining: 0,
                reset_after: Duration::ZERO,
                retry_after: RetryAfter::Now,
                is_unknown: false,
            };
            assert_eq!(ShownRate(&limit).to_string(), want);
        }
    }
}
