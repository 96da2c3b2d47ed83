//! Charging the items of one request: each alone, or all together or none.
//!
//! Items that cannot deny the request (soft ones) are never charged together with others: they are charged
//! alone, and only when the request is. Not here: what is asked for (`plan`), takes that the store did not
//! answer (`outage`).

use tollgate_core::{Cost, Decision, Timestamp};
use tollgate_observe::{Observer, Status};
use tollgate_policy::Domain;
use tollgate_store::{Charge, Store, StoreError, Take, Verdicts};

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

/// What became of a batch, beside its verdicts.
pub(crate) struct Charged {
    /// Whether what was admitted is in fact charged.
    pub(crate) is_charged: bool,
    /// What became of the first items, where the store did not answer all.
    results: Vec<ItemResult>,
}

impl Charged {
    const ALL_ANSWERED: Self = Self { is_charged: true, results: Vec::new() };

    /// That of a batch that was answered as a whole.
    pub(crate) fn answered(is_charged: bool) -> Self {
        Self { is_charged, ..Self::ALL_ANSWERED }
    }

    /// The result of the item at `at`.
    #[inline(always)]
    pub(crate) fn result(&self, at: usize, verdict: &Result<Decision, StoreError>) -> ItemResult {
        match (verdict, self.results.get(at)) {
            (Ok(decision), _) => ItemResult::Decided(*decision),
            (Err(_), Some(result)) => *result,
            (Err(_), None) => ItemResult::Unanswered(tollgate_policy::OnStoreFailure::default()),
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
            Box::pin(self.fall_back_on(batch, Mode::EACH, &mut charged)).await;
        }
        charged
    }

    /// Charges all hard items or none of them, and then each soft one alone.
    pub(crate) async fn charge_together(&self, batch: Batch<'_, '_>, operation: Operation) -> Charged {
        let Batch { domain, items, takes, statuses, verdicts, now } = batch;
        let hard = items.partition_point(|item| !item.soft);
        let mut charged = Charged::ALL_ANSWERED;
        if hard > 0 {
            match operation {
                Operation::Take => self.store.take(&takes[..hard], Charge::Together, now, verdicts).await,
                Operation::Reserve { max_wait } => {
                    self.store.reserve(&takes[..hard], max_wait, now, verdicts).await;
                }
            }
            self.observer.store_called(hard);
            charged =
                self.settle_hard(Batch { domain, items, takes, statuses, verdicts, now }, operation).await;
        }
        let batch = Batch { domain, items, takes, statuses, verdicts, now };
        self.charge_soft(batch, operation, charged).await
    }

    /// What became of the hard items, of which the store has given the verdicts.
    pub(crate) async fn settle_hard(&self, batch: Batch<'_, '_>, operation: Operation) -> Charged {
        let mut charged = Charged::ALL_ANSWERED;
        charged.is_charged = batch.verdicts.iter().flatten().all(Decision::is_admitted);
        if !batch.verdicts.iter().all(Result::is_ok) {
            let mode = Mode { operation, is_together: true };
            Box::pin(self.fall_back_on(batch, mode, &mut charged)).await;
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
                Box::pin(self.fall_back_on(batch, mode, &mut charged)).await;
            }
        }
        charged
    }

    /// Decides those of the takes answered last that the store did not answer, as their rules say.
    async fn fall_back_on(&self, batch: Batch<'_, '_>, mode: Mode, charged: &mut Charged) {
        let Batch { domain, items, takes, statuses, verdicts, now } = batch;
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
