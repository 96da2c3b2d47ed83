//! A node's behaviour while no take arrives: it gives back the permits that it holds, or keeps them where
//! others queue. No safety rests on this.

use super::Node;
use crate::{LeaseRequest, Mono, Terms};

/// Where others queue, permits are kept for this many times the usual gap between takes.
const KEPT_GAPS: u64 = 4;

impl Node {
    /// To be called when [`Node::wakes_at`] has come: gives back permits that are not needed, reports those
    /// spent, and keeps alive the permits for the next take of a node that is seldom asked.
    pub fn on_time(&mut self, terms: &Terms, now: Mono) -> Option<LeaseRequest> {
        self.lapse(now);
        if self.wakes_at(terms).is_none_or(|at| at > now) {
            return None;
        }
        if now < self.idle_at(terms) { Some(self.request(terms, now)) } else { self.give_up(terms, now) }
    }

    /// The instant at which no take will have arrived for long enough to give the permits back, or at which
    /// their lease is to be prolonged until then; `None` when nothing is held or unreported.
    #[must_use]
    pub fn wakes_at(&self, terms: &Terms) -> Option<Mono> {
        if !self.has_news() || self.in_flight.is_some() {
            return None;
        }
        let idle_at = self.idle_at(terms);
        if self.holding.permits == 0 || self.last_take >= self.contended_until {
            return Some(idle_at);
        }
        // Where others queue, the lease is prolonged, and the next turn asked for when the last one has come,
        // also without a take.
        let asked = self.last_reply.map_or(Mono(0), |last| last.asked.after_us(terms.tau_us / 2));
        let before_end_ns = terms.tau_us * 250 + 2 * self.round_trip_ns; // a quarter of tau, and the way
        let ends_soon = Mono(self.holding.expires.0.saturating_sub(before_end_ns));
        let all_valid_at = self.holding.all_valid_at;
        let is_low_then = self.is_low(terms, all_valid_at);
        let next_turn = if is_low_then { all_valid_at.max(self.no_ahead_before) } else { idle_at };
        Some(idle_at.min(ends_soon.min(next_turn).max(asked)))
    }

    /// When held permits are returned because no take arrives: after half of tau. Where all that comes back
    /// is promised, a node that is seldom asked keeps its permit or two for longer, or it would never have
    /// one for its next take.
    fn idle_at(&self, terms: &Terms) -> Mono {
        let least_us = terms.tau_us / 2;
        let idle_us = if self.last_take < self.contended_until {
            (KEPT_GAPS * self.demand.gap_ns() / 1_000).clamp(least_us, 4 * terms.tau_us)
        } else {
            least_us
        };
        self.last_take.after_us(idle_us)
    }
}
