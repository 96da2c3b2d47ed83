//! Quotas that come with the request: a caller brings a key and the rate at which it may pass.
//!
//! Such counters never collide with those of rules: their keys begin with a control character, which a rule's
//! key never holds. Each key has one counter per algorithm and rate, whatever the burst; for quotas that keep
//! instants, one counter for all rates. They belong to no rule: metrics count them as rule `(throttle)`, and
//! a [setting](crate::LimiterSettings::throttle_on_store_failure) decides while the store does not answer.
//! Not here: rules ([`decide`](crate::Limiter::decide)), replies of protocols (transports).

use tollgate_buffers::recycle;
use tollgate_core::{Algorithm, Align, LeakyForm, Refill, Timestamp};
use tollgate_observe::{Degraded, Observer, Throttle, Throttled};
use tollgate_policy::OnStoreFailure;
use tollgate_store::{Charge, Counter, Key, Origin, Store, StoreError, Take, Verdicts};

use crate::keys::write_head;
use crate::limiter::Limiter;
use crate::outage::{Failed, Mode};
use crate::scratch::Scratch;
use crate::settle::ItemResult;

impl<S: Store, O: Observer> Limiter<S, O> {
    /// Decides requests that bring their own quotas, each alone and in order, in one call to the store;
    /// pushes one answer for each onto `out`.
    ///
    /// In shadow mode all are admitted, and [`Throttled::is_shadowed`] marks those that would have been
    /// denied.
    ///
    /// A store that cannot count such quotas is not asked: this node's memory counts them, by its share among
    /// the nodes.
    ///
    /// Two requests share a counter if their keys, their algorithms and their rates (limit and period) are
    /// equal. If their quotas [keep instants](tollgate_core::Quota::keeping_instants), their rates need not
    /// be: then the instant at which the key is full carries over. Allocates nothing once `scratch` and `out`
    /// have grown. When the future is dropped before its end, the permits may or may not have been taken.
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
    /// let noon = Timestamp::from_unix_seconds(1_700_000_000);
    /// let (mut scratch, mut out) = (Scratch::new(), Vec::new());
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
        let Scratch { keys, ends, verdicts, takes: kept, .. } = scratch;
        for ask in asks {
            write_key(ask, keys);
            ends.push(keys.len());
        }
        let mut takes = recycle(std::mem::take(kept));
        let mut start = 0;
        takes.extend(asks.iter().zip(ends.iter()).map(|(ask, &end)| {
            let key = Key(&keys[start..end]);
            start = end;
            Counter::new(key, ask.quota).from_origin(Origin::Request).take(ask.cost)
        }));
        self.store.take(&takes, Charge::Each, now, verdicts).await;
        self.observer.store_called(takes.len());
        self.note_store_answers(verdicts);
        let instead = match verdicts.iter().all(Result::is_ok) {
            true => Vec::new(),
            false => Box::pin(self.throttle_without_store(&takes, verdicts, now)).await,
        };
        let first = out.len();
        for (at, verdict) in verdicts.iter().enumerate() {
            out.push(match (verdict, instead.get(at)) {
                (Err(_), Some(throttled)) => *throttled,
                (Err(_), None) => Throttled::unanswered(self.settings.throttle_on_store_failure),
                (Ok(decision), _) => Throttled::decided(*decision, None),
            });
        }
        if self.settings.shadow_mode {
            out[first..].iter_mut().for_each(|throttled| *throttled = throttled.in_shadow_mode());
        }
        self.observer.throttled(asks, &out[first..], now);
        *kept = recycle(takes);
    }

    /// The answers to a batch that the store did not answer whole, one for each take.
    #[cold]
    async fn throttle_without_store(
        &self,
        takes: &[Take<'_>],
        verdicts: &Verdicts,
        now: Timestamp,
    ) -> Vec<Throttled> {
        // This store cannot count such limits and was not asked, so this is not an outage.
        let is_unsupported =
            |error: &StoreError| matches!(error, StoreError::Unsupported { .. }) && self.store.has_local();
        let failed = Failed { mode: Mode::EACH, takes, verdicts, now };
        let fell_back = self
            .fall_back(failed, |_, error| {
                if is_unsupported(error) {
                    return OnStoreFailure::Local;
                }
                self.count_store_error(error, now);
                self.settings.throttle_on_store_failure
            })
            .await;
        let results = fell_back.results.into_iter().zip(verdicts);
        results
            .map(|(result, verdict)| match result {
                ItemResult::Decided(decision) => Throttled::decided(decision, None),
                ItemResult::ByShare { decision, .. } => {
                    let is_outage = !verdict.as_ref().is_err_and(is_unsupported);
                    Throttled::decided(decision, is_outage.then_some(Degraded::Local))
                }
                ItemResult::Unanswered(way) => Throttled::unanswered(way),
            })
            .collect()
    }
}

/// Appends the key of `ask`'s counter. The head has a fixed length, and so no key runs into another.
#[inline]
fn write_key(ask: &Throttle<'_>, keys: &mut Vec<u8>) {
    write_head(kind(ask.quota.algorithm()), ask.quota, keys);
    keys.extend_from_slice(ask.key);
}

/// The kind of state of an algorithm: a control character, with which no rule's key begins.
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
        Algorithm::WarmUp { .. } => 13,
        Algorithm::SmoothBursty { .. } => 14,
        _ => 12,
    }
}
