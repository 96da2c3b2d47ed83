//! Requests of rules with `on_limit: queue` wait for their turn instead of being denied.
//!
//! A request that such a rule denies joins the line of the rule's counter at this node. The first of a line
//! asks the store, and the others wait for it. So a line costs the store one call for each request at most,
//! and rules, outages and reloads have the same effect as for any other request. A request that would wait
//! too long is denied at once, as far as the line shows.
//!
//! Waiting takes no permit until [shortly](lines::AHEAD) before the turn. Then a bucket promises the permits
//! for the turn: timers are late, and permits that flow into a full bucket meanwhile would be lost. Any other
//! counter is asked at the turn.
//!
//! If a rule with a queue matches, all limits of the request are charged or none, whatever its domain says.
//! Not here: the lines themselves (`lines`), what is granted ahead (`ahead`, `grants`), when permits come
//! back (`pace`), timers (the caller's).

mod ahead;
mod alike;
mod asked;
mod claim;
pub(crate) mod events;
mod grant;
mod grants;
pub(crate) mod lines;
mod longest;
mod pace;
mod patience;
mod queued;
mod ticket;
mod waiting;

use std::future::Future;
use std::time::Duration;

use arc_swap::Guard;
use tollgate_core::{Algorithm, Cost, Decision, Outcome, RetryAfter, Timestamp};
use tollgate_observe::{Kind, Observer, Status};
use tollgate_policy::{Charge, Domain};
use tollgate_store::{Store, Take, Verdicts};

use self::ahead::{Answered, Asking, used_after};
use self::asked::{Asked, Paid};
use self::claim::{Claim, max_wait};
use self::grant::Grant;
pub use self::patience::{Patience, PollLeft};
use self::queued::{NextStep, Queued};
use self::waiting::Planned;
use crate::answer::Answer;
use crate::charge::{Batch, Charged};
use crate::limiter::Limiter;
use crate::outage::Operation;
use crate::plan::Hits;
use crate::request::{Request, RequestError};
use crate::scratch::{Item, Scratch};
use crate::settle::{self, ItemResult};

impl<S: Store, O: Observer> Limiter<S, O> {
    /// Decides a request that a rule with a queue matches; at once if there is no `patience`.
    #[cold]
    pub(crate) async fn queue<'s, F, T>(
        &self,
        request: &Request<'_>,
        arrived: Timestamp,
        patience: Option<&Patience<'_, F>>,
        scratch: &'s mut Scratch,
    ) -> Result<Answer<'s, O>, RequestError>
    where
        F: Fn(Duration) -> T + Sync,
        T: Future<Output = ()> + Send,
    {
        // A server in shadow mode has no request wait.
        let patience = patience.filter(|it| !it.longest.is_zero() && !self.settings.shadow_mode);
        let mut queued = Queued::new(self, request, arrived, patience);
        loop {
            // Those that are in force now: they may have changed while it waited.
            let rules = self.rules.load();
            let now = queued.now;
            scratch.clear();
            let Some(domain) = self.plan(&rules, request, Hits::Asked, now, scratch)? else {
                return Ok(self.answer_of_no_domain(rules, request, now, scratch));
            };
            if scratch.items.iter().any(|item| item.payment.is_after())
                && let Some(overall) = self.pay_before_queue(domain, now, &mut queued.paid, scratch).await
            {
                let domain = domain.index();
                return Ok(self.conclude(rules, domain, request, overall, now, scratch));
            }
            match queued.step(&rules, domain, scratch).await {
                NextStep::Plan => {}
                NextStep::Wait(waiting) => {
                    drop(rules);
                    if let Some((planned, grant)) = queued.wait(waiting).await {
                        let waited = queued.waited();
                        let now = queued.now;
                        return Ok(self.pass(request, planned, &grant, waited, now, scratch).await);
                    }
                }
                NextStep::Pass(planned, grant) => {
                    return Ok(self.pass(request, planned, &grant, Duration::ZERO, now, scratch).await);
                }
                NextStep::Answer(overall) => {
                    let domain = domain.index();
                    let mut answer = self.conclude(rules, domain, request, overall, now, scratch);
                    answer.waited_ns = tollgate_core::nanos(queued.waited());
                    return Ok(answer);
                }
            }
        }
    }

    /// Asks for the request of `scratch`, also ahead of its turn.
    async fn ask<F>(
        &self,
        domain: &Domain,
        asking: Asking<'_, '_>,
        patience: &Patience<'_, F>,
        scratch: &mut Scratch,
    ) -> Asked {
        let Asking { claims, deadline, is_early, now, .. } = asking;
        match self.ask_ahead(domain, asking, patience.now, scratch).await {
            Answered::Granted(grant) => Asked::Granted(grant),
            Answered::Unknown if is_early => Asked::Unknown,
            Answered::Unknown => {
                scratch.verdicts.clear();
                self.charge::<false>(domain, Charge::Together, now, scratch).await;
                let at = self.answered_at(now, patience.now);
                self.asked(domain, claims, Some(deadline), at, scratch)
            }
            Answered::Decided { results, is_charged, at } => {
                let dues = dues(claims, scratch, &results, at);
                bind_hard(&results, is_charged, scratch);
                let overall = settle::overall(&mut scratch.statuses);
                match self.due(domain, overall, at, &scratch.statuses) {
                    Some(due) if due <= deadline => Asked::Until(dues),
                    None if is_early => Asked::Unknown,
                    due => {
                        let overall = self.bind_soft(domain, is_charged, now, scratch).await;
                        Asked::Decided { overall, is_late: due.is_some() }
                    }
                }
            }
        }
    }

    /// The instant of the answer to a call to the store that was made at `now`. Waits count from it, since
    /// the store decided between the two.
    fn answered_at(&self, now: Timestamp, clock: &(dyn Fn() -> Timestamp + Sync)) -> Timestamp {
        if self.store.is_remote() { now.max(clock()) } else { now }
    }

    /// Decides by the statuses of `scratch`, as of `at`, about a request that may wait until `deadline`.
    fn asked(
        &self,
        domain: &Domain,
        claims: &[Claim],
        deadline: Option<Timestamp>,
        at: Timestamp,
        scratch: &mut Scratch,
    ) -> Asked {
        let overall = settle::overall(&mut scratch.statuses);
        let due = deadline.and_then(|_| self.due(domain, overall, at, &scratch.statuses));
        match due {
            Some(due) if Some(due) <= deadline => Asked::Until(vec![due; claims.len()]),
            due => Asked::Decided { overall, is_late: due.is_some() },
        }
    }

    /// Admits a request with the permits that it was granted.
    async fn pass<'s>(
        &self,
        request: &Request<'_>,
        planned: Planned<O>,
        grant: &Grant,
        waited: Duration,
        now: Timestamp,
        scratch: &'s mut Scratch,
    ) -> Answer<'s, O> {
        let Planned { rules, domain: index, statuses, items, keys } = planned;
        (scratch.statuses, scratch.items, scratch.keys) = (statuses, items, keys);
        let results = used_after(&grant.results, now.since(grant.granted_at));
        scratch.verdicts.clear();
        scratch.verdicts.extend(results.iter().map(|_| Ok(Decision::admit(0, 0, 0))));
        bind_hard(&results, true, scratch);
        let mut overall = settle::overall(&mut scratch.statuses);
        if let Some(domain) = rules.policy().domains().get(index) {
            overall = self.bind_soft(domain, true, now, scratch).await;
        }
        let rules = Guard::from_inner(rules);
        let mut answer = self.conclude(rules, index, request, overall, now, scratch);
        answer.waited_ns = tollgate_core::nanos(waited);
        answer
    }

    /// Charges the soft items of a request whose hard ones are bound, if these were `charged`.
    async fn bind_soft(
        &self,
        domain: &Domain,
        is_charged: bool,
        now: Timestamp,
        scratch: &mut Scratch,
    ) -> Outcome {
        let Scratch { items, keys, overrides, verdicts, statuses, .. } = scratch;
        let hard = verdicts.len();
        if hard < items.len() {
            let mut takes: Vec<_> = items.iter().map(|item| item.take(domain, overrides, keys)).collect();
            let batch = Batch { domain, items, takes: &mut takes, statuses, verdicts, now };
            let charged = Charged::answered(is_charged);
            let charged = self.charge_soft(batch, Operation::Take, charged).await;
            for (at, (item, verdict)) in items.iter().zip(verdicts.iter()).enumerate().skip(hard) {
                let status = &mut statuses[item.descriptor as usize];
                settle::bind(status, item, charged.result(at, verdict), charged.is_charged);
            }
        }
        settle::overall(&mut scratch.statuses)
    }

    /// When a denied request would pass, if only rules that queue and counters that answered deny it.
    fn due(
        &self,
        domain: &Domain,
        overall: Outcome,
        now: Timestamp,
        statuses: &[Status],
    ) -> Option<Timestamp> {
        if overall == Outcome::Admit || self.settings.shadow_mode {
            return None;
        }
        let denies = |status: &&Status| status.outcome == Outcome::Deny;
        // Soft limits deny it only if no hard one does.
        let is_soft = !statuses.iter().filter(denies).any(|status| !status.is_quota);
        let mut due = now;
        for status in statuses.iter().filter(denies).filter(|status| status.is_quota == is_soft) {
            let rule = status.rule.and_then(|rule| domain.rules().get(rule as usize))?;
            rule.max_wait.filter(|_| status.kind == Kind::Limited)?;
            let RetryAfter::After(span) = status.decision?.retry_after() else { return None };
            due = due.max(now + span);
        }
        Some(due)
    }

    /// Charges the hits that the request of `scratch` has used already, once and before it waits; `Some` if
    /// that denies it. All other items stay in `scratch`.
    async fn pay_before_queue(
        &self,
        domain: &Domain,
        now: Timestamp,
        paid: &mut Option<Paid>,
        scratch: &mut Scratch,
    ) -> Option<Outcome> {
        let others: Vec<Item> = scratch.items.extract_if(.., |item| !item.payment.is_after()).collect();
        if let Some(paid) = paid {
            for index in scratch.items.iter().map(|item| item.descriptor as usize) {
                if let (Some(new), Some(old)) = (scratch.statuses.get_mut(index), paid.statuses.get(index))
                    && (new.kind, new.rule) == (old.kind, old.rule)
                {
                    *new = *old;
                }
            }
            scratch.settled.extend_from_slice(&paid.settled);
            scratch.items = others;
            return None;
        }
        self.charge::<false>(domain, Charge::Each, now, scratch).await;
        scratch.verdicts.clear();
        scratch.items = others;
        let overall = settle::overall(&mut scratch.statuses);
        *paid = Some(Paid { statuses: scratch.statuses.clone(), settled: scratch.settled.clone() });
        if overall == Outcome::Admit {
            return None;
        }
        scratch.items.iter_mut().for_each(|item| item.cost = Cost::PEEK);
        if !scratch.items.is_empty() {
            self.charge::<false>(domain, Charge::Each, now, scratch).await;
        }
        Some(settle::overall(&mut scratch.statuses))
    }

    /// Whether a limit of a rule without a queue has too few permits for the request of `scratch`. Takes
    /// nothing.
    async fn is_denied_elsewhere(&self, domain: &Domain, now: Timestamp, scratch: &Scratch) -> bool {
        let Scratch { items, keys, overrides, statuses, .. } = scratch;
        let denies = |item: &&Item| {
            let has_overdraft = matches!(
                item.quota(domain, overrides).algorithm(),
                Algorithm::TokenBucket { overdraft: 1.., .. } // admits what is not there
            );
            !item.soft && !has_overdraft && max_wait(domain, item, statuses).is_none()
        };
        let others: Vec<&Item> = items.iter().filter(denies).collect();
        if others.is_empty() {
            return false;
        }
        let looks = others.iter().map(|item| Take { cost: Cost::PEEK, ..item.take(domain, overrides, keys) });
        let looks = looks.collect::<Vec<_>>();
        let mut verdicts = Verdicts::new();
        self.store.take(&looks, tollgate_store::Charge::Each, now, &mut verdicts).await;
        self.observer.store_called(looks.len());
        let lacks = |(item, verdict): (&&Item, &Result<Decision, _>)| {
            verdict.as_ref().is_ok_and(|decision| decision.remaining() < item.cost.permits())
        };
        others.iter().zip(&verdicts).any(lacks)
    }

    /// Denies `descriptors` until `turn`, since others come before the request or its time is up. Takes
    /// nothing, and shows what is left. Where the store does not answer, their rules decide.
    async fn deny_in_line(
        &self,
        domain: &Domain,
        descriptors: &[u32],
        turn: Timestamp,
        now: Timestamp,
        scratch: &mut Scratch,
    ) {
        scratch.items.iter_mut().for_each(|item| item.cost = Cost::PEEK);
        self.charge::<false>(domain, Charge::Each, now, scratch).await;
        let retry_ns = tollgate_core::nanos(turn.since(now));
        for (index, status) in scratch.statuses.iter_mut().enumerate() {
            status.is_charged = false;
            if descriptors.contains(&(index as u32))
                && let Some(decision) = status.decision
            {
                let retry_ns = match decision.retry_after() {
                    RetryAfter::After(span) => retry_ns.max(tollgate_core::nanos(span)),
                    _ => retry_ns,
                };
                let reset_ns = tollgate_core::nanos(decision.reset_after());
                status.decision = Some(Decision::deny(decision.limit(), 0, retry_ns, reset_ns));
                (status.outcome, status.remaining) = (Outcome::Deny, 0);
            }
        }
    }
}

/// Lets the results of the hard items of `scratch` bind their descriptors.
fn bind_hard(results: &[ItemResult], is_charged: bool, scratch: &mut Scratch) {
    for (item, result) in scratch.items.iter().zip(results) {
        settle::bind(&mut scratch.statuses[item.descriptor as usize], item, *result, is_charged);
    }
}

/// The instants at which each of `claims` would be there, by the results of the hard items.
fn dues(claims: &[Claim], scratch: &Scratch, results: &[ItemResult], at: Timestamp) -> Vec<Timestamp> {
    let wait = |result: &ItemResult| match ahead::decision(result).map(Decision::retry_after) {
        Some(RetryAfter::After(span)) => span,
        _ => Duration::ZERO,
    };
    let due = |claim: &Claim| {
        let of_claim =
            scratch.items.iter().zip(results).filter(|(item, _)| item.key(&scratch.keys) == &*claim.key);
        at + of_claim.map(|(_, result)| wait(result)).max().unwrap_or_default()
    };
    claims.iter().map(due).collect()
}
