//! When a leasing node asks its ledger, for how much, and when it need not: sizes and gates. No safety rests on what stands here.

use std::time::Duration;

use super::{Mono, Node, Wish, Word};
#[cfg(feature = "faults")]
use crate::Fault;
use crate::{MOST_NODES, Reply, Request, Terms};

/// Where others queue, permits are kept for this many times the usual gap between takes.
const GAPS: u64 = 4;

impl Node {
    /// The ledger's last word is no older than a horizon.
    pub(super) fn has_heard(&self, terms: &Terms, now: Mono) -> bool {
        let horizon = Duration::from_micros(terms.horizon_us);
        self.word.as_ref().is_some_and(|word| now < word.asked.after(horizon))
    }

    /// The ledger said lately that it has no room for `cost`, and time alone has brought none since. That is believed from when it was
    /// asked, for a horizon at most: what others give back is not withheld for longer.
    pub(super) fn is_known_short(&self, terms: &Terms, cost: u64, now: Mono, is_hit: bool) -> bool {
        let Some(Word { reply, asked, .. }) = &self.word else { return false };
        // A window counts what it refuses, until it owes more than there ever was: so a denial here changes nothing there.
        let full = terms.full();
        let is_counted = terms.windows.is_some() && (reply.taken < full || is_hit && reply.taken == full);
        if self.flight.is_some() || self.held > 0 || is_counted {
            return false;
        }
        // Where many ask, what comes back by then is gone by then: each asks in its turn.
        let crowd = reply.crowd;
        #[cfg(feature = "faults")]
        let crowd = if terms.has(Fault::ForgetsTheCrowd) { 0 } else { crowd };
        let wait_us = terms.wait_us(reply, cost).saturating_mul(crowd.max(1));
        let most_us = if crowd > 0 { terms.tau_us / 2 } else { terms.horizon_us };
        #[cfg(feature = "faults")]
        let most_us = if terms.has(Fault::RemembersDenials) { u64::MAX } else { most_us };
        let lasts_us = terms.shrunk_us(wait_us.min(most_us).saturating_mul(1_000));
        now < asked.after(Duration::from_micros(lasts_us))
    }

    /// The ledger could not grant what was asked for, nor `cost`, and is not asked again for a while.
    pub(super) fn is_dry(&self, terms: &Terms, cost: u64, now: Mono) -> bool {
        now < self.dry_until && self.word.is_none_or(|word| terms.room(word.reply.taken) < cost)
    }

    /// How long it makes no sense to ask a ledger that granted nothing: until its queue of promises has a place again, or what
    /// others hold may have been settled. No longer than a horizon: others may give back, or reset the key.
    pub(super) fn dry_us(terms: &Terms, reply: &Reply) -> u64 {
        if terms.windows.is_some() {
            return reply.ends_us.saturating_sub(reply.now_us).min(terms.horizon_us);
        }
        let active = reply.active.max(1);
        let queue = terms.turn(active) * active * terms.interval;
        let until_place = (reply.taken + 1).saturating_sub(terms.full() + queue).div_ceil(terms.per_us);
        until_place.clamp(terms.horizon_us / 8, terms.horizon_us)
    }

    /// A request ahead of exhaustion, or to keep alive what is still needed.
    pub(super) fn ask_ahead(&mut self, terms: &Terms, now: Mono) -> Option<Request> {
        let soon_ns = 2 * self.round_trip_ns;
        if self.flight.is_some() || now < self.ahead_after {
            return None;
        }
        if self.clear.0 > now.0.saturating_add(soon_ns) {
            // Others may have given back since: then what is promised here is valid sooner.
            let long = Duration::from_micros(terms.tau_us / 4 * 3);
            let is_old = self.word.is_some_and(|word| word.asked.after(long) <= now);
            return is_old.then(|| self.send(Wish::default(), now));
        }
        let ends_soon = self.expires.0.saturating_sub(now.0) < soon_ns;
        ((self.is_low(terms, now) || ends_soon) && self.worth_leasing(terms, self.demand.typical_cost(), now))
            .then(|| self.request(terms, now))
    }

    /// What is held may be used up before more could be here.
    pub(super) fn is_low(&self, terms: &Terms, now: Mono) -> bool {
        let awaited_ns = 2 * self.round_trip_ns + self.queue_us(terms, now).unwrap_or(0) * 1_000;
        let low = self.demand.covering(awaited_ns, terms.horizon_ns());
        self.held <= low.max(self.demand.typical_cost() - 1)
    }

    /// A request for a caller whose take is above what is held: parts of what it needs are of no use to it, and go back, so that
    /// the ledger sees all that there is.
    pub(super) fn request_for(&mut self, terms: &Terms, cost: u64, now: Mono) -> Request {
        #[cfg(feature = "faults")]
        if terms.has(Fault::GrantsParts) {
            return self.request(terms, now);
        }
        self.given_back += std::mem::take(&mut self.held);
        self.promised = 0;
        let need = self.unmet.min(terms.burst);
        let want = self.target(terms, now).max(need);
        self.send(Wish { want, need, least: cost }, now)
    }

    /// A request for what keeps a node from asking for a while.
    pub(super) fn request(&mut self, terms: &Terms, now: Mono) -> Request {
        let need = self.unmet.saturating_sub(self.held).min(terms.burst);
        let target = self.target(terms, now);
        // What is far beyond it came for a caller that left, or before demand fell; it is of use elsewhere.
        let surplus = self.held.saturating_sub(target.saturating_mul(2).max(self.unmet));
        self.held -= surplus;
        self.given_back += surplus;
        let want = target.saturating_sub(self.held).max(need);
        let least = self.demand.typical_cost().saturating_sub(self.held).max(1).min(want);
        self.send(Wish { want, need, least }, now)
    }

    /// How many permits to hold: for a horizon, the way to the ledger and back, and the queue there.
    fn target(&self, terms: &Terms, now: Mono) -> u64 {
        let queue_ns = self.queue_us(terms, now).map_or(0, |queue_us| (queue_us + terms.tau_us / 2) * 1_000);
        let span_ns = terms.horizon_ns() + 2 * self.round_trip_ns + queue_ns;
        let active = self.word.map_or(1, |word| word.reply.active.max(1));
        let most = if now < self.contended_until {
            // What lies here unspent, the others cannot have: with all of them alike, not more than half of the burst.
            (terms.burst / (2 * active)).max(terms.turn(active)).max(self.demand.typical_cost())
        } else {
            terms.burst
        };
        self.demand.covering(span_ns, terms.horizon_ns()).min(most)
    }

    /// How long the queue for what comes back was at the ledger's last word; `None` where there is none.
    fn queue_us(&self, terms: &Terms, now: Mono) -> Option<u64> {
        let Word { reply, .. } = self.word.as_ref().filter(|_| now < self.contended_until)?;
        reply.taken.saturating_sub(terms.full()).checked_div(terms.per_us)
    }

    /// When held permits are returned because nobody asks: after half of tau. Where all that comes back is promised, a node
    /// that is seldom asked keeps its permit or two for longer, or none would ever be there when somebody asks.
    pub(super) fn idle_at(&self, terms: &Terms) -> Mono {
        let least_us = terms.tau_us / 2;
        let idle_us = if self.busy_at < self.contended_until {
            (GAPS * self.demand.gap_ns() / 1_000).clamp(least_us, 4 * terms.tau_us)
        } else {
            least_us
        };
        self.busy_at.after(Duration::from_micros(idle_us))
    }

    /// The window in force ends so soon that a lease would have ended before it is heard of.
    fn is_at_an_end(&self, terms: &Terms, now: Mono) -> bool {
        let Some(Word { reply, heard, .. }) = self.word.as_ref().filter(|_| terms.windows.is_some()) else {
            return false;
        };
        let elapsed_us = now.0.saturating_sub(heard.0) / 1_000;
        let left_us = reply.ends_us.saturating_sub(reply.now_us.saturating_add(elapsed_us));
        (1..=terms.skew_us).contains(&left_us)
    }

    /// The gate: a lease must be worth its message, and the quota large enough to be shared out. It closes at half of what opens it.
    ///
    /// Where a `cost` is not there and others are promised what comes back, it is open to everyone: who takes centrally finds
    /// nothing for as long as others queue.
    pub(super) fn worth_leasing(&mut self, terms: &Terms, cost: u64, now: Mono) -> bool {
        if self.is_at_an_end(terms, now) {
            return false;
        }
        let has_entry = now < self.listed_until;
        let (active, room) = match &self.word {
            Some(Word { reply, heard, .. }) => {
                let taken = terms.taken_after(reply, now.0.saturating_sub(heard.0) / 1_000);
                (reply.active.max(1), terms.room(taken))
            }
            None => (1, terms.burst),
        };
        // One more would have no entry in the ledger, and so nothing to spend.
        let has_place = has_entry || active < MOST_NODES as u64;
        let factor = if self.leases { 1 } else { 2 };
        let typical = self.demand.typical_cost();
        let share = (factor * active).saturating_mul(typical);
        let is_ample = (terms.ration >= share.saturating_mul(2) || room >= share.saturating_mul(128))
            && terms.burst >= share.saturating_mul(4);
        // What is spent counts as out until it is reported: the burst must cover some round trips of the refill.
        let is_near = terms.full() >= (4 * factor * self.round_trip_ns / 1_000).saturating_mul(terms.per_us);
        let is_busy = self.demand.takes(terms.horizon_ns()) >= 1.5 * factor as f64;
        let is_scarce = terms.windows.is_none() && room < cost && is_busy && is_near;
        let queues = (now < self.contended_until || is_scarce && self.is_spent_soon(terms, active, now))
            && self.word.is_none_or(|word| word.reply.crowd == 0);
        #[cfg(feature = "faults")]
        let queues = queues && !terms.has(Fault::NeverQueues);
        self.leases = has_place && (is_ample && is_near && is_busy || queues);
        self.leases
    }

    /// Remembers for a while that others are promised what comes back: by time alone there would soon be room, but they take it.
    pub(super) fn note_contention(&mut self, terms: &Terms, now: Mono) {
        let Some(Word { reply, .. }) = &self.word else { return };
        let others = reply.active > u64::from(now < self.listed_until);
        let room = terms.room(reply.taken);
        if reply.crowd > 0 {
            self.contended_until = Mono(0);
        } else if terms.windows.is_none() && others && reply.taken > terms.full() {
            self.contended_until = now.after(Duration::from_micros(4 * terms.tau_us));
        } else if room > terms.burst / 4 {
            self.contended_until = Mono(0);
        }
    }

    /// What nodes that queue hold does not fill the burst, or refill would be held up: by Little's law that is the rate times how long
    /// a take is waited for, where all nodes are as this one; or what each holds at most. And what a take costs comes back soon.
    fn is_spent_soon(&self, terms: &Terms, active: u64, now: Mono) -> bool {
        let typical = terms.units(self.demand.typical_cost());
        let idle = terms.per_us.saturating_mul(self.demand.gap_ns() / 1_000);
        let stocks = terms.units(active.saturating_mul(self.target(terms, now)));
        let is_soon = typical <= terms.per_us.saturating_mul(4 * terms.tau_us);
        is_soon && idle.min(stocks).saturating_add(typical) <= terms.full() / 2
    }
}
