//! Callers: takes that arrive, wait, are answered, or are decided without the ledger.

use tollgate_core::{Cost, Timestamp};
use tollgate_lease::{Mistake, Op, Verdict, merge};

use super::{CentralTake, Host, SimEvent, WaitingCaller, World};
use crate::checker::Broken;
use crate::plan::{Phase, Sharing};

impl World<'_> {
    pub(super) fn next_take(&mut self, phase: usize) {
        let Phase { every_ns, until_ns, gaps, .. } = self.plan.phases[phase];
        let next = self.now + gaps.draw(every_ns, &mut self.rng);
        if next < until_ns {
            self.at(next, SimEvent::Take { phase });
        }
    }

    pub(super) fn arrive(&mut self, phase: usize) -> Result<(), Broken> {
        self.next_take(phase);
        self.takes(phase)
    }

    pub(super) fn takes(&mut self, phase: usize) -> Result<(), Broken> {
        let Phase { host, together, gaps, .. } = self.plan.phases[phase];
        if !self.hosts[host].is_up {
            return Ok(());
        }
        for _ in 0..together * gaps.at_once() {
            let cost = self.plan.phases[phase].costs.draw(&mut self.rng);
            if self.plan.pays > 0 && self.rng.percent(self.plan.pays) {
                self.check(host, cost)?;
                continue;
            }
            self.served.arrived(host, cost, self.now);
            let caller = self.caller(cost);
            self.take(host, caller, true)?;
        }
        self.settle_host(host)
    }

    /// A caller that arrives now.
    pub(super) fn caller(&mut self, cost: u64) -> WaitingCaller {
        self.numbers += 1;
        WaitingCaller { number: self.numbers, cost, by: self.now + self.plan.patience_ns() }
    }

    fn wait(&mut self, host: usize, caller: WaitingCaller, is_new: bool) {
        if is_new {
            let life = self.hosts[host].life;
            self.at(caller.by, SimEvent::Deadline { host, life, caller: caller.number });
        }
    }

    /// A caller that waited long enough is decided without the ledger.
    pub(super) fn time_is_over(&mut self, host: usize, caller: u64) -> Result<(), Broken> {
        let Host { waiting, central, asked, .. } = &mut self.hosts[host];
        let cost = [waiting, central].into_iter().find_map(|queue| {
            let at = queue.iter().position(|waiting| waiting.number == caller)?;
            Some(queue.remove(at)?.cost)
        });
        let cost = cost.or_else(|| {
            asked.iter_mut().find_map(|asked| {
                let at = asked.callers.iter().position(|waiting| waiting.number == caller)?;
                Some(asked.callers[at].cost).filter(|_| std::mem::replace(&mut asked.callers[at].by, 0) > 0)
            })
        });
        let Some(cost) = cost else { return Ok(()) };
        self.note(|| format!("h{host} take {cost}: its time is over"));
        self.served.late(host, self.now);
        self.degrade(host, cost)
    }

    /// One caller's take; `is_new`: not one that has waited.
    pub(super) fn take(&mut self, host: usize, caller: WaitingCaller, is_new: bool) -> Result<bool, Broken> {
        let cost = caller.cost;
        // A paused host could not answer sooner.
        if self.now > caller.by && self.hosts[host].paused_until < caller.by {
            return Err(format!(
                "L5: a take is answered {} us after its deadline",
                (self.now - caller.by) / 1_000
            ));
        }
        match self.plan.sharing {
            Sharing::Leased => {}
            Sharing::Exact => {
                self.hosts[host].central.push_back(caller);
                self.wait(host, caller, is_new);
                return Ok(false);
            }
            Sharing::Local => {
                self.take_of_share(host, cost);
                return Ok(true);
            }
        }
        let now = self.mono(host);
        if is_new && !self.hosts[host].waiting.is_empty() && cost <= self.plan.burst {
            self.note(|| format!("h{host} take {cost}: waits behind others"));
            let Host { node, rule, .. } = &mut self.hosts[host];
            node.queue(&self.rules[*rule].terms, Cost(cost), now);
            self.hosts[host].waiting.push_back(caller);
            self.wait(host, caller, is_new);
            return Ok(false);
        }
        let Host { node, rule, .. } = &mut self.hosts[host];
        let terms = &self.rules[*rule].terms;
        let step =
            if is_new { node.take(terms, Cost(cost), now) } else { node.retake(terms, Cost(cost), now) };
        let mut is_decided = true;
        self.hosts[host].last_verdict = Some(step.verdict);
        match step.verdict {
            Verdict::Decided(decision) => {
                let admitted = decision.is_admitted();
                self.digest(u64::from(admitted) + cost * 2);
                self.note(|| format!("h{host} take {cost}: {decision:?}"));
                if admitted {
                    self.admitted(host, cost)?;
                } else if decision.retry_after() == tollgate_core::RetryAfter::Now {
                    return Err("I7: a denial without a wait".into());
                } else {
                    // A paused host has not received the messages that came meanwhile.
                    let awake_since = self.hosts[host].paused_until;
                    self.checker.denied_here(cost, self.clock_us(), self.now, awake_since)?;
                    self.served.denied(cost, self.now);
                }
            }
            Verdict::Wait => {
                self.note(|| format!("h{host} take {cost}: waits"));
                self.hosts[host].waiting.push_back(caller);
                self.wait(host, caller, is_new);
                is_decided = false;
            }
            Verdict::Central => {
                self.note(|| format!("h{host} take {cost}: central"));
                self.hosts[host].central.push_back(caller);
                self.wait(host, caller, is_new);
                is_decided = false;
            }
        }
        match step.send {
            Some(request) if is_new => self.send_lease(host, request)?,
            // When all that waited have been dealt to.
            Some(request) => self.hosts[host].delayed = Some(request),
            None => {}
        }
        Ok(is_decided)
    }

    /// Admitted from a lease, now.
    pub(super) fn admitted(&mut self, host: usize, cost: u64) -> Result<(), Broken> {
        self.tick();
        if self.plan.is_window() {
            self.checker.window(self.ledger.window_ends_us, self.now);
        }
        self.out.admitted += cost;
        self.served.admitted(host, cost, self.now);
        self.checker.admit(cost, self.now)?;
        if self.rng.percent(self.plan.refunds) {
            if self.plan.late_refunds {
                self.give_back_later(host, cost);
            } else {
                self.give_back(host, cost);
            }
        } else if self.rng.percent(self.plan.charges) {
            self.send(host, Op::Charge { cost });
        }
        Ok(())
    }

    /// After a while: in the same lease, in the next, or long after.
    pub(super) fn give_back_later(&mut self, host: usize, cost: u64) {
        let tau_ns = self.plan.tau_ns();
        let most = self.rng.pick(&[tau_ns / 8, tau_ns, 3 * tau_ns]);
        let at = self.now + self.rng.range(0, most);
        let life = self.hosts[host].life;
        self.at(at, SimEvent::GiveBack { host, life, cost });
    }

    /// To the lease that it was taken from, where that can take it back; else to the ledger.
    pub(super) fn give_back(&mut self, host: usize, cost: u64) {
        let now = self.mono(host);
        let Host { node, rule, .. } = &mut self.hosts[host];
        let terms = &self.rules[*rule].terms;
        let given = node.give_back(terms, Cost(cost), now);
        let rest = given.map_or_else(Cost::permits, |_| 0);
        let here = cost - rest;
        if here > 0 {
            self.note(|| format!("h{host} gives {here} back to its lease"));
            self.tick();
            self.out.admitted -= here;
            self.checker.give_back(here);
        }
        if rest > 0 {
            self.send(host, Op::GiveBack { cost: rest });
        }
    }

    /// After anything happened on a host: central takes go out, and the timer is set.
    pub(super) fn settle_host(&mut self, host: usize) -> Result<(), Broken> {
        // At most one central call in flight, eight where the ledger is far; takes that arrive meanwhile wait
        // for the next, equal ones merged.
        let is_cooling = self.now < self.hosts[host].cool_until;
        let most = if host == 0 && self.plan.far_ns > 0 { 8 } else { 1 };
        if self.hosts[host].asked.len() < most || is_cooling {
            let waiting = std::mem::take(&mut self.hosts[host].central);
            let mut groups = merge(waiting, |caller| caller.cost).into_iter();
            for (cost, callers) in groups.by_ref() {
                let times = callers.len() as u64;
                if is_cooling {
                    for _ in 0..times {
                        self.degrade(host, cost)?;
                    }
                } else {
                    self.out.centrals += 1;
                    let now = self.mono(host);
                    let number = self.send(host, Op::Take { cost, times });
                    self.hosts[host].asked.push(CentralTake { number, at: now, callers });
                    if self.mistakes.has(Mistake::OneCostATrip) {
                        break;
                    }
                }
            }
            self.hosts[host].central = groups.flat_map(|(_, callers)| callers).collect();
        }
        let Host { node, rule, .. } = &self.hosts[host];
        if let Some(at) = node.wakes_at(&self.rules[*rule].terms) {
            let now = self.mono(host);
            let due = self.now + at.0.saturating_sub(now.0) + 1;
            if self.hosts[host].wake_at <= self.now || due < self.hosts[host].wake_at {
                self.hosts[host].wake_at = due;
                let life = self.hosts[host].life;
                self.at(due, SimEvent::Wake { host, life });
            }
        }
        // Callers wait for a request in flight only.
        let Host { node, waiting, requested, .. } = &self.hosts[host];
        if !waiting.is_empty() && !node.is_waiting_for(*requested) {
            return Err(format!("I5: {} callers of h{host} wait for nothing", waiting.len()));
        }
        self.conserve(host)
    }

    /// I3 on the node: granted = spent + held + lapsed + given back.
    pub(super) fn conserve(&self, host: usize) -> Result<(), Broken> {
        let Host { node, granted, .. } = &self.hosts[host];
        let known = node.spent() + node.held() + node.lapsed() + node.given_back();
        if *granted == known {
            Ok(())
        } else {
            Err(format!("I3: h{host} was granted {granted} and accounts for {known}"))
        }
    }

    /// Without an answer a take is denied, or decided by this host's share. Marked either way.
    pub(super) fn degrade(&mut self, host: usize, cost: u64) -> Result<(), Broken> {
        if !self.plan.local_share {
            self.served.denied(cost, self.now);
            return Ok(());
        }
        let now = self.mono(host);
        let share = &mut self.hosts[host].share;
        let at = Timestamp::from_nanos(now.0);
        if self.local.take(share, Cost(cost), at).is_admitted() {
            self.out.degraded += cost;
            self.served.by_share(cost, self.now);
            self.digest(cost ^ 0xDE);
            self.note(|| format!("h{host} take {cost}: degraded, admitted"));
            // I14: at most the share, B' + r'·t, on the host's own clock.
            let limit = i128::from(self.local.limit());
            let period_ns = i128::from(self.plan.period_ns);
            let host = &mut self.hosts[host];
            let over = |admitted: u64| i128::from(admitted) * period_ns - limit * i128::from(now.0);
            host.degraded_lowest = host.degraded_lowest.min(over(host.degraded));
            host.degraded += cost;
            if over(host.degraded) - host.degraded_lowest > limit * period_ns {
                return Err("I14: more than a share while degraded".into());
            }
        } else {
            self.served.denied(cost, self.now);
        }
        Ok(())
    }

    /// A host that sends no requests decides by its share of the quota.
    fn take_of_share(&mut self, host: usize, cost: u64) {
        let at = Timestamp::from_nanos(self.mono(host).0);
        if self.local.take(&mut self.hosts[host].share, Cost(cost), at).is_admitted() {
            self.out.degraded += cost;
            self.served.by_share(cost, self.now);
        } else {
            self.served.denied(cost, self.now);
        }
    }
}
