//! Durations as numbers of a reply, always rounded up: a client that waits for the returned time is admitted.

use std::time::Duration;

use tollgate_core::RetryAfter;

use crate::reply::saturate;

/// The unit of all durations in one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    Seconds,
    Millis,
}

impl TimeUnit {
    /// A duration; -1 for the longest possible one, which means for ever.
    #[inline]
    pub(crate) fn duration(self, duration: Duration) -> i64 {
        match (self, u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)) {
            (_, u64::MAX) => -1,
            (Self::Seconds, nanos) => saturate(nanos.div_ceil(1_000_000_000)),
            (Self::Millis, nanos) => saturate(nanos.div_ceil(1_000_000)),
        }
    }

    /// Wait of a denied client until a retry can succeed, at least 1; -1 for ever.
    #[inline]
    pub(crate) fn retry_after(self, retry_after: RetryAfter) -> i64 {
        match retry_after {
            RetryAfter::Now | RetryAfter::Never => -1,
            RetryAfter::After(wait) => self.duration(wait).max(1),
        }
    }
}
