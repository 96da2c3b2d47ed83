//! The time and size of a node's requests for permits. No safety rests on this.

use super::{InFlight, Node};
use crate::{LeaseRequest, LedgerReply, Mistake, Mono, Terms};

/// The numbers of a request: see [`LeaseRequest`].
#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    want: u64,
    need: u64,
    least: u64,
}

impl Node {
    /// A request ahead of exhaustion, or to keep alive the permits that are still needed.
    pub(super) fn ask_ahead(&mut self, terms: &Terms, now: Mono) -> Option<LeaseRequest> {
        if self.in_flight.is_some() || now < self.no_ahead_before {
            return None;
        }
        let soon_ns = 2 * self.round_trip_ns;
        if self.holding.all_valid_at.0 > now.0.saturating_add(soon_ns) {
            // Others may have given back since: then a promise made now is valid sooner.
            let long_us = terms.tau_us / 4 * 3;
            let is_old = self.last_reply.is_some_and(|last| last.asked.after_us(long_us) <= now);
            return is_old.then(|| self.report(now));
        }
        let ends_soon = self.holding.expires.ns_since(now) < soon_ns;
        let is_wanted = (self.is_low(terms, now) || ends_soon)
            && self.worth_leasing(terms, self.demand.typical_cost(), now);
        is_wanted.then(|| self.request(terms, now))
    }

    /// A request for a caller whose take is above the permits held: a part of its cost is of no use to it,
    /// and goes back, so that the ledger sees all permits.
    pub(super) fn request_for(&mut self, terms: &Terms, cost: u64, now: Mono) -> LeaseRequest {
        if terms.has(Mistake::GrantsParts) {
            return self.request(terms, now);
        }
        self.given_back += self.holding.drop_all();
        let need = self.unmet.min(terms.burst);
        let want = self.target(terms, now).max(need);
        self.send(Wish { want, need, least: cost }, now)
    }

    /// The same request, right before it is sent, for all callers that wait: together they want `all`, and
    /// `first` is the cost of the one that is dealt to next. [`Node::retake`] knows only of the first.
    ///
    /// The reply then answers each of them: where it grants less, no caller asks again for permits that are
    /// not available.
    pub fn cover(&mut self, terms: &Terms, mut request: LeaseRequest, first: u64, all: u64) -> LeaseRequest {
        let held = self.holding.permits;
        request.need = request.need.max(all.saturating_sub(held).min(terms.burst));
        request.want = request.want.max(request.need);
        if !terms.has(Mistake::GrantsParts) {
            request.least = request.least.max(first.saturating_sub(held)).min(request.want);
        }
        if let Some(sent) = self.in_flight.as_mut().filter(|sent| sent.seq == request.seq)
            && !terms.has(Mistake::AsksForEachCaller)
        {
            (sent.want, sent.need) = (request.want, request.need);
        }
        request
    }

    /// A request for enough permits to keep a node from asking for a while.
    pub(super) fn request(&mut self, terms: &Terms, now: Mono) -> LeaseRequest {
        let need = self.unmet.saturating_sub(self.holding.permits).min(terms.burst);
        let target = self.target(terms, now);
        // Permits far beyond the target came for a caller that left, or before demand fell; they are of use
        // elsewhere.
        let kept = target.saturating_mul(2).max(self.unmet);
        let surplus = self.holding.permits.saturating_sub(kept);
        self.holding.permits -= surplus;
        self.given_back += surplus;
        let held = self.holding.permits;
        let want = target.saturating_sub(held).max(need);
        let least = self.demand.typical_cost().saturating_sub(held).max(1).min(want);
        self.send(Wish { want, need, least }, now)
    }

    /// A request that asks for nothing: it reports the permits spent, and keeps alive those held.
    pub(super) fn report(&mut self, now: Mono) -> LeaseRequest {
        self.send(Wish::default(), now)
    }

    /// The permits held may be used up before more could arrive.
    pub(super) fn is_low(&self, terms: &Terms, now: Mono) -> bool {
        let awaited_ns = 2 * self.round_trip_ns + self.queue_us(terms, now).unwrap_or(0) * 1_000;
        let low = self.demand.covering(awaited_ns, terms.horizon_ns());
        self.holding.permits <= low.max(self.demand.typical_cost() - 1)
    }

    /// The number of permits to hold: for a horizon, the way to the ledger and back, and the queue there.
    pub(super) fn target(&self, terms: &Terms, now: Mono) -> u64 {
        let queue_ns = self.queue_us(terms, now).map_or(0, |queue_us| (queue_us + terms.tau_us / 2) * 1_000);
        let span_ns = terms.horizon_ns() + 2 * self.round_trip_ns + queue_ns;
        self.demand.covering(span_ns, terms.horizon_ns()).min(self.most_held(terms, now))
    }

    /// The most to hold.
    fn most_held(&self, terms: &Terms, now: Mono) -> u64 {
        if now >= self.contended_until {
            return terms.burst;
        }
        // Permits held here unspent are missing elsewhere: if all hold as much, not more than half of the
        // burst.
        let active = self.last_reply.map_or(1, |last| last.reply.active.max(1));
        (terms.burst / (2 * active)).max(terms.turn(active)).max(self.demand.typical_cost())
    }

    /// Length of the queue for the refill at the ledger's last reply, in microseconds; `None` where nodes do
    /// not queue.
    fn queue_us(&self, terms: &Terms, now: Mono) -> Option<u64> {
        let last = self.last_reply.as_ref().filter(|_| now < self.contended_until)?;
        last.reply.taken.saturating_sub(terms.full()).checked_div(terms.per_us)
    }

    /// Where a reply granted too little, nothing is asked for a while. `unmet`: permits that callers wait
    /// for.
    pub(super) fn note_shortage(
        &mut self,
        terms: &Terms,
        reply: &LedgerReply,
        request: InFlight,
        unmet: u64,
        now: Mono,
    ) {
        let until = now.after_us(pause_us(terms, reply));
        // This holds also for callers that came since it was sent: where nothing more is available, they are
        // not to ask one after another.
        let is_dry = terms.room(reply.taken) == 0;
        if reply.granted < request.need || reply.granted < unmet && is_dry {
            self.no_grant_before = until;
        }
        if reply.granted <= request.want / 4 {
            self.no_ahead_before = until;
        }
    }

    fn send(&mut self, wish: Wish, now: Mono) -> LeaseRequest {
        let Wish { want, need, least } = wish;
        self.seq += 1;
        self.in_flight = Some(InFlight { seq: self.seq, sent: now, want, need });
        (self.reported, self.has_lapsed) = (self.spent, false);
        self.lost_until = Mono(0);
        let held = self.holding.permits;
        let spent = self.spent;
        LeaseRequest { node: self.id, seq: self.seq, held, spent, want, need, least }
    }
}

/// Microseconds for which a ledger that granted too little is not asked: until its queue of promises has a
/// place again, or the permits of others may have been settled. No longer than a horizon: others may give
/// back, or reset the key.
fn pause_us(terms: &Terms, reply: &LedgerReply) -> u64 {
    if terms.is_window() {
        return reply.ends_in_us().min(terms.horizon_us);
    }
    let active = reply.active.max(1);
    let queue = terms.turn(active) * active * terms.interval;
    let until_place = (reply.taken + 1).saturating_sub(terms.full() + queue).div_ceil(terms.per_us);
    until_place.clamp(terms.horizon_us / 8, terms.horizon_us)
}
