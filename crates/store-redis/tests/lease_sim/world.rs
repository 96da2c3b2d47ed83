//! One run: hosts, ledger and network in true time, one event after another. What is simulated is the machines, the messages and
//! the callers; the code that decides is the real one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Write as _;

use tollgate_core::{Cost, Quota, State, Timestamp};
use tollgate_store_redis::lease::{Call, Fault, Ledger, Mono, Node, Op, Reply, Request, Terms, Verdict};

use crate::checker::{Broken, Checker};
use crate::plan::{MS, Phase, Plan, Trouble};
use crate::rng::Rng;

/// 2026 in microseconds: where the ledger's clock begins.
const BEGIN_US: u64 = 1_780_000_000_000_000;
/// How long a host waits for a reply.
const PATIENCE_NS: u64 = 25 * MS;
/// How long it asks nobody after a reply did not come.
const COOLING_NS: u64 = 10 * MS;
const TRACE_LINES: usize = 400_000;

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) broken: Option<Broken>,
    pub(crate) trace: String,
    /// Of everything that happened, so that two runs can be compared without a trace.
    pub(crate) digest: u64,
    pub(crate) admitted: u64,
    pub(crate) degraded: u64,
    pub(crate) requests: u64,
    pub(crate) centrals: u64,
    /// Admitted in the measured span, of what the rate gave.
    pub(crate) yielded: Option<f64>,
    /// Highest of A − r·t above its lowest, as share of the burst.
    pub(crate) peak: f64,
}

enum Event {
    Take { phase: usize },
    Trouble(Trouble),
    ToLedger { host: usize, life: u64, message: Message },
    ToHost { host: usize, life: u64, message: Message, reply: Reply },
    Patience { host: usize, life: u64, message: Message },
    Wake { host: usize, life: u64 },
    Resume { host: usize },
    Restart { host: usize },
}

/// What goes over the network, with the number by which its sender knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    number: u64,
    call: Call,
}

struct Host {
    /// Counts the lives of this machine.
    life: u64,
    is_up: bool,
    paused_until: u64,
    deferred: Vec<Event>,
    node: Node,
    node_id: u64,
    /// How fast the monotonic clock runs, in millionths off, and what it showed at first.
    drift_ppm: i64,
    began_ns: u64,
    wall_ns: i64,
    /// How far the ledger's clock is from the wall clock, learnt when a window could not be begun.
    skew_ns: i64,
    /// Callers that wait for the lease under way.
    waiting: VecDeque<u64>,
    /// Callers that wait for a central take, and those whose take is under way.
    central: VecDeque<u64>,
    asked: Vec<u64>,
    /// Asks nobody until then.
    cool_until: u64,
    wake_at: u64,
    share: State,
    /// Own count of what was granted to this life.
    granted: u64,
    degraded: u64,
    degraded_lowest: i128,
}

pub(crate) struct World<'a> {
    plan: &'a Plan,
    terms: Terms,
    quota: Quota,
    local: Quota,
    rng: Rng,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Option<Event>>,
    free: Vec<usize>,
    count: u64,
    numbers: u64,
    hosts: Vec<Host>,
    ledger: Ledger,
    forget_at_us: u64,
    ledger_step_us: i64,
    ledger_drift_ppm: i64,
    silent_until: u64,
    checker: Checker,
    keeps_trace: bool,
    out: Outcome,
    before: Option<i128>,
}

impl<'a> World<'a> {
    pub(crate) fn new(plan: &'a Plan, fault: Option<Fault>, keeps_trace: bool) -> Self {
        let quota = plan.quota();
        let mut terms = Terms::with(&quota, plan.timing).expect("a quota that can be leased");
        if let Some(fault) = fault {
            terms = terms.with_fault(fault);
        }
        let mut rng = Rng::new(plan.seed ^ 0xA5A5);
        let share = |whole: u64| (whole / plan.hosts as u64).max(1);
        let span = std::time::Duration::from_nanos(plan.period_ns);
        let mut world = Self {
            terms,
            local: Quota::token_bucket(share(plan.limit), span).expect("a quota within bounds"),
            quota,
            now: 0,
            events: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            count: 0,
            numbers: 0,
            hosts: Vec::new(),
            ledger: Ledger::default(),
            forget_at_us: 0,
            ledger_step_us: 0,
            ledger_drift_ppm: drift(&mut rng, plan.drift_ppm),
            silent_until: 0,
            checker: Checker::new(plan, BEGIN_US),
            keeps_trace,
            out: Outcome { digest: 0xCBF2_9CE4_8422_2325, ..Outcome::default() },
            before: None,
            rng,
            plan,
        };
        for _ in 0..plan.hosts {
            let host = world.host();
            world.hosts.push(host);
        }
        for (index, phase) in plan.phases.iter().enumerate() {
            let first = phase.from_ns + world.rng.range(0, phase.every_ns);
            world.at(first, Event::Take { phase: index });
        }
        for (at, trouble) in &plan.troubles {
            world.at(*at, Event::Trouble(*trouble));
        }
        world
    }

    fn host(&mut self) -> Host {
        let node_id = self.rng.next() >> 11;
        Host {
            life: 0,
            is_up: true,
            paused_until: 0,
            deferred: Vec::new(),
            node: Node::new(node_id),
            node_id,
            drift_ppm: drift(&mut self.rng, self.plan.drift_ppm),
            began_ns: self.rng.range(0, 1 << 50),
            wall_ns: 0,
            skew_ns: 0,
            waiting: VecDeque::new(),
            central: VecDeque::new(),
            asked: Vec::new(),
            cool_until: 0,
            wake_at: 0,
            share: self.local.fresh(),
            granted: 0,
            degraded: 0,
            degraded_lowest: i128::MAX,
        }
    }

    /// Runs to the end, or to the first law that is broken.
    pub(crate) fn run(mut self) -> Outcome {
        let end = self.plan.measured_ns.1;
        let mut broken = None;
        while let Some(Reverse((at, _, slot))) = self.events.pop() {
            let Some(event) = self.slots[slot].take() else { continue };
            self.free.push(slot);
            self.now = at;
            let result = self.measure().and_then(|()| if at > end { Ok(()) } else { self.happen(event) });
            if let Err(law) = result {
                broken = Some(law);
                break;
            }
            if at > end {
                break;
            }
        }
        if broken.is_none() {
            broken = self.finish().err();
        }
        if let Some(law) = &broken {
            self.note(|| format!("BROKEN {law}"));
        }
        self.out.broken = broken;
        self.out.peak = self.checker.peak();
        self.out
    }

    fn at(&mut self, at: u64, event: Event) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(event);
        self.count += 1;
        self.events.push(Reverse((at.max(self.now), self.count, slot)));
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.keeps_trace && self.out.trace.len() < TRACE_LINES * 80 {
            let line = line();
            let _ = writeln!(self.out.trace, "{:>12.3} ms  {line}", self.now as f64 / 1e6);
        }
    }

    fn digest(&mut self, what: u64) {
        self.out.digest = (self.out.digest ^ what ^ self.now.rotate_left(17)).wrapping_mul(0x100_0000_01B3);
    }

    fn clock_us(&self) -> u64 {
        let run_ns = self.now as i128 * (1_000_000 + i128::from(self.ledger_drift_ppm)) / 1_000_000;
        (BEGIN_US as i128 + run_ns / 1_000 + i128::from(self.ledger_step_us)) as u64
    }

    fn mono(&self, host: usize) -> Mono {
        let host = &self.hosts[host];
        let run = self.now as i128 * (1_000_000 + i128::from(host.drift_ppm)) / 1_000_000;
        Mono(host.began_ns + run as u64)
    }

    fn wall(&self, host: usize) -> Timestamp {
        let run = self.mono(host).0 - self.hosts[host].began_ns;
        let nanos = i128::from(BEGIN_US) * 1_000 + i128::from(run) + i128::from(self.hosts[host].wall_ns);
        Timestamp::from_nanos(nanos as u64)
    }

    /// Tells the checker what the ledger's clock shows, after keys whose time is up are gone.
    fn tick(&mut self) {
        let clock_us = self.clock_us();
        if self.ledger != Ledger::default() && clock_us >= self.forget_at_us {
            self.ledger = Ledger::default();
        }
        self.checker.clock(clock_us, self.ledger != Ledger::default());
    }

    fn happen(&mut self, event: Event) -> Result<(), Broken> {
        // A host that is paused does nothing until it goes on; then all at once.
        let host = match &event {
            Event::ToHost { host, .. } | Event::Patience { host, .. } | Event::Wake { host, .. } => {
                Some(*host)
            }
            Event::Take { phase } => Some(self.plan.phases[*phase].host),
            _ => None,
        };
        if let Some(host) = host
            && self.now < self.hosts[host].paused_until
        {
            if let Event::Take { phase } = event {
                self.next_take(phase);
                if self.hosts[host].deferred.len() > 64 {
                    return Ok(());
                }
                self.hosts[host].deferred.push(Event::Take { phase: usize::MAX - phase });
            } else {
                self.hosts[host].deferred.push(event);
            }
            return Ok(());
        }
        match event {
            Event::Take { phase } => self.arrive(phase),
            Event::Trouble(trouble) => self.trouble(trouble),
            Event::ToLedger { host, life, message } => self.at_ledger(host, life, message),
            Event::ToHost { host, life, message, reply } => {
                if self.is_alive(host, life) {
                    self.at_host(host, message, reply)
                } else {
                    Ok(())
                }
            }
            Event::Patience { host, life, message } => {
                if self.is_alive(host, life) {
                    self.out_of_patience(host, message)
                } else {
                    Ok(())
                }
            }
            Event::Wake { host, life } => {
                if self.is_alive(host, life) {
                    self.wake(host)
                } else {
                    Ok(())
                }
            }
            Event::Resume { host } => self.resume(host),
            Event::Restart { host } => {
                self.hosts[host].is_up = true;
                Ok(())
            }
        }
    }

    fn is_alive(&self, host: usize, life: u64) -> bool {
        self.hosts[host].is_up && self.hosts[host].life == life
    }

    fn resume(&mut self, host: usize) -> Result<(), Broken> {
        if self.now < self.hosts[host].paused_until {
            return Ok(());
        }
        for event in std::mem::take(&mut self.hosts[host].deferred) {
            match event {
                Event::Take { phase } => self.takes(usize::MAX - phase)?,
                other => self.happen(other)?,
            }
        }
        Ok(())
    }

    // Callers.

    fn next_take(&mut self, phase: usize) {
        let Phase { every_ns, until_ns, .. } = self.plan.phases[phase];
        let next = self.now + self.rng.range(every_ns / 2, every_ns * 3 / 2).max(1);
        if next < until_ns {
            self.at(next, Event::Take { phase });
        }
    }

    fn arrive(&mut self, phase: usize) -> Result<(), Broken> {
        self.next_take(phase);
        self.takes(phase)
    }

    fn takes(&mut self, phase: usize) -> Result<(), Broken> {
        let Phase { host, together, largest_cost, .. } = self.plan.phases[phase];
        if !self.hosts[host].is_up {
            return Ok(());
        }
        for _ in 0..together {
            let cost = self.rng.range(1, largest_cost);
            self.take(host, cost, true)?;
        }
        self.settle_host(host)
    }

    /// One caller's take; `is_new`: not one that has waited.
    fn take(&mut self, host: usize, cost: u64, is_new: bool) -> Result<bool, Broken> {
        let now = self.mono(host);
        let node = &mut self.hosts[host].node;
        let step = if is_new {
            node.take(&self.terms, Cost(cost), now)
        } else {
            node.retake(&self.terms, Cost(cost), now)
        };
        let mut is_decided = true;
        match step.verdict {
            Verdict::Decided(decision) => {
                let admitted = decision.is_admitted();
                self.digest(u64::from(admitted) + cost * 2);
                self.note(|| format!("h{host} take {cost}: {decision:?}"));
                if admitted {
                    self.admitted(host, cost)?;
                } else if decision.retry_after() == tollgate_core::RetryAfter::Now {
                    return Err("I7: a denial that says: now".into());
                }
            }
            Verdict::Wait => {
                self.note(|| format!("h{host} take {cost}: waits"));
                self.hosts[host].waiting.push_back(cost);
                is_decided = false;
            }
            Verdict::Central => {
                self.note(|| format!("h{host} take {cost}: central"));
                self.hosts[host].central.push_back(cost);
                is_decided = false;
            }
        }
        if let Some(request) = step.send {
            self.send_lease(host, request)?;
        }
        Ok(is_decided)
    }

    /// Admitted from a lease, now.
    fn admitted(&mut self, host: usize, cost: u64) -> Result<(), Broken> {
        self.tick();
        if self.plan.is_window() {
            self.checker.window(self.ledger.ends_us, self.now);
        }
        self.out.admitted += cost;
        self.checker.admit(cost, self.now)?;
        if self.rng.percent(self.plan.refunds) {
            let now = self.mono(host);
            if self.hosts[host].node.give_back(&self.terms, Cost(cost), now).is_some() {
                self.out.admitted -= cost;
                self.checker.give_back(cost);
            } else {
                self.send(host, Op::GiveBack { cost });
            }
        } else if self.rng.percent(self.plan.charges) {
            self.send(host, Op::Charge { cost });
        }
        Ok(())
    }

    /// After anything happened on a host: central takes go out, and the timer is set.
    fn settle_host(&mut self, host: usize) -> Result<(), Broken> {
        // At most one trip under way; what arrives meanwhile rides the next, equal takes merged.
        let is_cooling = self.now < self.hosts[host].cool_until;
        if self.hosts[host].asked.is_empty() || is_cooling {
            while let Some(cost) = self.hosts[host].central.pop_front() {
                let mut times = 1;
                while self.hosts[host].central.front() == Some(&cost) {
                    self.hosts[host].central.pop_front();
                    times += 1;
                }
                if is_cooling {
                    for _ in 0..times {
                        self.degrade(host, cost)?;
                    }
                } else {
                    self.out.centrals += 1;
                    let number = self.send(host, Op::Take { cost, times });
                    self.hosts[host].asked.push(number);
                }
            }
        }
        if let Some(at) = self.hosts[host].node.wakes_at(&self.terms) {
            let now = self.mono(host);
            let due = self.now + at.0.saturating_sub(now.0) + 1;
            if self.hosts[host].wake_at <= self.now || due < self.hosts[host].wake_at {
                self.hosts[host].wake_at = due;
                let life = self.hosts[host].life;
                self.at(due, Event::Wake { host, life });
            }
        }
        self.conserve(host)
    }

    /// I3 on the node: granted = spent + held + lapsed + given back.
    fn conserve(&self, host: usize) -> Result<(), Broken> {
        let Host { node, granted, .. } = &self.hosts[host];
        let told = node.spent() + node.held() + node.lapsed() + node.given_back();
        if *granted == told {
            Ok(())
        } else {
            Err(format!("I3: h{host} was granted {granted} and accounts for {told}"))
        }
    }

    /// Nobody answers: denied, or decided by this host's share. Flagged either way.
    fn degrade(&mut self, host: usize, cost: u64) -> Result<(), Broken> {
        if !self.plan.local_share {
            return Ok(());
        }
        let now = self.mono(host);
        let share = &mut self.hosts[host].share;
        let at = Timestamp::from_nanos(now.0);
        if self.local.take(share, Cost(cost), at).is_admitted() {
            self.out.degraded += cost;
            self.digest(cost ^ 0xDE);
            self.note(|| format!("h{host} take {cost}: degraded, admitted"));
            // I14: at most the share, B' + r'·t, on the host's own clock.
            let (limit, period_ns) = (i128::from(self.local.limit()), i128::from(self.plan.period_ns));
            let host = &mut self.hosts[host];
            let over = |admitted: u64| i128::from(admitted) * period_ns - limit * i128::from(now.0);
            host.degraded_lowest = host.degraded_lowest.min(over(host.degraded));
            host.degraded += cost;
            if over(host.degraded) - host.degraded_lowest > limit * period_ns {
                return Err("I14: more than a share while degraded".into());
            }
        }
        Ok(())
    }

    // Messages.

    fn send_lease(&mut self, host: usize, request: Request) -> Result<(), Broken> {
        if self.now < self.hosts[host].cool_until {
            self.hosts[host].node.on_lost(request.seq);
            return self.answer_waiting(host, false);
        }
        self.out.requests += 1;
        self.send(host, Op::Lease(request));
        Ok(())
    }

    fn send(&mut self, host: usize, op: Op) -> u64 {
        self.numbers += 1;
        let there = self.wall(host).as_nanos().saturating_add_signed(self.hosts[host].skew_ns);
        let window_ends_us = self.terms.window_ends_us(&self.quota, Timestamp::from_nanos(there));
        let message = Message { number: self.numbers, call: Call { op, window_ends_us } };
        let life = self.hosts[host].life;
        self.note(|| format!("h{host} sends #{} {op:?}", message.number));
        // What must not come twice goes by a connection that sends it once.
        let is_repeatable = !matches!(op, Op::GiveBack { .. });
        for at in self.deliveries(is_repeatable) {
            self.at(at, Event::ToLedger { host, life, message });
        }
        if matches!(op, Op::Lease(_) | Op::Take { .. }) {
            self.at(self.now + PATIENCE_NS, Event::Patience { host, life, message });
        }
        self.numbers
    }

    /// When a message arrives: not at all, once, or twice.
    fn deliveries(&mut self, is_repeatable: bool) -> Vec<u64> {
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
            at.push(self.now + delay);
        }
        at
    }

    fn at_ledger(&mut self, host: usize, life: u64, message: Message) -> Result<(), Broken> {
        if self.now < self.silent_until {
            return Ok(());
        }
        self.tick();
        let clock_us = self.clock_us();
        let reply = self.ledger.apply(&self.terms, message.call, clock_us);
        self.forget_at_us = self.ledger.forget_at_us(&self.terms);
        self.digest(reply.taken ^ reply.granted << 40 ^ reply.admitted << 50);
        self.note(|| format!("ledger #{} of h{host}: {reply:?}", message.number));
        self.checker.window(reply.ends_us, self.now);
        match message.call.op {
            Op::Take { cost, times } if !reply.refused => {
                // I5: what is there and nobody holds is not denied.
                let room = self.terms.full().saturating_sub(reply.taken) / self.terms.interval();
                if reply.admitted < times && room >= cost && cost > 0 {
                    return Err(format!("I5: denied {cost} with {room} there"));
                }
                self.checker.admit(cost * reply.admitted, self.now)?;
            }
            Op::GiveBack { cost } if !reply.refused => self.checker.give_back(cost),
            _ => {}
        }
        self.book()?;
        for at in self.deliveries(true) {
            self.at(at, Event::ToHost { host, life, message, reply });
        }
        Ok(())
    }

    fn at_host(&mut self, host: usize, message: Message, reply: Reply) -> Result<(), Broken> {
        let now = self.mono(host);
        if reply.refused && reply.now_us > 0 {
            let wall_ns = self.wall(host).as_nanos();
            self.hosts[host].skew_ns = (reply.now_us * 1_000).cast_signed() - wall_ns.cast_signed();
        }
        match message.call.op {
            Op::Lease(_) => {
                if self.hosts[host].node.on_grant(&self.terms, &reply, now) {
                    self.hosts[host].granted += reply.granted;
                    self.note(|| format!("h{host} hears #{}: {} granted", message.number, reply.granted));
                    self.answer_waiting(host, true)?;
                }
            }
            Op::Take { cost, times } if self.was_asked(host, message.number) => {
                self.hosts[host].node.on_central(&reply, now);
                if reply.refused {
                    self.hosts[host].central.push_back(cost); // once more, with the window of then; the others give up
                } else {
                    self.deal(host, cost, times, &reply)?;
                }
            }
            _ => {}
        }
        self.settle_host(host)
    }

    /// True once for each merged take under way: with its reply, or when none is waited for any longer.
    fn was_asked(&mut self, host: usize, number: u64) -> bool {
        let before = self.hosts[host].asked.len();
        self.hosts[host].asked.retain(|asked| *asked != number);
        self.hosts[host].asked.len() < before
    }

    /// Deals a merged take's answer out to its callers.
    fn deal(&mut self, host: usize, cost: u64, times: u64, reply: &Reply) -> Result<(), Broken> {
        let mut dealt = 0;
        for nth in 0..times {
            let decision = self.terms.decision_of(reply, cost, nth, times);
            self.note(|| format!("h{host} central {cost}: {decision:?}"));
            dealt += u64::from(decision.is_admitted());
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

    fn out_of_patience(&mut self, host: usize, message: Message) -> Result<(), Broken> {
        match message.call.op {
            Op::Lease(request) => {
                let waited = self.hosts[host].node.is_waiting_for(request.seq);
                if waited {
                    self.note(|| format!("h{host} gives #{} up", message.number));
                    self.hosts[host].node.on_lost(request.seq);
                    self.hosts[host].cool_until = self.now + COOLING_NS;
                    self.answer_waiting(host, false)?;
                }
            }
            Op::Take { cost, times } if self.was_asked(host, message.number) => {
                self.hosts[host].cool_until = self.now + COOLING_NS;
                for _ in 0..times {
                    self.degrade(host, cost)?;
                }
            }
            _ => {}
        }
        self.settle_host(host)
    }

    /// Those who waited ask again; or hear that nobody answers.
    fn answer_waiting(&mut self, host: usize, has_answer: bool) -> Result<(), Broken> {
        for cost in std::mem::take(&mut self.hosts[host].waiting) {
            if has_answer {
                self.take(host, cost, false)?;
            } else {
                self.degrade(host, cost)?;
            }
        }
        Ok(())
    }

    fn wake(&mut self, host: usize) -> Result<(), Broken> {
        self.hosts[host].wake_at = 0;
        let now = self.mono(host);
        if self.now < self.hosts[host].cool_until {
            let (at, life) = (self.hosts[host].cool_until, self.hosts[host].life);
            self.at(at, Event::Wake { host, life });
            return Ok(());
        }
        if let Some(request) = self.hosts[host].node.on_time(&self.terms, now) {
            self.send_lease(host, request)?;
        }
        self.settle_host(host)
    }

    // Troubles.

    fn trouble(&mut self, trouble: Trouble) -> Result<(), Broken> {
        self.note(|| format!("{trouble:?}"));
        let lease_ns = self.plan.tau_ns() + self.plan.tau_ns() / 50;
        self.tick();
        match trouble {
            Trouble::Crash { host, down_ns } => {
                let mut fresh = self.host();
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
                }
            }
            Trouble::Cancel { host } => self.hosts[host].waiting.clear(),
            Trouble::Dump { takes } => {
                for host in 0..self.hosts.len() {
                    let is_able = self.hosts[host].is_up && self.now >= self.hosts[host].paused_until;
                    let mut left = if is_able { takes } else { 0 };
                    while left > 0 && self.hosts[host].node.live(self.mono(host)) > 0 {
                        let before = self.out.admitted;
                        self.take(host, 1, true)?;
                        left = if self.out.admitted > before { left - 1 } else { 0 };
                    }
                    self.settle_host(host)?;
                }
            }
            Trouble::Hoard => {
                for host in 0..self.hosts.len() {
                    if self.hosts[host].is_up {
                        self.take(host, self.plan.burst.div_ceil(self.plan.hosts as u64), true)?;
                        self.hosts[host].waiting.clear();
                    }
                }
                self.at(self.now + 2 * self.plan.delay_ns.1, Event::Trouble(Trouble::Siege));
            }
            Trouble::Siege => {
                let lease_ns =
                    self.plan.tau_ns() * 98 / 100 - 2 * self.plan.delay_ns.1.min(self.plan.tau_ns() / 4);
                let left_us = self.ledger.ends_us.saturating_sub(self.clock_us()).min(self.terms.tau_us());
                let over = self.now + (left_us + self.terms.tau_us()) * 1_002 + 1_000;
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
                        self.take(host, 1, true)?;
                    }
                    self.settle_host(host)?;
                }
            }
            Trouble::Edge { host } => {
                // First it is planned, then it is there.
                let left_us = self.ledger.ends_us.saturating_sub(self.clock_us());
                let early_us = self.plan.delay_ns.1 / 1_000 + 20;
                if left_us > early_us && left_us <= self.terms.tau_us() {
                    self.at(self.now + (left_us - early_us) * 1_000, Event::Trouble(Trouble::Edge { host }));
                } else if left_us > 0 && left_us <= early_us && self.hosts[host].is_up {
                    let more = self.hosts[host].node.live(self.mono(host)) + 2;
                    self.take(host, more, true)?;
                    self.hosts[host].waiting.clear();
                    let tau_ns = self.plan.tau_ns();
                    self.at(
                        self.now + 4 * self.plan.delay_ns.1,
                        Event::Trouble(Trouble::Pause { host, for_ns: tau_ns }),
                    );
                    let drift = 1_000_000 + self.ledger_drift_ppm;
                    let off_ns = (left_us + self.terms.tau_us()) as i64 * 1_000_000_000 / drift + 3_000;
                    self.at(self.now + off_ns.cast_unsigned(), Event::Trouble(Trouble::Look));
                }
            }
            Trouble::Look => {
                if self.ledger != Ledger::default() && !self.plan.is_window() {
                    let call = Call { op: Op::Peek, window_ends_us: 0 };
                    self.ledger.apply(&self.terms, call, self.clock_us());
                    self.forget_at_us = self.ledger.forget_at_us(&self.terms);
                    self.book()?;
                }
            }
            Trouble::Leave { host } => {
                let now = self.mono(host);
                if self.hosts[host].is_up
                    && let Some(request) = self.hosts[host].node.give_up(&self.terms, now)
                {
                    self.send_lease(host, request)?;
                    self.answer_waiting(host, false)?;
                }
            }
        }
        Ok(())
    }

    fn pause(&mut self, host: usize, for_ns: u64) {
        let until = (self.now + for_ns).max(self.hosts[host].paused_until);
        self.hosts[host].paused_until = until;
        self.at(until, Event::Resume { host });
    }

    // Laws about the whole.

    /// I3, on the ledger's book as it is.
    fn book(&self) -> Result<(), Broken> {
        let truth: Vec<_> = (0..self.hosts.len())
            .filter(|at| self.hosts[*at].is_up)
            .map(|at| (self.hosts[at].node_id, self.hosts[at].node.live(self.mono(at))))
            .collect();
        self.checker.book(&self.ledger, &self.terms, &truth, self.now)
    }

    /// I4: with demand above the rate and no faults, nothing of the quota is lost.
    fn measure(&mut self) -> Result<(), Broken> {
        let (from, until) = self.plan.measured_ns;
        if self.now >= from && self.before.is_none() {
            self.tick();
            self.before = Some(self.checker.admitted());
            if self.checker.is_behind(self.clock_us()) {
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
    fn finish(&mut self) -> Result<(), Broken> {
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

/// How wrong a clock is: often as wrong as can be.
fn drift(rng: &mut Rng, ppm: u64) -> i64 {
    if rng.percent(60) {
        rng.pick(&[ppm as i64, -(ppm as i64)])
    } else {
        rng.range(0, 2 * ppm) as i64 - ppm as i64
    }
}
