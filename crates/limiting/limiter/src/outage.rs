//! Decisions about takes that the store did not answer.
//!
//! Each rule has a choice: deny, allow, or `local`, which counts in this node's memory by a share of the
//! quota ([`Quota::share_of`](tollgate_core::Quota::share_of)) for as many nodes as were alive when the store
//! last answered. Of takes that are charged together, the answered ones stay charged unless a take is denied.
//! Then they are given back, once; permits that the store does not take back count as used. Not here: how the
//! store is tried again (the stores).

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tollgate_core::{Cost, Decision, Timestamp};
use tollgate_observe::{LimitRef, Observer, Status};
use tollgate_policy::{Domain, OnStoreFailure};
use tollgate_store::{Charge, Counter, Inspection, Store, StoreError, Take, Verdicts};

use crate::keys::Share;
use crate::limiter::Limiter;
use crate::scratch::Item;
use crate::settle::ItemResult;

/// The operation on a batch, and whether its takes stand together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) operation: Operation,
    /// All takes are charged or none; otherwise each take is charged alone.
    pub(crate) is_together: bool,
}

/// Kind of a charge.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// Now or not at all.
    Take,
    /// Also ahead of time ([`Store::reserve`]).
    Reserve { max_wait: Duration },
}

/// A batch of which the store did not answer all.
#[derive(Clone, Copy)]
pub(crate) struct Failed<'a> {
    pub(crate) mode: Mode,
    pub(crate) takes: &'a [Take<'a>],
    pub(crate) verdicts: &'a [Result<Decision, StoreError>],
    pub(crate) now: Timestamp,
}

/// Result of a batch that the store did not answer as a whole.
pub(crate) struct FellBack {
    /// One for each take.
    pub(crate) results: Vec<ItemResult>,
    /// Whether the admitted takes are charged; always true of takes that are charged alone.
    pub(crate) is_charged: bool,
    /// The shares were only peeked at, since something else had denied.
    pub(crate) peeked: bool,
}

impl Mode {
    /// Each take alone, now.
    pub(crate) const EACH: Self = Self { operation: Operation::Take, is_together: false };
}

impl<S: Store, O: Observer> Limiter<S, O> {
    /// Decides the takes of `failed` that have no answer, by `rule` (the choice of a take's rule for its
    /// error), and gives back what must not stay charged.
    #[cold]
    pub(crate) async fn fall_back(
        &self,
        failed: Failed<'_>,
        mut rule: impl FnMut(usize, &StoreError) -> OnStoreFailure,
    ) -> FellBack {
        let Failed { mode, takes, verdicts, now } = failed;
        let is_alone = !mode.is_together;
        let was_charged = is_alone || verdicts.iter().flatten().all(Decision::is_admitted);
        let mut is_charged = was_charged;
        let nodes = self.store.live_nodes();
        let mut results = Vec::with_capacity(takes.len());
        let mut shares = Vec::new();
        for (at, verdict) in verdicts.iter().enumerate() {
            results.push(match verdict {
                Ok(decision) => ItemResult::Decided(*decision),
                Err(error) => {
                    let way = rule(at, error);
                    if self.counts_shares(way) {
                        shares.push((at, Share::new(takes[at].counter, nodes)));
                    } else if way == OnStoreFailure::Deny {
                        is_charged &= is_alone;
                    }
                    ItemResult::Unanswered(way)
                }
            });
        }
        // Once a take is denied, the shares are only peeked at: the request takes nothing anywhere.
        let peeked = !is_charged;
        if !shares.is_empty() {
            let cost = |at: usize| if peeked { Cost::PEEK } else { takes[at].cost };
            let mut batch = Vec::with_capacity(shares.len());
            for (at, share) in &shares {
                batch.push(Take { counter: share.counter(), cost: cost(*at), payment: takes[*at].payment });
            }
            let answers = self.decide_by_shares(&batch, if peeked { Mode::EACH } else { mode }, now).await;
            for ((at, _), decision) in shares.iter().zip(answers.iter().flatten()) {
                results[*at] = ItemResult::ByShare { decision: *decision, nodes };
            }
            is_charged &= is_alone || answers.iter().flatten().all(Decision::is_admitted);
        }
        for (take, result) in takes.iter().zip(&results) {
            if take.payment.is_after() && matches!(result, ItemResult::Unanswered(_)) {
                self.observer.charge_lost(take.cost.permits());
            }
        }
        // The store has charged the takes that it answered, before this node denied another one.
        if was_charged && !is_charged {
            let answered = takes.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_ok());
            let charged: Vec<_> = answered.map(|(take, _)| *take).collect();
            if !charged.is_empty()
                && let Err(error) = self.store.give_all_back(&charged, now).await
            {
                self.note_store_error(&error, now);
            }
        }
        FellBack { results, is_charged, peeked }
    }

    /// This node's own count of `counter`, if it counts by `way` while the store does not answer.
    #[cold]
    pub(crate) async fn inspect_share(
        &self,
        way: OnStoreFailure,
        counter: Counter<'_>,
        now: Timestamp,
    ) -> Option<Result<Inspection, StoreError>> {
        if !self.counts_shares(way) {
            return None;
        }
        let share = Share::new(counter, self.store.live_nodes());
        Some(self.store.inspect(share.counter(), now).await)
    }

    /// Forgets this node's own count of `counter`.
    pub(crate) async fn reset_share(&self, counter: Counter<'_>, now: Timestamp) -> Result<(), StoreError> {
        if self.store.has_local() {
            let share = Share::new(counter, self.store.live_nodes());
            self.store.reset(share.counter(), now).await?;
        }
        Ok(())
    }

    /// Whether this node counts by its share, if `way` is the choice of the rule.
    pub(crate) fn counts_shares(&self, way: OnStoreFailure) -> bool {
        way == OnStoreFailure::Local && self.store.has_local()
    }

    async fn decide_by_shares(&self, batch: &[Take<'_>], mode: Mode, now: Timestamp) -> Verdicts {
        let mut answers = Verdicts::new();
        match (mode.operation, mode.is_together) {
            (Operation::Take, true) => self.store.take(batch, Charge::Together, now, &mut answers).await,
            (Operation::Take, false) => self.store.take(batch, Charge::Each, now, &mut answers).await,
            (Operation::Reserve { max_wait }, true) => {
                self.store.reserve(batch, max_wait, now, &mut answers).await
            }
            (Operation::Reserve { max_wait }, false) => {
                for take in batch {
                    self.store.reserve(&[*take], max_wait, now, &mut answers).await;
                }
            }
        }
        answers
    }

    /// The choice of the rule of `item` for the case that the store did not answer. Counts the failure.
    pub(crate) fn way_without_store(
        &self,
        domain: &Domain,
        item: &Item,
        status: &Status,
        error: &StoreError,
        now: Timestamp,
    ) -> OnStoreFailure {
        self.count_store_error(error, now);
        // A limit that came with the request falls to the rule whose counter it shares.
        let rule = match item.limit {
            LimitRef::Rule(_) => Some(item.rule),
            LimitRef::Override(_) => status.rule,
        };
        rule.map_or_else(OnStoreFailure::default, |rule| domain.rules()[rule as usize].on_store_failure)
    }

    /// Counts a take that the store did not answer, and notes why.
    pub(crate) fn count_store_error(&self, error: &StoreError, now: Timestamp) {
        self.observer.take_unanswered();
        self.note_store_error(error, now);
    }

    /// Reports that a call to the store failed.
    pub(crate) fn note_store_error(&self, error: &StoreError, now: Timestamp) {
        let is_down = matches!(error, StoreError::Unreachable { .. } | StoreError::Silent { .. });
        let is_first = is_down && !self.store_fails.swap(true, Relaxed);
        self.observer.store_failed(error, is_first, now);
    }

    /// Reports that the store answers again, where it failed before and has answered all of `verdicts`.
    #[inline]
    pub(crate) fn note_store_answers(&self, verdicts: &Verdicts) {
        if self.store_fails.load(Relaxed) && verdicts.iter().all(Result::is_ok) {
            self.store_fails.store(false, Relaxed);
            self.observer.store_recovered(&self.store.name());
        }
    }
}
