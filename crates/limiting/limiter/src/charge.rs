//! Charging the items of one request: each alone, or all together or none.
//!
//! Items that cannot deny the request (soft ones) are never charged together with others: they are charged
//! alone, and only when the request is. Items for hits that were used already come before all others: each is
//! charged alone, and in any case. Not here: what is asked for (`plan`), takes that the store did not answer
//! (`outage`).

use tollgate_core::{Algorithm, Cost, Decision, Timestamp};
use tollgate_observe::{Observer, Status};
use tollgate_policy::{Domain, OnStoreFailure};
use tollgate_store::{Charge, Payment, Store, StoreError, Take, Verdicts};

use crate::limiter::Limiter;
use crate::outage::{Failed, FellBack, Mode, Operation};
use crate::scratch::Item;
use crate::settle::ItemResult;

/// The items of a request, and their takes in the same order.
pub(crate) struct Batch<'a, 't> {
    pub(crate) domain: &'a Domain,
    pub(crate) items: &'a mut [Item],
    pub(crate) takes: &'a mut [Take<'t>],
    pub(crate) statuses: &'a [Status],
    pub(crate) verdicts: &'a mut Verdicts,
    pub(crate) now: Timestamp,
}

/// Result of charging a batch, without its verdicts.
pub(crate) struct Charged {
    /// Whether the admitted takes are in fact charged.
    pub(crate) is_charged: bool,
    /// Results of the first items, where the store did not answer all.
    results: Vec<ItemResult>,
}

impl Charged {
    const ALL_ANSWERED: Self = Self { is_charged: true, results: Vec::new() };

    /// The result for a batch that the store answered as a whole.
    pub(crate) fn answered(is_charged: bool) -> Self {
        Self { is_charged, ..Self::ALL_ANSWERED }
    }

    /// The result of the item at `at`.
    #[inline(always)]
    pub(crate) fn result(&self, at: usize, verdict: &Result<Decision, StoreError>) -> ItemResult {
        match (verdict, self.results.get(at)) {
            (Ok(decision), _) => ItemResult::Decided(*decision),
            (Err(_), Some(result)) => *result,
            (Err(_), None) => ItemResult::Unanswered(OnStoreFailure::default()),
        }
    }
}

impl<S: Store, O: Observer> Limiter<S, O> {
    /// Takes each item alone.
    #[inline]
    pub(crate) async fn charge_each(&self, batch: Batch<'_, '_>) -> Charged {
        self.store.take(batch.takes, Charge::Each, batch.now, batch.verdicts).await;
        self.observer.store_called(batch.takes.len());
        let mut charged = Charged::ALL_ANSWERED;
        if !batch.verdicts.iter().all(Result::is_ok) {
            Box::pin(self.fall_back_on(batch, Mode::EACH, 0, &mut charged)).await;
        }
        charged
    }

    /// Charges all hard items or none of them, and then each soft one alone.
    pub(crate) async fn charge_together(&self, batch: Batch<'_, '_>, operation: Operation) -> Charged {
        let Batch { domain, items, takes, statuses, verdicts, now } = batch;
        let after = items.partition_point(|item| item.payment.is_after());
        let hard = after + items[after..].partition_point(|item| !item.soft);
        let mut charged = Charged::ALL_ANSWERED;
        if after > 0 {
            let batch = Batch { domain, items, takes, statuses, verdicts, now };
            Box::pin(self.charge_used(batch, after, &mut charged)).await;
        }
        let is_spared = !charged.is_charged;
        if is_spared {
            takes[after..hard].iter_mut().for_each(|take| take.cost = Cost::PEEK);
            items[after..hard].iter_mut().for_each(|item| item.cost = Cost::PEEK);
        }
        if hard > after {
            let together = if is_spared { Charge::Each } else { Charge::Together };
            match operation {
                Operation::Take => self.store.take(&takes[after..hard], together, now, verdicts).await,
                Operation::Reserve { max_wait } => {
                    self.store.reserve(&takes[after..hard], max_wait, now, verdicts).await;
                }
            }
            self.observer.store_called(hard - after);
            let mode = if is_spared { Mode::EACH } else { Mode { operation, is_together: true } };
            let batch = Batch { domain, items, takes, statuses, verdicts, now };
            charged = self.settle_from(after, batch, mode, charged).await;
        }
        let batch = Batch { domain, items, takes, statuses, verdicts, now };
        self.charge_soft(batch, operation, charged).await
    }

    /// Settles the hard items, for which the store has returned the verdicts.
    pub(crate) async fn settle_hard(&self, batch: Batch<'_, '_>, operation: Operation) -> Charged {
        let mode = Mode { operation, is_together: true };
        self.settle_from(0, batch, mode, Charged::ALL_ANSWERED).await
    }

    /// Settles the items from `first` on, for which the store has returned the verdicts; the items before
    /// them were `charged`.
    async fn settle_from(
        &self,
        first: usize,
        batch: Batch<'_, '_>,
        mode: Mode,
        mut charged: Charged,
    ) -> Charged {
        let verdicts = &batch.verdicts[first..];
        charged.is_charged &= verdicts.iter().flatten().all(Decision::is_admitted);
        if !verdicts.iter().all(Result::is_ok) {
            Box::pin(self.fall_back_on(batch, mode, first, &mut charged)).await;
        }
        charged
    }

    /// Charges each soft item alone if the hard ones, whose verdicts are there, were `charged`; else only
    /// looks at them.
    pub(crate) async fn charge_soft(
        &self,
        batch: Batch<'_, '_>,
        operation: Operation,
        mut charged: Charged,
    ) -> Charged {
        let Batch { domain, items, takes, statuses, verdicts, now } = batch;
        let hard = verdicts.len();
        if hard < takes.len() {
            let soft = &mut takes[hard..];
            let mut mode = Mode { operation, is_together: false };
            if !charged.is_charged {
                soft.iter_mut().for_each(|take| take.cost = Cost::PEEK);
                items[hard..].iter_mut().for_each(|item| item.cost = Cost::PEEK);
                mode = Mode::EACH;
            }
            match mode.operation {
                Operation::Take => {
                    self.store.take(soft, Charge::Each, now, verdicts).await;
                    self.observer.store_called(soft.len());
                }
                Operation::Reserve { max_wait } => {
                    for take in &*soft {
                        self.store.reserve(&[*take], max_wait, now, verdicts).await;
                        self.observer.store_called(1);
                    }
                }
            }
            if !verdicts[hard..].iter().all(Result::is_ok) {
                let batch = Batch { domain, items, takes, statuses, verdicts, now };
                Box::pin(self.fall_back_on(batch, mode, hard, &mut charged)).await;
            }
        }
        charged
    }

    /// Charges the first `after` items, which were used already. If one of them denies the request, nothing
    /// else is to be charged.
    #[cold]
    async fn charge_used(&self, batch: Batch<'_, '_>, after: usize, charged: &mut Charged) {
        let Batch { domain, items, takes, statuses, verdicts, now } = batch;
        self.store.take(&takes[..after], Charge::Each, now, verdicts).await;
        self.observer.store_called(after);
        let mut denies = false;
        if !verdicts.iter().all(Result::is_ok) {
            let batch = Batch { domain, items: &mut *items, takes, statuses, verdicts: &mut *verdicts, now };
            Box::pin(self.fall_back_on(batch, Mode::EACH, 0, charged)).await;
        }
        for (at, (item, verdict)) in items.iter().zip(verdicts.iter()).enumerate() {
            denies |= !item.soft
                && match charged.result(at, verdict) {
                    ItemResult::Decided(decision) | ItemResult::ByShare { decision, .. } => {
                        !decision.is_admitted()
                    }
                    ItemResult::Unanswered(way) => way == OnStoreFailure::Deny,
                };
        }
        charged.is_charged = !denies;
    }

    /// As [`charge_together`](Self::charge_together), except that windows that deny are charged all the same:
    /// each counts the hits above its limit, as envoyproxy/ratelimit does.
    #[cold]
    pub(crate) async fn charge_sparing_others(&self, batch: Batch<'_, '_>) -> Charged {
        let Batch { domain, items, takes, statuses, verdicts, now } = batch;
        let batch =
            Batch { domain, items: &mut *items, takes: &mut *takes, statuses, verdicts: &mut *verdicts, now };
        let charged = self.charge_together(batch, Operation::Take).await;
        let is_over = |take: &Take<'_>, verdict: &Result<Decision, _>| {
            matches!(take.counter.quota.algorithm(), Algorithm::FixedWindow { .. })
                && take.payment == Payment::Ahead
                && !take.cost.is_peek()
                && verdict.as_ref().is_ok_and(|decision| !decision.is_admitted())
        };
        let mut over = Vec::new();
        for (take, _) in takes.iter().zip(verdicts.iter()).filter(|(take, verdict)| is_over(take, verdict)) {
            over.push(Take { payment: Payment::Consumed, ..*take });
        }
        if !over.is_empty() && !charged.is_charged {
            Box::pin(self.count_over(over, now)).await;
        }
        charged
    }

    /// Counts takes that were denied.
    #[cold]
    async fn count_over(&self, over: Vec<Take<'_>>, now: Timestamp) {
        let mut counted = Verdicts::new();
        self.store.take(&over, Charge::Each, now, &mut counted).await;
        self.observer.store_called(over.len());
        for error in counted.iter().filter_map(|verdict| verdict.as_ref().err()) {
            self.note_store_error(error, now);
        }
    }

    /// Decides the takes from `first` on that the store did not answer, as their rules say.
    async fn fall_back_on(&self, batch: Batch<'_, '_>, mode: Mode, first: usize, charged: &mut Charged) {
        let Batch { domain, items, takes, statuses, verdicts, now } = batch;
        // All of those before were answered, unless their results are there.
        let answered = verdicts[..first].iter().skip(charged.results.len()).flatten();
        charged.results.extend(answered.map(|decision| ItemResult::Decided(*decision)));
        let part = charged.results.len()..verdicts.len();
        let items = &mut items[part.clone()];
        let failed = Failed { mode, takes: &takes[part.clone()], verdicts: &verdicts[part], now };
        let way = |at: usize, error: &StoreError| {
            let item: &Item = &items[at];
            self.way_without_store(domain, item, &statuses[item.descriptor as usize], error, now)
        };
        let FellBack { results, is_charged, peeked } = self.fall_back(failed, way).await;
        let by_share = |result: &ItemResult| matches!(result, ItemResult::ByShare { .. });
        for (item, _) in items.iter_mut().zip(&results).filter(|(_, result)| peeked && by_share(result)) {
            item.cost = Cost::PEEK;
        }
        charged.is_charged &= is_charged;
        charged.results.extend(results);
    }
}
