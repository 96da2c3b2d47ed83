//! Leaky bucket as a queue: what fits is admitted with a delay, so that the outflow is steady.
//!
//! The bucket is a [token bucket](super::token_bucket) seen in a mirror: its debt is what the bucket holds. A take that
//! finds n permits in it acts n intervals later, less the `delay_after` that pass at once. At most capacity at once
//! are held; the outflow is the limit's rate exactly, but for those that pass at once.
//!
//! A denied take changes nothing, and hears as its delay the wait that it would have had.

use crate::algorithm::token_bucket::TokenBucket;
use crate::{Cost, Promise, Timestamp, Word, WordStep};

#[derive(Clone, Debug)]
pub(crate) struct LeakyQueue {
    bucket: TokenBucket,
    /// What may be in the bucket without a delay, in units.
    undelayed: u64,
}

impl LeakyQueue {
    pub(crate) fn new(bucket: TokenBucket, delay_after: u64) -> Self {
        let undelayed = bucket.units().of_permits(delay_after);
        Self { bucket, undelayed }
    }

    /// What may be in the bucket without a delay, in units.
    pub(crate) const fn undelayed(&self) -> u64 {
        self.undelayed
    }

    pub(crate) const fn bucket(&self) -> &TokenBucket {
        &self.bucket
    }

    pub(crate) fn take(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let delay_ns = self.delay_ns(self.bucket.debt_or_deepest(word, now));
        let step = self.bucket.take(word, cost, now);
        WordStep { word: step.word, decision: step.decision.with_delay(delay_ns) }
    }

    pub(crate) fn give_back(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        self.bucket.give_back(word, cost, now)
    }

    pub(crate) fn charge(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        self.bucket.charge(word, cost, now)
    }

    /// A place in the queue whose turn comes within `max_wait_ns`.
    pub(crate) fn reserve(&self, word: Word, cost: Cost, max_wait_ns: u64, now: Timestamp) -> Promise {
        let debt = self.bucket.debt_or_deepest(word, now);
        let asked = self.bucket.units().of_permits(cost.permits());
        let wait_ns = self.delay_ns(debt);
        if debt.saturating_add(asked) > self.bucket.full() {
            let at =
                if asked > self.bucket.full() { u64::MAX } else { now.as_nanos().saturating_add(wait_ns) };
            return Promise::refused(word, cost, Timestamp::from_nanos(at));
        }
        self.bucket.reserve_at(word, cost, debt + asked, wait_ns, max_wait_ns, now)
    }

    pub(crate) fn succeed(&mut self, old: &Self, at: Timestamp) {
        self.bucket.succeed(&old.bucket, at);
    }

    /// How long a take has to wait that finds `held` units in the bucket.
    fn delay_ns(&self, held: u64) -> u64 {
        self.bucket.units().nanos_in(held.saturating_sub(self.undelayed))
    }
}
