//! The meaning of a ledger's reply for callers: decisions, waits, and the state of the account a little later
//! without further takes.

use tollgate_core::Decision;

use crate::terms::MAX_TAKEN;
use crate::{LedgerReply, Mistake, Terms};

impl Terms {
    /// The answer to a central operation of one caller: a take, a peek, a charge or a return of `cost`
    /// permits.
    pub fn decision(&self, reply: &LedgerReply, cost: u64) -> Decision {
        self.decision_of(reply, cost, 0, 1)
    }

    /// The answer to a charge, or to a check of a payment afterwards: the permits left after it, or owed.
    /// Admitted; [`Decision::denied`] makes it a denial.
    pub fn used(&self, reply: &LedgerReply) -> Decision {
        let left = self.room(reply.taken);
        let until_one_ns = if left > 0 { 0 } else { self.wait_us(reply, 1).saturating_mul(1_000) };
        Decision::used(self.limit, left, self.owed(reply), until_one_ns, self.reset_ns(reply))
    }

    /// Permits that are owed beyond a full bucket, a part of one counted as one.
    fn owed(&self, reply: &LedgerReply) -> u64 {
        let owed = reply.taken.saturating_sub(self.full()).div_ceil(self.interval);
        owed + if reply.dry_us == 0 { 0 } else { self.permits_in_us(reply.dry_us) }
    }

    /// The answer to the `nth` of `times` merged takes, counted from 0 in order of arrival: as if they had
    /// come one after another.
    pub fn decision_of(&self, reply: &LedgerReply, cost: u64, nth: u64, times: u64) -> Decision {
        let is_admitted = nth < reply.admitted || self.has(Mistake::DealsTwice) && nth < 2 * reply.admitted;
        let counted = if self.is_window() { times } else { reply.admitted };
        // When this take was decided, those after it had taken nothing yet.
        let later = self.units(cost.saturating_mul(counted.saturating_sub(nth + 1)));
        let then = LedgerReply { taken: reply.taken.saturating_sub(later), ..*reply };
        let left = self.room(then.taken);
        let reset_ns = self.reset_ns(&then);
        if is_admitted {
            Decision::admit(self.limit, left, reset_ns)
        } else if cost > self.burst {
            Decision::never(self.limit, left, reset_ns)
        } else {
            Decision::deny(self.limit, left, self.wait_us(&then, cost).saturating_mul(1_000), reset_ns)
        }
    }

    /// The answer to the `nth` of merged takes that were [tried](crate::Op::Try): a denial is answered as if
    /// its hit had been counted.
    pub fn decision_of_try(&self, reply: &LedgerReply, cost: u64, nth: u64) -> Decision {
        let is_counted = self.is_window() && nth >= reply.admitted;
        let hits = if is_counted { self.units(cost) } else { 0 };
        let taken = (reply.taken + hits).min(MAX_TAKEN);
        self.decision_of(&LedgerReply { taken, ..*reply }, cost, nth, reply.admitted)
    }

    /// Microseconds until the ledger could grant `cost` permits, without other takes, if the leases that are
    /// out lapse.
    pub(crate) fn wait_us(&self, reply: &LedgerReply, cost: u64) -> u64 {
        if self.is_window() {
            return reply.ends_in_us();
        }
        let wanted = self.burst.saturating_sub(cost).saturating_mul(self.interval);
        // The debt falls to the permits leased out and stays there until an epoch ends, and leases of nodes
        // that sent nothing are written off.
        let mut taken = reply.taken;
        let mut at_us = reply.dry_us;
        let mut out = reply.all_out();
        for (epoch_ends_us, out_then) in
            [(reply.ends_us, reply.out), (reply.ends_us.saturating_add(self.tau_us), 0)]
        {
            let floor = out * self.interval;
            if floor <= wanted {
                break;
            }
            let ends_us = epoch_ends_us.saturating_sub(reply.now_us);
            let refill = ends_us.saturating_sub(at_us).saturating_mul(self.per_us);
            taken = taken.saturating_sub(refill).max(floor);
            (at_us, out) = (at_us.max(ends_us), out_then);
        }
        at_us + taken.saturating_sub(wanted).div_ceil(self.per_us)
    }

    /// Nanoseconds until the key is full again, without further takes.
    fn reset_ns(&self, reply: &LedgerReply) -> u64 {
        let us = if reply.taken == 0 { 0 } else { self.wait_us(reply, self.burst) };
        us.saturating_mul(1_000)
    }

    /// The debt `elapsed_us` after a reply, if nothing was taken and no lease was settled.
    pub(crate) fn taken_after(&self, reply: &LedgerReply, elapsed_us: u64) -> u64 {
        if self.is_window() {
            return reply.taken;
        }
        let elapsed_us = elapsed_us.saturating_sub(reply.dry_us);
        let refill = elapsed_us.min(reply.taken / self.per_us + 1) * self.per_us;
        let floor = self.units(reply.all_out()).min(reply.taken);
        reply.taken.saturating_sub(refill).max(floor)
    }
}
