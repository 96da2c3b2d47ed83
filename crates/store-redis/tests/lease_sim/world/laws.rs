//! Laws about the whole of a run.

use tollgate_core::Timestamp;
use tollgate_store_redis::lease::{Call, Op};

use super::World;
use crate::checker::Broken;
use crate::plan::PATIENCE_NS;

impl World<'_> {
    /// I3, on the ledger's book as it is.
    pub(super) fn book(&self) -> Result<(), Broken> {
        let truth: Vec<_> = (0..self.hosts.len())
            .filter(|at| self.hosts[*at].is_up)
            .map(|at| (self.hosts[at].node_id, self.hosts[at].node.live(self.mono(at))))
            .collect();
        self.checker.book(&self.ledger, &self.terms, &truth, self.now)
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
        if self.now >= until && self.out.yielded.is_none() {
            let before = self.before.unwrap_or(i128::MIN);
            // A bucket that is full between two callers, or before a round trip's end, loses refill however it is kept.
            let covers_ns =
                u128::from(self.plan.burst) * u128::from(self.plan.period_ns) / u128::from(self.plan.limit);
            let is_tight = self.plan.burst < 10 || covers_ns < 8 * u128::from(self.plan.delay_ns.1);
            let is_owing = self.plan.refunds > 0 || self.plan.charges > 0;
            if before != i128::MIN && self.plan.is_window() && !is_owing {
                let least = self.checker.windows_within(from, until).min();
                self.out.yielded =
                    Some(least.map_or(f64::NAN, |least| least as f64 / self.plan.limit as f64));
                // Once hits are refused, and counted, what nodes still hold is of no use to others: each at most twice what it is asked
                // for in a horizon and two round trips.
                let span_ns = self.plan.timing.horizon.as_nanos() as f64 + 4.0 * self.plan.delay_ns.1 as f64;
                let hosts = self.plan.hosts as f64;
                let asked = 2.0 * self.plan.limit as f64 * span_ns / self.plan.period_ns as f64 / hosts;
                let slack = hosts * (2.0 * (asked + 1.28 * asked.sqrt()) + 2.0);
                if let Some(least) = least
                    && (least as f64) < 0.95 * self.plan.limit as f64 - slack
                {
                    return Err(format!("I4: {least} admitted in a window of {}", self.plan.limit));
                }
                return Ok(());
            }
            if before == i128::MIN || self.plan.is_window() || is_tight || is_owing {
                self.out.yielded = Some(f64::NAN);
                return Ok(());
            }
            let gave = self.plan.limit as f64 * (until - from) as f64 / self.plan.period_ns as f64;
            let got = (self.checker.admitted() - before) as f64;
            self.out.yielded = Some(got / gave);
            // A node may hold its ration, and a cost's worth, at either end.
            let slack = (self.terms.ration() + self.plan.hosts as u64 * 2) as f64;
            if got < 0.95 * gave - slack {
                return Err(format!("I4: admitted {got} of {gave:.1}"));
            }
        }
        Ok(())
    }

    /// When all is over the ledger is as new: full, nothing out.
    pub(super) fn finish(&mut self) -> Result<(), Broken> {
        self.measure()?;
        if self.checker.is_behind(self.clock_us()) || self.plan.charges > 0 {
            return Ok(());
        }
        let refill_ns = self.plan.burst * self.plan.period_ns / self.plan.limit;
        self.now += 4 * self.plan.tau_ns() + 2 * refill_ns.max(self.plan.period_ns) + PATIENCE_NS;
        self.tick();
        if self.plan.is_window() && self.ledger.ends_us > self.clock_us() {
            return Ok(()); // its clock went back, and the window has not ended yet
        }
        let (at_us, ends_us) = (
            self.clock_us(),
            self.terms.window_ends_us(&self.quota, Timestamp::from_nanos(self.clock_us() * 1_000)),
        );
        let call = Call { op: Op::Take { cost: 1, times: self.plan.burst + 1 }, window_ends_us: ends_us };
        let reply = self.ledger.apply(&self.terms, call, at_us);
        if reply.admitted != self.plan.burst {
            return Err(format!(
                "I5: idle for long, and {} of {} are there",
                reply.admitted, self.plan.burst
            ));
        }
        Ok(())
    }
}
