//! Algorithms whose state is several numbers, changed in place.

use core::time::Duration;

use crate::algorithm::interval_bucket::{self, IntervalBucket};
use crate::algorithm::priority_buckets::{self, PriorityBuckets};
use crate::algorithm::sliding_window::{self, SlidingWindow};
use crate::algorithm::sliding_window_counter::{self, SlidingWindowCounter};
use crate::algorithm::sliding_window_log::{self, SlidingWindowLog};
use crate::algorithm::warm_up::WarmUp;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::inherit::Inherit;
use crate::state::Wide;
use crate::time::Timestamp;

/// An algorithm whose state is a [`Wide`] one. A state that another wide algorithm wrote is emptied first: it
/// counts nothing here.
#[derive(Clone, Debug)]
pub struct WideAlgorithm(pub(crate) WideKind);

#[derive(Clone, Debug)]
pub(crate) enum WideKind {
    IntervalBucket(IntervalBucket),
    PriorityBuckets(PriorityBuckets),
    SlidingWindow(SlidingWindow),
    SlidingWindowCounter(SlidingWindowCounter),
    SlidingWindowLog(SlidingWindowLog),
    WarmUp(WarmUp),
}

impl WideAlgorithm {
    /// Takes `cost` permits if they fit; otherwise takes none and returns the wait until they would.
    pub fn take(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let state = self.own(state);
        match &self.0 {
            WideKind::IntervalBucket(bucket) => bucket.take(state, cost, now),
            WideKind::PriorityBuckets(class) => class.take(state, cost, now),
            WideKind::SlidingWindow(window) => window.take(state, cost, now),
            WideKind::SlidingWindowCounter(counter) => counter.take(state, cost, now),
            WideKind::SlidingWindowLog(log) => log.take(state, cost, now),
            WideKind::WarmUp(warm_up) => warm_up.take(state, cost, now),
        }
    }

    /// Gives `cost` permits back, never above a full quota.
    pub fn give_back(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let state = self.own(state);
        match &self.0 {
            WideKind::IntervalBucket(bucket) => bucket.give_back(state, cost, now),
            WideKind::PriorityBuckets(class) => class.give_back(state, cost, now),
            WideKind::SlidingWindow(window) => window.give_back(state, cost, now),
            WideKind::SlidingWindowCounter(counter) => counter.give_back(state, cost, now),
            WideKind::SlidingWindowLog(log) => log.give_back(state, cost, now),
            WideKind::WarmUp(warm_up) => warm_up.give_back(state, cost, now),
        }
    }

    /// Counts `cost` permits that are used already; see [`Quota::charge`](crate::Quota::charge).
    pub fn charge(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let state = self.own(state);
        match &self.0 {
            WideKind::IntervalBucket(bucket) => bucket.charge(state, cost, now),
            WideKind::PriorityBuckets(class) => class.charge(state, cost, now),
            WideKind::SlidingWindow(window) => window.charge(state, cost, now),
            WideKind::SlidingWindowCounter(counter) => counter.charge(state, cost, now),
            WideKind::SlidingWindowLog(log) => log.charge(state, cost, now),
            WideKind::WarmUp(warm_up) => warm_up.charge(state, cost, now),
        }
    }

    /// Counts `cost` permits that are used already if `cost` is not zero, and says whether a permit was left
    /// before; see [`Quota::pay`](crate::Quota::pay).
    pub fn pay(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let before = self.charge(state, Cost::PEEK, now);
        if !cost.is_peek() {
            let after = self.charge(state, cost, now);
            return if before.remaining() == 0 { after.denied() } else { after };
        }
        if before.remaining() > 0 {
            return before;
        }
        self.start_refill(state, now);
        before.denied()
    }

    /// As [`take`](Self::take), except that a denial changes nothing, not even a log of denied takes. Only a
    /// warm-up and a bursty limiter promise permits that are not available yet, for `max_wait` from now at
    /// most.
    pub fn reserve(&self, state: &mut Wide, cost: Cost, max_wait: Duration, now: Timestamp) -> Decision {
        if let WideKind::WarmUp(warm_up) = &self.0 {
            return warm_up.reserve(self.own(state), cost, max_wait, now);
        }
        let before = state.clone();
        let decision = self.take(state, cost, now);
        if !decision.is_admitted() {
            *state = before;
            self.start_refill(state, now);
        }
        decision
    }

    /// The wait until `cost` permits of a reservation may be used, if `behind` permits were reserved after
    /// them; `None` for an algorithm that promises nothing.
    #[must_use]
    pub fn wait_of_reserved(
        &self,
        state: &Wide,
        cost: Cost,
        behind: Cost,
        now: Timestamp,
    ) -> Option<Duration> {
        let WideKind::WarmUp(warm_up) = &self.0 else { return None };
        let reserved = behind.permits().saturating_add(cost.permits());
        Some(Duration::from_nanos(warm_up.wait_of_reserved_ns(state, reserved, now)))
    }

    /// The only change that a denial makes: see [`Quota::start_refill`](crate::Quota::start_refill).
    pub fn start_refill(&self, state: &mut Wide, now: Timestamp) {
        match &self.0 {
            WideKind::IntervalBucket(bucket) if bucket.starts_partial() => {
                let _denied = self.take(state, Cost(u64::MAX), now);
            }
            WideKind::WarmUp(warm_up) => warm_up.remember_start(self.own(state), Cost::ONE, now),
            _ => {}
        }
    }

    /// The state of a key that was not limited until `at`.
    pub(crate) fn after_no_limit(&self, at: Timestamp) -> Wide {
        match &self.0 {
            WideKind::WarmUp(warm_up) => warm_up.after_no_limit(at),
            _ => Wide::default(),
        }
    }

    /// Converts the state of a key at `at` when this quota replaces `old`; `None` where the number of permits
    /// is enough for that.
    pub(crate) fn inherit(&self, state: &Wide, old: &Self, how: Inherit, at: Timestamp) -> Option<Wide> {
        match (&self.0, &old.0) {
            (WideKind::WarmUp(new), WideKind::WarmUp(old)) if new.tag() == old.tag() => {
                Some(new.inherit(state, old, how, at))
            }
            _ => None,
        }
    }

    /// The most permits that are available at once.
    pub(crate) const fn stores(&self, limit: u64) -> u64 {
        match &self.0 {
            WideKind::WarmUp(warm_up) => warm_up.burst(),
            _ => limit,
        }
    }

    /// First cell of every state of this algorithm.
    pub(crate) const fn tag(&self) -> u64 {
        match &self.0 {
            WideKind::IntervalBucket(_) => interval_bucket::TAG,
            WideKind::PriorityBuckets(_) => priority_buckets::TAG,
            WideKind::SlidingWindow(_) => sliding_window::TAG,
            WideKind::SlidingWindowCounter(_) => sliding_window_counter::TAG,
            WideKind::SlidingWindowLog(_) => sliding_window_log::TAG,
            WideKind::WarmUp(warm_up) => warm_up.tag(),
        }
    }

    /// The state, emptied if another algorithm has written it.
    fn own<'a>(&self, state: &'a mut Wide) -> &'a mut Wide {
        let tag = self.tag();
        if state.cells.first().is_some_and(|&written| written != tag) {
            *state = Wide::default();
        }
        state
    }
}
