//! Counts of the fates of requests that waited for their turn, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate_observe::{QUEUE_WAITS, QueueStats};

/// Counts of the fates of requests that waited, or were to wait.
#[derive(Debug, Default)]
pub(crate) struct Events {
    joined: AtomicU64,
    passed: AtomicU64,
    denied: AtomicU64,
    timed_out: AtomicU64,
    left: AtomicU64,
    ended: AtomicU64,
    full: AtomicU64,
    over_share: AtomicU64,
    too_long: AtomicU64,
    waits: [AtomicU64; QUEUE_WAITS.len() + 1],
    wait_ns: AtomicU64,
}

/// End of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With its turn, and the request is admitted.
    Passed,
    /// With its turn, and something else denies the request.
    Denied,
    /// Its time was up.
    TimedOut,
    /// The caller went away.
    Left,
    /// The process ends.
    Ended,
}

/// Why a request does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoWait {
    /// The most requests wait already.
    Full,
    /// Its domain or caller has all of its share of the places.
    OverShare,
    /// It would wait longer than it may.
    TooLong,
    /// The process ends.
    Ended,
}

impl Events {
    /// Numbers for an observer: `waiting` requests wait now, of at most `most`.
    pub(crate) fn stats(&self, waiting: usize, most: usize) -> QueueStats {
        let mut stats = QueueStats::default();
        (stats.waiting, stats.max) = (waiting as u64, most as u64);
        for (number, counter) in [
            (&mut stats.joined, &self.joined),
            (&mut stats.passed, &self.passed),
            (&mut stats.denied, &self.denied),
            (&mut stats.timed_out, &self.timed_out),
            (&mut stats.left, &self.left),
            (&mut stats.ended, &self.ended),
            (&mut stats.full, &self.full),
            (&mut stats.over_share, &self.over_share),
            (&mut stats.too_long, &self.too_long),
            (&mut stats.wait_ns, &self.wait_ns),
        ] {
            *number = counter.load(Relaxed);
        }
        for (number, counter) in stats.waits.iter_mut().zip(&self.waits) {
            *number = counter.load(Relaxed);
        }
        stats
    }

    pub(crate) fn joined(&self) {
        self.joined.fetch_add(1, Relaxed);
    }

    pub(crate) fn not_joined(&self, why: NoWait) {
        let event = match why {
            NoWait::Full => &self.full,
            NoWait::OverShare => &self.over_share,
            NoWait::TooLong => &self.too_long,
            NoWait::Ended => &self.ended,
        };
        event.fetch_add(1, Relaxed);
    }

    pub(crate) fn finished(&self, end: End) {
        let event = match end {
            End::Passed => &self.passed,
            End::Denied => &self.denied,
            End::TimedOut => &self.timed_out,
            End::Left => &self.left,
            End::Ended => &self.ended,
        };
        event.fetch_add(1, Relaxed);
    }

    /// A request had its turn after `wait`.
    pub(crate) fn waited(&self, wait: Duration) {
        let bucket = QUEUE_WAITS.partition_point(|bound| *bound < wait);
        if let Some(counter) = self.waits.get(bucket) {
            counter.fetch_add(1, Relaxed);
        }
        self.wait_ns.fetch_add(tollgate_core::nanos(wait), Relaxed);
    }
}
