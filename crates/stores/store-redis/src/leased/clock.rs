//! A node's own clock, by which leases end. Not here: the ledger's clock, which is the server's.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_lease::{LedgerReply, Mono};

use crate::config::StoreTime;

/// An instant by both clocks of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// The time of day, as a caller gave it.
    pub(super) time: Timestamp,
    pub(super) mono: Mono,
}

impl Moment {
    /// This instant, `now`, with the ledger's time of day.
    pub(super) fn of_ledger(reply: &LedgerReply, now: Mono) -> Self {
        Self { time: Timestamp::from_nanos(reply.now_us.saturating_mul(1_000)), mono: now }
    }

    /// The time of day at `now`, if the clock was right at this moment.
    pub(super) fn time_at(self, now: Mono) -> Timestamp {
        self.time + std::time::Duration::from_nanos(now.0.saturating_sub(self.mono.0))
    }
}

/// The monotonic clock of a node. Where the store's clock counts, it is the machine's own: the time that
/// callers pass may be set.
#[derive(Debug)]
pub(super) struct NodeClock {
    counts: StoreTime,
    began: Instant,
    /// The latest time that a caller passed, where callers' time counts.
    latest: AtomicU64,
}

impl NodeClock {
    pub(super) fn new(counts: StoreTime) -> Self {
        Self { counts, began: Instant::now(), latest: AtomicU64::new(0) }
    }

    /// This instant, at which a caller passed `time`.
    #[inline]
    pub(super) fn moment(&self, time: Timestamp) -> Moment {
        let mono = match self.counts {
            StoreTime::Store => self.now(),
            StoreTime::Node => {
                let nanos = time.as_nanos();
                Mono(self.latest.fetch_max(nanos, Relaxed).max(nanos))
            }
        };
        Moment { time, mono }
    }

    #[inline]
    pub(super) fn now(&self) -> Mono {
        match self.counts {
            StoreTime::Store => Mono(0).after(Instant::now().saturating_duration_since(self.began)),
            StoreTime::Node => Mono(self.latest.load(Relaxed)),
        }
    }

    /// The time that a call passes to the ledger, in microseconds; `None` where the server's clock counts.
    pub(super) fn ledger_time_us(&self, now: Mono) -> Option<u64> {
        (self.counts == StoreTime::Node).then_some(now.0 / 1_000)
    }
}
