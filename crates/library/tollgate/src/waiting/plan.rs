//! Waiting for windows, which promise no permits ahead of time: a line of waiters whose permits are taken
//! when their turns come, each as of its turn, also where it is served a little later.
//!
//! Each line has a plan: the state after the turns of all its waiters, so that the next one knows its turn
//! without a look at those before it. When a waiter leaves, the turns behind it may come earlier than
//! planned, never later. The plan is made anew only for a caller that would be too late by the old one, and
//! for a reservation, which states its turn. Calls that take or change permits meanwhile serve the line
//! first.

use std::time::Duration;

use tollgate_core::{Algorithm, Clock, Cost, Decision, Quota, RetryAfter, State, Timestamp, nanos};

use super::queue::{First, LinePlan, Stands};
use super::shared::Locked;
use super::waiter::{Leaving, Taken, WaiterKind};
use crate::acquire_error::AcquireError;
use crate::engine::Engine;
use crate::in_force::{InForce, owes_ahead};
use crate::states::States;

/// Takes `cost` permits of a window if they fit; otherwise nothing changes.
fn take_or_leave(quota: &Quota, state: &mut State, cost: u64, at: Timestamp) -> Decision {
    match quota.algorithm() {
        Algorithm::FixedWindow { .. } => quota.reserve(state, Cost(cost), Duration::ZERO, at),
        _ => quota.take(state, Cost(cost), at), // without a copy of what may be a long log
    }
}

/// The turn of a planned waiter.
enum Turn {
    At(Timestamp),
    /// The turn is too late for the waiter. Nothing is planned.
    TooLate(Timestamp),
    Never,
}

/// Result of joining a planned line.
pub(crate) enum Planned {
    Now(Taken),
    Later(Timestamp, Box<LinePlan>),
}

/// A caller that would join a line.
#[derive(Clone, Copy)]
pub(crate) struct Newcomer<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) n: u64,
    /// Time for which its key is blocked.
    pub(crate) blocked: Duration,
    pub(crate) max_wait: Duration,
    pub(crate) kind: WaiterKind,
}

impl LinePlan {
    /// Plans `cost` permits for the first instant from `from` on at which they are there, if that is not
    /// later than `latest`.
    fn add(&mut self, quota: &Quota, cost: u64, from: Timestamp, latest: Timestamp) -> Turn {
        let mut at = from.max(self.at);
        loop {
            let mut copy;
            let state = if at <= latest {
                &mut self.state
            } else {
                copy = self.state.clone();
                &mut copy
            };
            match take_or_leave(quota, state, cost, at).retry_after() {
                RetryAfter::Now if at <= latest => {
                    self.at = at;
                    return Turn::At(at);
                }
                RetryAfter::After(wait) if at < Timestamp::NEVER => at = at + wait,
                RetryAfter::Never => return Turn::Never,
                RetryAfter::Now | RetryAfter::After(_) => return Turn::TooLate(at),
            }
        }
    }
}

impl<S: States, C: Clock> Engine<S, C> {
    /// Takes permits of a window, or plans them for the first instant after all waiters of its key.
    pub(crate) fn plan(
        &self,
        queue: &mut Locked<'_>,
        in_force: &InForce<S>,
        Newcomer { key, n, blocked, max_wait, kind }: Newcomer<'_>,
        now: Timestamp,
    ) -> Result<Planned, AcquireError> {
        let has_room = queue.waiting() < self.waiting.most();
        let mut plan = match queue.take_plan(key) {
            Some(plan) => plan,
            None => {
                if blocked.is_zero() {
                    let take = |state: &mut State| take_or_leave(in_force.for_lines(), state, n, now);
                    let decision = in_force.update(key, now, take);
                    if decision.is_admitted() {
                        return Ok(Planned::Now(Taken::by(&in_force.quota, &decision, now)));
                    }
                }
                self.empty_plan(in_force, key, now)
            }
        };
        let from = now + blocked;
        let latest = if has_room { now + max_wait } else { Timestamp::ZERO };
        // A reservation states its turn, so it must not be later than the actual turn.
        if kind == WaiterKind::Held && has_room && !plan.is_exact {
            plan = self.plan_anew(queue, in_force, key, from, now);
        }
        let mut turn = plan.add(in_force.for_lines(), n, from, latest);
        if matches!(turn, Turn::TooLate(_)) && has_room && !plan.is_exact {
            plan = self.plan_anew(queue, in_force, key, from, now);
            turn = plan.add(in_force.for_lines(), n, from, latest);
        }
        let error = match turn {
            Turn::At(at) => return Ok(Planned::Later(at, plan)),
            Turn::TooLate(at) if has_room => AcquireError::TooLong { retry_after: at.since(latest) },
            Turn::TooLate(_) => AcquireError::QueueFull { waiting: queue.waiting() },
            Turn::Never => AcquireError::NeverFits { burst: in_force.quota.burst() },
        };
        queue.set_plan(key, plan);
        Err(error)
    }

    /// The plan of the line of `key`, recalculated.
    fn plan_anew(
        &self,
        queue: &Locked<'_>,
        in_force: &InForce<S>,
        key: &[u8],
        from: Timestamp,
        now: Timestamp,
    ) -> Box<LinePlan> {
        let mut plan = self.empty_plan(in_force, key, now);
        for Stands { cost, .. } in queue.line_in_order(key) {
            let _at = plan.add(in_force.for_lines(), cost, from, Timestamp::NEVER);
        }
        plan
    }

    /// The plan of an empty line.
    fn empty_plan(&self, in_force: &InForce<S>, key: &[u8], now: Timestamp) -> Box<LinePlan> {
        let state = in_force.get(key);
        Box::new(LinePlan { state, at: now, is_exact: true })
    }

    /// Serves the first waiter of a planned line if its permits are there by now; otherwise calculates its
    /// turn.
    pub(crate) fn serve_planned(
        &self,
        queue: &mut Locked<'_>,
        in_force: &InForce<S>,
        first: &First,
        now: Timestamp,
    ) {
        let patient = in_force.for_lines();
        // As of its turn, even if it is served late: otherwise the lateness would add up from waiter to
        // waiter.
        let at = self.blocked_until(&first.key).map_or(first.turn_at, |until| first.turn_at.max(until));
        if at > now {
            self.set_turn(queue, first.line, at);
            return;
        }
        let take = |state: &mut State| take_or_leave(patient, state, first.cost, at);
        let decision = in_force.update(&first.key, now, take);
        match decision.retry_after() {
            RetryAfter::Now => {
                let reset_ns = nanos(decision.reset_after()).saturating_sub(nanos(now.since(at)));
                let taken = Taken { at: now, reset_ns, limit: in_force.quota.limit() };
                let waker = queue.serve(first.line, taken);
                queue.wake(waker);
                self.set_turn(queue, first.line, at);
            }
            RetryAfter::After(wait) if at + wait <= first.deadline => {
                self.set_turn(queue, first.line, at + wait);
            }
            // A check at the instant when the first waiter came saw no line yet, and was faster.
            RetryAfter::After(_) | RetryAfter::Never => {
                let waker = queue.fail(first.ticket, Leaving::Late);
                queue.wake(waker);
            }
        }
    }

    /// Called after turns in a planned line may have become later: waiters that cannot be served in time
    /// leave.
    pub(crate) fn settle_planned(
        &self,
        queue: &mut Locked<'_>,
        in_force: &InForce<S>,
        key: &[u8],
        now: Timestamp,
    ) {
        let real = self.waiting.real_time();
        let mut plan = self.empty_plan(in_force, key, now);
        let from = self.blocked_until(key).map_or(now, |until| now.max(until));
        for stands in queue.line_in_order(key) {
            let latest = stands.latest(real, now);
            if !matches!(plan.add(in_force.for_lines(), stands.cost, from, latest), Turn::At(_)) {
                let waker = queue.fail(stands.ticket, Leaving::Late);
                queue.wake(waker);
            }
        }
        queue.set_plan(key, plan);
    }

    /// The denial of a caller that must not overtake the waiters for permits of a window.
    pub(crate) fn behind_a_line(&self, in_force: &InForce<S>, key: &[u8], n: u64) -> Option<Decision> {
        if owes_ahead(&in_force.quota) || self.waiting.count() == 0 {
            return None;
        }
        let mut queue = self.waiting.lock();
        let now = self.look(&mut queue);
        let mut plan = queue.take_plan(key)?;
        let turn = plan.add(in_force.for_lines(), n, now, Timestamp::ZERO);
        queue.set_plan(key, plan);
        let limit = in_force.quota.limit();
        Some(match turn {
            Turn::At(at) | Turn::TooLate(at) => {
                let wait_ns = nanos(at.since(now));
                Decision::deny(limit, 0, wait_ns, wait_ns)
            }
            Turn::Never => Decision::never(limit, 0, 0),
        })
    }

    /// Serves the line of a window whose state is about to change.
    pub(crate) fn serve_before_change(&self, quota: &Quota) {
        if !owes_ahead(quota) && self.waiting.count() > 0 {
            let mut queue = self.waiting.lock();
            self.look(&mut queue);
        }
    }
}

impl WaiterKind {
    /// The instant at which a waiter of this kind leaves, if it may wait until `deadline`.
    pub(crate) const fn deadline(self, deadline: Timestamp) -> Timestamp {
        match self {
            Self::Task | Self::Thread => deadline,
            Self::Held | Self::Committed | Self::Slots => Timestamp::NEVER,
        }
    }
}
