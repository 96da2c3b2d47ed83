//! Spans as whole numbers that mean them: rounded up, never so large that a reader takes them for a date.

use std::time::Duration;

use tollgate_core::RetryAfter;

/// No span is written or read as more seconds than this (31 years): it stands for *never*, and cannot be
/// taken for an instant in Unix time.
pub const MAX_SECONDS: u64 = 999_999_999;

/// From here on a decision means *never*.
const NEVER: Duration = Duration::from_nanos(u64::MAX);

/// Whole seconds, rounded up.
pub(crate) const fn seconds(span: Duration) -> u64 {
    let up = span.as_secs().saturating_add((span.subsec_nanos() > 0) as u64);
    if up < MAX_SECONDS { up } else { MAX_SECONDS }
}

/// Whole milliseconds, rounded up.
pub(crate) fn millis(span: Duration) -> u64 {
    let up = u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    up.min(MAX_SECONDS * 1_000)
}

/// The wait of a denied request: never zero; `None` when no wait helps, or none is needed.
pub(crate) const fn wait(retry_after: RetryAfter) -> Option<Duration> {
    match retry_after {
        RetryAfter::After(span) if span.is_zero() => Some(Duration::from_nanos(1)),
        RetryAfter::After(span) => Some(span),
        RetryAfter::Now | RetryAfter::Never => None,
    }
}

/// True for a span that means *never*.
pub(crate) fn is_never(span: Duration) -> bool {
    span >= NEVER
}
