//! The client's side: a server's report about its limits, in any generation of fields.
//!
//! The newest well-formed generation counts, and a malformed field counts as absent. Nothing that a server
//! sends makes this panic, and no span is longer than [`MAX_SECONDS`](crate::MAX_SECONDS).

mod fields;
mod legacy;
mod moment;
mod reading;

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tollgate_core::Timestamp;

use self::fields::{first, joined, policies, span, window, window_of};
use self::moment::{seconds_or_date, span_or_moment};
pub use self::reading::{Generation, Reading};
use crate::structured::{Bare, dictionary, list, name_of};

/// Reads the limits in the fields of a reply at `now`; `None` when no field is valid.
///
/// `now` serves for moments: `Retry-After: Fri, 07 Nov 2025 23:59:59 GMT`, and an `X-RateLimit-Reset` of
/// 1,000,000,000 or more, which is Unix time (in milliseconds from 100,000,000,000 on); less is a span in
/// seconds. A moment that is over reads as zero.
///
/// # Example
/// ```
/// # use tollgate_headers::{Generation, read};
/// # use tollgate_core::Timestamp;
/// # use std::time::Duration;
/// let mut fields = http::HeaderMap::new();
/// fields.insert("x-ratelimit-remaining", "0".parse()?);
/// fields.insert("x-ratelimit-reset", "1700000060".parse()?);
/// let read = read(&fields, Timestamp::from_unix_seconds(1_700_000_000)).expect("limits");
/// assert_eq!((read.generation, read.remaining), (Generation::Legacy, Some(0)));
/// assert_eq!(read.wait(), Duration::from_secs(60));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn read(fields: &HeaderMap, now: Timestamp) -> Option<Reading> {
    let reading = draft_11(fields).or_else(|| draft_07(fields)).or_else(|| legacy::read(fields, now));
    let retry_after = retry_after(fields, now);
    match (reading, retry_after) {
        (Some(reading), _) => Some(Reading { retry_after, ..reading }),
        (None, Some(_)) => Some(Reading { retry_after, ..Reading::nothing(Generation::RetryAfter) }),
        (None, None) => None,
    }
}

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

fn draft_11(fields: &HeaderMap) -> Option<Reading> {
    let limits = list(&joined(fields, &RATELIMIT)?)?;
    let least = limits
        .iter()
        .filter_map(|limit| match &limit.value {
            Bare::Text(name) => Some((limit.parameter("r")?, limit.parameter("t"), name)),
            _ => None,
        })
        .min_by_key(|(remaining, reset, _)| (*remaining, std::cmp::Reverse(*reset)))?;
    let (remaining, reset, name) = least;
    let policies = policies(fields);
    let policy = policies.iter().find(|policy| policy.value == Bare::Text(name.clone()));
    Some(Reading {
        name: Some(name_of(name)),
        limit: policy.and_then(|policy| policy.parameter("q")),
        window: policy.and_then(window),
        remaining: Some(remaining),
        reset_after: reset.map(span),
        ..Reading::nothing(Generation::Draft11)
    })
}

fn draft_07(fields: &HeaderMap) -> Option<Reading> {
    let members = dictionary(&joined(fields, &RATELIMIT)?)?;
    let number = |key: &str| members.iter().rev().find(|member| member.key == key)?.value.integer();
    let limit = number("limit")?;
    Some(Reading {
        limit: Some(limit),
        window: window_of(limit, &policies(fields)),
        remaining: number("remaining"),
        reset_after: number("reset").map(span),
        ..Reading::nothing(Generation::Draft07)
    })
}

/// `Retry-After-Ms`, which is more exact, `Retry-After`, and our own field for clients that cannot see that
/// one.
fn retry_after(fields: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let millis = || first(fields, "retry-after-ms").and_then(moment::millis);
    let standard = || first(fields, "retry-after").and_then(|text| seconds_or_date(text, now));
    let own = || first(fields, "x-ratelimit-retry-after").and_then(|text| span_or_moment(text, now));
    millis().or_else(standard).or_else(own)
}
