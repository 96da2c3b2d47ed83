//! When a leasing node asks its ledger, for how much, and when it need not: sizes and gates. No safety rests on what stands here.

use std::time::Duration;

#[cfg(feature = "faults")]
use super::Fault;
use super::{MOST_NODES, Mono, Node, Reply, Request, Terms, Word};

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
        let wait_us = terms.wait_us(reply, cost);
        #[cfg(feature = "faults")]
        let most_us = if terms.has(Fault::RemembersDenials) { u64::MAX } else { terms.horizon_us };
        #[cfg(not(feature = "faults"))]
        let most_us = terms.horizon_us;
        let lasts_us = terms.shrunk_us(wait_us.min(most_us).saturating_mul(1_000));
        now < asked.after(Duration::from_micros(lasts_us))
    }

    /// How long it makes no sense to ask a ledger that granted nothing: until its queue of promises has a place again, or what
    /// others hold may have been settled. No longer than a horizon: others may give back, or reset the key.
    pub(super) fn dry_us(terms: &Terms, reply: &Reply) -> u64 {
        if terms.windows.is_some() {
            return reply.ends_us.saturating_sub(reply.now_us).min(terms.horizon_us);
        }
        let place = (terms.ration / reply.active.max(1)).max(1) * terms.interval;
        let until_place =
            (reply.taken + place).saturating_sub(terms.full() + terms.ahead).div_ceil(terms.per_us);
        until_place.clamp(terms.horizon_us / 8, terms.horizon_us)
    }

    /// A request ahead of exhaustion, or to keep alive what is still needed.
    pub(super) fn ask_ahead(&mut self, terms: &Terms, now: Mono) -> Option<Request> {
        let soon_ns = 2 * self.round_trip_ns;
        if self.flight.is_some() || now < self.ahead_after || self.clear.0 > now.0.saturating_add(soon_ns) {
            return None;
        }
        let low = self.demand.covering(soon_ns, terms.horizon_ns());
        let ends_soon = self.expires.0.saturating_sub(now.0) < soon_ns;
        ((self.held <= low || ends_soon) && self.worth_leasing(terms, now)).then(|| self.request(terms, now))
    }

    /// A request for a horizon's worth beyond what keeps it from asking, and for those who wait.
    pub(super) fn request(&mut self, terms: &Terms, now: Mono) -> Request {
        let need = self.unmet.saturating_sub(self.held).min(terms.burst);
        let span_ns = terms.horizon_ns() + 2 * self.round_trip_ns;
        let target = self.demand.covering(span_ns, terms.horizon_ns()).min(terms.burst);
        // What is far beyond it came for a caller that left, or before demand fell; it is of use elsewhere.
        let surplus = self.held.saturating_sub(target.saturating_mul(2).max(self.unmet));
        self.held -= surplus;
        self.given_back += surplus;
        self.send(target.saturating_sub(self.held).max(need), need, now)
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
    pub(super) fn worth_leasing(&mut self, terms: &Terms, now: Mono) -> bool {
        if self.is_at_an_end(terms, now) {
            return false;
        }
        let (active, room) = match &self.word {
            Some(Word { reply, .. }) => (reply.active.max(1), terms.room(reply.taken)),
            None => (1, terms.burst),
        };
        // One more would have no entry in the ledger, and so nothing to spend.
        let has_place =
            self.word.as_ref().is_none_or(|word| word.reply.renewed || active < MOST_NODES as u64);
        let factor = if self.leases { 1 } else { 2 };
        let is_ample = terms.ration >= 2 * factor * active || room >= 128 * factor * active;
        // What is spent counts as out until it is reported: the burst must cover some round trips of the refill.
        let is_near = terms.full() >= (4 * factor * self.round_trip_ns / 1_000).saturating_mul(terms.per_us);
        let expected = self.demand.expected(terms.horizon_ns(), terms.horizon_ns());
        self.leases = has_place && is_ample && is_near && expected >= (2 * factor) as f64;
        self.leases
    }
}
