//! Leaky bucket as a queue: takes that fit are admitted with a delay, so that the outflow is steady.
//!
//! The bucket is a [token bucket](super::token_bucket) seen in a mirror: its debt is the content of the
//! bucket. A take that finds n permits in it acts n intervals later, less the `delay_after` that pass at
//! once. At most capacity at once are held; the outflow is the limit's rate exactly, except for those that
//! pass at once.
//!
//! A denied take changes nothing, and reports as its delay the wait that it would have had.

use core::time::Duration;

use crate::algorithm::token_bucket::TokenBucket;
use crate::cost::Cost;
use crate::promise::Promise;
use crate::state::{Word, WordStep};
use crate::time::Timestamp;

#[derive(Clone, Debug)]
pub(crate) struct LeakyQueue {
    bucket: TokenBucket,
    /// The most units in the bucket that pass without a delay.
    undelayed: u128,
}

impl LeakyQueue {
    pub(crate) fn new(bucket: TokenBucket, delay_after: u64) -> Self {
        let undelayed = bucket.units().of_any(delay_after);
        Self { bucket, undelayed }
    }

    /// The most units in the bucket that pass without a delay.
    pub(crate) const fn undelayed(&self) -> u128 {
        self.undelayed
    }

    pub(crate) const fn bucket(&self) -> &TokenBucket {
        &self.bucket
    }

    pub(crate) fn take(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let debt = self.bucket.debt(word, now);
        let delay_ns = self.delay_ns(debt.units);
        let step = self.bucket.take_owing(word, debt, cost, now);
        WordStep { word: step.word, decision: step.decision.with_delay(delay_ns) }
    }

    /// The wait of a take at `now`, in ns.
    pub(crate) fn delay(&self, word: Word, now: Timestamp) -> u64 {
        self.delay_ns(self.bucket.debt(word, now).units)
    }

    /// A place in the queue whose turn comes within `max_wait`.
    pub(crate) fn promise(&self, word: Word, cost: Cost, max_wait: Duration, now: Timestamp) -> Promise {
        let asked = self.bucket.units().of_any(cost.permits());
        let full = self.bucket.full();
        if asked > full {
            return Promise::denied(word, cost, Timestamp::NEVER);
        }
        let debt = self.bucket.debt(word, now).units;
        let wait = Duration::from_nanos(self.delay_ns(debt));
        let owed = debt.saturating_add(asked);
        if owed > full || wait > max_wait {
            return Promise::denied(word, cost, now + wait);
        }
        self.bucket.granted(word, cost, owed, now + wait, now)
    }

    /// The wait until `cost` permits may be used that were promised before the `behind` last ones, in ns.
    pub(crate) fn wait_of_promised_ns(&self, word: Word, cost: Cost, behind: Cost, now: Timestamp) -> u64 {
        let after = Cost(behind.permits().saturating_add(cost.permits()));
        self.delay_ns(self.bucket.owed_before(word, after, now))
    }

    pub(crate) fn migrate_from(&mut self, old: &Self, at: Timestamp) {
        self.bucket.migrate_from(&old.bucket, at);
    }

    /// The wait of a take that finds `held` units in the bucket, in ns.
    fn delay_ns(&self, held: u128) -> u64 {
        self.bucket.units().nanos_in_any(held.saturating_sub(self.undelayed))
    }
}
