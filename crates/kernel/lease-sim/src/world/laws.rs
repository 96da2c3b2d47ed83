//! Laws about the whole of a run.

use tollgate_core::Timestamp;
use tollgate_lease::{LedgerCall, Op};

use super::World;
use crate::checker::Broken;
use crate::plan::{MS, PATIENCE_NS};

impl World<'_> {
    /// I3, on the ledger's book as it is.
    pub(super) fn book(&self) -> Result<(), Broken> {
        let truth: Vec<_> = (0..self.hosts.len())
            .filter(|at| self.hosts[*at].is_up)
            .map(|at| (self.hosts[at].node_id, self.hosts[at].node.live(self.mono(at))))
            .collect();
        self.checker.book(&self.ledger, &self.rules[0].terms, &truth, self.now)
    }

    /// I4: with demand above the rate and no faults, nothing of the quota is lost.
    pub(super) fn measure(&mut self) -> Result<(), Broken> {
        let (from, until) = self.plan.measured_ns;
        if self.now >= from && self.before.is_none() {
            self.tick();
            self.before = Some(self.checker.admitted());
            if self.checker.is_behind(self.clock_us()) || self.ledger.at_us > self.clock_us() {
                self.before = Some(i128::MIN); // the ledger waits for its clock
            }
        }
        if self.now >= until && self.out.yielded.is_none() && !self.plan.is_fleet {
            let before = self.before.unwrap_or(i128::MIN);
            // A bucket that is full between two callers, or before a round trip's end, loses refill however
            // it is kept.
            let covers_ns =
                u128::from(self.plan.burst) * u128::from(self.plan.period_ns) / u128::from(self.plan.limit);
            let is_tight = self.plan.burst < 10 || covers_ns < 8 * u128::from(self.plan.delay_ns.1);
            let is_owing = self.plan.refunds > 0 || self.plan.charges > 0 || self.plan.pays > 0;
            if before != i128::MIN && self.plan.is_window() && !is_owing {
                return self.measure_windows(from, until);
            }
            if before == i128::MIN || self.plan.is_window() || is_tight || is_owing {
                self.out.yielded = Some(f64::NAN);
                return Ok(());
            }
            let gave = self.plan.limit as f64 * (until - from) as f64 / self.plan.period_ns as f64;
            let got = (self.checker.admitted() - before) as f64;
            self.out.yielded = Some(got / gave);
            // A node may hold its ration, and a cost's worth, at either end.
            let slack = (self.rules[0].terms.ration() + self.plan.hosts as u64 * 2) as f64;
            if got < 0.95 * gave - slack {
                return Err(format!("I4: admitted {got} of {gave:.1}"));
            }
        }
        Ok(())
    }

    /// Checks each whole window, in which twice the limit is asked for, one permit at a time:
    /// `docs/guarantees.md` derives both laws.
    fn measure_windows(&mut self, from: u64, until: u64) -> Result<(), Broken> {
        let limit = self.plan.limit;
        let mut least = None::<i128>;
        for (window, over_at) in self.checker.windows_within(from, until) {
            let missing = i128::from(limit) - window.admitted;
            if missing > window.rest {
                return Err(format!("I4: {missing} of {limit} are lost, {} are there or out", window.rest));
            }
            let dry_ns = window.dry_at.map_or(0, |dry_at| over_at - dry_at);
            if missing > 0 && dry_ns as f64 >= self.used_up_within_ns() {
                return Err(format!("I4: {missing} of {limit} unused for {} ms", dry_ns / MS));
            }
            least = Some(least.map_or(window.admitted, |least| least.min(window.admitted)));
        }
        self.out.yielded = Some(least.map_or(f64::NAN, |least| least as f64 / limit as f64));
        Ok(())
    }

    /// The time from an empty ledger until nodes have used up all permits that they hold, and those that came
    /// back of them.
    fn used_up_within_ns(&self) -> f64 {
        let horizon = self.plan.timing.horizon.as_nanos() as f64;
        let delay = self.plan.delay_ns.1 as f64;
        let a_ns = 2.0 * self.plan.limit as f64 / self.plan.period_ns as f64 / self.plan.hosts as f64;
        // The most that a node holds with one take per `a_ns`, and one more in a horizon: its need in a
        // horizon and two round trips, with the deviations that it covers.
        let need = (a_ns + 1.0 / horizon) * (horizon + 4.0 * delay);
        let held = need + 1.28 * need.sqrt() + 1.0;
        2.0 * held / a_ns + horizon + 6.0 * delay
    }

    /// When all is over the ledger is as new: full, nothing out.
    pub(super) fn finish(&mut self) -> Result<(), Broken> {
        self.measure()?;
        let waits = self.checker.is_behind(self.clock_us()) || self.ledger.at_us > self.clock_us();
        if waits || self.plan.charges > 0 || self.plan.pays > 0 {
            return Ok(());
        }
        let refill_ns = self.plan.burst * self.plan.period_ns / self.plan.limit;
        self.now += 4 * self.plan.tau_ns() + 2 * refill_ns.max(self.plan.period_ns) + PATIENCE_NS;
        self.tick();
        if self.plan.is_window() && self.ledger.window_ends_us > self.clock_us() {
            return Ok(()); // its clock went back, and the window has not ended yet
        }
        let at_us = self.clock_us();
        let ends_us = self.rules[0].terms.window_ends_us(
            &self.plan.quota(self.plan.limit),
            Timestamp::from_nanos(self.clock_us() * 1_000),
        );
        let call =
            LedgerCall { op: Op::Take { cost: 1, times: self.plan.burst + 1 }, window_ends_us: ends_us };
        let reply = self.ledger.apply(&self.rules[0].terms, call, at_us);
        if reply.admitted != self.plan.burst {
            return Err(format!(
                "I5: idle for long, and {} of {} are there",
                reply.admitted, self.plan.burst
            ));
        }
        Ok(())
    }
}
