//! The place of one request in its lines: joining, moving up and leaving.

use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::MutexGuard;
use tollgate_core::{Cost, Timestamp};

use super::alike::Alike;
use super::claim::{Claim, earlier};
use super::events::{End, NoWait};
use super::grant::Grant;
use super::lines::{Left, Lines, QueueState, Waiter, places};
use crate::shares::{Holder, Room};

/// A request that is to wait.
pub(crate) struct Joining {
    pub(crate) holder: Holder,
    /// Its claims, each on another counter.
    pub(crate) claims: Vec<Claim>,
    /// Its permits, if others can ask for them.
    pub(crate) alike: Option<Alike>,
    pub(crate) deadline: Timestamp,
}

/// Where a request is in its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuePosition {
    /// Other requests come before it.
    Behind,
    /// It has its turn at this instant, as far as is known, and is asked for from `ask_at` on.
    First { turn: Timestamp, ask_at: Timestamp },
    /// It has its permits, and may use them from this instant on.
    Granted(Timestamp),
    /// All waits have ended.
    Ended,
}

/// A request behind the first of a line.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) id: u64,
    pub(crate) costs: Box<[Cost]>,
    /// The permits that it wants of each of its counters, in the order of the claims.
    pub(crate) permits: Vec<u64>,
}

/// The place of a request that waits. It leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticket<'l> {
    pub(super) lines: &'l Lines,
    pub(super) id: u64,
    end: End,
    has_left: bool,
}

impl Lines {
    /// Joins the lines, if the turn may come before the deadline and `holder` has less than its share. `dues`
    /// are the instants at which each counter would have the permits if no request waited, as the store has
    /// answered; empty if the store was not asked.
    pub(crate) fn join(
        &self,
        joining: Joining,
        dues: &[Timestamp],
        now: Timestamp,
    ) -> Result<Ticket<'_>, NoWait> {
        let mut state = self.state();
        let turn = state.behind(&joining.claims, now).max(dues.iter().copied().max());
        let is_late = turn.is_some_and(|turn| turn > joining.deadline);
        let mut waiter = self.admit(&state, joining, is_late)?;
        let id = state.add(&waiter);
        for (at, claim) in waiter.claims.iter().enumerate() {
            let line = state.lines.entry(claim.key.clone()).or_default();
            match line.order.is_empty() {
                true => line.base = dues.get(at).map(|due| claim.base_of(*due)),
                false => waiter.behind += 1,
            }
            line.order.insert(id, claim.permits);
            line.permits = line.permits.saturating_add(claim.permits);
        }
        Ok(self.joined(state, id, waiter))
    }

    /// Joins as a request that waits until it may use the permits of `grant`.
    pub(crate) fn join_granted(&self, joining: Joining, grant: Grant) -> Result<Ticket<'_>, NoWait> {
        let mut state = self.state();
        let mut waiter = self.admit(&state, joining, false)?;
        let id = state.add(&waiter);
        for (at, claim) in waiter.claims.iter().enumerate() {
            if let Some(act) = grant.acts.get(at).copied().flatten() {
                state.lines.entry(claim.key.clone()).or_default().granted(id, claim, Some(act));
            }
        }
        waiter.grant = Some(grant);
        Ok(self.joined(state, id, waiter))
    }

    /// Makes a waiter of the request, if there is a place for it.
    fn admit(&self, state: &QueueState, joining: Joining, is_late: bool) -> Result<Waiter, NoWait> {
        let Joining { holder, claims, alike, deadline } = joining;
        let why = match () {
            () if state.is_ended => Some(NoWait::Ended),
            () if is_late => Some(NoWait::TooLong),
            () if state.claims.saturating_add(claims.len()) > self.most => Some(NoWait::Full),
            () => {
                let free = Room { places: (self.most - state.claims) as u64, bytes: u64::MAX };
                self.shares.take(holder, places(&claims), free).err().map(|_| NoWait::OverShare)
            }
        };
        if let Some(why) = why {
            self.events.not_joined(why);
            return Err(why);
        }
        let not_before = Timestamp::ZERO;
        let grant = None;
        let behind = 0;
        let waker = None;
        let is_woken = false;
        Ok(Waiter { holder, claims, behind, deadline, alike, not_before, grant, waker, is_woken })
    }

    fn joined(&self, mut state: MutexGuard<'_, QueueState>, id: u64, waiter: Waiter) -> Ticket<'_> {
        state.waiters.insert(id, waiter);
        self.waiting.store(state.waiters.len(), Relaxed);
        drop(state);
        self.events.joined();
        Ticket { lines: self, id, end: End::Left, has_left: false }
    }
}

impl<'l> Ticket<'l> {
    /// Its number; numbers are given in the order of arrival.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// The permits that it wants of each of its counters.
    pub(crate) fn permits(&self) -> Vec<u64> {
        let state = self.lines.state();
        let claims = state.waiters.get(&self.id).map_or(&[][..], |waiter| &waiter.claims);
        claims.iter().map(|claim| claim.permits).collect()
    }

    /// Its present place, if requests are asked for by `ahead` before their turns.
    pub(crate) fn place(&self, ahead: Duration) -> QueuePosition {
        let state = self.lines.state();
        let Some(waiter) = state.waiters.get(&self.id) else { return QueuePosition::Ended };
        if let Some(grant) = &waiter.grant {
            return QueuePosition::Granted(grant.act_at);
        }
        if state.is_ended {
            return QueuePosition::Ended;
        }
        if waiter.behind > 0 {
            return QueuePosition::Behind;
        }
        let turn = |claim: &Claim| Some(claim.turn(state.lines.get(&claim.key)?.base?));
        let turn = waiter.claims.iter().filter_map(turn).max().unwrap_or(Timestamp::ZERO);
        let ask_at = match &waiter.alike {
            Some(Alike { is_promised: true, .. }) => {
                earlier(turn, tollgate_core::nanos(ahead)).max(waiter.not_before)
            }
            _ => turn,
        };
        QueuePosition::First { turn, ask_at }
    }

    /// The requests behind it that want the same and have their turns before `until`, at most `most`; and the
    /// instant before which all of them must have their turns. The ticket itself is the first of its lines.
    pub(crate) fn followers(&self, mut until: Timestamp, most: usize) -> (Vec<Follower>, Timestamp) {
        let state = self.lines.state();
        let mut followers = Vec::new();
        let first = state.waiters.get(&self.id).filter(|waiter| waiter.behind == 0 && waiter.grant.is_none());
        let Some(Waiter { claims, alike: Some(alike), .. }) = first else { return (followers, until) };
        let lines = claims.iter().map(|claim| state.lines.get(&claim.key));
        let Some(lines) = lines.collect::<Option<Vec<_>>>() else { return (followers, until) };
        let mut orders: Vec<_> = lines.iter().map(|line| line.order.iter().skip(1)).collect();
        let mut wanted: Vec<u64> = claims.iter().map(|claim| claim.permits).collect();
        while followers.len() < most {
            let next: Option<Vec<_>> = orders.iter_mut().map(Iterator::next).collect();
            let Some((id, permits)) = next.and_then(|next| {
                let id = *next.first()?.0;
                let permits = next.iter().map(|(_, permits)| **permits).collect::<Vec<_>>();
                next.iter().all(|(other, _)| **other == id).then_some((id, permits))
            }) else {
                break;
            };
            let Some(waiter) = state.waiters.get(&id) else { break };
            let Some(costs) =
                waiter.alike.as_ref().filter(|it| it.is_like(alike)).map(|alike| alike.costs.clone())
            else {
                break;
            };
            wanted.iter_mut().zip(&permits).for_each(|(all, more)| *all = all.saturating_add(*more));
            let turns = claims.iter().zip(&lines).zip(&wanted);
            let turn = turns
                .map(|((claim, line), wanted)| line.base.map(|base| claim.pace.after(base, *wanted)))
                .collect::<Option<Vec<_>>>()
                .and_then(|turns| turns.into_iter().max());
            let latest = until.min(waiter.deadline);
            if turn.is_none_or(|turn| turn > latest) {
                break;
            }
            until = latest;
            followers.push(Follower { id, costs, permits });
        }
        (followers, until)
    }

    /// Ready once its state has changed.
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

    /// The store has denied it until these instants, one for each claim.
    pub(crate) fn denied_until(&self, dues: &[Timestamp]) {
        let mut state = self.lines.state();
        let QueueState { lines, waiters, .. } = &mut *state;
        let first = waiters.get_mut(&self.id).filter(|it| it.behind == 0 && it.grant.is_none());
        let Some(waiter) = first else { return };
        for (claim, due) in waiter.claims.iter().zip(dues) {
            if let Some(line) = lines.get_mut(&claim.key) {
                line.base = Some(claim.base_of(*due));
            }
            if !claim.pace.is_steady() {
                // It cannot be promised, so that asking ahead of it is of no use.
                waiter.not_before = waiter.not_before.max(*due);
            }
        }
    }

    /// It is asked for at its turn, not ahead of it.
    pub(crate) fn not_before_its_turn(&self) {
        if let QueuePosition::First { turn, .. } = self.place(Duration::ZERO)
            && let Some(waiter) = self.lines.state().waiters.get_mut(&self.id)
        {
            waiter.not_before = turn;
        }
    }

    /// Whether others can ask for it, or have.
    pub(crate) fn can_be_granted(&self) -> bool {
        let state = self.lines.state();
        state.waiters.get(&self.id).is_some_and(|it| it.can_be_granted() || it.grant.is_some())
    }

    /// The wait has come to this end after `waited`.
    pub(crate) fn ends(&mut self, end: End, waited: Duration) {
        self.end = end;
        if end == End::Passed {
            self.lines.events.waited(waited);
        }
    }

    /// Leaves its place.
    pub(crate) fn leave(&mut self) -> Left {
        match std::mem::replace(&mut self.has_left, true) {
            false => self.lines.leave(self.id, self.end),
            true => Left::default(),
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.leave().wake();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "in a test a panic is the finding")]

    use tollgate_policy::Entry as PolicyEntry;

    use super::super::pace::Pace;
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
            let joining = Joining { holder, claims, alike: None, deadline };
            match lines.join(joining, &[], Timestamp::ZERO) {
                Ok(ticket) => tickets.push(ticket),
                Err(why) => return (tickets, why),
            }
        }
    }

    #[test]
    fn a_caller_waits_in_half_of_the_places_a_domain_in_four_fifths_and_others_find_the_rest() {
        let lines = Lines::new(100, false);
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
    fn requests_are_asked_for_the_earlier_the_later_timers_and_stores_are() {
        let lines = Lines::new(1, false);
        let ms = Duration::from_millis;
        let at = |at_ms| Timestamp::from_unix_seconds(1) + ms(at_ms);
        for (at_ms, late_ms, trip_ms, ahead_ms) in [
            (0, 0, 0, 20),
            (1, 2, 0, 26),
            (2, 1, 0, 26), // the longest of late
            (3, 1, 4, 38),
            (4, 900, 4, 500), // never more
            (5, 1, 4, 500),
        ] {
            lines.note_late(ms(late_ms), at(at_ms));
            lines.note_trip(ms(trip_ms), at(at_ms));
            assert_eq!(lines.ahead(), ms(ahead_ms), "at {at_ms} ms");
        }
        // Some seconds later all is as at first; also after a clock has jumped back.
        for begins_ms in [10_000, 0] {
            (0..100).for_each(|nth| lines.note_late(ms(0), at(begins_ms + 250 * nth)));
            (0..100).for_each(|nth| lines.note_trip(ms(0), at(begins_ms + 250 * nth)));
            assert!(lines.ahead() < ms(21), "{:?}", lines.ahead());
            lines.note_late(ms(900), at(100_000));
        }
    }

    #[test]
    fn places_that_all_are_taken_are_full_for_everybody() {
        let lines = Lines::new(1, false);
        let (one, why) = fill(&lines, "d", "flood", 1);
        assert_eq!((one.len(), why), (1, NoWait::Full));
        let (none, why) = fill(&lines, "e", "ann", 1);
        assert_eq!((none.len(), why, lines.stats().over_share), (0, NoWait::Full, 0));
    }
}
