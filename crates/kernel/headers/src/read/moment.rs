//! Texts that mean a span of time from now: seconds, milliseconds, Unix time, HTTP dates.

use std::time::{Duration, SystemTime};

use tollgate_core::Timestamp;

use crate::span::MAX_SECONDS;

/// Longer numbers mean nothing.
const MAX_DIGITS: usize = 20;
/// From here on a number of seconds is a moment in Unix time (from 2001 on), since no span is 31 years long.
const FIRST_MOMENT: u64 = MAX_SECONDS + 1;
/// From here on it is in milliseconds (1973 there, 5138 in seconds).
const FIRST_MILLIS: u64 = 100_000_000_000;

/// `120`, `1.5`, or `Fri, 07 Nov 2025 23:59:59 GMT`.
pub(super) fn seconds_or_date(text: &str, now: Timestamp) -> Option<Duration> {
    decimal(text).map(capped).or_else(|| date(text, now))
}

/// The same, and Unix time in seconds or milliseconds.
pub(super) fn span_or_moment(text: &str, now: Timestamp) -> Option<Duration> {
    let Some(span) = decimal(text) else { return date(text, now) };
    let moment = match span.as_secs() {
        0..FIRST_MOMENT => return Some(span),
        FIRST_MOMENT..FIRST_MILLIS => span,
        FIRST_MILLIS.. => span / 1_000,
    };
    Some(capped(moment.saturating_sub(Duration::from_nanos(now.as_nanos()))))
}

/// Whole milliseconds, or a decimal of them.
pub(super) fn millis(text: &str) -> Option<Duration> {
    decimal(text).map(|span| capped(span / 1_000))
}

fn date(text: &str, now: Timestamp) -> Option<Duration> {
    // The parser takes any text of the right shape; a longer one cannot be one.
    let moment = text.is_ascii().then(|| httpdate::parse_http_date(text).ok()).flatten()?;
    let moment = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Some(capped(moment.saturating_sub(Duration::from_nanos(now.as_nanos()))))
}

fn capped(span: Duration) -> Duration {
    span.min(Duration::from_secs(MAX_SECONDS))
}

/// `12` or `12.5` as that many seconds; parts of a nanosecond fall away.
fn decimal(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number =
        |part: &str| (1..=MAX_DIGITS).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let seconds = whole.parse().ok()?;
    let nanos = format!("{fraction:0<9}")[..9].parse().ok()?;
    Some(Duration::new(seconds, nanos))
}
