//! The number of permits that a request gets. `ledger.lua` repeats it number by number, with the same names.

use super::Ledger;
use crate::{LeaseRequest, Mistake, Terms};

/// Span in which nothing is promised after a node found all of the burst leased out.
const CROWDED_US: u64 = 3_000_000;

impl Ledger {
    /// The number of permits that a request gets. Callers that wait get the available permits; beyond that
    /// the node gets its share of them. Where too few are available, it gets its share of the refill, behind
    /// the promises to others. A grant is never too small to be used: parts that no caller can take would
    /// stay with the nodes, and in the end all of the burst with them.
    ///
    /// `kept`: permits that the node holds and keeps. `active`: nodes that lease, this one included.
    pub(super) fn grant(
        &mut self,
        terms: &Terms,
        request: LeaseRequest,
        kept: u64,
        active: u64,
        now_us: u64,
    ) -> u64 {
        let LeaseRequest { want, need, least, .. } = request;
        let least = if terms.has(Mistake::GrantsParts) { 0 } else { least };
        let held_by_all = self.out + self.out_before + kept;
        let room = terms.room(self.taken);
        let ration = (terms.ration / active).max(1);
        // With half of the burst out, rations end, or central takes would find nothing.
        let spare = (terms.burst / 2).saturating_sub(held_by_all);
        let ahead_of_need = ration.min(spare).max(room / (2 * active));
        let share = need.max(least).max(ahead_of_need).min(want);
        let granted = if share <= room || terms.is_window() {
            share.min(room)
        } else {
            let turn = terms.turn(active);
            // Out never exceeds the burst, so that the refill that pays for a promise is never held up.
            let no_cap = terms.has(Mistake::NoCapOnPromises);
            let uncommitted = if no_cap { u64::MAX } else { terms.burst.saturating_sub(held_by_all) };
            // A place in the queue for the refill: one for each node, and at its end.
            let queued = self.taken.saturating_sub(terms.full());
            let has_place = queued < turn * active * terms.interval;
            // Nodes hold all that is owed, unspent, so that refill is held up: they are asked too seldom for
            // their permits.
            let held_up = need > 0 && room < least && self.taken < terms.units(held_by_all + 1);
            // There are fewer places than nodes, and a node that has one keeps it.
            let no_places = uncommitted < least && active.saturating_mul(least) > terms.burst;
            if has_place && (held_up || no_places) && !no_cap {
                // From now on all take from the ledger, in order of arrival.
                (self.crowd, self.crowded_until_us) = (active, now_us + CROWDED_US);
            }
            if has_place && self.crowded_until_us <= now_us {
                turn.max(room).max(least).min(want).min(uncommitted)
            } else {
                room
            }
        };
        if granted < least { 0 } else { granted }
    }
}
