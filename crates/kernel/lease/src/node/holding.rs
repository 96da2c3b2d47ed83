//! The permits that a node holds: which of them may be spent, and until when.
//!
//! Both follow from replies alone. A lease ends tau after its request was *sent*; permits promised ahead of
//! their refill become valid after a delay counted from the reply's *receipt*; both allow for the most that
//! clocks may differ in speed. So both err on the safe side, however long messages take.

use crate::{LedgerReply, Mistake, Mono, Terms};

/// The permits that a node holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Holding {
    /// Permits held, including those not yet valid.
    pub(super) permits: u64,
    /// At most this many of them are not yet valid: all are at `all_valid_at`.
    promised: u64,
    pub(super) all_valid_at: Mono,
    overcommit: Overcommit,
    /// They may be spent before this instant.
    pub(super) expires: Mono,
}

/// The ledger's debt beyond a full bucket, in units, when that reply was received: as it is paid, promises
/// become valid.
#[derive(Clone, Copy, Debug, Default)]
struct Overcommit {
    units: u64,
    since: Mono,
}

impl Overcommit {
    /// The part of it that may still be unpaid at `now`.
    fn unpaid(self, terms: &Terms, now: Mono) -> u64 {
        let elapsed_us = terms.shrunk_us(now.ns_since(self.since));
        self.units.saturating_sub(elapsed_us.saturating_mul(terms.per_us))
    }

    /// When it is paid for certain, except for `rest` units.
    fn paid_at(self, terms: &Terms, rest: u64) -> Mono {
        match self.units.saturating_sub(rest) {
            0 => self.since,
            units => self.since.after(terms.stretched(units.div_ceil(terms.per_us.max(1)))),
        }
    }
}

impl Holding {
    /// Permits that may be spent at `now`, before they expire.
    #[inline]
    pub(super) fn valid(&self, terms: &Terms, now: Mono) -> u64 {
        self.permits.saturating_sub(self.not_yet_valid(terms, now))
    }

    /// When `permits` of those held are valid.
    pub(super) fn valid_at(&self, terms: &Terms, permits: u64) -> Mono {
        // As many are valid once no more are promised than the rest.
        self.overcommit.paid_at(terms, terms.units(self.permits - permits))
    }

    /// Adds the permits that `reply` granted, received at `now`; all permits held then live from `began`.
    pub(super) fn grant(&mut self, terms: &Terms, reply: &LedgerReply, began: Mono, now: Mono) {
        self.expires = expiry(terms, reply, began);
        self.promised = self.not_yet_valid(terms, now) + reply.granted;
        self.permits += reply.granted;
        // All promises are valid once the ledger's debt is down to that of a full bucket.
        let overcommit = Overcommit { units: reply.taken.saturating_sub(terms.full()), since: now };
        let all_valid_at = overcommit.paid_at(terms, 0);
        if reply.granted > 0 || all_valid_at < self.all_valid_at {
            (self.overcommit, self.all_valid_at) = (overcommit, all_valid_at);
        }
    }

    /// Drops all permits; returns their number.
    pub(super) const fn drop_all(&mut self) -> u64 {
        self.promised = 0;
        std::mem::replace(&mut self.permits, 0)
    }

    #[inline]
    fn not_yet_valid(&self, terms: &Terms, now: Mono) -> u64 {
        if now >= self.all_valid_at || self.promised == 0 || terms.has(Mistake::SpendsPromises) {
            return 0;
        }
        self.overcommit.unpaid(terms, now).div_ceil(terms.interval).min(self.promised)
    }
}

/// When a lease ends that began at `began`: after tau, or before its window.
fn expiry(terms: &Terms, reply: &LedgerReply, began: Mono) -> Mono {
    let lives_us = if terms.is_window() && !terms.has(Mistake::OutlivesWindow) {
        reply.ends_in_us().saturating_sub(terms.skew_us).min(terms.tau_us)
    } else {
        terms.tau_us
    };
    let drift_ppm = if terms.has(Mistake::IgnoresDrift) { 0 } else { terms.drift_ppm };
    let lives_ns = u128::from(lives_us) * 1_000_000_000 / (1_000_000 + u128::from(drift_ppm));
    Mono(began.0.saturating_add(lives_ns as u64))
}
