//! All or nothing, also where some counters live in this node's memory, and where the store gives no answer to some.
//!
//! What lives here is taken first, since it can be given back for certain. If it denies, the store is only looked at. If the store
//! denies, or a rule denies because the store is silent, what was taken is given back. Between taking and giving back another
//! request of this node may find permits missing that come back: it may be denied needlessly, never admitted wrongly. Giving back to a
//! store that fails meanwhile is tried once; what is not given back counts as used.
//!
//! Where a part of the store is silent, only the limits that lack an answer are decided by their rules; the others stay charged
//! unless any limit denies.
//!
//! A future that is dropped leaves nothing half charged: what memory has taken goes back with it ([`OwnCharge`]), what the store has,
//! the store settles ([`Store::take`]), and giving back goes on by itself ([`Store::give_all_back`]). Nothing is awaited between the
//! store's answer and that.
//! Not here: all or nothing within the store, which the store does by itself.

use tollgate_core::{Cost, Decision, Timestamp};
use tollgate_policy::OnStoreFailure;
use tollgate_store::{Charge, Key, Store, Take, Verdicts, at_once};

use crate::answer::Status;
use crate::limiter::Limiter;
use crate::observe::lanes::Seat;
use crate::outage::{Of, Own, own_take};
use crate::scratch::Item;
use crate::settle::Said;

impl<S: Store, L: Store> Limiter<S, L> {
    /// Takes all of `takes`, one for each of `items`, or none; true when they are charged. Pushes a verdict each; where one of
    /// them is an error, `settled` has what became of each, and else nothing.
    pub(crate) async fn take_together(
        &self,
        of: Of<'_>,
        takes: &[Take<'_>],
        items: &mut [Item],
        statuses: &[Status],
        (verdicts, settled): (&mut Verdicts, &mut Vec<Said>),
    ) -> bool {
        self.metrics.count_batch(Seat::here(), takes.len());
        if !takes.iter().any(|take| self.own(take.quota).is_some()) {
            self.store.take(takes, Charge::Together, of.now, verdicts).await;
            let is_charged = verdicts.iter().flatten().all(Decision::is_admitted);
            if verdicts.iter().all(Result::is_ok) {
                return is_charged;
            }
        } else {
            self.take_apart(of, takes, items, verdicts).await;
        }
        self.settle_together(of, takes, items, statuses, verdicts, settled).await
    }

    /// Asks this node's memory and the store; if one of them denies, neither is charged.
    #[cold]
    async fn take_apart(&self, of: Of<'_>, takes: &[Take<'_>], items: &mut [Item], verdicts: &mut Verdicts) {
        let is_own = |take: &Take<'_>| self.own(take.quota).is_some();
        let (own, mut shared): (Vec<_>, Vec<_>) = takes.iter().copied().partition(is_own);
        let (mut of_own, mut of_shared) = (Verdicts::new(), Verdicts::new());
        if let Some(local) = &self.local {
            local.take(&own, Charge::Together, of.now, &mut of_own).await;
        }
        if of_own.iter().flatten().all(Decision::is_admitted) {
            if !shared.is_empty() {
                let charge = OwnCharge::new(self.local.as_ref(), &own, of.now);
                self.store.take(&shared, Charge::Together, of.now, &mut of_shared).await;
                charge.stands();
            }
        } else {
            shared.iter_mut().for_each(|take| take.cost = Cost::PEEK);
            // What was only looked at is not told as if it had been taken.
            let looked_at = items.iter_mut().zip(takes).filter(|(_, take)| !is_own(take));
            looked_at.for_each(|(item, _)| item.soft = true);
            self.store.take(&shared, Charge::Each, of.now, &mut of_shared).await;
        }
        crate::outage::merge(takes.iter().map(is_own), of_own, of_shared, verdicts);
    }

    /// Decides what the store gave no answer to, and gives back what is charged if anything denies.
    #[cold]
    async fn settle_together(
        &self,
        of: Of<'_>,
        takes: &[Take<'_>],
        items: &mut [Item],
        statuses: &[Status],
        verdicts: &Verdicts,
        settled: &mut Vec<Said>,
    ) -> bool {
        let is_own = |at: usize| self.own(takes[at].quota).is_some();
        let denies = |own: bool| {
            let mut of_these = verdicts.iter().enumerate().filter(|(at, _)| is_own(*at) == own);
            of_these.any(|(_, verdict)| verdict.as_ref().is_ok_and(|decision| !decision.is_admitted()))
        };
        let (own_denies, shared_denies) = (denies(true), denies(false));
        let mut is_charged = !own_denies && !shared_denies;
        let shares = of.rules.shares(self.store.live_nodes());
        let mut instead: Vec<(usize, Own<'_>)> = Vec::new();
        for (at, verdict) in verdicts.iter().enumerate() {
            let item = &items[at];
            settled.push(match verdict {
                Ok(decision) => Said::Decided(*decision),
                Err(error) => {
                    let status = &statuses[item.descriptor as usize];
                    let way = self.way_without_the_store(of.domain, item, status, error, of.now);
                    match way {
                        OnStoreFailure::Local if self.local.is_some() => {
                            instead.push((at, own_take(&shares, of, item)));
                        }
                        OnStoreFailure::Deny => is_charged = false,
                        _ => {}
                    }
                    Said::Nothing(way)
                }
            });
        }
        if let (Some(local), false) = (&self.local, instead.is_empty()) {
            let cost = |at: usize| if is_charged { items[at].cost } else { Cost::PEEK };
            let takes: Vec<Take<'_>> = instead
                .iter()
                .map(|(at, own)| Take { key: Key(&own.key), quota: &own.quota, cost: cost(*at) })
                .collect();
            let charge = if is_charged { Charge::Together } else { Charge::Each };
            let mut answers = Verdicts::new();
            local.take(&takes, charge, of.now, &mut answers).await;
            for ((at, _), decision) in instead.iter().zip(answers.iter().flatten()) {
                settled[*at] = Said::Locally(*decision);
                items[*at].soft |= !is_charged;
            }
            // All or nothing: what denies here has given the others back by itself.
            is_charged &= answers.iter().flatten().all(Decision::is_admitted);
        }
        if !is_charged {
            self.give_all_back(of, takes, verdicts, (!own_denies, !own_denies && !shared_denies)).await;
        }
        is_charged
    }

    /// Gives back what this node's memory and the store have charged, where they have. Memory first, which is not waited for.
    async fn give_all_back(
        &self,
        of: Of<'_>,
        takes: &[Take<'_>],
        verdicts: &Verdicts,
        (own, shared): (bool, bool),
    ) {
        let charged =
            takes.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_ok()).map(|(take, _)| *take);
        let is_own = |take: &Take<'_>| self.own(take.quota).is_some();
        let (of_own, of_shared): (Vec<_>, Vec<_>) = charged.partition(is_own);
        if own {
            drop(OwnCharge::new(self.local.as_ref(), &of_own, of.now));
        }
        if shared
            && !of_shared.is_empty()
            && let Err(error) = self.store.give_all_back(&of_shared, of.now).await
        {
            self.note_that_the_store_fails(&error, of.now);
        }
    }
}

/// What this node's memory has charged while the store is asked: goes back when it is dropped, unless it stands.
pub(crate) struct OwnCharge<'a, L: Store> {
    local: Option<&'a L>,
    takes: &'a [Take<'a>],
    now: Timestamp,
}

impl<'a, L: Store> OwnCharge<'a, L> {
    pub(crate) const fn new(local: Option<&'a L>, takes: &'a [Take<'a>], now: Timestamp) -> Self {
        Self { local, takes, now }
    }

    /// What becomes of it is decided elsewhere.
    pub(crate) fn stands(mut self) {
        self.local = None;
    }
}

impl<L: Store> Drop for OwnCharge<'_, L> {
    fn drop(&mut self) {
        if let Some(local) = self.local {
            // Memory answers at once.
            let back = |take: &Take<'_>| at_once(local.give_back(take.key, take.quota, take.cost, self.now));
            self.takes.iter().for_each(|take| drop(back(take)));
        }
    }
}
