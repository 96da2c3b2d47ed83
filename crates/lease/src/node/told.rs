//! What a leasing node's decisions tell beyond yes and no: by what it holds, and by the ledger's last word.

use std::time::Duration;

use tollgate_core::Decision;

use super::{Mono, Node, Word};
use crate::Terms;

impl Node {
    /// What an immediate take could still get, and nanoseconds until all is there again, by the ledger's last word.
    pub(super) fn left(&self, terms: &Terms, now: Mono) -> (u64, u64) {
        let held = self.valid(terms, now);
        let Some(Word { reply, heard, .. }) = &self.word else { return (held, 0) };
        let elapsed_us = now.0.saturating_sub(heard.0) / 1_000;
        let taken = terms.taken_after(reply, elapsed_us);
        let there = if self.silent || now < self.contended_until { 0 } else { terms.room(taken) };
        let is_all_here = taken <= terms.units(self.held);
        let reset_us = if is_all_here {
            0
        } else if terms.windows.is_some() {
            reply.ends_us.saturating_sub(reply.now_us + elapsed_us)
        } else {
            taken.saturating_sub(terms.units(self.held)).div_ceil(terms.per_us)
        };
        (held.saturating_add(there), reset_us.saturating_mul(1_000))
    }

    pub(super) fn deny(&self, terms: &Terms, cost: u64, now: Mono) -> Decision {
        let (left, reset_ns) = self.left(terms, now);
        let until = if cost <= self.held {
            // As many as the cost are valid once no more are promised than the rest.
            let (ahead, since) = self.ahead;
            Self::paid_at(terms, ahead.saturating_sub(terms.units(self.held - cost)), since)
        } else {
            self.word.as_ref().map_or(self.dry_until, |Word { reply, heard, .. }| {
                let wait_us = terms.wait_us(reply, cost - self.held);
                // Besides what is promised here, which becomes valid by a clock that may be faster.
                let stretched = terms.stretched(wait_us);
                heard.after(if self.held == 0 { Duration::from_micros(wait_us) } else { stretched })
            })
        };
        Decision::deny(terms.limit, left.min(cost - 1), until.0.saturating_sub(now.0), reset_ns)
    }
}
