//! Quotas that come with the question: any caller may bring a key and say how often it may pass.
//!
//! Such counters live beside those of rules and never meet them: their keys begin with a control character, which a rule's key
//! never holds. A key holds the rate, so that another rate is another counter; the burst is not in it, so that another burst goes on with
//! the count. No rule is about them: what is counted is counted as rule `(throttle)`, and what happens while the store is silent is a
//! [setting](crate::LimiterSettings::throttle_on_store_failure).
//! Not here: rules ([`decide`](crate::Limiter::decide)), what a protocol makes of the answer (transports).

use std::time::Duration;

use tollgate_core::{
    Algorithm, Align, Cost, Decision, LeakyForm, Outcome, Quota, Refill, RetryAfter, Timestamp,
};
use tollgate_policy::OnStoreFailure;
use tollgate_store::{Charge, Key, Store, StoreError, Take, Verdicts};

use crate::answer::{Degraded, RETRY_DEGRADED};
use crate::limiter::Limiter;
use crate::observe::Global;
use crate::observe::lanes::Seat;
use crate::outage::{write_head, write_own_key};
use crate::scratch::{Scratch, rehouse};

/// One question with its own quota.
#[derive(Clone, Copy, Debug)]
pub struct Throttle<'a> {
    /// Whose counter, in the caller's own words; any bytes.
    pub key: &'a [u8],
    /// How often it may pass.
    pub quota: &'a Quota,
    /// Permits asked for; zero peeks.
    pub cost: Cost,
}

/// The answer to a [`Throttle`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Throttled {
    /// May it pass?
    pub outcome: Outcome,
    /// What its counter said; `None` when the store gave no answer.
    pub decision: Option<Decision>,
    /// The store gave no answer, and this is how it was decided then.
    pub degraded: Option<Degraded>,
}

impl Throttled {
    /// True when it may pass.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self.outcome, Outcome::Admit)
    }

    /// Permits left; 0 when the store gave no answer.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.decision.map_or(0, |decision| decision.remaining())
    }

    /// How long until this cost fits; a second when it is denied because the store gave no answer.
    #[must_use]
    pub fn retry_after(&self) -> RetryAfter {
        match (&self.decision, self.outcome) {
            (Some(decision), _) => decision.retry_after(),
            (None, Outcome::Admit) => RetryAfter::Now,
            (None, Outcome::Deny) => RetryAfter::After(RETRY_DEGRADED),
        }
    }

    /// How long until the full quota is there again; zero when the store gave no answer.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.decision.map_or(Duration::ZERO, |decision| decision.reset_after())
    }
}

impl<S: Store, L: Store> Limiter<S, L> {
    /// Decides questions that bring their own quotas, each on its own and in order, in one call to the store; pushes one answer
    /// each onto `out` (what is there already stays).
    ///
    /// A store that cannot count such quotas at all is not asked: this node's own store counts them, by its share among the nodes.
    ///
    /// Two questions share a counter when their keys, their algorithms and their rates (limit and period) are equal. Allocates nothing
    /// once `scratch` and `out` have grown. When the future is dropped before its end, the permits may or may not have been taken.
    ///
    /// # Example
    /// ```
    /// # use tollgate_limiter::{Limiter, LimiterSettings, Policy, Scratch, Throttle};
    /// # use tollgate_core::{Cost, Quota, Timestamp};
    /// # use tollgate_store::{ModelStore, block_on};
    /// # use std::time::Duration;
    /// let limiter: Limiter<ModelStore> =
    ///     Limiter::new(Policy::empty(), ModelStore::default(), LimiterSettings::default());
    /// let quota = Quota::token_bucket(1, Duration::from_secs(1))?;
    /// let ask = Throttle { key: b"ann", quota: &quota, cost: Cost::ONE };
    /// let (noon, mut scratch, mut out) = (Timestamp::from_unix_seconds(1_700_000_000), Scratch::new(), Vec::new());
    /// block_on(limiter.throttle(&[ask, ask], noon, &mut scratch, &mut out));
    /// assert!(out[0].is_admitted() && !out[1].is_admitted());
    /// # Ok::<(), tollgate_core::QuotaError>(())
    /// ```
    pub async fn throttle(
        &self,
        asks: &[Throttle<'_>],
        now: Timestamp,
        scratch: &mut Scratch,
        out: &mut Vec<Throttled>,
    ) {
        if asks.is_empty() {
            return;
        }
        scratch.clear();
        let Scratch { keys, ends, verdicts, takes: room, .. } = scratch;
        for ask in asks {
            write_key(ask, keys);
            ends.push(keys.len());
        }
        let mut takes = rehouse(std::mem::take(room));
        let mut start = 0;
        takes.extend(asks.iter().zip(ends.iter()).map(|(ask, &end)| {
            let key = Key(&keys[start..end]);
            start = end;
            Take { key, quota: ask.quota, cost: ask.cost }
        }));
        self.store.take(&takes, Charge::Each, now, verdicts).await;
        let seat = Seat::here();
        self.metrics.count_batch(seat, takes.len());
        self.note_that_the_store_answers(verdicts);
        for ((ask, take), verdict) in asks.iter().zip(&takes).zip(verdicts.iter()) {
            let throttled = match verdict {
                Ok(decision) => {
                    Throttled { outcome: decision.outcome(), decision: Some(*decision), degraded: None }
                }
                Err(error) => self.throttle_without_the_store(take, now, error).await,
            };
            self.metrics.count_throttle(seat, ask.cost, &throttled);
            if !throttled.is_admitted() {
                self.note_throttled(ask, &throttled, seat, now);
            }
            out.push(throttled);
        }
        *room = rehouse(takes);
    }

    #[cold]
    async fn throttle_without_the_store(
        &self,
        take: &Take<'_>,
        now: Timestamp,
        error: &StoreError,
    ) -> Throttled {
        // It never can, and was not asked: no outage, but how such limits are counted beside that store.
        let is_own = matches!(error, StoreError::Unsupported { .. }) && self.local.is_some();
        let way = if is_own { OnStoreFailure::Local } else { self.settings.throttle_on_store_failure };
        if !is_own {
            self.metrics.count(Seat::here(), Global::StoreErrors, 1);
            self.note_that_the_store_fails(error, now);
        }
        if let (OnStoreFailure::Local, Some(local)) = (way, &self.local) {
            let share = take.quota.share_of(self.store.live_nodes());
            let (mut key, mut verdicts) = (Vec::new(), Verdicts::new());
            write_own_key(&share, take.key.0, &mut key);
            let take = Take { key: Key(&key), quota: &share, cost: take.cost };
            local.take(&[take], Charge::Each, now, &mut verdicts).await;
            if let Some(Ok(decision)) = verdicts.pop() {
                let degraded = (!is_own).then_some(Degraded::Local);
                return Throttled { outcome: decision.outcome(), decision: Some(decision), degraded };
            }
        }
        match way {
            OnStoreFailure::Deny => {
                Throttled { outcome: Outcome::Deny, decision: None, degraded: Some(Degraded::Denied) }
            }
            _ => Throttled { outcome: Outcome::Admit, decision: None, degraded: Some(Degraded::Allowed) },
        }
    }
}

/// Appends the key of `ask`'s counter. The head has a fixed length, and so no key runs into another.
#[inline]
fn write_key(ask: &Throttle<'_>, keys: &mut Vec<u8>) {
    write_head(kind(ask.quota.algorithm()), ask.quota, keys);
    keys.extend_from_slice(ask.key);
}

/// What a state of this algorithm means to another: a control character, with which no rule's key begins.
const fn kind(algorithm: &Algorithm) -> u8 {
    match algorithm {
        Algorithm::TokenBucket { refill: Refill::Continuous, .. } => 1,
        Algorithm::TokenBucket { refill: Refill::Interval, .. } => 2,
        Algorithm::FixedWindow { align: Align::Calendar } => 3,
        Algorithm::FixedWindow { align: Align::FirstHit } => 4,
        Algorithm::SlidingWindow { .. } => 5,
        Algorithm::SlidingWindowCounter => 6,
        Algorithm::SlidingWindowLog { .. } => 7,
        Algorithm::LeakyBucket { form: LeakyForm::Meter, .. } => 8,
        Algorithm::LeakyBucket { form: LeakyForm::Queue { .. }, .. } => 9,
        Algorithm::Total => 11,
        _ => 12,
    }
}
