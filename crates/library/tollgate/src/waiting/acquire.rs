//! Waiting callers: they join a line, find out that their turn has come, or leave.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tollgate_core::{Clock, Cost, Decision, Quota, RetryAfter, State, Timestamp, nanos};

use super::plan::{Newcomer, Planned};
use super::queue::{Stands, Ticket};
use super::shared::Locked;
use super::this_thread;
use super::waiter::{InLine, Leaving, Standing, Taken, Waiter, WaiterKind};
use crate::acquire_error::AcquireError;
use crate::engine::Engine;
use crate::in_force::{InForce, owes_ahead};
use crate::states::States;

/// Result of an attempt to take permits for a caller that is ready to wait.
#[derive(Debug)]
pub(crate) enum Admission<S: States, C: Clock> {
    /// The permits were available at once.
    Now(Taken),
    /// A place in the line.
    Later(PlaceInLine<S, C>),
}

/// A place in a line. Dropped, it is given up, with the permits.
#[derive(Debug)]
pub(crate) struct PlaceInLine<S: States, C: Clock> {
    engine: Arc<Engine<S, C>>,
    key: Box<[u8]>,
    ticket: Option<Ticket>,
    joined_at: Timestamp,
    turn_at: Timestamp,
    cost: u64,
    /// Epoch of its key when it joined.
    epoch: u32,
}

impl<S: States, C: Clock> Engine<S, C> {
    /// Number of callers that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.count()
    }

    /// Takes `n` permits of `key`, or a place in its line for them if its turn comes within `max_wait`.
    pub(crate) fn enter(
        self: &Arc<Self>,
        key: &[u8],
        n: u64,
        max_wait: Duration,
        kind: WaiterKind,
    ) -> Result<Admission<S, C>, AcquireError> {
        let now = self.now();
        if self.waiting.count() == 0 && self.blocked_until(key).is_none_or(|until| until <= now) {
            let (decision, taken) = self.update(key, now, |in_force, state| {
                let decision = in_force.quota.reserve(state, Cost(n), Duration::ZERO, now);
                (decision, Taken::by(&in_force.quota, &decision, now))
            });
            if decision.is_admitted() {
                return Ok(Admission::Now(taken));
            }
        }
        let mut queue = self.waiting.lock();
        let now = self.look(&mut queue);
        let in_force = self.in_force_in(&queue, key);
        in_force.carry(key, now);
        let blocked = self.blocked_until(key).map_or(Duration::ZERO, |until| until.since(now));
        if blocked > max_wait {
            return Err(AcquireError::TooLong { retry_after: blocked - max_wait });
        }
        let has_room = queue.waiting() < self.waiting.most();
        if !has_room && !blocked.is_zero() {
            return Err(AcquireError::QueueFull { waiting: queue.waiting() });
        }
        queue.announce();
        if !owes_ahead(&in_force.quota) {
            let newcomer = Newcomer { key, n, blocked, max_wait, kind };
            return Ok(match self.plan(&mut queue, &in_force, newcomer, now)? {
                Planned::Now(taken) => Admission::Now(taken),
                Planned::Later(turn_at, plan) => {
                    self.watch_lines(); // before anybody finds the line
                    let place = self.join(&mut queue, &in_force, newcomer, now, turn_at);
                    queue.set_plan(key, plan);
                    Admission::Later(place)
                }
            });
        }
        let longest = if has_room { max_wait } else { Duration::ZERO };
        let decision = reserve(&in_force, key, n, longest, now);
        if !decision.is_admitted() {
            let full = (!has_room).then(|| queue.waiting());
            return Err(denied(&in_force.quota, n, &decision, full));
        }
        let wait = decision.delay().max(blocked);
        if wait.is_zero() {
            return Ok(Admission::Now(Taken::by(&in_force.quota, &decision, now)));
        }
        let newcomer = Newcomer { key, n, blocked, max_wait, kind };
        Ok(Admission::Later(self.join(&mut queue, &in_force, newcomer, now, now + wait)))
    }

    /// A place at the end of the line of a key.
    fn join(
        self: &Arc<Self>,
        queue: &mut Locked<'_>,
        in_force: &InForce<S>,
        Newcomer { key, n, max_wait, kind, .. }: Newcomer<'_>,
        now: Timestamp,
        turn_at: Timestamp,
    ) -> PlaceInLine<S, C> {
        let in_line = InLine {
            deadline: kind.deadline(now + max_wait),
            gives_up: kind.deadline(self.waiting.real_time() + max_wait),
            kind,
            looks_at: turn_at,
            waker: None,
        };
        let waiter = Waiter { cost: n, state: Standing::InLine(in_line) };
        let ticket = Some(queue.join(key, waiter, turn_at));
        if let Some(tier) = in_force.tier {
            queue.set_tier(key, tier);
        }
        let engine = Arc::clone(self);
        let epoch = self.epochs.of(key);
        PlaceInLine { engine, key: key.into(), ticket, joined_at: now, turn_at, cost: n, epoch }
    }

    /// Waits on this thread for `n` permits of `key`, for at most `max_wait`; returns the time that it
    /// waited.
    pub(crate) fn blocking_acquire(
        self: &Arc<Self>,
        key: &[u8],
        n: u64,
        max_wait: Duration,
    ) -> Result<Duration, AcquireError> {
        match self.enter(key, n, max_wait, WaiterKind::Thread)? {
            Admission::Now(_) => Ok(Duration::ZERO),
            Admission::Later(place) => place.block(),
        }
    }

    /// Returns the time. Serves all waiters whose turn has come, and removes those that would wait too long
    /// because the clock was set back.
    pub(crate) fn look(&self, queue: &mut Locked<'_>) -> Timestamp {
        let now = self.now();
        if queue.is_set_back(self.waiting.real_time(), now) {
            for key in queue.keys() {
                self.settle(queue, &key);
            }
        }
        self.serve_due(queue, now);
        now
    }

    /// Serves all waiters whose turn has come.
    fn serve_due(&self, queue: &mut Locked<'_>, now: Timestamp) {
        if queue.next_turn().is_none_or(|at| at > now) {
            return;
        }
        while let Some(first) = queue.next().filter(|first| first.turn_at <= now) {
            let in_force = self.in_force_in(queue, &first.key);
            if !owes_ahead(&in_force.quota) {
                self.serve_planned(queue, &in_force, &first, now);
                continue;
            }
            let state = in_force.get(&first.key);
            let at = self.turn_of(&in_force.quota, &state, &first.key, [first.cost, first.behind], now);
            if at > now {
                queue.set_turn(first.line, at);
                continue;
            }
            let reset_ns = reset_ns(&in_force.quota, state, first.behind, now);
            let taken = Taken { at: now, reset_ns, limit: in_force.quota.limit() };
            let waker = queue.serve(first.line, taken);
            queue.wake(waker);
            self.work_out_turn(queue, &in_force, &first.key, now);
        }
    }

    /// Recalculates the turn of the first waiter of `key`.
    fn work_out_turn(&self, queue: &mut Locked<'_>, in_force: &InForce<S>, key: &[u8], now: Timestamp) {
        let Some(first) = queue.first_of(key) else { return };
        if !owes_ahead(&in_force.quota) {
            self.set_turn(queue, first.line, now); // when it is served, it turns out
            return;
        }
        let state = in_force.get(key);
        let at = self.turn_of(&in_force.quota, &state, &first.key, [first.cost, first.behind], now);
        self.set_turn(queue, first.line, at);
    }

    pub(crate) fn set_turn(&self, queue: &mut Locked<'_>, line: u32, at: Timestamp) {
        queue.set_turn(line, at);
        let late = queue.late_thread(line);
        queue.wake(late);
    }

    /// The turn of a waiter that costs the first number of permits, with the second number behind it.
    fn turn_of(
        &self,
        quota: &Quota,
        state: &State,
        key: &[u8],
        [cost, behind]: [u64; 2],
        now: Timestamp,
    ) -> Timestamp {
        let wait = quota.wait_of_reserved(state, Cost(cost), Cost(behind), now);
        let turn = now + wait.unwrap_or_default();
        self.blocked_until(key).map_or(turn, |until| turn.max(until))
    }

    /// Called after permits of `key` have come back otherwise than by time: turns come earlier.
    pub(crate) fn after_gain(&self, key: &[u8]) {
        if self.waiting.count() > 0 {
            let mut queue = self.waiting.lock();
            let now = self.now();
            let in_force = self.in_force_in(&queue, key);
            self.work_out_turn(&mut queue, &in_force, key, now);
            self.serve_due(&mut queue, now);
        }
    }

    /// Called after turns of `key` may have become later: waiters whose deadline can no longer be met leave.
    pub(crate) fn after_loss(&self, key: &[u8]) {
        if self.waiting.count() > 0 {
            let mut queue = self.waiting.lock();
            self.settle(&mut queue, key);
        }
    }

    /// Called after turns of `key` may have become earlier or later.
    pub(crate) fn settle(&self, queue: &mut Locked<'_>, key: &[u8]) {
        let now = self.now();
        let in_force = self.in_force_in(queue, key);
        if owes_ahead(&in_force.quota) {
            self.settle_owed(queue, &in_force, key, now);
        } else {
            self.settle_planned(queue, &in_force, key, now);
        }
        self.work_out_turn(queue, &in_force, key, now);
        self.serve_due(queue, now);
    }

    fn settle_owed(&self, queue: &mut Locked<'_>, in_force: &InForce<S>, key: &[u8], now: Timestamp) {
        let real = self.waiting.real_time();
        let mut behind = queue.permits_of(key);
        for stands in queue.line_in_order(key) {
            let Stands { ticket, cost, .. } = stands;
            behind -= cost;
            let state = in_force.get(key);
            let turn_at = self.turn_of(&in_force.quota, &state, key, [cost, behind], now);
            if turn_at > stands.latest(real, now) {
                let waker = queue.fail(ticket, Leaving::Late);
                queue.wake(waker);
                give_back(in_force, key, cost, now);
            }
        }
    }

    /// Called after the quota was replaced: if the new one counts otherwise, all waiters leave; otherwise
    /// their turns change.
    pub(crate) fn after_reconfiguration(&self, queue: &mut Locked<'_>, counts_alike: bool) {
        for key in queue.keys() {
            if counts_alike {
                self.settle(queue, &key);
            } else {
                self.fail_all(queue, &key, Leaving::Reconfigured);
            }
        }
    }

    /// All who wait for `key` leave; what they owe is no more.
    pub(crate) fn fail_all(&self, queue: &mut Locked<'_>, key: &[u8], why: Leaving) {
        for Stands { ticket, .. } in queue.line_in_order(key) {
            let waker = queue.fail(ticket, why);
            queue.wake(waker);
        }
    }

    /// Removes every waiter that a task wakes from its line.
    #[cfg(feature = "tokio")]
    pub(crate) fn fail_tasks(&self, queue: &mut Locked<'_>, why: Leaving) {
        let now = self.now();
        for (ticket, key, cost) in queue.tasks() {
            let in_force = self.in_force_in(queue, &key);
            let waker = queue.fail(ticket, why);
            queue.wake(waker);
            unreserve(&in_force, &key, cost, now);
            self.work_out_turn(queue, &in_force, &key, now);
        }
    }
}

impl<S: States, C: Clock> PlaceInLine<S, C> {
    /// Whether the turn has come; if not, `waker` is woken at the turn.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<Taken, AcquireError>> {
        let waiter = match self.engine.waiting.poll(&mut self.ticket, waker) {
            Poll::Ready(waiter) => waiter,
            Poll::Pending => return Poll::Pending,
        };
        let Some(Waiter { state, .. }) = waiter else {
            return Poll::Ready(Err(AcquireError::Reconfigured)); // never: it is collected here and in drop
        };
        Poll::Ready(match state {
            Standing::Served(taken) => Ok(taken),
            Standing::Left(Leaving::Late) => Err(AcquireError::Late),
            Standing::Left(Leaving::Reconfigured | Leaving::NeverFits) | Standing::InLine(_) => {
                Err(AcquireError::Reconfigured)
            }
            #[cfg(feature = "tokio")]
            Standing::Left(Leaving::NoTimer) => Err(AcquireError::NoRuntime),
        })
    }

    /// Waits on this thread.
    pub(crate) fn block(mut self) -> Result<Duration, AcquireError> {
        let waker = this_thread::waker();
        loop {
            if let Poll::Ready(result) = self.poll(&waker) {
                return result.map(|taken| taken.at.since(self.joined_at));
            }
            let now = self.engine.now();
            let looks_at = self.looks_at(now);
            if looks_at > now {
                std::thread::park_timeout(looks_at.since(now));
            }
        }
    }

    /// Serves all waiters whose turn has come; returns when a waiting thread has to look again.
    fn looks_at(&mut self, now: Timestamp) -> Timestamp {
        let mut queue = self.engine.waiting.lock();
        self.engine.look(&mut queue);
        let first = queue.first_of(&self.key);
        let waiter = self.ticket.and_then(|ticket| queue.waiter(ticket));
        let Some(in_line) = waiter.and_then(Waiter::in_line_mut) else { return now };
        if in_line.looks_at <= now
            && let Some(first) = first
        {
            in_line.looks_at = first.turn_at; // what was owed has grown since it came
        }
        in_line.looks_at
    }

    /// Ends the place with `used` permits used.
    pub(crate) fn commit(&mut self, used: u64) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut queue = self.engine.waiting.lock();
        if queue.commit(ticket, used) {
            if used < self.cost {
                let now = self.engine.now();
                let in_force = self.engine.in_force_in(&queue, &self.key);
                unreserve(&in_force, &self.key, self.cost - used, now);
                self.engine.work_out_turn(&mut queue, &in_force, &self.key, now);
                self.engine.serve_due(&mut queue, now);
            }
            drop(queue);
            if used > self.cost {
                self.engine.penalise(&self.key, used - self.cost);
            }
            return;
        }
        let waiter = queue.collect(ticket);
        drop(queue);
        if let Some(taken) = waiter.as_ref().and_then(Waiter::taken) {
            self.engine.settle_use(&self.key, self.cost, used, taken, self.epoch);
        } else {
            self.engine.penalise(&self.key, used); // its permits were given back when it left the line
        }
    }

    pub(crate) const fn joined_at(&self) -> Timestamp {
        self.joined_at
    }

    /// Its turn, as calculated when it joined.
    pub(crate) const fn turn_at(&self) -> Timestamp {
        self.turn_at
    }
}

impl<S: States, C: Clock> Drop for PlaceInLine<S, C> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut queue = self.engine.waiting.lock();
        let now = self.engine.now();
        let in_force = self.engine.in_force_in(&queue, &self.key);
        let Some(waiter) = queue.collect(ticket) else { return };
        match waiter.state {
            Standing::InLine(_) => {
                unreserve(&in_force, &self.key, self.cost, now);
                self.engine.work_out_turn(&mut queue, &in_force, &self.key, now);
                self.engine.serve_due(&mut queue, now);
                drop(queue);
            }
            Standing::Served(taken) => {
                drop(queue);
                self.engine.refund(&self.key, self.cost, taken, self.epoch);
            }
            Standing::Left(_) => drop(queue), // its permits were given back when it left the line
        }
        drop(waiter); // its waker may be the last of a task
    }
}

impl<S: States, C: Clock> Engine<S, C> {
    /// Settles the use of `n` permits, of which `used` were used.
    pub(crate) fn settle_use(&self, key: &[u8], n: u64, used: u64, taken: Taken, epoch: u32) {
        match n.checked_sub(used) {
            Some(0) => {}
            Some(unused) => self.refund(key, unused, taken, epoch),
            None => self.penalise(key, used - n),
        }
    }

    /// Gives back as many of `n` permits as possible without admitting more than if they had never been
    /// taken.
    pub(crate) fn refund(&self, key: &[u8], n: u64, taken: Taken, epoch: u32) {
        if self.epochs.of(key) != epoch {
            return; // what they were taken of counts no longer
        }
        let now = self.now();
        let in_force = self.in_force_of(key, now);
        let said = Decision::admit(taken.limit, 0, taken.reset_ns);
        let back = in_force.quota.refundable(Cost(n), &said, taken.at, now);
        if !back.is_peek() {
            self.give_back(key, back.permits());
        }
    }
}

fn reserve<S: States>(
    in_force: &InForce<S>,
    key: &[u8],
    n: u64,
    max_wait: Duration,
    now: Timestamp,
) -> Decision {
    in_force.update(key, now, |state| in_force.quota.reserve(state, Cost(n), max_wait, now))
}

fn give_back<S: States>(in_force: &InForce<S>, key: &[u8], n: u64, now: Timestamp) {
    let _left = in_force.update(key, now, |state| in_force.quota.give_back(state, Cost(n), now));
}

/// Gives back the permits owed by a waiter whose turn has not come.
fn unreserve<S: States>(in_force: &InForce<S>, key: &[u8], n: u64, now: Timestamp) {
    if owes_ahead(&in_force.quota) {
        give_back(in_force, key, n, now);
    }
}

/// Time until the bucket would be full again if the waiters behind had not come, in ns.
fn reset_ns(quota: &Quota, mut state: State, behind: u64, now: Timestamp) -> u64 {
    if behind > 0 {
        let _left = quota.give_back(&mut state, Cost(behind), now);
    }
    nanos(quota.take(&mut state, Cost::PEEK, now).reset_after())
}

/// The reason why there is neither a permit nor a place; `full` is the number of waiters if no more may wait.
fn denied(quota: &Quota, n: u64, decision: &Decision, full: Option<usize>) -> AcquireError {
    match (decision.retry_after(), full) {
        // A bucket that owes the largest countable number has no place either.
        (RetryAfter::Never, _) if quota.limit() > 0 && n <= quota.burst() => {
            AcquireError::QueueFull { waiting: full.unwrap_or_default() }
        }
        (RetryAfter::Never, _) => AcquireError::NeverFits { burst: quota.burst() },
        (_, Some(waiting)) => AcquireError::QueueFull { waiting },
        (RetryAfter::After(wait), _) => AcquireError::TooLong { retry_after: wait },
        (RetryAfter::Now, _) => AcquireError::TooLong { retry_after: Duration::ZERO },
    }
}
