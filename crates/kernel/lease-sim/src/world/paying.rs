//! Callers that pay afterwards: each asks whether anything is left, works for a while, and reports the cost.

use tollgate_core::Cost;
use tollgate_lease::{LedgerReply, Mono, Op};

use super::{Host, Message, SimEvent, World};
use crate::checker::Broken;

impl World<'_> {
    /// A caller asks whether its work may begin, whose cost it does not know yet.
    pub(super) fn check(&mut self, host: usize, cost: u64) -> Result<(), Broken> {
        let now = self.mono(host);
        let Host { node, rule, .. } = &mut self.hosts[host];
        let step = node.pay(&self.rules[*rule].terms, Cost::PEEK, now);
        match step.decision {
            Some(decision) if decision.is_admitted() => {
                self.note(|| format!("h{host} check: {decision:?}"));
                if self.hosts[host].node.live(now) == 0 {
                    return Err(format!("P2: h{host} lets a check pass, and holds nothing"));
                }
                self.work(host, cost);
            }
            Some(decision) => {
                self.note(|| format!("h{host} check: {decision:?}"));
                let awake_since = self.hosts[host].paused_until;
                self.checker.denied_here(1, self.clock_us(), self.now, awake_since)?;
            }
            None => {
                let number = self.send(host, Op::Peek);
                self.hosts[host].checks.push((number, now, cost));
            }
        }
        if let Some(request) = step.send {
            self.send_lease(host, request)?;
        }
        Ok(())
    }

    /// The ledger's answer to a check.
    pub(super) fn checked(
        &mut self,
        host: usize,
        message: &Message,
        reply: &LedgerReply,
        now: Mono,
    ) -> Result<(), Broken> {
        let Host { checks, node, rule, .. } = &mut self.hosts[host];
        let Some(at) = checks.iter().position(|(number, ..)| *number == message.number) else {
            return Ok(());
        };
        let (_, asked, cost) = checks.remove(at);
        if reply.rejected || *rule != message.rule {
            return Ok(());
        }
        let terms = &self.rules[*rule].terms;
        node.on_central(terms, reply, asked, now);
        if terms.used(reply).remaining() > 0 {
            self.work(host, cost);
        } else if node.live(now) > 0 {
            return self.check(host, cost); // a lease came meanwhile
        }
        Ok(())
    }

    /// Work for a while, often for more than was left.
    fn work(&mut self, host: usize, cost: u64) {
        let tau_ns = self.plan.tau_ns();
        let most = self.rng.pick(&[self.plan.delay_ns.1, tau_ns / 8, tau_ns, 2 * tau_ns]);
        let at = self.now + self.rng.range(0, most);
        let largest = self.rng.pick(&[cost, cost, self.plan.burst, 3 * self.plan.burst]);
        let cost = self.rng.range(1, largest.max(1));
        let life = self.hosts[host].life;
        self.at(at, SimEvent::Pay { host, life, cost });
    }

    /// The work is done: all of its cost is counted, here or at the ledger.
    pub(super) fn pay(&mut self, host: usize, cost: u64) -> Result<(), Broken> {
        let now = self.mono(host);
        let Host { node, rule, .. } = &mut self.hosts[host];
        let before = node.spent();
        let step = node.pay(&self.rules[*rule].terms, Cost(cost), now);
        let here = node.spent() - before;
        let rest = if step.decision.is_some() { 0 } else { step.rest };
        self.note(|| format!("h{host} pays {cost}: {here} from its lease, {rest} at the ledger"));
        if here + rest != cost {
            return Err(format!("P1: {cost} were used, and {} are counted", here + rest));
        }
        self.tick();
        self.enter_window();
        self.checker.charge(here);
        if rest > 0 {
            self.send(host, Op::Charge { cost: rest });
        }
        if let Some(request) = step.send {
            self.send_lease(host, request)?;
        }
        Ok(())
    }

    /// Permits that nodes may still spend.
    pub(super) fn held_by_all(&self) -> u64 {
        let up = (0..self.hosts.len()).filter(|at| self.hosts[*at].is_up);
        up.map(|at| self.hosts[at].node.live(self.mono(at))).sum()
    }

    fn enter_window(&mut self) {
        if self.plan.is_window() {
            self.checker.window(self.ledger.window_ends_us, self.now);
        }
    }
}
