//! Algorithms whose state is several numbers, changed in place.

use crate::algorithm::interval_bucket::{self, IntervalBucket};
use crate::algorithm::priority_buckets::{self, PriorityBuckets};
use crate::algorithm::sliding_window::{self, SlidingWindow};
use crate::algorithm::sliding_window_counter::{self, SlidingWindowCounter};
use crate::algorithm::sliding_window_log::{self, SlidingWindowLog};
use crate::cost::Cost;
use crate::decision::Decision;
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
}

impl WideAlgorithm {
    /// Takes `cost` permits if they fit; otherwise takes none and returns when they would.
    pub fn take(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let state = self.own(state);
        match &self.0 {
            WideKind::IntervalBucket(bucket) => bucket.take(state, cost, now),
            WideKind::PriorityBuckets(class) => class.take(state, cost, now),
            WideKind::SlidingWindow(window) => window.take(state, cost, now),
            WideKind::SlidingWindowCounter(counter) => counter.take(state, cost, now),
            WideKind::SlidingWindowLog(log) => log.take(state, cost, now),
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
        }
    }

    /// Takes `cost` permits whether they fit or not; see
    /// [`WordAlgorithm::charge`](crate::WordAlgorithm::charge).
    pub fn charge(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let state = self.own(state);
        match &self.0 {
            WideKind::IntervalBucket(bucket) => bucket.charge(state, cost, now),
            WideKind::PriorityBuckets(class) => class.charge(state, cost, now),
            WideKind::SlidingWindow(window) => window.charge(state, cost, now),
            WideKind::SlidingWindowCounter(counter) => counter.charge(state, cost, now),
            WideKind::SlidingWindowLog(log) => log.charge(state, cost, now),
        }
    }

    /// As [`take`](Self::take), except that a denial changes nothing, not even a log of denied takes. None of
    /// these algorithms promises permits that are not there yet, so there is no longest wait to name.
    pub fn reserve(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let before = state.clone();
        let decision = self.take(state, cost, now);
        if !decision.is_admitted() {
            *state = before;
            self.start_refill(state, now);
        }
        decision
    }

    /// What a denial changes that changes nothing else: see
    /// [`Quota::start_refill`](crate::Quota::start_refill).
    pub fn start_refill(&self, state: &mut Wide, now: Timestamp) {
        if let WideKind::IntervalBucket(bucket) = &self.0
            && bucket.starts_partial()
        {
            let _denied = self.take(state, Cost(u64::MAX), now);
        }
    }

    /// The state, emptied if another algorithm has written it.
    fn own<'a>(&self, state: &'a mut Wide) -> &'a mut Wide {
        let tag = match &self.0 {
            WideKind::IntervalBucket(_) => interval_bucket::TAG,
            WideKind::PriorityBuckets(_) => priority_buckets::TAG,
            WideKind::SlidingWindow(_) => sliding_window::TAG,
            WideKind::SlidingWindowCounter(_) => sliding_window_counter::TAG,
            WideKind::SlidingWindowLog(_) => sliding_window_log::TAG,
        };
        if state.cells.first().is_some_and(|&written| written != tag) {
            *state = Wide::default();
        }
        state
    }
}
