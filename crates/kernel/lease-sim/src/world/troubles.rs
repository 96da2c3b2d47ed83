//! Troubles: faults of machines and clocks, and the acts of an adversary.

use tollgate_lease::{Ledger, LedgerCall, Op};

use super::{Event, Host, World};
use crate::checker::Broken;
use crate::plan::Trouble;

impl World<'_> {
    pub(super) fn trouble(&mut self, trouble: Trouble) -> Result<(), Broken> {
        self.note(|| format!("{trouble:?}"));
        let lease_ns = self.plan.tau_ns() + self.plan.tau_ns() / 50;
        self.tick();
        match trouble {
            Trouble::Crash { host, down_ns } => {
                let mut fresh = self.host(self.plan.limit_of(host));
                fresh.life = self.hosts[host].life + 1;
                fresh.is_up = false;
                let old = &self.hosts[host];
                (fresh.drift_ppm, fresh.began_ns, fresh.wall_ns) = (old.drift_ppm, old.began_ns, old.wall_ns);
                (fresh.share, fresh.degraded, fresh.degraded_lowest) =
                    (old.share.clone(), old.degraded, old.degraded_lowest);
                self.hosts[host] = fresh;
                self.at(self.now + down_ns, Event::Restart { host });
            }
            Trouble::Pause { host, for_ns } => {
                self.pause(host, for_ns);
            }
            Trouble::LedgerStep { by_us } => {
                self.ledger_step_us += by_us;
                let has_key = self.ledger != Ledger::default();
                self.checker.stepped(self.clock_us(), self.ledger.at_us, has_key, self.now, lease_ns);
                self.tick();
            }
            Trouble::WallStep { host, by_ns } => self.hosts[host].wall_ns += by_ns,
            Trouble::Outage { for_ns } => self.silent_until = self.silent_until.max(self.now + for_ns),
            Trouble::KeyLoss => {
                if self.ledger != Ledger::default() {
                    self.ledger = Ledger::default();
                    self.checker.lost_key(self.now, lease_ns);
                    self.checker.stood(&self.ledger, &self.rules[0].terms, self.now);
                }
            }
            Trouble::Cancel { host } => self.hosts[host].waiting.clear(),
            Trouble::Dump { takes } => {
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
            }
            Trouble::Hoard => {
                for host in 0..self.hosts.len() {
                    if self.hosts[host].is_up {
                        self.take_new(host, self.plan.burst.div_ceil(self.plan.hosts as u64))?;
                        self.hosts[host].waiting.clear();
                    }
                }
                self.at(self.now + 2 * self.plan.delay_ns.1, Event::Trouble(Trouble::Siege));
            }
            Trouble::Siege => {
                let lease_ns =
                    self.plan.tau_ns() * 98 / 100 - 2 * self.plan.delay_ns.1.min(self.plan.tau_ns() / 4);
                let left_us =
                    self.ledger.ends_us.saturating_sub(self.clock_us()).min(self.rules[0].terms.tau_us());
                let over = self.now + (left_us + self.rules[0].terms.tau_us()) * 1_002 + 1_000;
                self.silent_until = self.silent_until.max(over);
                self.at(self.now + lease_ns, Event::Trouble(Trouble::Dump { takes: self.plan.burst }));
                for host in 0..self.hosts.len() {
                    self.pause(host, lease_ns);
                }
                self.at(over, Event::Trouble(Trouble::Rush { takes: self.plan.burst }));
            }
            Trouble::Rush { takes } => {
                for host in 0..self.hosts.len() {
                    let is_able = self.hosts[host].is_up && self.now >= self.hosts[host].paused_until;
                    self.hosts[host].cool_until = 0;
                    for _ in 0..if is_able { takes } else { 0 } {
                        self.take_new(host, 1)?;
                    }
                    self.settle_host(host)?;
                }
            }
            Trouble::Edge { host } => {
                // The first event plans the trouble, the next one makes it.
                let left_us = self.ledger.ends_us.saturating_sub(self.clock_us());
                let early_us = self.plan.delay_ns.1 / 1_000 + 20;
                if left_us > early_us && left_us <= self.rules[0].terms.tau_us() {
                    self.at(self.now + (left_us - early_us) * 1_000, Event::Trouble(Trouble::Edge { host }));
                } else if left_us > 0 && left_us <= early_us && self.hosts[host].is_up {
                    let more = self.hosts[host].node.live(self.mono(host)) + 2;
                    self.take_new(host, more)?;
                    self.hosts[host].waiting.clear();
                    let tau_ns = self.plan.tau_ns();
                    self.at(
                        self.now + 4 * self.plan.delay_ns.1,
                        Event::Trouble(Trouble::Pause { host, for_ns: tau_ns }),
                    );
                    let drift = 1_000_000 + self.ledger_drift_ppm;
                    let off_ns =
                        (left_us + self.rules[0].terms.tau_us()) as i64 * 1_000_000_000 / drift + 3_000;
                    self.at(self.now + off_ns.cast_unsigned(), Event::Trouble(Trouble::Look));
                }
            }
            Trouble::Look => {
                if self.ledger != Ledger::default() && !self.plan.is_window() {
                    let call = LedgerCall { op: Op::Peek, window_ends_us: 0 };
                    self.ledger.apply(&self.rules[0].terms, call, self.clock_us());
                    self.forget_at_us = self.ledger.forget_at_us(&self.rules[0].terms);
                    self.book()?;
                }
            }
            Trouble::Leave { host } => {
                let now = self.mono(host);
                let Host { node, rule, is_up, .. } = &mut self.hosts[host];
                if *is_up && let Some(request) = node.give_up(&self.rules[*rule].terms, now) {
                    self.send_lease(host, request)?;
                    self.answer_waiting(host, false)?;
                }
            }
            Trouble::Reload { host, limit } => {
                let (now, to) = (self.mono(host), self.rule(limit));
                let Host { node, rule, .. } = &mut self.hosts[host];
                *rule = to;
                let request = node.change(&self.rules[to].terms, now);
                if let Some(request) = request {
                    self.send_lease(host, request)?;
                }
                self.answer_waiting(host, true)?;
            }
        }
        Ok(())
    }

    fn take_new(&mut self, host: usize, cost: u64) -> Result<(), Broken> {
        let caller = self.caller(cost);
        self.take(host, caller, true).map(|_| ())
    }

    pub(super) fn pause(&mut self, host: usize, for_ns: u64) {
        let until = (self.now + for_ns).max(self.hosts[host].paused_until);
        self.hosts[host].paused_until = until;
        self.at(until, Event::Resume { host });
    }
}
