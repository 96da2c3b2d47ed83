//! The answers that callers get without a message: by the permits that the node holds, and by the ledger's
//! last reply.

use tollgate_core::{Cost, Decision};

use super::last_reply::LastReply;
use super::{Node, TakeStep, Verdict};
use crate::{LeaseRequest, LedgerReply, Mistake, Mono, Terms};

/// The figures that a decision reports besides yes and no.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    /// Permits that an immediate take could still get.
    pub(super) permits: u64,
    /// Nanoseconds until the key is full again.
    pub(super) reset_ns: u64,
}

impl Node {
    /// The denial of `cost` for which the ledger need not be asked, since it denied as much lately: for a
    /// take whose denial is not counted in a window, as [`Op::Try`](crate::Op::Try).
    #[must_use]
    pub fn denies(&self, terms: &Terms, cost: Cost, now: Mono) -> Option<Decision> {
        self.known_denial(terms, cost.permits(), now, false)
    }

    /// A denial that is known, or else the way to the ledger.
    pub(super) fn known_or_central(
        &self,
        terms: &Terms,
        cost: u64,
        now: Mono,
        send: Option<LeaseRequest>,
    ) -> TakeStep {
        let known = self.known_denial(terms, cost, now, true).filter(|_| send.is_none());
        TakeStep { verdict: known.map_or(Verdict::Central, Verdict::Decided), send }
    }

    /// The figures from the permits held and the ledger's last reply.
    pub(super) fn left(&self, terms: &Terms, now: Mono) -> Left {
        let valid = self.holding.valid(terms, now);
        let Some(last) = &self.last_reply else { return Left { permits: valid, reset_ns: 0 } };
        let taken = last.taken_now(terms, now);
        let held = terms.units(self.holding.permits);
        let in_ledger = if self.was_lost || now < self.contended_until { 0 } else { terms.room(taken) };
        let reset_us = if taken <= held {
            0
        } else if terms.is_window() {
            last.ends_in_us(now)
        } else {
            last.reply.dry_us.saturating_sub(last.age_us(now)) + (taken - held).div_ceil(terms.per_us)
        };
        Left { permits: valid.saturating_add(in_ledger), reset_ns: reset_us.saturating_mul(1_000) }
    }

    /// The denial of `cost`.
    pub(super) fn deny(&self, terms: &Terms, cost: u64, now: Mono) -> Decision {
        let left = self.left(terms, now);
        let until = match &self.last_reply {
            _ if cost <= self.holding.permits => self.holding.valid_at(terms, cost),
            Some(last) => self.granted_at(terms, last, cost - self.holding.permits),
            None => self.no_grant_before,
        };
        Decision::deny(terms.limit, left.permits.min(cost - 1), until.ns_since(now), left.reset_ns)
    }

    /// The ledger had nothing to grant lately, nor room for `cost`, and is not asked again for a while.
    pub(super) fn no_grant_for(&self, terms: &Terms, cost: u64, now: Mono) -> bool {
        let missing = cost - self.holding.permits.min(cost);
        now < self.no_grant_before
            && self.last_reply.is_none_or(|last| terms.room(last.reply.taken) < missing)
    }

    /// The answer to permits that are used already, from the permits held and the ledger's last reply.
    pub(super) fn used(&self, terms: &Terms, now: Mono) -> Decision {
        let left = self.left(terms, now);
        if left.permits > 0 {
            return Decision::used(terms.limit, left.permits, 0, 0, left.reset_ns);
        }
        let Some(last) = &self.last_reply else {
            return Decision::used(terms.limit, 0, 0, left.reset_ns, left.reset_ns);
        };
        let dry_us = last.reply.dry_us.saturating_sub(last.age_us(now));
        let taken = last.taken_now(terms, now).saturating_sub(terms.units(self.holding.permits));
        let owed = terms.used(&LedgerReply { taken, dry_us, ..last.reply }).owed();
        let until_one = self.granted_at(terms, last, 1).ns_since(now);
        Decision::used(terms.limit, 0, owed, until_one, left.reset_ns)
    }

    /// When the ledger could grant `missing` permits.
    fn granted_at(&self, terms: &Terms, last: &LastReply, missing: u64) -> Mono {
        let wait_us = terms.wait_us(&last.reply, missing);
        if self.holding.permits == 0 {
            return last.received.after_us(wait_us);
        }
        // A promise becomes valid here by a clock that may be faster.
        last.received.after(terms.stretched(wait_us))
    }

    /// `is_hit`: a window counts it when it denies it.
    fn known_denial(&self, terms: &Terms, cost: u64, now: Mono, is_hit: bool) -> Option<Decision> {
        let last = self.last_reply.as_ref()?;
        if cost > terms.burst {
            let is_recent = now < last.asked.after_us(terms.horizon_us);
            // A window counts the hits that it denies.
            return (!terms.is_window() && is_recent).then(|| {
                let left = self.left(terms, now);
                Decision::never(terms.limit, left.permits, left.reset_ns)
            });
        }
        let is_denied = cost > 0
            && self.in_flight.is_none()
            && self.holding.permits == 0
            && !counts_denied(terms, &last.reply, is_hit)
            && now < short_until(terms, last, cost);
        is_denied.then(|| self.deny(terms, cost, now))
    }
}

/// A window counts the hits that it denies, until it owes more than it ever had: from then on, a denial here
/// changes nothing there.
fn counts_denied(terms: &Terms, reply: &LedgerReply, is_hit: bool) -> bool {
    let full = terms.full();
    terms.is_window() && (reply.taken < full || is_hit && reply.taken == full)
}

/// The instant until which a node believes that the ledger has no room for `cost`: as long as time alone
/// brings none, counted from the request, and at most for a horizon. Permits that others give back are not
/// withheld for longer.
fn short_until(terms: &Terms, last: &LastReply, cost: u64) -> Mono {
    let LastReply { reply, asked, .. } = last;
    // Where many ask, what comes back by then is gone by then: each asks in its turn.
    let crowd = if terms.has(Mistake::ForgetsTheCrowd) { 0 } else { reply.crowd };
    let wait_us = terms.wait_us(reply, cost).saturating_mul(crowd.max(1));
    let longest_us = if crowd > 0 { terms.tau_us / 2 } else { terms.horizon_us };
    let longest_us = if terms.has(Mistake::RemembersDenials) { u64::MAX } else { longest_us };
    asked.after_us(terms.shrunk_us(wait_us.min(longest_us).saturating_mul(1_000)))
}
