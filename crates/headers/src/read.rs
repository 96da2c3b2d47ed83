//! The client's side: what a server told about its limits, in whichever generation of fields.
//!
//! The newest well-formed generation counts, and a malformed field counts as absent. Nothing that a server sends makes
//! this panic, and no span is longer than [`MAX_SECONDS`](crate::MAX_SECONDS).

mod legacy;
mod moment;

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tollgate_core::Timestamp;

use crate::span::MAX_SECONDS;
use crate::structured::{Bare, Member, dictionary, list, name_of};
use moment::{seconds_or_date, span_or_moment};

/// The form in which a server told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Generation {
    /// `RateLimit: "short";r=3;t=7`, IETF drafts 8 to 11.
    Draft11,
    /// `RateLimit: limit=10, remaining=3, reset=7`, IETF draft 7.
    Draft07,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset`, IETF drafts up to 6.
    Draft03,
    /// `X-RateLimit-…` or `X-Rate-Limit-…`.
    Legacy,
    /// Nothing but `Retry-After` or the like.
    RetryAfter,
}

/// What a server told. Of several limits it is the one with the least left.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Told {
    /// The form in which it did.
    pub generation: Generation,
    /// The limit's name.
    pub name: Option<String>,
    /// Permits per window.
    pub limit: Option<u64>,
    /// The window.
    pub window: Option<Duration>,
    /// Permits left.
    pub remaining: Option<u64>,
    /// Until there are more, or all, depending on the server.
    pub reset_after: Option<Duration>,
    /// Until it makes sense to ask again, where the server said so.
    pub retry_after: Option<Duration>,
}

impl Told {
    const fn nothing(generation: Generation) -> Self {
        Self {
            generation,
            name: None,
            limit: None,
            window: None,
            remaining: None,
            reset_after: None,
            retry_after: None,
        }
    }

    /// How long to hold back: what the server asked for, otherwise until the reset when nothing is left.
    ///
    /// `Retry-After` comes first, as the IETF drafts ask.
    #[must_use]
    pub fn wait(&self) -> Duration {
        let reset_after = || if self.remaining == Some(0) { self.reset_after } else { None };
        self.retry_after.or_else(reset_after).unwrap_or_default()
    }
}

/// What the fields of an answer tell at `now`; `None` when they tell nothing that makes sense.
///
/// `now` serves for moments: `Retry-After: Fri, 07 Nov 2025 23:59:59 GMT`, and an `X-RateLimit-Reset` of 1,000,000,000 or
/// more, which is Unix time (in milliseconds from 100,000,000,000 on); less is a span in seconds. A moment that is over
/// reads as zero.
///
/// # Example
/// ```
/// # use tollgate_headers::{Generation, read};
/// # use tollgate_core::Timestamp;
/// # use std::time::Duration;
/// let mut fields = http::HeaderMap::new();
/// fields.insert("x-ratelimit-remaining", "0".parse()?);
/// fields.insert("x-ratelimit-reset", "1700000060".parse()?);
/// let told = read(&fields, Timestamp::from_unix_seconds(1_700_000_000)).expect("it tells something");
/// assert_eq!((told.generation, told.remaining), (Generation::Legacy, Some(0)));
/// assert_eq!(told.wait(), Duration::from_secs(60));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn read(fields: &HeaderMap, now: Timestamp) -> Option<Told> {
    let told = draft_11(fields).or_else(|| draft_07(fields)).or_else(|| legacy::read(fields, now));
    let retry_after = retry_after(fields, now);
    match (told, retry_after) {
        (Some(told), _) => Some(Told { retry_after, ..told }),
        (None, Some(_)) => Some(Told { retry_after, ..Told::nothing(Generation::RetryAfter) }),
        (None, None) => None,
    }
}

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

fn draft_11(fields: &HeaderMap) -> Option<Told> {
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
    Some(Told {
        name: Some(name_of(name)),
        limit: policy.and_then(|policy| policy.parameter("q")),
        window: policy.and_then(window),
        remaining: Some(remaining),
        reset_after: reset.map(span),
        ..Told::nothing(Generation::Draft11)
    })
}

fn draft_07(fields: &HeaderMap) -> Option<Told> {
    let told = dictionary(&joined(fields, &RATELIMIT)?)?;
    let number = |key: &str| told.iter().rev().find(|member| member.key == key)?.value.integer();
    let limit = number("limit")?;
    Some(Told {
        limit: Some(limit),
        window: window_of(limit, &policies(fields)),
        remaining: number("remaining"),
        reset_after: number("reset").map(span),
        ..Told::nothing(Generation::Draft07)
    })
}

/// The policies of `RateLimit-Policy`, none where it is malformed.
fn policies(fields: &HeaderMap) -> Vec<Member> {
    joined(fields, &POLICY).and_then(|text| list(&text)).unwrap_or_default()
}

/// The window of the policy of this many permits.
fn window_of(limit: u64, policies: &[Member]) -> Option<Duration> {
    policies.iter().filter(|policy| policy.value == Bare::Integer(limit)).filter_map(window).max()
}

/// `w`, or `window` as in the first drafts.
fn window(policy: &Member) -> Option<Duration> {
    policy.parameter("w").or_else(|| policy.parameter("window")).filter(|seconds| *seconds > 0).map(span)
}

fn span(seconds: u64) -> Duration {
    Duration::from_secs(seconds.min(MAX_SECONDS))
}

/// `Retry-After-Ms`, which is more exact, `Retry-After`, and our own field for clients that cannot see that one.
fn retry_after(fields: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let millis = || first(fields, "retry-after-ms").and_then(moment::millis);
    let standard = || first(fields, "retry-after").and_then(|text| seconds_or_date(text, now));
    let own = || first(fields, "x-ratelimit-retry-after").and_then(|text| span_or_moment(text, now));
    millis().or_else(standard).or_else(own)
}

/// The lines of a field as one.
fn joined<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Option<Cow<'a, str>> {
    let mut lines = fields.get_all(name).iter();
    let first = lines.next()?.to_str().ok()?;
    let mut all = Cow::Borrowed(first);
    for line in lines {
        let all = all.to_mut();
        all.push(',');
        all.push_str(line.to_str().ok()?);
    }
    Some(all)
}

/// The first line of a field, without the spaces around it.
fn first<'a>(fields: &'a HeaderMap, name: &str) -> Option<&'a str> {
    Some(fields.get(name)?.to_str().ok()?.trim())
}
