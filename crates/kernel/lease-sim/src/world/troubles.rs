//! Troubles: faults of machines and clocks, and the acts of an adversary.

use tollgate_lease::{Ledger, LedgerCall, Op};

use super::{Host, SimEvent, World};
use crate::checker::Broken;
use crate::plan::Trouble;

impl World<'_> {
    pub(super) fn trouble(&mut self, trouble: Trouble) -> Result<(), Broken> {
        self.note(|| format!("{trouble:?}"));
        let lease_ns = self.plan.tau_ns() + self.plan.tau_ns() / 50;
        self.tick();
        match trouble {
            Trouble::Crash { host, down_ns } => self.crash(host, down_ns),
            Trouble::Pause { host, for_ns } => self.pause(host, for_ns),
            Trouble::LedgerStep { by_us } => self.step_ledger(by_us, lease_ns),
            Trouble::WallStep { host, by_ns } => self.hosts[host].wall_ns += by_ns,
            Trouble::Outage { for_ns } => self.silent_until = self.silent_until.max(self.now + for_ns),
            Trouble::KeyLoss => self.lose_key(lease_ns),
            Trouble::Cancel { host } => self.hosts[host].waiting.clear(),
            Trouble::Dump { takes } => return self.dump(takes),
            Trouble::Hoard => return self.hoard(),
            Trouble::Siege => self.besiege(),
            Trouble::Rush { takes } => return self.rush(takes),
            Trouble::Edge { host } => return self.take_at_the_edge(host),
            Trouble::Look => return self.look(),
            Trouble::Leave { host } => return self.leave(host),
            Trouble::Reload { host, limit } => return self.reload(host, limit),
        }
        Ok(())
    }

    fn crash(&mut self, host: usize, down_ns: u64) {
        let mut fresh = self.host(self.plan.limit_of(host));
        fresh.life = self.hosts[host].life + 1;
        fresh.is_up = false;
        let old = &self.hosts[host];
        (fresh.drift_ppm, fresh.began_ns, fresh.wall_ns) = (old.drift_ppm, old.began_ns, old.wall_ns);
        (fresh.share, fresh.degraded, fresh.degraded_lowest) =
            (old.share.clone(), old.degraded, old.degraded_lowest);
        self.hosts[host] = fresh;
        self.at(self.now + down_ns, SimEvent::Restart { host });
    }

    fn step_ledger(&mut self, by_us: i64, lease_ns: u64) {
        self.ledger_step_us += by_us;
        let has_key = self.ledger != Ledger::default();
        self.checker.stepped(self.clock_us(), self.ledger.at_us, has_key, self.now, lease_ns);
        self.tick();
    }

    fn lose_key(&mut self, lease_ns: u64) {
        if self.ledger != Ledger::default() {
            self.ledger = Ledger::default();
            self.checker.lost_key(self.now, lease_ns);
            self.checker.stood(&self.ledger, &self.rules[0].terms, self.now);
        }
    }

    /// Every host spends what it holds, up to `takes`.
    fn dump(&mut self, takes: u64) -> Result<(), Broken> {
        for host in 0..self.hosts.len() {
            let is_able = self.hosts[host].is_up && self.now >= self.hosts[host].paused_until;
            let mut left = if is_able { takes } else { 0 };
            while left > 0 && self.hosts[host].node.live(self.mono(host)) > 0 {
                let before = self.out.admitted;
                self.take_new(host, 1)?;
                left = if self.out.admitted > before { left - 1 } else { 0 };
            }
            self.settle_host(host)?;
        }
        Ok(())
    }

    /// Every host gets as large a lease as it can, for the siege that follows.
    fn hoard(&mut self) -> Result<(), Broken> {
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_up {
                self.take_new(host, self.plan.burst.div_ceil(self.plan.hosts as u64))?;
                self.hosts[host].waiting.clear();
            }
        }
        self.at(self.now + 2 * self.plan.delay_ns.1, SimEvent::Trouble(Trouble::Siege));
        Ok(())
    }

    /// The store is silent and every host paused until just before its lease ends; then all spend at once.
    fn besiege(&mut self) {
        let lease_ns = self.plan.tau_ns() * 98 / 100 - 2 * self.plan.delay_ns.1.min(self.plan.tau_ns() / 4);
        let left_us = self.ledger.ends_us.saturating_sub(self.clock_us()).min(self.rules[0].terms.tau_us());
        let over = self.now + (left_us + self.rules[0].terms.tau_us()) * 1_002 + 1_000;
        self.silent_until = self.silent_until.max(over);
        self.at(self.now + lease_ns, SimEvent::Trouble(Trouble::Dump { takes: self.plan.burst }));
        for host in 0..self.hosts.len() {
            self.pause(host, lease_ns);
        }
        self.at(over, SimEvent::Trouble(Trouble::Rush { takes: self.plan.burst }));
    }

    fn rush(&mut self, takes: u64) -> Result<(), Broken> {
        for host in 0..self.hosts.len() {
            let is_able = self.hosts[host].is_up && self.now >= self.hosts[host].paused_until;
            self.hosts[host].cool_until = 0;
            for _ in 0..if is_able { takes } else { 0 } {
                self.take_new(host, 1)?;
            }
            self.settle_host(host)?;
        }
        Ok(())
    }

    /// A take just before an epoch ends: first it is planned, then it is there.
    fn take_at_the_edge(&mut self, host: usize) -> Result<(), Broken> {
        let left_us = self.ledger.ends_us.saturating_sub(self.clock_us());
        let early_us = self.plan.delay_ns.1 / 1_000 + 20;
        if left_us > early_us && left_us <= self.rules[0].terms.tau_us() {
            self.at(self.now + (left_us - early_us) * 1_000, SimEvent::Trouble(Trouble::Edge { host }));
        } else if left_us > 0 && left_us <= early_us && self.hosts[host].is_up {
            let more = self.hosts[host].node.live(self.mono(host)) + 2;
            self.take_new(host, more)?;
            self.hosts[host].waiting.clear();
            let for_ns = self.plan.tau_ns();
            let paused_at = self.now + 4 * self.plan.delay_ns.1;
            self.at(paused_at, SimEvent::Trouble(Trouble::Pause { host, for_ns }));
            let drift = 1_000_000 + self.ledger_drift_ppm;
            let off_ns = (left_us + self.rules[0].terms.tau_us()) as i64 * 1_000_000_000 / drift + 3_000;
            self.at(self.now + off_ns.cast_unsigned(), SimEvent::Trouble(Trouble::Look));
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), Broken> {
        if self.ledger == Ledger::default() || self.plan.is_window() {
            return Ok(());
        }
        let call = LedgerCall { op: Op::Peek, window_ends_us: 0 };
        self.ledger.apply(&self.rules[0].terms, call, self.clock_us());
        self.forget_at_us = self.ledger.forget_at_us(&self.rules[0].terms);
        self.book()
    }

    fn leave(&mut self, host: usize) -> Result<(), Broken> {
        let now = self.mono(host);
        let Host { node, rule, is_up, .. } = &mut self.hosts[host];
        if *is_up && let Some(request) = node.give_up(&self.rules[*rule].terms, now) {
            self.send_lease(host, request)?;
            self.answer_waiting(host, false)?;
        }
        Ok(())
    }

    fn reload(&mut self, host: usize, limit: u64) -> Result<(), Broken> {
        let now = self.mono(host);
        let to = self.rule(limit);
        let Host { node, rule, .. } = &mut self.hosts[host];
        *rule = to;
        let request = node.change(&self.rules[to].terms, now);
        if let Some(request) = request {
            self.send_lease(host, request)?;
        }
        self.answer_waiting(host, true)
    }

    fn take_new(&mut self, host: usize, cost: u64) -> Result<(), Broken> {
        let caller = self.caller(cost);
        self.take(host, caller, true).map(|_| ())
    }

    pub(super) fn pause(&mut self, host: usize, for_ns: u64) {
        let until = (self.now + for_ns).max(self.hosts[host].paused_until);
        self.hosts[host].paused_until = until;
        self.at(until, SimEvent::Resume { host });
    }
}
