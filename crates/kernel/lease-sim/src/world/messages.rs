//! Messages: their ways, and their handling by the ledger and the hosts.

use tollgate_core::Timestamp;
use tollgate_lease::{LeaseRequest, LedgerCall, LedgerReply, Mono, Op, Verdict};

use super::{COOLING_NS, CentralTake, Host, HostQuota, Message, SimEvent, WaitingCaller, World};
use crate::checker::Broken;

impl World<'_> {
    pub(super) fn send_lease(&mut self, host: usize, request: LeaseRequest) -> Result<(), Broken> {
        let Host { node, rule, waiting, requested, .. } = &mut self.hosts[host];
        // The ledger need not be asked once for each caller.
        let first = waiting.front().map_or(0, |caller| caller.cost);
        let all = waiting.iter().map(|it| it.cost);
        let request = node.cover(&self.rules[*rule].terms, request, first, all.sum());
        *requested = request.seq;
        if self.now < self.hosts[host].cool_until {
            let Host { node, rule, .. } = &mut self.hosts[host];
            node.on_lost(&self.rules[*rule].terms, request.seq);
            return self.answer_waiting(host, false);
        }
        self.out.requests += 1;
        self.send(host, Op::Lease(request));
        Ok(())
    }

    pub(super) fn send(&mut self, host: usize, op: Op) -> u64 {
        self.numbers += 1;
        let there = self.wall(host).as_nanos().saturating_add_signed(self.hosts[host].skew_ns);
        let Host { rule, life, .. } = self.hosts[host];
        let HostQuota { terms, quota, .. } = &self.rules[rule];
        let window_ends_us = terms.window_ends_us(quota, Timestamp::from_nanos(there));
        let message = Message { number: self.numbers, call: LedgerCall { op, window_ends_us }, rule };
        self.note(|| format!("h{host} sends #{} {op:?}", message.number));
        // A message that must not come twice uses a connection that sends it once.
        let is_repeatable = !matches!(op, Op::GiveBack { .. } | Op::Charge { .. });
        for at in self.deliveries(host, is_repeatable) {
            self.at(at, SimEvent::ToLedger { host, life, message });
        }
        if matches!(op, Op::Lease(_) | Op::Take { .. }) {
            self.served.called(self.now);
            self.at(self.now + self.plan.patience_ns(), SimEvent::Patience { host, life, message });
        }
        self.numbers
    }

    /// When a message arrives: not at all, once, or twice.
    pub(super) fn deliveries(&mut self, host: usize, is_repeatable: bool) -> Vec<u64> {
        let is_faulty = self.now < self.plan.calm_from_ns;
        let mut times = if is_faulty && self.rng.percent(self.plan.loss) { 0 } else { 1 };
        if is_faulty && is_repeatable && self.rng.percent(self.plan.twice) {
            times += 1;
        }
        if self.now < self.silent_until {
            times = 0;
        }
        let mut at = Vec::with_capacity(times);
        for nth in 0..times {
            let (low, high) = self.plan.delay_ns;
            let mut delay = self.rng.range(low, high);
            if is_faulty && (self.rng.percent(self.plan.slow) || nth > 0 && self.rng.percent(30)) {
                delay = self.rng.range(high, 3 * self.plan.tau_ns());
            }
            let far_ns = if host == 0 { self.plan.far_ns } else { 0 };
            at.push(self.now + delay + far_ns);
        }
        at
    }

    pub(super) fn at_ledger(&mut self, host: usize, life: u64, message: Message) -> Result<(), Broken> {
        if self.now < self.silent_until {
            return Ok(());
        }
        self.tick();
        let clock_us = self.clock_us();
        let terms = &self.rules[message.rule].terms;
        let reply = self.ledger.apply(terms, message.call, clock_us);
        self.forget_at_us = self.ledger.forget_at_us(terms);
        self.digest(reply.taken ^ reply.granted << 40 ^ reply.admitted << 50);
        self.note(|| format!("ledger #{} of h{host}: {reply:?}", message.number));
        self.checker.window(reply.ends_us, self.now);
        let held = if self.plan.pays > 0 { self.held_by_all() } else { 0 };
        let terms = &self.rules[message.rule].terms;
        self.checker.stood(&self.ledger, terms, self.now);
        match message.call.op {
            Op::Take { cost, times } if !reply.rejected => {
                // I5: permits that are available and not held are not denied.
                let room = terms.full().saturating_sub(reply.taken) / terms.interval();
                if reply.admitted < times && room >= cost && cost > 0 {
                    return Err(format!("I5: denied {cost} with {room} there"));
                }
                if self.plan.pays > 0 {
                    self.checker.leaves(cost * reply.admitted, held, false, self.now)?;
                }
                self.checker.admit(cost * reply.admitted, self.now)?;
            }
            Op::GiveBack { cost } if !reply.rejected => self.checker.give_back(cost),
            Op::Charge { cost } if !reply.rejected && self.plan.pays > 0 => {
                self.checker.leaves(0, held, false, self.now)?;
                self.checker.charge(cost);
            }
            Op::Peek if !reply.rejected && terms.used(&reply).remaining() > 0 => {
                self.checker.leaves(1, held, false, self.now)?;
            }
            Op::Lease(_) if self.plan.pays > 0 => {
                self.checker.leaves(reply.granted, held, true, self.now)?;
            }
            _ => {}
        }
        self.book()?;
        for at in self.deliveries(host, true) {
            self.at(at, SimEvent::ToHost { host, life, message, reply });
        }
        Ok(())
    }

    pub(super) fn at_host(
        &mut self,
        host: usize,
        message: Message,
        reply: LedgerReply,
    ) -> Result<(), Broken> {
        let now = self.mono(host);
        if reply.rejected && reply.now_us > 0 {
            let wall_ns = self.wall(host).as_nanos();
            self.hosts[host].skew_ns = (reply.now_us * 1_000).cast_signed() - wall_ns.cast_signed();
        }
        match message.call.op {
            Op::Lease(_) if self.receives(host, &reply, now)? => {
                self.hosts[host].granted += reply.granted;
                self.note(|| format!("h{host} receives #{}: {} granted", message.number, reply.granted));
                self.answer_waiting(host, true)?;
            }
            Op::Lease(request) if self.hosts[host].node.is_waiting_for(request.seq) => {
                return Err(format!("h{host} received #{}, and still waits for it", message.number));
            }
            Op::Take { cost, .. } => {
                if let Some(CentralTake { at, callers, .. }) = self.asked(host, message.number) {
                    if self.hosts[host].rule == message.rule {
                        self.hosts[host].node.on_central(&self.rules[message.rule].terms, &reply, at, now);
                    }
                    if reply.rejected {
                        // Once more, with the window of that time; the others give up.
                        let first = callers.iter().find(|caller| caller.by >= self.now).copied();
                        self.hosts[host].central.extend(first);
                    } else {
                        self.deal(host, cost, &callers, &reply, message.rule)?;
                    }
                }
            }
            Op::Peek => self.checked(host, &message, &reply, now)?,
            Op::Charge { .. } if self.plan.pays > 0 && reply.rejected => {
                self.send(host, message.call.op); // once more, with the window of that time
            }
            _ => {}
        }
        self.settle_host(host)
    }

    fn receives(&mut self, host: usize, reply: &LedgerReply, now: Mono) -> Result<bool, Broken> {
        if self.plan.pays > 0 {
            let held = self.held_by_all();
            self.tick();
            self.checker.leaves(0, held, false, self.now)?; // before it is more
        }
        let Host { node, rule, .. } = &mut self.hosts[host];
        Ok(node.on_grant(&self.rules[*rule].terms, reply, now))
    }

    /// A merged take in flight; once, with its reply, or when its time is over.
    pub(super) fn asked(&mut self, host: usize, number: u64) -> Option<CentralTake> {
        let asked = &mut self.hosts[host].asked;
        let at = asked.iter().position(|asked| asked.number == number)?;
        Some(asked.remove(at))
    }

    /// Deals a merged take's answer out to its callers.
    pub(super) fn deal(
        &mut self,
        host: usize,
        cost: u64,
        callers: &[WaitingCaller],
        reply: &LedgerReply,
        rule: usize,
    ) -> Result<(), Broken> {
        let mut dealt = 0;
        let times = callers.len() as u64;
        for (nth, caller) in (0..).zip(callers) {
            let decision = self.rules[rule].terms.decision_of(reply, cost, nth, times);
            self.note(|| format!("h{host} central {cost}: {decision:?}"));
            dealt += u64::from(decision.is_admitted());
            if caller.by < self.now {
                continue; // its caller has left: its time was over
            }
            if decision.is_admitted() {
                self.served.admitted(host, cost, self.now);
            } else {
                self.served.denied(cost, self.now);
            }
            if decision.is_admitted() && self.plan.late_refunds && self.rng.percent(self.plan.refunds) {
                self.give_back_later(host, cost);
            }
        }
        self.out.admitted += dealt * cost;
        if dealt > reply.admitted {
            return Err(format!(
                "I3: {dealt} callers were admitted where the ledger admitted {}",
                reply.admitted
            ));
        }
        Ok(())
    }

    pub(super) fn out_of_patience(&mut self, host: usize, message: Message) -> Result<(), Broken> {
        match message.call.op {
            Op::Lease(request) => {
                let waited = self.hosts[host].node.is_waiting_for(request.seq);
                if waited {
                    self.note(|| format!("h{host} gives #{} up", message.number));
                    let Host { node, rule, .. } = &mut self.hosts[host];
                    node.on_lost(&self.rules[*rule].terms, request.seq);
                    self.hosts[host].cool_until = self.now + COOLING_NS;
                    self.answer_waiting(host, false)?;
                }
            }
            Op::Take { .. } => {
                if let Some(CentralTake { callers, .. }) = self.asked(host, message.number) {
                    self.hosts[host].cool_until = self.now + COOLING_NS;
                    for caller in callers.iter().filter(|caller| caller.by > 0) {
                        self.served.late(host, self.now);
                        self.degrade(host, caller.cost)?;
                    }
                }
            }
            _ => {}
        }
        self.settle_host(host)
    }

    /// Callers that waited ask again, or get no answer.
    pub(super) fn answer_waiting(&mut self, host: usize, has_answer: bool) -> Result<(), Broken> {
        let mut waiting = std::mem::take(&mut self.hosts[host].waiting);
        self.hosts[host].last_verdict = None;
        while let Some(caller) = waiting.pop_front() {
            if !has_answer {
                self.served.late(host, self.now);
                self.degrade(host, caller.cost)?;
            } else if !self.take(host, caller, false)? && !self.hosts[host].waiting.is_empty() {
                break; // the others wait behind it
            }
        }
        let now = self.mono(host);
        let Host { waiting: still, node, rule, delayed, last_verdict, .. } = &mut self.hosts[host];
        still.append(&mut waiting);
        let mut request = delayed.take();
        if request.is_none() && matches!(last_verdict, Some(Verdict::Decided(_))) {
            request = node.dealt(&self.rules[*rule].terms, now);
        }
        request.map_or(Ok(()), |request| self.send_lease(host, request))
    }

    pub(super) fn wake(&mut self, host: usize) -> Result<(), Broken> {
        self.hosts[host].wake_at = 0;
        let now = self.mono(host);
        if self.now < self.hosts[host].cool_until {
            let at = self.hosts[host].cool_until;
            let life = self.hosts[host].life;
            self.at(at, SimEvent::Wake { host, life });
            return Ok(());
        }
        let Host { node, rule, .. } = &mut self.hosts[host];
        if let Some(request) = node.on_time(&self.rules[*rule].terms, now) {
            self.send_lease(host, request)?;
        }
        self.settle_host(host)
    }
}
