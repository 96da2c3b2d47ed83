//! A waiting request: it waits for its turn, for the instant of its permits, or for the end of its time.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_observe::{Observer, Status};
use tollgate_policy::Domain;
use tollgate_store::{Store, Take, at_once};

use super::patience::Patience;
use super::ticket::{QueuePosition, Ticket};
use crate::limiter::Limiter;
use crate::rules::Rules;
use crate::scratch::{Item, Scratch};

/// A request that waits. When it is dropped, it leaves its place.
pub(super) struct Waiting<'l, S: Store, O: Observer, F, T> {
    pub(super) limiter: &'l Limiter<S, O>,
    pub(super) patience: &'l Patience<'l, F>,
    pub(super) ticket: Ticket<'l>,
    pub(super) deadline: Timestamp,
    /// Ready at the deadline, whatever becomes of the clock.
    time_up: Pin<Box<T>>,
    /// Its plan, while it can be granted its permits.
    pub(super) planned: Option<Planned<O>>,
}

/// A plan, and the rules that it was made by.
pub(super) struct Planned<O: Observer> {
    pub(super) rules: Arc<Rules<O>>,
    pub(super) domain: usize,
    pub(super) statuses: Vec<Status>,
    pub(super) items: Vec<Item>,
    pub(super) keys: Vec<u8>,
}

/// The event that ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// The request is to be asked for, before its turn or at it.
    Ask {
        is_early: bool,
    },
    /// It may use the permits that it was granted.
    Granted,
    TimeUp,
    /// The caller has left.
    Left,
    /// The process ends.
    Ended,
}

impl<'l, S: Store, O: Observer, F, T> Waiting<'l, S, O, F, T>
where
    F: Fn(Duration) -> T + Sync,
    T: Future<Output = ()> + Send,
{
    pub(super) fn new(
        limiter: &'l Limiter<S, O>,
        patience: &'l Patience<'l, F>,
        ticket: Ticket<'l>,
        deadline: Timestamp,
        now: Timestamp,
    ) -> Self {
        let time_up = Box::pin((patience.sleep)(deadline.since(now)));
        Self { limiter, patience, ticket, deadline, time_up, planned: None }
    }

    /// Waits until there is something to do.
    pub(super) async fn next(&mut self, mut now: Timestamp) -> Wake {
        let patience = self.patience;
        loop {
            now = now.max((patience.now)());
            let due = match self.ticket.place(self.limiter.lines.ahead()) {
                QueuePosition::Ended => return Wake::Ended,
                QueuePosition::Granted(act_at) if act_at <= now => return Wake::Granted,
                QueuePosition::Granted(act_at) => Some(act_at),
                QueuePosition::First { turn, .. } if turn > self.deadline && turn > now => {
                    return Wake::TimeUp;
                }
                QueuePosition::First { turn, ask_at } if ask_at <= now => {
                    return Wake::Ask { is_early: turn > now };
                }
                QueuePosition::First { ask_at, .. } => Some(ask_at),
                QueuePosition::Behind => None,
            };
            let mut timer = due.map(|due| Box::pin((patience.sleep)(due.since(now))));
            if self.planned.is_some() && !self.ticket.can_be_granted() {
                self.planned = None; // the rules have changed
            }
            let over = poll_fn(|cx| {
                if patience.left.is_some_and(|poll_left| poll_left(cx).is_ready()) {
                    return Poll::Ready(Some(Wake::Left));
                }
                let is_due = timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready());
                if let Some(due) = due.filter(|_| is_due) {
                    let now = (patience.now)();
                    self.limiter.lines.note_late(now.since(due), now);
                }
                if is_due || self.ticket.poll_woken(cx).is_ready() {
                    return Poll::Ready(None);
                }
                self.time_up.as_mut().poll(cx).map(|()| Some(Wake::TimeUp))
            });
            if let Some(over) = over.await {
                return over;
            }
        }
    }
}

impl<S: Store, O: Observer, F, T> Drop for Waiting<'_, S, O, F, T> {
    fn drop(&mut self) {
        let left = self.ticket.leave();
        if left.frees
            && let Some(planned) = &self.planned
        {
            let now = (self.patience.now)();
            drop(at_once(self.limiter.store.give_all_back(&planned.takes(), now)));
        }
        left.wake();
    }
}

impl<O: Observer> Planned<O> {
    pub(super) fn of(rules: &Arc<Rules<O>>, domain: &Domain, scratch: &Scratch) -> Self {
        Self {
            rules: Arc::clone(rules),
            domain: domain.index(),
            statuses: scratch.statuses.clone(),
            items: scratch.items.clone(),
            keys: scratch.keys.clone(),
        }
    }

    /// The takes of its hard items.
    pub(super) fn takes(&self) -> Vec<Take<'_>> {
        let Some(domain) = self.rules.policy().domains().get(self.domain) else { return Vec::new() };
        let hard = self.items.iter().filter(|item| !item.soft);
        hard.map(|item| item.take(domain, &[], &self.keys)).collect()
    }
}
