//! Batches with leased limits: each take goes to the place where its counter is kept.
//!
//! All or none across leases and scripts is charged one by one and given back where one denies: no limit
//! admits more than it has. For a moment, other callers may not find permits that are given back. Leases
//! promise nothing ahead to callers, so a reservation of a leased limit is a take.
//!
//! Where leases pay for a whole batch there is nothing to wait for. Any other batch runs to its end, whether
//! its caller waits or not.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Algorithm, Decision, Timestamp};
use tollgate_store::remote::OwnBatch;
use tollgate_store::{Counter, Sharing, StoreError, Take, Verdicts};

use crate::ask::{BatchKind, KeyOperation};
use crate::exact::Exact;
use crate::leased::{Begun, DeniedHit, Leased, LeasedTake};

/// Both ways of counting. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Mixed {
    pub(crate) exact: Arc<Exact>,
    pub(crate) leased: Leased,
}

/// The result of one take of a batch.
struct TakeOutcome {
    result: Result<Decision, StoreError>,
    is_leased: bool,
}

impl TakeOutcome {
    fn is_admitted(&self) -> bool {
        self.result.as_ref().is_ok_and(Decision::is_admitted)
    }

    fn denies(&self) -> bool {
        self.result.is_ok() && !self.is_admitted()
    }
}

pub(crate) fn is_leased(counter: Counter<'_>) -> bool {
    counter.sharing == Sharing::Leased
}

impl Mixed {
    /// Decides each take by itself.
    pub(crate) async fn take_each(&self, batch: &[Take<'_>], now: Timestamp, verdicts: &mut Verdicts) {
        if batch.iter().any(|take| is_leased(take.counter) && take.payment.is_after()) {
            return Box::pin(self.take_each_and_pay(batch, now, verdicts)).await;
        }
        if let [take] = batch {
            verdicts.push(match self.begin(take, DeniedHit::Counts, now) {
                Some(begun) => self.leased.result(begun).await,
                None => self.exact.decide(take.counter, KeyOperation::of(take), now).await,
            });
            return;
        }
        let mut begun = Vec::with_capacity(batch.len());
        self.begin_all(batch, DeniedHit::Counts, now, &mut begun).await;
        let exact = exact(batch, &begun);
        let mut others = Verdicts::with_capacity(exact.len());
        self.exact.take_each(&exact, now, &mut others).await;
        let outcomes = self.outcomes(begun, others).await;
        verdicts.extend(outcomes.into_iter().map(|outcome| outcome.result));
    }

    /// The same, if leases pay for permits that are used already: those payments are sent before the other
    /// takes are decided, unless they are of one key.
    async fn take_each_and_pay(&self, batch: &[Take<'_>], now: Timestamp, verdicts: &mut Verdicts) {
        let is_twice = |(at, take): (usize, &Take<'_>)| {
            batch[..at].iter().any(|before| before.counter.key == take.counter.key)
        };
        if batch.len() > 1 && batch.iter().enumerate().any(is_twice) {
            for take in batch {
                self.take_each(std::slice::from_ref(take), now, verdicts).await;
            }
            return;
        }
        let mut begun = Vec::with_capacity(batch.len());
        let mut others = Vec::new();
        for take in batch {
            let pays = match is_leased(take.counter) && take.payment.is_after() {
                true => self.leased.begin_pay(take.counter, take.cost, take.payment, now).await,
                false => None,
            };
            if pays.is_none() {
                // A counter that cannot be leased is counted exactly.
                let is_exact = is_leased(take.counter) && take.payment.is_after();
                let sharing = if is_exact { Sharing::Exact } else { take.counter.sharing };
                others.push(Take { counter: take.counter.shared(sharing), ..*take });
            }
            begun.push(pays);
        }
        let mut of_others = Verdicts::with_capacity(others.len());
        self.take_each(&others, now, &mut of_others).await;
        let mut of_others = of_others.into_iter();
        for begun in begun {
            verdicts.push(match begun {
                Some(begun) => self.leased.finish_pay(begun).await,
                None => of_others.next().unwrap_or_else(|| Err(self.exact.unexpected("too few answers"))),
            });
        }
    }

    /// Takes or reserves all of the batch or none of it.
    pub(crate) async fn all_or_none(
        &self,
        batch: &[Take<'_>],
        kind: BatchKind,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) {
        let mut begun = Vec::with_capacity(batch.len());
        let waits = self.begin_until_wait(batch, denied_hit(kind), now, &mut begun).is_some();
        let admitted = |it: &Option<Begun>| matches!(it, Some(Begun::Done(Ok(it))) if it.is_admitted());
        if !waits && begun.iter().all(admitted) {
            for begun in begun.into_iter().flatten() {
                verdicts.push(self.leased.result(begun).await);
            }
            return;
        }
        let own = OwnBatch::of(batch);
        let mixed = self.clone();
        let undoes = self.clone();
        let work = async move {
            let outcomes = mixed.charge_or_undo(&own.takes(), begun, kind, now).await;
            (own, outcomes)
        };
        let unheard = move |(own, outcomes): (OwnBatch, Vec<TakeOutcome>)| async move {
            // The caller has left, so the takes without an answer cannot be decided: this is not an
            // admission.
            if outcomes.iter().any(|outcome| outcome.result.is_err())
                && !outcomes.iter().any(TakeOutcome::denies)
            {
                undoes.undo(&own.takes(), &outcomes, now).await;
            }
        };
        let (_, outcomes) = self.exact.finisher().run(work, unheard).await;
        verdicts.extend(outcomes.into_iter().map(|outcome| outcome.result));
    }

    /// Reserves all of a batch without leased counters, or none of it. Permits held for a caller that has
    /// left are given back: one call may ask for many requests.
    pub(crate) async fn reserve_exact(
        &self,
        batch: &[Take<'_>],
        max_wait: Duration,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) {
        let own = OwnBatch::of(batch);
        let mixed = self.clone();
        let undoes = self.clone();
        let kind = BatchKind::Reserve { max_wait };
        let work = async move {
            let takes = own.takes();
            let mut verdicts = Verdicts::new();
            match &takes[..] {
                [take] => verdicts.push(mixed.exact.decide(take.counter, kind.of(take.cost), now).await),
                _ => mixed.exact.all_or_none(&takes, kind, now, &mut verdicts).await,
            }
            (own, verdicts)
        };
        let unheard = move |(own, verdicts): (OwnBatch, Verdicts)| async move {
            if verdicts.iter().flatten().all(Decision::is_admitted) {
                let takes = own.takes();
                let held = takes.iter().zip(&verdicts).filter(|(_, verdict)| verdict.is_ok());
                let held: Vec<_> = held.map(|(take, _)| *take).collect();
                undoes.give_each_back(&held, now).await.ok();
            }
        };
        let (_, mut decided) = self.exact.finisher().run(work, unheard).await;
        verdicts.append(&mut decided);
    }

    /// Gives back the charges of all takes at the same time; runs to its end, whether the caller waits or
    /// not.
    pub(crate) async fn give_all_back(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        let mixed = self.clone();
        let own = OwnBatch::of(batch);
        let work = async move { mixed.give_each_back(&own.takes(), now).await };
        self.exact.finisher().run(work, |_| ready(())).await
    }

    /// Charges a batch of which `begun` has begun; where one take denies, gives back the charges.
    async fn charge_or_undo(
        &self,
        batch: &[Take<'_>],
        mut begun: Vec<Option<Begun>>,
        kind: BatchKind,
        now: Timestamp,
    ) -> Vec<TakeOutcome> {
        self.begin_all(batch, denied_hit(kind), now, &mut begun).await;
        let exact = exact(batch, &begun);
        let mut others = Verdicts::with_capacity(exact.len());
        if !exact.is_empty() {
            self.exact.all_or_none(&exact, kind, now, &mut others).await;
        }
        let outcomes = self.outcomes(begun, others).await;
        if outcomes.iter().any(TakeOutcome::denies) {
            self.undo(batch, &outcomes, now).await;
        }
        outcomes
    }

    fn begin(&self, take: &Take<'_>, hit: DeniedHit, now: Timestamp) -> Option<Begun> {
        if is_leased(take.counter) {
            self.leased.begin(take.counter, LeasedTake { cost: take.cost, hit }, now)
        } else {
            None
        }
    }

    /// Begins those of the batch that have not begun, in order, and waits where it must.
    async fn begin_all(
        &self,
        batch: &[Take<'_>],
        hit: DeniedHit,
        now: Timestamp,
        begun: &mut Vec<Option<Begun>>,
    ) {
        while let Some(place) = self.begin_until_wait(batch, hit, now, begun) {
            if let Some(one) = begun[place].take() {
                begun[place] = Some(Begun::Done(self.leased.result(one).await));
            }
        }
    }

    /// Begins those of the batch that have not begun, in order. Takes of the same key are decided in turn,
    /// since a lease may answer before the ledger does. Stops at a key whose earlier take still waits, and
    /// returns the place of that take.
    fn begin_until_wait(
        &self,
        batch: &[Take<'_>],
        hit: DeniedHit,
        now: Timestamp,
        begun: &mut Vec<Option<Begun>>,
    ) -> Option<usize> {
        for take in &batch[begun.len()..] {
            let before =
                batch.iter().zip(&*begun).rposition(|(before, _)| before.counter.key == take.counter.key);
            let next = match before.and_then(|place| Some((place, begun[place].as_ref()?))) {
                Some((place, Begun::Waits(_))) => return Some(place),
                Some((_, Begun::Done(Ok(denial)))) if hit == DeniedHit::TakenBack => {
                    denied_after(denial, take).map(|denied| Begun::Done(Ok(denied)))
                }
                _ => None,
            };
            begun.push(next.or_else(|| self.begin(take, hit, now)));
        }
        None
    }

    /// Waits for all takes that have begun; `others` are the answers to the takes that are not leased.
    async fn outcomes(&self, begun: Vec<Option<Begun>>, others: Verdicts) -> Vec<TakeOutcome> {
        let mut others = others.into_iter();
        let mut outcomes = Vec::with_capacity(begun.len());
        for begun in begun {
            let is_leased = begun.is_some();
            let result = match begun {
                Some(begun) => self.leased.result(begun).await,
                None => {
                    let missing = || Err(self.exact.unexpected("too few answers"));
                    others.next().unwrap_or_else(missing)
                }
            };
            outcomes.push(TakeOutcome { result, is_leased });
        }
        outcomes
    }

    /// Gives back the charges. If the store has stopped answering, they stay: that denies too much and never
    /// admits too much.
    async fn undo(&self, batch: &[Take<'_>], outcomes: &[TakeOutcome], now: Timestamp) {
        // If a take that is not leased denies, none of them is charged.
        let exact_charged = !outcomes.iter().any(|outcome| !outcome.is_leased && outcome.denies());
        let is_charged =
            |outcome: &TakeOutcome| outcome.is_admitted() && (outcome.is_leased || exact_charged);
        let charged: Vec<_> = batch
            .iter()
            .zip(outcomes)
            .filter(|(_, outcome)| is_charged(outcome))
            .map(|(take, _)| *take)
            .collect();
        self.give_each_back(&charged, now).await.ok();
    }

    /// As [`Self::give_all_back`], for work that runs to its end already.
    async fn give_each_back(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        let mut result = Ok(());
        let mut asked = Vec::with_capacity(batch.len());
        for &Take { counter, cost, .. } in batch.iter().filter(|take| !take.cost.is_peek()) {
            let returned = match is_leased(counter) {
                true => self.leased.give_back(counter, cost, now).await,
                false => None,
            };
            match returned {
                Some(returned) => result = result.and(returned.map(drop)),
                None => asked.push(self.exact.begin(counter, KeyOperation::GiveBack(cost), now).await),
            }
        }
        for asked in asked {
            result = result.and(self.exact.answer(asked).await.map(drop));
        }
        result
    }
}

/// The treatment of a hit that a window denies, in a batch that is charged together.
const fn denied_hit(kind: BatchKind) -> DeniedHit {
    match kind {
        BatchKind::Take => DeniedHit::TakenBack,
        BatchKind::Reserve { .. } => DeniedHit::None,
    }
}

/// The answer to a take after a denial of its window in the same batch: that hit counts for as long as the
/// batch lasts.
fn denied_after(denial: &Decision, take: &Take<'_>) -> Option<Decision> {
    let is_window = matches!(take.counter.quota.algorithm(), Algorithm::FixedWindow { .. });
    if denial.is_admitted() || !is_window {
        return None;
    }
    let limit = denial.limit();
    let reset_ns = denial.reset_after().as_nanos() as u64;
    Some(if take.cost.permits() > limit {
        Decision::never(limit, 0, reset_ns)
    } else {
        Decision::deny(limit, 0, reset_ns, reset_ns)
    })
}

/// The takes that are not leased.
fn exact<'a>(batch: &[Take<'a>], begun: &[Option<Begun>]) -> Vec<Take<'a>> {
    batch.iter().zip(begun).filter(|(_, begun)| begun.is_none()).map(|(take, _)| *take).collect()
}
