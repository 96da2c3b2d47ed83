//! Permits that are granted shortly before the turn, and their way back when the request leaves.
//!
//! Timers fire late, and permits that flow into a full bucket meanwhile are lost. So a request asks for its
//! permits ahead of its turn, and the store promises them for that instant. From then on the next request of
//! the line is asked for, while this one waits to use its permits.

use std::task::Waker;

use super::claim::{Claim, earlier};
use super::grant::{Act, Grant, Granted};
use super::lines::{Line, QueueState, Waiter};
use super::ticket::Ticket;

impl Ticket<'_> {
    /// Notes that the requests of `all` have their permits: this one and its followers. Returns the indexes
    /// of those that have left meanwhile and whose permits are to be given back.
    pub(crate) fn grant(&self, all: Vec<Granted>) -> Vec<usize> {
        let mut state = self.lines.state();
        let Some(claims) = state.waiters.get(&self.id).map(|waiter| waiter.claims.clone()) else {
            return Vec::new();
        };
        let mut woken = Vec::new();
        let mut gone = Vec::new();
        for (index, Granted { id, permits, grant }) in all.into_iter().enumerate() {
            if id != self.id && state.waiters.get(&id).is_some_and(|waiter| !waiter.can_be_granted()) {
                gone.push((index, id, Vec::new())); // the rules have changed meanwhile
                continue;
            }
            let claims: Vec<_> = claims
                .iter()
                .zip(permits)
                .map(|(claim, permits)| Claim { permits, ..claim.clone() })
                .collect();
            for (claim, act) in claims.iter().zip(&grant.acts) {
                // A request that has left holds its permits like the others until all are in their places.
                let Some(line) = state.lines.get_mut(&claim.key) else { continue };
                if line.granted(id, claim, *act) {
                    state.come_up(&claim.key, &mut woken);
                }
            }
            match state.waiters.get_mut(&id) {
                Some(waiter) => {
                    waiter.grant = Some(grant);
                    if id != self.id {
                        waiter.wake(&mut woken);
                    }
                }
                None => gone.push((index, id, claims)),
            }
        }
        let free = |(index, id, claims): (usize, u64, Vec<Claim>)| {
            let gives_back = !claims.is_empty() && state.give_up(id, &claims, &mut woken);
            state.forget(id, &claims);
            gives_back.then_some(index)
        };
        let free = gone.into_iter().filter_map(free).collect();
        for claim in &claims {
            if state.lines.get(&claim.key).is_some_and(Line::is_empty) {
                state.lines.remove(&claim.key);
            }
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        free
    }

    /// The grant whose permits it uses now.
    pub(crate) fn granted(&self) -> Option<Grant> {
        self.lines.state().waiters.get(&self.id).and_then(|waiter| waiter.grant.clone())
    }
}

impl Line {
    /// Notes that `id` has its permits. True if it was the first request without permits.
    pub(super) fn granted(&mut self, id: u64, claim: &Claim, act: Option<Act>) -> bool {
        let was_first = self.take_out(id);
        if let Some(act) = act {
            self.granted.insert(id, (act.at, claim.permits));
            let known = self.base.filter(|_| act.is_later).map(|base| claim.turn(base));
            self.base = known.max(Some(act.base));
        }
        was_first
    }
}

impl QueueState {
    /// The granted request `id` leaves, and those behind it come up. True if its permits are free then: the
    /// store gets them back.
    ///
    /// A shared store gets nothing back, since it may have promised the following permits to another node:
    /// each permit is used at the instant for which it was promised, or not at all.
    pub(super) fn give_up(&mut self, id: u64, claims: &[Claim], woken: &mut Vec<Waker>) -> bool {
        match claims {
            [claim] if self.is_shared => {
                self.pass_on(id, claim, woken);
                return false;
            }
            [claim] => return self.close_up(id, claim, woken),
            _ if self.is_shared => return false,
            _ => {}
        }
        for claim in claims {
            let Some(line) = self.lines.get_mut(&claim.key) else { continue };
            if let Some((act, permits)) = line.granted.get(&id).copied()
                && line.base == Some(act)
            {
                line.base = Some(earlier(act, claim.pace.freed_ns(permits)));
                self.rouse(&claim.key, woken);
            }
        }
        true
    }

    /// Each request behind `id` that wants the same number of permits takes the place of the one before it,
    /// up to the first request without permits.
    fn pass_on(&mut self, id: u64, claim: &Claim, woken: &mut Vec<Waker>) {
        let Some(mut free) = self.waiters.get(&id).and_then(|waiter| waiter.grant.clone()) else { return };
        let Some(line) = self.lines.get_mut(&claim.key) else { return };
        let wants_it = |waiter: &Waiter| matches!(&waiter.claims[..], [one] if one.permits == claim.permits);
        for (next, (at, _)) in line.granted.range_mut(id + 1..) {
            let Some(waiter) = self.waiters.get_mut(next).filter(|waiter| wants_it(waiter)) else { return };
            let Some(grant) = &mut waiter.grant else { return };
            *at = free.act_at;
            std::mem::swap(grant, &mut free);
            waiter.wake(woken);
        }
        let Some(&next) = line.order.keys().next() else { return };
        let alike = self.waiters.get(&id).and_then(|waiter| waiter.alike.clone());
        let Some(waiter) = self.waiters.get_mut(&next).filter(|waiter| wants_it(waiter)) else { return };
        let is_alike = waiter.alike.as_ref().zip(alike.as_ref()).is_some_and(|(it, of)| it.is_like(of));
        if !is_alike || waiter.behind > 0 || waiter.deadline < free.act_at {
            return;
        }
        // It may be asking for itself just now; then it gets the permits that it has asked for.
        let base = line.base;
        if line.granted(next, claim, free.acts.first().copied().flatten()) {
            line.base = base;
            waiter.grant = Some(free);
            waiter.wake(woken);
            self.come_up(&claim.key, woken);
        }
    }

    /// Moves the turns of the requests behind `id` forward by its permits, as far as they hold the permits
    /// that follow without a gap. True if all do. Otherwise another caller has reserved permits in between,
    /// and the permits of `id` count as used.
    fn close_up(&mut self, id: u64, claim: &Claim, woken: &mut Vec<Waker>) -> bool {
        let Some(line) = self.lines.get_mut(&claim.key) else { return false };
        let Some(&(act, permits)) = line.granted.get(&id) else { return false };
        let freed = claim.pace.freed_ns(permits);
        let mut last = act;
        let mut behind = Vec::new();
        for (&next, &(at, permits)) in line.granted.range(id + 1..) {
            let is_next = claim.pace.after(last, permits).as_nanos().saturating_add(1) >= at.as_nanos();
            let is_alone = self.waiters.get(&next).is_none_or(|waiter| waiter.claims.len() == 1);
            if !is_next || !is_alone {
                return false;
            }
            last = at;
            behind.push(next);
        }
        if line.base != Some(last) {
            return false;
        }
        line.base = Some(earlier(last, freed));
        for next in behind {
            if let Some((at, _)) = line.granted.get_mut(&next) {
                *at = earlier(*at, freed);
            }
            if let Some(waiter) = self.waiters.get_mut(&next) {
                if let Some(grant) = &mut waiter.grant {
                    grant.act_at = earlier(grant.act_at, freed);
                }
                waiter.wake(woken);
            }
        }
        self.rouse(&claim.key, woken);
        true
    }

    /// Wakes the first request without permits: its turn may come earlier.
    fn rouse(&mut self, key: &[u8], woken: &mut Vec<Waker>) {
        let first = self.lines.get(key).and_then(|line| line.order.first_key_value());
        if let Some(next) = first.and_then(|(first, _)| self.waiters.get_mut(first)) {
            next.wake(woken);
        }
    }

    /// Removes a request that has left from those that have permits.
    fn forget(&mut self, id: u64, claims: &[Claim]) {
        for claim in claims {
            if let Some(line) = self.lines.get_mut(&claim.key) {
                line.granted.remove(&id);
                if line.is_empty() {
                    self.lines.remove(&claim.key);
                }
            }
        }
    }
}
