//! Whether a key is worth a lease. No safety rests on this.

use super::Node;
use super::last_reply::LastReply;
use crate::{MOST_NODES, Mistake, Mono, Terms};

/// A key as a node sees it by the ledger's last reply.
#[derive(Clone, Copy)]
struct View {
    /// Nodes that lease from it.
    active: u64,
    /// Permits that the ledger has.
    room: u64,
}

impl Node {
    /// The gate: a lease must be worth its message, and the quota large enough to be shared out. It closes at
    /// half of the threshold that opens it.
    ///
    /// If `cost` is not available and the refill is promised to others, the gate is open to every node:
    /// central takes find nothing for as long as others queue.
    pub(super) fn worth_leasing(&mut self, terms: &Terms, cost: u64, now: Mono) -> bool {
        if self.is_window_ending(terms, now) {
            return false;
        }
        let view = self.view(terms, now);
        let factor = if self.leases { 1 } else { 2 };
        let is_busy = self.demand.takes(terms.horizon_ns()) >= 1.5 * factor as f64;
        let is_near = self.is_near(terms, factor);
        let pays = is_busy && is_near && self.is_ample(terms, view, factor);
        let is_scarce = !terms.is_window() && view.room < cost && is_busy && is_near;
        self.leases = self.has_place(view, now) && (pays || self.queues(terms, view, is_scarce, now));
        self.leases
    }

    /// The window ends so soon that a lease would have ended before its grant arrives.
    fn is_window_ending(&self, terms: &Terms, now: Mono) -> bool {
        terms.is_window()
            && self.last_reply.is_some_and(|last| (1..=terms.skew_us).contains(&last.ends_in_us(now)))
    }

    fn view(&self, terms: &Terms, now: Mono) -> View {
        match &self.last_reply {
            Some(last) => {
                View { active: last.reply.active.max(1), room: terms.room(last.taken_now(terms, now)) }
            }
            None => View { active: 1, room: terms.burst },
        }
    }

    /// The ledger has an entry for this node. A node beyond the most would have nothing to spend.
    fn has_place(&self, view: View, now: Mono) -> bool {
        now < self.listed_until || view.active < MOST_NODES as u64
    }

    /// The quota is large enough for all nodes to hold some takes' worth.
    fn is_ample(&self, terms: &Terms, view: View, factor: u64) -> bool {
        let share = (factor * view.active).saturating_mul(self.demand.typical_cost());
        let comes_back = terms.ration >= share.saturating_mul(2);
        let is_there = view.room >= share.saturating_mul(128);
        (comes_back || is_there) && terms.burst >= share.saturating_mul(4)
    }

    /// The burst covers some round trips of the refill: spent permits count as out until they are reported.
    fn is_near(&self, terms: &Terms, factor: u64) -> bool {
        terms.full() >= (4 * factor * self.round_trip_ns / 1_000).saturating_mul(terms.per_us)
    }

    /// Nodes queue for the refill, and this one joins them.
    fn queues(&self, terms: &Terms, view: View, is_scarce: bool, now: Mono) -> bool {
        let is_contended = now < self.contended_until;
        let is_crowded = self.last_reply.is_some_and(|last| last.reply.crowd > 0);
        (is_contended || is_scarce && self.is_spent_soon(terms, view.active, now))
            && !is_crowded
            && !terms.has(Mistake::NeverQueues)
    }

    /// The permits that queueing nodes hold do not fill the burst; otherwise the refill would be held up. If
    /// all nodes are like this one, they hold the rate times a permit's wait for its take (Little's law), or
    /// the most that each may hold. And the permits of a take come back soon.
    fn is_spent_soon(&self, terms: &Terms, active: u64, now: Mono) -> bool {
        let typical = terms.units(self.demand.typical_cost());
        let unspent = terms.per_us.saturating_mul(self.demand.gap_ns() / 1_000);
        let most = terms.units(active.saturating_mul(self.target(terms, now)));
        let is_soon = typical <= terms.per_us.saturating_mul(4 * terms.tau_us);
        is_soon && unspent.min(most).saturating_add(typical) <= terms.full() / 2
    }

    /// Remembers for a while that the refill is promised to others: by time alone there would soon be room,
    /// but they take it.
    pub(super) fn note_contention(&mut self, terms: &Terms, now: Mono) {
        let Some(LastReply { reply, .. }) = &self.last_reply else { return };
        let has_others = reply.active > u64::from(now < self.listed_until);
        let is_overcommitted = !terms.is_window() && reply.taken > terms.full();
        if reply.crowd > 0 {
            self.contended_until = Mono(0);
        } else if has_others && is_overcommitted {
            self.contended_until = now.after_us(4 * terms.tau_us);
        } else if terms.room(reply.taken) > terms.burst / 4 {
            self.contended_until = Mono(0);
        }
    }
}
