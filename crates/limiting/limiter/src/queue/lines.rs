//! The lines of requests that wait, one for each counter: first come, first served. Reads no clock, and knows
//! no store and no timer.
//!
//! A request joins the lines of all its counters at once, and has its turn when it is the first in each of
//! them: since all lines have the order of arrival, no two requests wait for each other. Waiting takes no
//! permit until shortly before the turn. Then the request is granted its permits for that instant, and those
//! behind it come up while it waits ([`grants`](super::grants)). One lock guards all lines; it is taken only
//! for requests of rules that queue, and for these only while some wait.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Waker;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tollgate_core::Timestamp;
use tollgate_observe::QueueStats;
use tollgate_policy::Entry as PolicyEntry;

use super::alike::Alike;
use super::claim::Claim;
use super::events::{End, Events};
use super::grant::Grant;
use super::longest::Longest;
use super::pace::Pace;
use crate::shares::{Holder, Room, Shares};

/// Time before its turn at which a request is granted its permits, where timers are on time and the store is
/// near.
pub(crate) const AHEAD: Duration = Duration::from_millis(20);
/// The longest such time.
const LONGEST_AHEAD: Duration = Duration::from_millis(500);
/// Multiple of the lateness of recent timers, and of the longest call to the store, that is added.
const TIMES_AHEAD: u64 = 3;

/// The requests of one limiter that wait.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(super) most: usize,
    /// The number of waiters in the state, readable without the lock.
    pub(super) waiting: AtomicUsize,
    state: Mutex<QueueState>,
    /// Lateness of timers.
    late: Longest,
    /// Time that calls to the store take.
    trip: Longest,
    /// Owners of the waiting requests, with their shares.
    pub(super) shares: Shares,
    pub(crate) events: Events,
}

#[derive(Debug, Default)]
pub(super) struct QueueState {
    pub(super) lines: HashMap<Box<[u8]>, Line>,
    pub(super) waiters: HashMap<u64, Waiter>,
    /// Number of claims of all waiters together.
    pub(super) claims: usize,
    /// Numbers are given in the order of arrival.
    next: u64,
    pub(super) is_ended: bool,
    /// Other nodes may use the same counters.
    pub(super) is_shared: bool,
}

/// The requests that wait for one counter; never empty.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Permits wanted by the requests that have none yet, by their numbers.
    pub(super) order: BTreeMap<u64, u64>,
    /// Sum of these permits.
    pub(super) permits: u64,
    /// Requests before them, which have their permits: the instant from which each may use them, and their
    /// number.
    pub(super) granted: BTreeMap<u64, (Timestamp, u64)>,
    /// If permits come one by one: the instant at which the counter has no permits left, if no other caller
    /// takes any. Otherwise the first instant at which the first request can have its turn. `None` if only
    /// the store knows.
    pub(super) base: Option<Timestamp>,
    /// Requests with smaller numbers came under earlier rules.
    stale_below: u64,
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) holder: Holder,
    pub(super) claims: Vec<Claim>,
    /// Number of lines in which it is not the first of those that have no permits yet.
    pub(super) behind: usize,
    pub(super) deadline: Timestamp,
    /// The permits that it wants, if others can ask for them.
    pub(super) alike: Option<Alike>,
    /// It was asked for ahead of its turn, and is not asked for again before this instant.
    pub(super) not_before: Timestamp,
    pub(super) grant: Option<Grant>,
    pub(super) waker: Option<Waker>,
    /// Its state has changed, so it has to look.
    pub(super) is_woken: bool,
}

/// Result of the leaving of a request.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// The permits that it was granted are free.
    pub(crate) frees: bool,
    woken: Vec<Waker>,
}

impl Left {
    /// Wakes the requests that have come up.
    pub(crate) fn wake(self) {
        self.woken.into_iter().for_each(Waker::wake);
    }
}

impl Lines {
    /// Lines in which at most `most` claims wait at a time: one for each counter of each request.
    /// `is_shared`: calls to the store take time, and other nodes may use it.
    pub(crate) fn new(most: usize, is_shared: bool) -> Self {
        Self {
            most,
            waiting: AtomicUsize::new(0),
            state: Mutex::new(QueueState { is_shared, ..QueueState::default() }),
            late: Longest::default(),
            trip: Longest::default(),
            shares: Shares::default(),
            events: Events::default(),
        }
    }

    /// Numbers for an observer.
    pub(crate) fn stats(&self) -> QueueStats {
        self.events.stats(self.waiting.load(Relaxed), self.most)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    /// Time before its turn at which a request is asked for.
    pub(crate) fn ahead(&self) -> Duration {
        let longest_ns = self.late.get().saturating_add(self.trip.get()).saturating_mul(TIMES_AHEAD);
        AHEAD.saturating_add(Duration::from_nanos(longest_ns)).min(LONGEST_AHEAD)
    }

    /// Notes the lateness of a timer.
    pub(crate) fn note_late(&self, late: Duration, now: Timestamp) {
        self.late.note(late, now);
    }

    /// Notes the time that a call to the store took.
    pub(crate) fn note_trip(&self, took: Duration, now: Timestamp) {
        self.trip.note(took, now);
    }

    /// The first instant from `now` on at which a request with `claims` may have its turn, if it has to wait
    /// for others; `None` if it need not.
    pub(crate) fn behind(&self, claims: &[Claim], now: Timestamp) -> Option<Timestamp> {
        if self.waiting.load(Relaxed) == 0 {
            return None;
        }
        self.state().behind(claims, now)
    }

    /// The turn of a waiting request with `claims` if it left and came again now: after all others. `None` if
    /// no request waits.
    pub(crate) fn again(&self, claims: &[Claim], now: Timestamp) -> Option<Timestamp> {
        // Its permits are counted in its lines already.
        let counted: Vec<_> = claims.iter().map(|claim| Claim { permits: 0, ..claim.clone() }).collect();
        self.behind(&counted, now)
    }

    /// The holder of a request that waits in `domain`, by the first entry.
    pub(crate) fn holder(&self, domain: &str, first: Option<&PolicyEntry<'_>>) -> Holder {
        self.shares.holder(domain, first)
    }

    /// Makes the first request of every line ask its store, since the rules have changed. Requests that have
    /// their permits are decided already.
    pub(crate) fn refresh(&self) {
        if self.waiting.load(Relaxed) > 0 {
            let mut state = self.state();
            let QueueState { lines, waiters, next, .. } = &mut *state;
            lines.values_mut().for_each(|line| (line.base, line.stale_below) = (None, *next));
            for waiter in waiters.values_mut() {
                waiter.claims.iter_mut().for_each(|claim| claim.pace = Pace::Unknown);
                waiter.alike = None;
                waiter.not_before = Timestamp::ZERO;
            }
            state.wake_all();
        }
    }

    /// Ends all waits, except those of requests that have their permits.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.is_ended = true;
        state.wake_all();
    }

    pub(super) fn leave(&self, id: u64, end: End) -> Left {
        let mut state = self.state();
        let (holder, left) = state.leave(id, end == End::Passed);
        if let Some((holder, places)) = holder {
            self.shares.give_back(holder, places);
        }
        self.waiting.store(state.waiters.len(), Relaxed);
        drop(state);
        self.events.finished(end);
        left
    }
}

/// The places that a request with these claims takes.
pub(super) const fn places(claims: &[Claim]) -> Room {
    Room { places: claims.len() as u64, bytes: 0 }
}

impl QueueState {
    pub(super) fn behind(&self, claims: &[Claim], now: Timestamp) -> Option<Timestamp> {
        let turn = |claim: &Claim| {
            let line = self.lines.get(&claim.key).filter(|line| !line.order.is_empty())?;
            let permits = line.permits.saturating_add(claim.permits);
            // In a line of earlier rules only the first turn is known.
            let is_stale = line.order.first_key_value().is_some_and(|(first, _)| *first < line.stale_below);
            let pace = if is_stale { Pace::Unknown } else { claim.pace };
            Some(line.base.map_or(now, |base| now.max(pace.after(base, permits))))
        };
        claims.iter().filter_map(turn).max()
    }

    /// The number of a request that begins to wait.
    pub(super) fn add(&mut self, waiter: &Waiter) -> u64 {
        self.claims += waiter.claims.len();
        self.next += 1;
        self.next - 1
    }

    /// Takes `id` out of its lines. Returns the places that it held.
    fn leave(&mut self, id: u64, has_passed: bool) -> (Option<(Holder, Room)>, Left) {
        let mut left = Left::default();
        let granted = self.waiters.get(&id).filter(|waiter| waiter.grant.is_some() && !has_passed);
        if let Some(claims) = granted.map(|waiter| waiter.claims.clone()) {
            left.frees = self.give_up(id, &claims, &mut left.woken);
        }
        let Some(waiter) = self.waiters.remove(&id) else { return (None, left) };
        let held = (waiter.holder, places(&waiter.claims));
        self.claims = self.claims.saturating_sub(waiter.claims.len());
        for claim in &waiter.claims {
            let Entry::Occupied(mut line) = self.lines.entry(claim.key.clone()) else { continue };
            let is_granted = line.get_mut().granted.remove(&id).is_some();
            let was_first = !is_granted && line.get_mut().take_out(id);
            if line.get().is_empty() {
                line.remove();
                continue;
            }
            if !was_first {
                continue;
            }
            let Line { base, .. } = line.get_mut();
            *base = match claim.pace {
                Pace::Steady { .. } if has_passed => base.map(|base| claim.turn(base)),
                Pace::Steady { .. } => *base,
                // Fewer permits may be there already.
                _ if !has_passed => None,
                _ => *base,
            };
            self.come_up(&claim.key, &mut left.woken);
        }
        (Some(held), left)
    }

    /// The first request of the line of `key` is one place further: wakes it if it is the first in all of its
    /// lines.
    pub(super) fn come_up(&mut self, key: &[u8], woken: &mut Vec<Waker>) {
        let first = self.lines.get(key).and_then(|line| line.order.first_key_value());
        if let Some(next) = first.and_then(|(first, _)| self.waiters.get_mut(first)) {
            next.behind = next.behind.saturating_sub(1);
            if next.behind == 0 {
                next.wake(woken);
            }
        }
    }

    fn wake_all(&mut self) {
        let mut woken = Vec::new();
        self.waiters.values_mut().for_each(|waiter| waiter.wake(&mut woken));
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.granted.is_empty()
    }

    /// Takes `id` out of the order. True if it was the first.
    pub(super) fn take_out(&mut self, id: u64) -> bool {
        let was_first = self.order.first_key_value().is_some_and(|(first, _)| *first == id);
        let Some(permits) = self.order.remove(&id) else { return false };
        self.permits = self.permits.saturating_sub(permits);
        was_first
    }
}

impl Waiter {
    /// Whether others can ask for it.
    pub(super) const fn can_be_granted(&self) -> bool {
        self.alike.is_some()
    }

    pub(super) fn wake(&mut self, woken: &mut Vec<Waker>) {
        self.is_woken = true;
        woken.extend(self.waker.take());
    }
}
