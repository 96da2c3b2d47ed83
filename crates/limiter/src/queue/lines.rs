//! The lines of requests that wait, one for each counter: first come, first served. Knows no time but what it
//! is given, no store and no timer.
//!
//! A request joins the lines of all its counters at once, and has its turn when it is the first in each of
//! them: since all lines have the order of arrival, no two requests wait for each other. Waiting takes no
//! permit, so a request that leaves has nothing to give back. One lock guards all lines; it is taken only for
//! requests of rules that queue, and for these only while some wait.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_observe::QueueStats;
use tollgate_policy::Entry as PolicyEntry;

use super::events::{End, Events, NoWait};
use super::pace::Pace;
use crate::shares::{Holder, Room, Shares};

/// What a request wants of one counter.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) key: Box<[u8]>,
    pub(crate) permits: u64,
    pub(crate) pace: Pace,
}

/// The requests of one limiter that wait.
#[derive(Debug)]
pub(crate) struct Lines {
    most: usize,
    /// As many as the state has, to be read without the lock.
    waiting: AtomicUsize,
    state: Mutex<State>,
    /// Whose requests they are.
    shares: Shares,
    pub(crate) events: Events,
}

#[derive(Debug, Default)]
struct State {
    lines: HashMap<Box<[u8]>, Line>,
    waiters: HashMap<u64, Waiter>,
    /// Of all of them.
    claims: usize,
    /// Numbers are given in the order of arrival.
    next: u64,
    is_ended: bool,
}

/// Those that wait for one counter; never empty.
#[derive(Debug, Default)]
struct Line {
    /// Their permits, by their numbers.
    order: BTreeMap<u64, u64>,
    /// The sum of these.
    permits: u64,
    /// Where permits come one by one: when the counter has none, if nobody else takes any. Else the first
    /// instant at which the first can have its turn. `None` if only the store knows.
    base: Option<Timestamp>,
    /// Those with smaller numbers came under earlier rules.
    stale_below: u64,
}

#[derive(Debug)]
struct Waiter {
    holder: Holder,
    claims: Vec<Claim>,
    /// In how many lines it is not the first.
    behind: usize,
    waker: Option<Waker>,
    /// Something has changed for it.
    is_woken: bool,
}

/// Where a request is in its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Others come before it.
    Behind,
    /// It has its turn at this instant, as far as is known.
    First(Timestamp),
    /// Nobody waits any longer.
    Ended,
}

/// The place of a request that waits. It leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticket<'l> {
    lines: &'l Lines,
    id: u64,
    end: End,
}

impl Lines {
    /// Requests may wait at a time for at most `most` counters, each of each request counted.
    pub(crate) fn new(most: usize) -> Self {
        let (waiting, state) = (AtomicUsize::new(0), Mutex::default());
        Self { most, waiting, state, shares: Shares::default(), events: Events::default() }
    }

    /// For an observer.
    pub(crate) fn stats(&self) -> QueueStats {
        self.events.stats(self.waiting.load(Relaxed), self.most)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first instant from `now` on at which a request with `claims` may have its turn, if it has to wait
    /// for others; `None` if it need not.
    pub(crate) fn behind(&self, claims: &[Claim], now: Timestamp) -> Option<Timestamp> {
        if self.waiting.load(Relaxed) == 0 {
            return None;
        }
        self.state().behind(claims, now)
    }

    /// When a request that waits with `claims` would have its turn if it left and came again now: after all
    /// others. `None` if no request waits.
    pub(crate) fn again(&self, claims: &[Claim], now: Timestamp) -> Option<Timestamp> {
        // Its permits are counted in its lines already.
        let counted: Vec<_> = claims.iter().map(|claim| Claim { permits: 0, ..claim.clone() }).collect();
        self.behind(&counted, now)
    }

    /// Whoever waits in `domain`, by the first entry.
    pub(crate) fn holder(&self, domain: &str, first: Option<&PolicyEntry<'_>>) -> Holder {
        self.shares.holder(domain, first)
    }

    /// Waits with these `claims`, each of another counter, if the turn may come until `deadline` and `holder`
    /// has less than its share. `due` is when all of them would be there if nobody waited, as the store has
    /// said; `None` if it was not asked.
    pub(crate) fn join(
        &self,
        holder: Holder,
        claims: Vec<Claim>,
        due: Option<Timestamp>,
        now: Timestamp,
        deadline: Timestamp,
    ) -> Result<Ticket<'_>, NoWait> {
        let mut state = self.state();
        let turn = state.behind(&claims, now).max(due);
        let why = match turn {
            _ if state.is_ended => Some(NoWait::Ended),
            Some(turn) if turn > deadline => Some(NoWait::TooLong),
            _ if state.claims.saturating_add(claims.len()) > self.most => Some(NoWait::Full),
            _ => {
                let free = Room { places: (self.most - state.claims) as u64, bytes: u64::MAX };
                self.shares.take(holder, places(&claims), free).err().map(|_| NoWait::OverShare)
            }
        };
        if let Some(why) = why {
            self.events.not_joined(why);
            return Err(why);
        }
        let id = state.next;
        state.next += 1;
        state.claims += claims.len();
        let mut waiter = Waiter { holder, claims, behind: 0, waker: None, is_woken: false };
        for claim in &waiter.claims {
            let line = state.lines.entry(claim.key.clone()).or_default();
            match line.order.is_empty() {
                true => line.base = due.map(|due| claim.base_of(due)),
                false => waiter.behind += 1,
            }
            line.order.insert(id, claim.permits);
            line.permits = line.permits.saturating_add(claim.permits);
        }
        state.waiters.insert(id, waiter);
        self.waiting.store(state.waiters.len(), Relaxed);
        drop(state);
        self.events.joined();
        Ok(Ticket { lines: self, id, end: End::Left })
    }

    /// Has the first of every line ask its store, since the rules have changed.
    pub(crate) fn refresh(&self) {
        if self.waiting.load(Relaxed) > 0 {
            let mut state = self.state();
            let State { lines, waiters, next, .. } = &mut *state;
            lines.values_mut().for_each(|line| (line.base, line.stale_below) = (None, *next));
            let claims = waiters.values_mut().flat_map(|waiter| &mut waiter.claims);
            claims.for_each(|claim| claim.pace = Pace::Unknown);
            state.wake_all();
        }
    }

    /// Nobody waits any longer.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.is_ended = true;
        state.wake_all();
    }

    fn leave(&self, id: u64, end: End) {
        let mut state = self.state();
        let (held, woken) = state.leave(id, end == End::Passed);
        if let Some((holder, places)) = held {
            self.shares.give_back(holder, places);
        }
        self.waiting.store(state.waiters.len(), Relaxed);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        self.events.finished(end);
    }
}

/// What a request with these claims holds.
const fn places(claims: &[Claim]) -> Room {
    Room { places: claims.len() as u64, bytes: 0 }
}

impl State {
    fn behind(&self, claims: &[Claim], now: Timestamp) -> Option<Timestamp> {
        let turn = |claim: &Claim| {
            let line = self.lines.get(&claim.key)?;
            let permits = line.permits.saturating_add(claim.permits);
            // Of a line of earlier rules only the first turn is known.
            let is_stale = line.order.first_key_value().is_some_and(|(first, _)| *first < line.stale_below);
            let pace = if is_stale { Pace::Unknown } else { claim.pace };
            let ns = pace.steady_ns(permits).max(pace.windows_ns(permits));
            Some(line.base.map_or(now, |base| now.max(base + Duration::from_nanos(ns))))
        };
        claims.iter().filter_map(turn).max()
    }

    /// Takes `id` out of its lines. Returns what it held, and the wakers of those that are the first now.
    fn leave(&mut self, id: u64, has_passed: bool) -> (Option<(Holder, Room)>, Vec<Waker>) {
        let Some(waiter) = self.waiters.remove(&id) else { return (None, Vec::new()) };
        let held = (waiter.holder, places(&waiter.claims));
        let (mut woken, is_only) = (Vec::new(), waiter.claims.len() == 1);
        self.claims = self.claims.saturating_sub(waiter.claims.len());
        for claim in waiter.claims {
            let Entry::Occupied(mut line) = self.lines.entry(claim.key) else { continue };
            let Line { order, permits, base, .. } = line.get_mut();
            let was_first = order.first_key_value().is_some_and(|(first, _)| *first == id);
            order.remove(&id);
            *permits = permits.saturating_sub(claim.permits);
            let Some((&next, _)) = order.first_key_value() else {
                line.remove();
                continue;
            };
            if !was_first {
                continue;
            }
            *base = match claim.pace {
                // Of a request with several counters it is not known which one it waited for.
                _ if !is_only => None,
                Pace::Steady { .. } if has_passed => {
                    base.map(|base| base + Duration::from_nanos(claim.pace.steady_ns(claim.permits)))
                }
                Pace::Steady { .. } => *base,
                // Fewer permits may be there already.
                _ if !has_passed => None,
                _ => *base,
            };
            if let Some(next) = self.waiters.get_mut(&next) {
                next.behind -= 1;
                if next.behind == 0 {
                    next.is_woken = true;
                    woken.extend(next.waker.take());
                }
            }
        }
        (Some(held), woken)
    }

    fn wake_all(&mut self) {
        for waiter in self.waiters.values_mut() {
            waiter.is_woken = true;
            if let Some(waker) = waiter.waker.take() {
                waker.wake();
            }
        }
    }
}

impl Claim {
    /// The base of a line whose first has this claim and its turn at `due`.
    fn base_of(&self, due: Timestamp) -> Timestamp {
        Timestamp::from_nanos(due.as_nanos().saturating_sub(self.pace.steady_ns(self.permits)))
    }

    /// The turn of the first of a line, which has this claim.
    fn turn(&self, base: Timestamp) -> Timestamp {
        base + Duration::from_nanos(self.pace.steady_ns(self.permits))
    }
}

impl Ticket<'_> {
    /// Where it is now.
    pub(crate) fn place(&self) -> Place {
        let state = self.lines.state();
        let Some(waiter) = state.waiters.get(&self.id) else { return Place::Ended };
        if state.is_ended {
            return Place::Ended;
        }
        if waiter.behind > 0 {
            return Place::Behind;
        }
        let turn = |claim: &Claim| Some(claim.turn(state.lines.get(&claim.key)?.base?));
        Place::First(waiter.claims.iter().filter_map(turn).max().unwrap_or(Timestamp::ZERO))
    }

    /// Ready once something has changed for it.
    pub(crate) fn poll_woken(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lines.state();
        let Some(waiter) = state.waiters.get_mut(&self.id) else { return Poll::Ready(()) };
        if std::mem::take(&mut waiter.is_woken) {
            return Poll::Ready(());
        }
        match &mut waiter.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// The store has denied it until `due`. False if that is after `deadline`.
    pub(crate) fn denied_until(&self, due: Option<Timestamp>, deadline: Timestamp) -> bool {
        let Some(due) = due.filter(|due| *due <= deadline) else { return false };
        let mut state = self.lines.state();
        let State { lines, waiters, .. } = &mut *state;
        let Some(waiter) = waiters.get(&self.id).filter(|waiter| waiter.behind == 0) else { return true };
        for claim in &waiter.claims {
            if let Some(line) = lines.get_mut(&claim.key) {
                line.base = Some(claim.base_of(due));
            }
        }
        true
    }

    /// The wait is over, after `waited`.
    pub(crate) fn finish(mut self, end: End, waited: Duration) {
        self.end = end;
        if end == End::Passed {
            self.lines.events.waited(waited);
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.lines.leave(self.id, self.end);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "in a test a panic is the finding")]

    use super::*;

    /// Joins lines of their own as this caller until it may no more; of each the tickets, and why.
    fn fill<'l>(lines: &'l Lines, domain: &str, caller: &str, each: usize) -> (Vec<Ticket<'l>>, NoWait) {
        let mut tickets = Vec::new();
        loop {
            let nth = tickets.len();
            let claim = |of: usize| Claim {
                key: format!("{domain} {caller} {nth} {of}").into_bytes().into(),
                permits: 1,
                pace: Pace::Unknown,
            };
            let holder = lines.holder(domain, Some(&PolicyEntry::new("user", caller)));
            let deadline = Timestamp::from_unix_seconds(1);
            let claims = (0..each).map(claim).collect();
            match lines.join(holder, claims, None, Timestamp::ZERO, deadline) {
                Ok(ticket) => tickets.push(ticket),
                Err(why) => return (tickets, why),
            }
        }
    }

    #[test]
    fn a_caller_waits_in_half_of_the_places_a_domain_in_four_fifths_and_others_find_the_rest() {
        let lines = Lines::new(100);
        let (flood, why) = fill(&lines, "d", "flood", 1);
        assert_eq!((flood.len(), why), (50, NoWait::OverShare));
        let (other, why) = fill(&lines, "d", "other", 1);
        assert_eq!((other.len(), why), (25, NoWait::OverShare));
        let (more, why) = fill(&lines, "d", "more", 1);
        assert_eq!((more.len(), why), (5, NoWait::OverShare), "the domain has 80, and 20 are free");
        // Another domain finds places, also for requests of several lines.
        let (two, why) = fill(&lines, "e", "ann", 2);
        assert_eq!((two.len(), why), (5, NoWait::OverShare));
        assert_eq!(lines.stats().over_share, 4);
        // Places that are given up are free for the one that had them, and leave nothing behind.
        drop((flood, other, more, two));
        let (again, _) = fill(&lines, "d", "flood", 1);
        assert_eq!((again.len(), lines.stats().left), (50, 85));
    }

    #[test]
    fn places_that_all_are_taken_are_full_for_everybody() {
        let lines = Lines::new(1);
        let (one, why) = fill(&lines, "d", "flood", 1);
        assert_eq!((one.len(), why), (1, NoWait::Full));
        let (none, why) = fill(&lines, "e", "ann", 1);
        assert_eq!((none.len(), why, lines.stats().over_share), (0, NoWait::Full, 0));
    }
}
