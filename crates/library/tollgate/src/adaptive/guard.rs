//! A call that is in flight.

use std::fmt;
use std::sync::Arc;

use tollgate_core::{Clock, Timestamp};

use super::feed::Feed;
use super::limit::Sample;
use crate::concurrency::guard::ConcurrencyGuard;
use crate::concurrency::partitions::PartitionGuard;

/// End of a call, for the limit to learn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The call did its work: its latency counts.
    Success,
    /// The call was shed or timed out, because of overload.
    Overload,
    /// The call shows nothing about load: an invalid request, a failure of another kind.
    Ignored,
}

/// A call that is in flight, by a slot of an [`AdaptiveLimiter`](crate::AdaptiveLimiter). The slot is given
/// up when the guard is finished or dropped.
///
/// Dropped without being finished, at a `?`, a panic or a cancelled task, the call is ignored: the reason for
/// its end is unknown. Finishing consumes the guard, so no call is counted and no slot released twice:
///
/// ```compile_fail,E0382
/// # use tollgate::{AdaptiveLimiter, adaptive::Aimd};
/// let guard = AdaptiveLimiter::new(Aimd::default()).unwrap().try_enter().unwrap();
/// guard.success();
/// guard.overload(); // error: use of moved value
/// ```
///
/// A guard that is leaked, by [`std::mem::forget`] or a cycle of reference counts, keeps its slot for good:
/// the limiter admits one fewer.
#[must_use = "dropped at once, the call is not measured, and its slot is free before the call begins"]
pub struct AdaptiveGuard<C: Clock> {
    /// Given up when the guard is dropped, after the call was counted.
    _slot: Slot,
    feed: Arc<Feed<C>>,
    began: Timestamp,
    in_flight: u64,
}

/// The slot that a call holds.
#[expect(dead_code, reason = "held until it is dropped")]
pub(super) enum Slot {
    Any(ConcurrencyGuard),
    OfClass(PartitionGuard),
}

impl From<ConcurrencyGuard> for Slot {
    fn from(slot: ConcurrencyGuard) -> Self {
        Self::Any(slot)
    }
}

impl From<PartitionGuard> for Slot {
    fn from(slot: PartitionGuard) -> Self {
        Self::OfClass(slot)
    }
}

impl<C: Clock> AdaptiveGuard<C> {
    /// Begins the call that holds `slot`.
    pub(super) fn new(slot: impl Into<Slot>, feed: &Arc<Feed<C>>) -> Self {
        let began = feed.clock.now();
        let in_flight = feed.slots.in_use();
        Self { _slot: slot.into(), feed: Arc::clone(feed), began, in_flight }
    }

    /// The call did its work.
    pub fn success(self) {
        self.finish(Finish::Success);
    }

    /// The call was shed or timed out, because of overload.
    pub fn overload(self) {
        self.finish(Finish::Overload);
    }

    /// The call shows nothing about load. The same as dropping the guard.
    pub fn ignore(self) {
        self.finish(Finish::Ignored);
    }

    /// The call ended.
    pub fn finish(self, how: Finish) {
        let is_overload = match how {
            Finish::Success => false,
            Finish::Overload => true,
            Finish::Ignored => return,
        };
        let now = self.feed.clock.now();
        let rtt = now.since(self.began);
        let in_flight = self.in_flight;
        self.feed.add(Sample { rtt, in_flight, is_overload }, now);
    }
}

impl<C: Clock> fmt::Debug for AdaptiveGuard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveGuard")
            .field("began", &self.began)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}
