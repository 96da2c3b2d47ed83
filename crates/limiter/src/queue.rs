//! Requests of rules with `on_limit: queue` wait for their turn instead of being denied.
//!
//! A request that such a rule denies joins the line of the rule's counter at this node. Waiting takes no
//! permit: the first of a line asks the store again at the instant at which its permits are there, and the
//! others wait for it. So a request that goes away has nothing to give back, a line costs the store one call
//! for each request and not more, and rules, outages and reloads mean what they mean for any other request.
//! A request that would wait too long is denied at once, as far as the line shows.
//!
//! All limits of a request that a rule with a queue matches are charged together or none is, whatever its
//! domain says. Not here: the lines themselves (`lines`), when permits come back (`pace`), timers (the
//! caller's).

pub(crate) mod events;
pub(crate) mod lines;
mod pace;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tollgate_core::{Algorithm, Cost, Decision, Outcome, RetryAfter, Timestamp};
use tollgate_observe::{Kind, LimitRef, Observer, Status};
use tollgate_policy::{Charge, Domain};
use tollgate_store::{Store, Take, Verdicts};

use self::events::End;
use self::lines::{Claim, Place, Ticket};
use self::pace::Pace;
use crate::answer::Answer;
use crate::limiter::Limiter;
use crate::plan::make_together;
use crate::request::{Request, RequestError};
use crate::scratch::{Item, Scratch};
use crate::settle;

/// What a caller that may wait for its turn brings: the time, a timer, and how long it waits at most.
///
/// The timer may be early or late; it decides nothing, except when the wait is over.
pub struct Patience<'a, F> {
    /// Reads the clock that the request's own time is from.
    pub now: &'a (dyn Fn() -> Timestamp + Sync),
    /// A future that is ready after a span, such as `tokio::time::sleep`.
    pub sleep: F,
    /// The longest wait, if the rules allow more; the time that the caller has left. Zero: none.
    pub longest: Duration,
    /// Ready, and its task woken, when the caller has left: the request waits no longer, and is denied.
    /// `None`: whoever drives the request drops it then.
    pub left: Option<&'a PollLeft<'a>>,
}

/// Whether the caller of a request that waits has left.
pub type PollLeft<'a> = dyn Fn(&mut Context<'_>) -> Poll<()> + Sync + 'a;

impl<F> std::fmt::Debug for Patience<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience").field("longest", &self.longest).finish_non_exhaustive()
    }
}

/// A request that waits.
struct Waiting<'l, T> {
    ticket: Ticket<'l>,
    deadline: Timestamp,
    /// Ready at the deadline, whatever becomes of the clock.
    time_up: Pin<Box<T>>,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    /// Its turn has come.
    Turn,
    TimeUp,
    /// The caller has left.
    Left,
    /// The process ends.
    Ended,
}

/// What a request wants of counters whose rules queue.
struct Claims {
    list: Vec<Claim>,
    /// The descriptors that they belong to.
    descriptors: Vec<u32>,
    /// The shortest that any of the rules says.
    max_wait: Duration,
}

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
        let (mut now, mut waiting, mut given_up) = (arrived, None::<Waiting<'_, T>>, None::<End>);
        loop {
            // Those that are in force now: they may have changed while it waited.
            let rules = self.rules.load();
            scratch.clear();
            let Some(domain) = self.plan(&rules, request, None, now, scratch)? else {
                return Ok(self.answer_of_no_domain(rules, request, now, scratch));
            };
            let Claims { mut list, descriptors, max_wait } = claims(domain, scratch);
            let charge = if list.is_empty() { domain.charge() } else { Charge::Together };
            if charge != domain.charge() {
                make_together(scratch);
            }
            if scratch.items.is_empty() {
                list.clear(); // a rule denies everything
            }
            // A request that gives up is denied until it would have its turn if it came again now.
            let again = given_up.and_then(|_| self.lines.again(&list, now));
            // Until its first turn it may have to wait for others; not if something else denies it.
            let mut others = if waiting.is_none() { self.lines.behind(&list, now) } else { None };
            if others.is_some() && given_up.is_none() && self.is_denied_elsewhere(domain, now, scratch).await
            {
                others = None;
            }
            let is_asked = others.is_none() && given_up.is_none();
            let (mut overall, mut due) = (Outcome::Deny, None);
            if is_asked {
                match scratch.items.is_empty() {
                    true => self.decide_unmatched(domain, request, scratch),
                    false => self.charge::<false>(domain, charge, now, scratch).await,
                }
                overall = settle::overall(&mut scratch.statuses);
                due = self.due(domain, overall, now, &scratch.statuses);
            }
            let may_wait = given_up.is_none() && (!is_asked || due.is_some());
            if let Some(patience) = patience.filter(|patience| may_wait && !patience.longest.is_zero()) {
                let waits = match &waiting {
                    Some(Waiting { ticket, deadline, .. }) => ticket.denied_until(due, *deadline),
                    None => {
                        let deadline = arrived + max_wait.min(patience.longest);
                        let first = descriptors.first().and_then(|at| request.descriptors.get(*at as usize));
                        let holder =
                            self.lines.holder(request.domain, first.and_then(|it| it.entries.first()));
                        let ticket = self.lines.join(holder, list, due, now, deadline).ok();
                        waiting = ticket.map(|ticket| Waiting::new(ticket, patience, deadline, now));
                        waiting.is_some()
                    }
                };
                if let Some(waiting) = waiting.as_mut().filter(|_| waits) {
                    drop(rules);
                    given_up = match waiting.next(patience, now).await {
                        Wake::Turn => None,
                        Wake::TimeUp => Some(End::TimedOut),
                        Wake::Left => Some(End::Left),
                        Wake::Ended => Some(End::Ended),
                    };
                    now = now.max((patience.now)());
                    continue;
                }
            }
            if !is_asked {
                self.deny_in_line(domain, &descriptors, again.or(others).unwrap_or(now), now, scratch).await;
                overall = settle::overall(&mut scratch.statuses);
            }
            let waited = now.since(arrived);
            if let Some(Waiting { ticket, .. }) = waiting.take() {
                let end = match (given_up, overall) {
                    (Some(end), _) => end,
                    (None, Outcome::Admit) => End::Passed,
                    (None, Outcome::Deny) if may_wait => End::TimedOut,
                    (None, Outcome::Deny) => End::Denied,
                };
                ticket.finish(end, waited);
            }
            let domain = domain.index();
            let mut answer = self.conclude(rules, domain, request, overall, now, scratch);
            answer.waited_ns = tollgate_core::nanos(waited);
            return Ok(answer);
        }
    }

    /// When a request that is denied would pass, if it is only denied by rules that queue and by counters
    /// that answered.
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
        let (looks, mut verdicts) = (looks.collect::<Vec<_>>(), Verdicts::new());
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

impl<'l, T: Future<Output = ()> + Send> Waiting<'l, T> {
    fn new<F>(ticket: Ticket<'l>, patience: &Patience<'_, F>, deadline: Timestamp, now: Timestamp) -> Self
    where
        F: Fn(Duration) -> T + Sync,
    {
        Self { ticket, deadline, time_up: Box::pin((patience.sleep)(deadline.since(now))) }
    }

    /// Waits for the turn.
    async fn next<F>(&mut self, patience: &Patience<'_, F>, mut now: Timestamp) -> Wake
    where
        F: Fn(Duration) -> T + Sync,
    {
        loop {
            let mut timer = match self.ticket.place() {
                Place::Ended => return Wake::Ended,
                Place::First(due) if due <= now => return Wake::Turn,
                Place::First(due) if due > self.deadline => return Wake::TimeUp,
                Place::First(due) => Some(Box::pin((patience.sleep)(due.since(now)))),
                Place::Behind => None,
            };
            let over = poll_fn(|cx| {
                if patience.left.is_some_and(|poll_left| poll_left(cx).is_ready()) {
                    return Poll::Ready(Some(Wake::Left));
                }
                let is_due = timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready());
                if is_due || self.ticket.poll_woken(cx).is_ready() {
                    return Poll::Ready(None);
                }
                self.time_up.as_mut().poll(cx).map(|()| Some(Wake::TimeUp))
            });
            if let Some(over) = over.await {
                return over;
            }
            now = now.max((patience.now)());
        }
    }
}

/// What the request of `scratch` wants of counters whose rules queue and may deny it; each counter once.
fn claims(domain: &Domain, scratch: &Scratch) -> Claims {
    let mut claims = Claims { list: Vec::new(), descriptors: Vec::new(), max_wait: Duration::MAX };
    for item in &scratch.items {
        let Some(max_wait) = max_wait(domain, item, &scratch.statuses).filter(|_| !item.cost.is_peek())
        else {
            continue;
        };
        claims.max_wait = claims.max_wait.min(max_wait);
        claims.descriptors.push(item.descriptor);
        let pace = Pace::of(item.quota(domain, &scratch.overrides));
        claims.list.push(Claim { key: item.key(&scratch.keys).into(), permits: item.cost.permits(), pace });
    }
    claims.list.sort_by(|a, b| a.key.cmp(&b.key));
    claims.list.dedup_by(|same, first| {
        let is_same = same.key == first.key;
        if is_same {
            first.permits = first.permits.saturating_add(same.permits);
        }
        is_same
    });
    claims
}

/// How long a request waits for the counter of `item`, if its rule may deny it and queues.
fn max_wait(domain: &Domain, item: &Item, statuses: &[Status]) -> Option<Duration> {
    let status = statuses.get(item.descriptor as usize)?;
    match item.limit {
        LimitRef::Rule(_) if !status.is_shadow_rule && !item.shadow => {
            domain.rules().get(item.rule as usize)?.max_wait
        }
        _ => None,
    }
}
