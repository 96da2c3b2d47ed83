//! A limit of log lines per second.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::{Cost, Quota, RetryAfter, State, Timestamp};

use crate::sharded_counters::{ShardedCounters, ThreadSlot};

/// A quota of lines per second; counts the lines that it leaves out. Over the quota a line costs a load and
/// an addition.
#[derive(Debug)]
pub(crate) struct LogLimit {
    bucket: Mutex<Option<(Quota, State)>>,
    /// No line is written before this time, in nanoseconds.
    closed_until: AtomicU64,
    left_out: ShardedCounters<1>,
    reported: AtomicU64,
}

impl LogLimit {
    /// At most `lines` per second.
    pub(crate) fn per_second(lines: u32) -> Self {
        let quota = Quota::fixed_window(lines.into(), Duration::from_secs(1)).ok();
        Self {
            bucket: Mutex::new(quota.map(|quota| (quota.clone(), quota.fresh()))),
            closed_until: AtomicU64::new(0),
            left_out: ShardedCounters::default(),
            reported: AtomicU64::new(0),
        }
    }

    /// Whether a line may be written now; if so, how many were left out before it.
    #[inline]
    pub(crate) fn next(&self, thread: ThreadSlot, now: Timestamp) -> Option<u64> {
        if now.as_nanos() < self.closed_until.load(Relaxed) || !self.take(now) {
            self.left_out.add(thread, 0, 1);
            return None;
        }
        let left_out = self.left_out.sum(0);
        Some(left_out.wrapping_sub(self.reported.swap(left_out, Relaxed)))
    }

    /// Takes a line from the quota. If another thread holds the quota, the thread writes nothing: there are
    /// other lines to read.
    fn take(&self, now: Timestamp) -> bool {
        let Some(mut bucket) = self.bucket.try_lock() else { return false };
        let Some((quota, state)) = &mut *bucket else { return false };
        let decision = quota.take(state, Cost::ONE, now);
        match decision.retry_after() {
            RetryAfter::Now => {}
            RetryAfter::After(wait) => self.closed_until.store((now + wait).as_nanos(), Relaxed),
            RetryAfter::Never => self.closed_until.store(u64::MAX, Relaxed),
        }
        decision.is_admitted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lines_per_second_and_the_next_second_reports_how_many_were_left_out() {
        let limit = LogLimit::per_second(2);
        let thread = ThreadSlot::here();
        for (at_ms, want) in [
            (1_000, Some(0)),
            (1_100, Some(0)),
            (1_200, None),
            (1_999, None),
            (2_000, Some(2)),
            (2_001, Some(0)),
            (2_002, None),
            (1_500, None), // the clock stepped back: nothing is granted
            (9_000, Some(2)),
        ] {
            let now = Timestamp::from_nanos(at_ms * 1_000_000);
            assert_eq!(limit.next(thread, now), want, "at {at_ms} ms");
        }
    }
}
