//! Asks the store for a request and those behind it that want the same; ahead of the turn, if permits come
//! back one by one.
//!
//! A denial ahead of the turn says nothing about the turn itself. So only permits that are granted count
//! then, and everything else is decided at the turn. Not here: the order of requests (`lines`).

use std::time::Duration;

use tollgate_core::{Cost, Decision, RetryAfter, Timestamp};
use tollgate_observe::Observer;
use tollgate_policy::Domain;
use tollgate_store::{Store, Take, Verdicts};

use super::alike::Alike;
use super::claim::{self, Claim, earlier};
use super::grant::{Act, Grant, Granted};
use super::pace::Pace;
use super::ticket::{Follower, Ticket};
use crate::charge::Batch;
use crate::limiter::Limiter;
use crate::outage::Operation;
use crate::scratch::{Item, Scratch};
use crate::settle::ItemResult;

/// Most requests that one call to the store asks for.
const MOST_TOGETHER: usize = 64;

/// A request that is to be asked for.
pub(super) struct Asking<'a, 'l> {
    pub(super) alike: &'a Alike,
    pub(super) claims: &'a [Claim],
    /// Its ticket, if it waits already.
    pub(super) ticket: Option<&'a Ticket<'l>>,
    pub(super) deadline: Timestamp,
    /// Its turn has not come yet.
    pub(super) is_early: bool,
    pub(super) now: Timestamp,
}

/// Answer of the store.
pub(super) enum Answered {
    /// It has its permits, from an instant on.
    Granted(Grant),
    /// The results of its hard items as of now, and when it was answered.
    Decided { results: Vec<ItemResult>, is_charged: bool, at: Timestamp },
    /// It does not have its permits, and that says nothing about its turn.
    Unknown,
}

impl<S: Store, O: Observer> Limiter<S, O> {
    /// Asks for the request of `scratch` and those behind it that are alike.
    pub(super) async fn ask_ahead(
        &self,
        domain: &Domain,
        asking: Asking<'_, '_>,
        clock: &(dyn Fn() -> Timestamp + Sync),
        scratch: &mut Scratch,
    ) -> Answered {
        let Asking { alike, claims, ticket, deadline, is_early, now } = asking;
        let Scratch { items, keys, overrides, statuses, verdicts, .. } = scratch;
        let hard = items.partition_point(|item| !item.soft);
        let mut takes: Vec<Take<'_>> = items.iter().map(|item| item.take(domain, overrides, keys)).collect();
        let ahead = if alike.is_promised { self.lines.ahead() } else { Duration::ZERO };
        let until = deadline.min(now + ahead);
        let (mut behind, until) = match ticket {
            Some(ticket) => ticket.followers(until, MOST_TOGETHER - 1),
            None => (Vec::new(), until),
        };
        let max_wait = until.since(now);
        let all = self.reserve_for_all(&takes[..hard], &mut behind, max_wait, now, verdicts).await;
        let at = self.answered_at(now, clock);
        self.lines.note_trip(at.since(now), at);
        let queues = |item: &Item| claim::max_wait(domain, item, statuses).is_some();
        let is_queued: Vec<bool> = items[..hard].iter().map(queues).collect();
        if all {
            let grants = grants(&items[..hard], keys, claims, verdicts, at);
            // If a rule without a queue would deny a request at its turn, the request does not wait for it.
            let waits = |results: &[ItemResult], queued: bool| {
                let delays = results.iter().zip(&is_queued).filter(|(_, is)| **is == queued);
                delays.map(|(result, _)| delay(result)).max().unwrap_or_default()
            };
            let fit = grants.iter().take_while(|it| waits(&it.results, false) <= waits(&it.results, true));
            let fit = fit.count();
            if fit < grants.len() {
                let unfit: Vec<_> = takes_of_all(&takes[..hard], &behind).split_off(fit * hard);
                self.give_all_back(&unfit, now).await;
            }
            return match fit {
                0 => Answered::Unknown,
                _ => self.grant(grants, fit, &takes[..hard], ticket, alike, behind, now).await,
            };
        }
        if is_early && !verdicts.iter().all(Result::is_ok) {
            return Answered::Unknown;
        }
        let operation = Operation::Reserve { max_wait };
        let charged = {
            let batch = Batch { domain, items, takes: &mut takes, statuses, verdicts, now };
            self.settle_hard(batch, operation).await
        };
        let mut results: Vec<_> =
            verdicts.iter().enumerate().map(|(index, verdict)| charged.result(index, verdict)).collect();
        for (result, item) in results.iter_mut().zip(items.iter()) {
            if Pace::of(item.quota(domain, overrides)).is_steady() {
                wait_for_all(result, max_wait);
            }
        }
        let is_by_share = |result: &ItemResult| matches!(result, ItemResult::ByShare { .. });
        let waits = results.iter().map(delay).max().filter(|delay| !delay.is_zero());
        if let (true, true, Some(delay)) = (charged.is_charged, results.iter().any(is_by_share), waits) {
            let acts = vec![None; claims.len()];
            let grant = Grant { act_at: at + delay, granted_at: at, is_of_store: false, results, acts };
            return self.grant(vec![grant], 1, &[], ticket, alike, Vec::new(), now).await;
        }
        Answered::Decided { results, is_charged: charged.is_charged, at }
    }

    /// Reserves the permits of the request and those `behind` it: all of them, or those of the first
    /// requests. False if not even the request gets anything; `verdicts` are then its own, and `behind` is
    /// empty.
    async fn reserve_for_all(
        &self,
        takes: &[Take<'_>],
        behind: &mut Vec<Follower>,
        max_wait: Duration,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) -> bool {
        loop {
            let batch = takes_of_all(takes, behind);
            verdicts.clear();
            self.store.reserve(&batch, max_wait, now, verdicts).await;
            self.observer.store_called(batch.len());
            let is_admitted =
                |verdict: &Result<Decision, _>| verdict.as_ref().is_ok_and(Decision::is_admitted);
            let admitted = verdicts.iter().take_while(|it| is_admitted(it)).count();
            if admitted == batch.len() {
                self.note_store_answers(verdicts);
                return true;
            }
            let fit = admitted / takes.len().max(1);
            if verdicts.iter().any(Result::is_err) {
                // Answered takes stay charged if none of them is denied; the requests behind ask for
                // themselves.
                if verdicts.iter().flatten().all(Decision::is_admitted) {
                    let answered = batch.iter().zip(&*verdicts).skip(takes.len());
                    let answered = answered.filter(|(_, verdict)| verdict.is_ok()).map(|(take, _)| *take);
                    let answered: Vec<_> = answered.collect();
                    self.give_all_back(&answered, now).await;
                }
                behind.clear();
            } else if fit > 0 {
                behind.truncate(fit - 1);
                continue;
            }
            behind.clear();
            verdicts.truncate(takes.len());
            return false;
        }
    }

    /// Gives the first `fit` of `grants` to their requests; returns that of the first.
    #[allow(clippy::too_many_arguments, reason = "each is of another kind")]
    async fn grant(
        &self,
        mut grants: Vec<Grant>,
        fit: usize,
        takes: &[Take<'_>],
        ticket: Option<&Ticket<'_>>,
        alike: &Alike,
        behind: Vec<Follower>,
        now: Timestamp,
    ) -> Answered {
        let first = grants[0].clone();
        if let Some(ticket) = ticket {
            grants.truncate(fit);
            let own = Follower { id: ticket.id(), costs: alike.costs.clone(), permits: ticket.permits() };
            let requests: Vec<_> = std::iter::once(own).chain(behind).collect();
            let all = requests.iter().zip(grants);
            let all = all.map(|(it, grant)| Granted { id: it.id, permits: it.permits.clone(), grant });
            let free = ticket.grant(all.collect());
            let free = free.iter().filter_map(|index| requests.get(*index));
            let free: Vec<_> = free.flat_map(|it| takes_at(takes, &it.costs)).collect();
            self.give_all_back(&free, now).await;
        }
        Answered::Granted(first)
    }

    /// Gives back the permits that `takes` have charged.
    pub(super) async fn give_all_back(&self, takes: &[Take<'_>], now: Timestamp) {
        if !takes.is_empty()
            && let Err(error) = self.store.give_all_back(takes, now).await
        {
            self.note_store_error(&error, now);
        }
    }
}

/// `takes` at these costs.
fn takes_at<'a>(takes: &[Take<'a>], costs: &[Cost]) -> impl Iterator<Item = Take<'a>> {
    takes.iter().zip(costs).map(|(take, cost)| Take { cost: *cost, ..*take })
}

/// The takes of a request, and of those behind it.
fn takes_of_all<'a>(takes: &[Take<'a>], behind: &[Follower]) -> Vec<Take<'a>> {
    let behind = behind.iter().flat_map(|follower| takes_at(takes, &follower.costs));
    takes.iter().copied().chain(behind).collect()
}

/// The grant of each request at `at`; `verdicts` has all hard items of each.
fn grants(items: &[Item], keys: &[u8], claims: &[Claim], verdicts: &Verdicts, at: Timestamp) -> Vec<Grant> {
    let decisions: Vec<Decision> = verdicts.iter().flatten().copied().collect();
    let of_one = |decisions: &[Decision]| {
        let act = |claim: &Claim| {
            let of_claim = items.iter().zip(decisions).filter(|(item, _)| item.key(keys) == &*claim.key);
            let last = of_claim.map(|(_, decision)| decision).next_back()?;
            let act_at = at + last.delay();
            let is_later = last.delay().is_zero();
            let there = claim.pace.steady_ns(last.remaining().saturating_add(1));
            let base = if is_later { earlier(at, there) } else { act_at };
            claim.pace.is_steady().then_some(Act { at: act_at, base, is_later })
        };
        let delay = decisions.iter().map(Decision::delay).max().unwrap_or_default();
        Grant {
            act_at: at + delay,
            granted_at: at,
            is_of_store: true,
            results: decisions.iter().map(|decision| ItemResult::Decided(*decision)).collect(),
            acts: claims.iter().map(act).collect(),
        }
    };
    decisions.chunks(items.len().max(1)).map(of_one).collect()
}

pub(super) fn decision(result: &ItemResult) -> Option<&Decision> {
    match result {
        ItemResult::Decided(decision) | ItemResult::ByShare { decision, .. } => Some(decision),
        ItemResult::Unanswered(_) => None,
    }
}

/// Time until its permits may be used.
fn delay(result: &ItemResult) -> Duration {
    decision(result).map_or(Duration::ZERO, Decision::delay)
}

/// Adds `max_wait` to the wait of a denied reservation, which ends when its permits are `max_wait` away.
fn wait_for_all(result: &mut ItemResult, max_wait: Duration) {
    if let ItemResult::Decided(decision) | ItemResult::ByShare { decision, .. } = result
        && let RetryAfter::After(span) = decision.retry_after()
    {
        let retry_ns = tollgate_core::nanos(span.saturating_add(max_wait));
        let reset_ns = tollgate_core::nanos(decision.reset_after());
        *decision = Decision::deny(decision.limit(), decision.remaining(), retry_ns, reset_ns);
    }
}

/// The results of a grant, as they are after `waited`, when its permits are used.
pub(super) fn used_after(results: &[ItemResult], waited: Duration) -> Vec<ItemResult> {
    let used = |decision: &Decision| {
        let reset_ns = tollgate_core::nanos(decision.reset_after().saturating_sub(waited));
        Decision::admit(decision.limit(), decision.remaining(), reset_ns)
    };
    let used = |result: &ItemResult| match result {
        ItemResult::Decided(decision) => ItemResult::Decided(used(decision)),
        ItemResult::ByShare { decision, nodes } => {
            ItemResult::ByShare { decision: used(decision), nodes: *nodes }
        }
        ItemResult::Unanswered(way) => ItemResult::Unanswered(*way),
    };
    results.iter().map(used).collect()
}
