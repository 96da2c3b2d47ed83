//! One run: hosts, ledger and network in true time, one event after another. Machines, messages and callers
//! are simulated; the code that decides is the real one.

mod callers;
mod laws;
mod messages;
mod paying;
mod troubles;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Write as _;

use tollgate_core::{Quota, State, Timestamp};
use tollgate_lease::{LeaseRequest, Ledger, LedgerCall, LedgerReply, Mistake, Mono, Node, Terms, Verdict};
use tollgate_mistakes::Mistakes;

use crate::checker::{Broken, Checker};
use crate::plan::{MS, Plan, Sharing, Trouble};
use crate::rng::Rng;
use crate::served::Served;

/// The ledger's clock at the start: 2026, in microseconds.
const BEGIN_US: u64 = 1_780_000_000_000_000;
/// Span in which a host sends nothing after a missing reply.
const COOLING_NS: u64 = 10 * MS;
const TRACE_LINES: usize = 400_000;

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct RunOutcome {
    /// The first law that was broken.
    pub broken: Option<Broken>,
    /// The events of the run, if the trace was to be kept.
    pub trace: String,
    /// Digest of all events, so that two runs can be compared without a trace.
    pub digest: u64,
    /// Permits admitted by leases and by the store.
    pub admitted: u64,
    /// Permits admitted without either.
    pub degraded: u64,
    /// Requests for leases.
    pub requests: u64,
    /// Calls that take at the store.
    pub centrals: u64,
    /// Permits admitted in the measured span, as a part of the rate's yield.
    pub yielded: Option<f64>,
    /// Nodes of which the ledger knew at the end.
    pub entries: usize,
    /// The requests and admissions of each host.
    pub served: Served,
    /// Highest of A − r·t above its lowest, as share of the burst.
    pub peak: f64,
}

enum SimEvent {
    Take {
        phase: usize,
    },
    Trouble(Trouble),
    ToLedger {
        host: usize,
        life: u64,
        message: Message,
    },
    ToHost {
        host: usize,
        life: u64,
        message: Message,
        reply: LedgerReply,
    },
    Patience {
        host: usize,
        life: u64,
        message: Message,
    },
    Wake {
        host: usize,
        life: u64,
    },
    Resume {
        host: usize,
    },
    Restart {
        host: usize,
    },
    /// A caller's time is over.
    Deadline {
        host: usize,
        life: u64,
        caller: u64,
    },
    /// A caller does not need the permits that it took.
    GiveBack {
        host: usize,
        life: u64,
        cost: u64,
    },
    /// A caller has done its work, and knows the cost.
    Pay {
        host: usize,
        life: u64,
        cost: u64,
    },
}

/// A message to the ledger, with the number by which its sender knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    number: u64,
    call: LedgerCall,
    /// Index of the rule whose terms it names, in the world's rules.
    rule: usize,
}

/// A quota that hosts may have.
struct HostQuota {
    limit: u64,
    terms: Terms,
    quota: Quota,
}

/// A caller that waits, and until when, in true time.
#[derive(Clone, Copy, Debug)]
struct WaitingCaller {
    number: u64,
    cost: u64,
    by: u64,
}

/// A merged central take that waits for its answer.
struct CentralTake {
    number: u64,
    at: Mono,
    callers: Vec<WaitingCaller>,
}

struct Host {
    /// Counts the lives of this machine.
    life: u64,
    is_up: bool,
    paused_until: u64,
    deferred: Vec<SimEvent>,
    node: Node,
    node_id: u64,
    /// Which of the world's rules it has.
    rule: usize,
    /// Error of the monotonic clock's speed in millionths, and its first reading.
    drift_ppm: i64,
    began_ns: u64,
    wall_ns: i64,
    /// Offset of the ledger's clock from the wall clock, learnt when a window could not be begun.
    skew_ns: i64,
    /// Callers that wait for the request in flight.
    waiting: VecDeque<WaitingCaller>,
    /// A request made while callers are dealt to, which is sent when they have been.
    delayed: Option<LeaseRequest>,
    last_verdict: Option<Verdict>,
    /// The newest request.
    requested: u64,
    /// Callers that wait for a central take, and those whose take is in flight, with the time it was sent.
    central: VecDeque<WaitingCaller>,
    asked: Vec<CentralTake>,
    /// Checks that wait for their answer: the message, the time it was sent, and the cost of the work.
    checks: Vec<(u64, Mono, u64)>,
    /// Sends nothing until then.
    cool_until: u64,
    wake_at: u64,
    share: State,
    /// Own count of the permits granted to this life.
    granted: u64,
    degraded: u64,
    degraded_lowest: i128,
}

/// A run in progress.
pub struct World<'a> {
    plan: &'a Plan,
    /// The first has the highest limit, by which the laws hold.
    rules: Vec<HostQuota>,
    mistakes: Mistakes<Mistake>,
    local: Quota,
    served: Served,
    rng: Rng,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Option<SimEvent>>,
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
    out: RunOutcome,
    before: Option<i128>,
}

impl<'a> World<'a> {
    /// The plan, with a deliberate mistake if tests want one.
    #[must_use]
    pub fn new(plan: &'a Plan, mistakes: Mistakes<Mistake>, keeps_trace: bool) -> Self {
        let mut rng = Rng::new(plan.seed ^ 0xA5A5);
        let share = |whole: u64| (whole / plan.hosts as u64).max(1);
        let span = std::time::Duration::from_nanos(plan.period_ns);
        let mut world = Self {
            rules: vec![HostQuota::new(plan, plan.limit, mistakes)],
            served: Served::new(plan),
            local: if plan.sharing == Sharing::Local {
                plan.quota(plan.limit).share_of(plan.hosts as u32)
            } else {
                Quota::token_bucket(share(plan.limit), span).expect("a quota within bounds")
            },
            mistakes,
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
            out: RunOutcome { digest: 0xCBF2_9CE4_8422_2325, ..RunOutcome::default() },
            before: None,
            rng,
            plan,
        };
        for at in 0..plan.hosts {
            let host = world.host(plan.limit_of(at));
            world.hosts.push(host);
        }
        for (index, phase) in plan.phases.iter().enumerate() {
            let first = phase.from_ns + world.rng.range(0, phase.every_ns * phase.gaps.at_once());
            if first < phase.until_ns {
                world.at(first, SimEvent::Take { phase: index });
            }
        }
        for (at, trouble) in &plan.troubles {
            world.at(*at, SimEvent::Trouble(*trouble));
        }
        world
    }

    fn host(&mut self, limit: u64) -> Host {
        let node_id = self.rng.next() >> 11;
        let rule = self.rule(limit);
        Host {
            life: 0,
            is_up: true,
            paused_until: 0,
            deferred: Vec::new(),
            node: Node::new(node_id),
            node_id,
            rule,
            drift_ppm: drift(&mut self.rng, self.plan.drift_ppm),
            began_ns: self.rng.range(0, 1 << 50),
            wall_ns: 0,
            skew_ns: 0,
            waiting: VecDeque::new(),
            delayed: None,
            last_verdict: None,
            requested: 0,
            central: VecDeque::new(),
            asked: Vec::new(),
            checks: Vec::new(),
            cool_until: 0,
            wake_at: 0,
            share: self.local.fresh(),
            granted: 0,
            degraded: 0,
            degraded_lowest: i128::MAX,
        }
    }

    /// The place of the rule with this limit.
    fn rule(&mut self, limit: u64) -> usize {
        if let Some(at) = self.rules.iter().position(|rule| rule.limit == limit) {
            return at;
        }
        self.rules.push(HostQuota::new(self.plan, limit, self.mistakes));
        self.rules.len() - 1
    }

    /// Runs to the end, or to the first broken law.
    #[must_use]
    pub fn run(mut self) -> RunOutcome {
        let end = self.plan.measured_ns.1;
        let mut broken = None;
        while let Some(Reverse((at, _, slot))) = self.events.pop() {
            let Some(event) = self.slots[slot].take() else { continue };
            self.free.push(slot);
            if self.now < self.plan.measured_ns.0 && at >= self.plan.measured_ns.0 {
                self.served.held.0 = self.held();
            }
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
        self.served.held.1 = self.held();
        self.out.entries = self.ledger.entries.len();
        if broken.is_none() {
            broken = self.finish().err();
        }
        if let Some(law) = &broken {
            self.note(|| format!("BROKEN {law}"));
        }
        self.out.broken = broken;
        self.out.peak = self.checker.peak();
        self.out.served = self.served;
        self.out
    }

    fn held(&self) -> u64 {
        self.hosts.iter().map(|host| host.node.held()).sum()
    }

    fn at(&mut self, at: u64, event: SimEvent) {
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

    /// Gives the checker the ledger's clock, after removing a key whose time is up.
    fn tick(&mut self) {
        let clock_us = self.clock_us();
        if self.ledger != Ledger::default() && clock_us >= self.forget_at_us {
            self.ledger = Ledger::default();
        }
        self.checker.clock(clock_us, self.ledger != Ledger::default());
    }

    fn happen(&mut self, event: SimEvent) -> Result<(), Broken> {
        // A paused host does nothing until it resumes; then everything at once.
        let host = match &event {
            SimEvent::ToHost { host, .. }
            | SimEvent::Patience { host, .. }
            | SimEvent::Wake { host, .. }
            | SimEvent::Deadline { host, .. }
            | SimEvent::Pay { host, .. }
            | SimEvent::GiveBack { host, .. } => Some(*host),
            SimEvent::Take { phase } => Some(self.plan.phases[*phase].host),
            _ => None,
        };
        if let Some(host) = host
            && self.now < self.hosts[host].paused_until
        {
            if let SimEvent::Take { phase } = event {
                self.next_take(phase);
                if self.hosts[host].deferred.len() > 64 {
                    return Ok(());
                }
                self.hosts[host].deferred.push(SimEvent::Take { phase: usize::MAX - phase });
            } else {
                self.hosts[host].deferred.push(event);
            }
            return Ok(());
        }
        match event {
            SimEvent::Take { phase } => self.arrive(phase),
            SimEvent::Trouble(trouble) => self.trouble(trouble),
            SimEvent::ToLedger { host, life, message } => self.at_ledger(host, life, message),
            SimEvent::ToHost { host, life, message, reply } => {
                if self.is_alive(host, life) {
                    self.at_host(host, message, reply)
                } else {
                    Ok(())
                }
            }
            SimEvent::Patience { host, life, message } => {
                if self.is_alive(host, life) {
                    self.out_of_patience(host, message)
                } else {
                    Ok(())
                }
            }
            SimEvent::Wake { host, life } => {
                if self.is_alive(host, life) {
                    self.wake(host)
                } else {
                    Ok(())
                }
            }
            SimEvent::Deadline { host, life, caller } => {
                if self.is_alive(host, life) {
                    self.time_is_over(host, caller)
                } else {
                    Ok(())
                }
            }
            SimEvent::GiveBack { host, life, cost } => {
                if self.is_alive(host, life) {
                    self.give_back(host, cost);
                    self.settle_host(host)
                } else {
                    Ok(())
                }
            }
            SimEvent::Pay { host, life, cost } => {
                if self.is_alive(host, life) {
                    self.pay(host, cost)?;
                    self.settle_host(host)
                } else {
                    Ok(()) // a node that crashes takes with it what its callers had not reported yet
                }
            }
            SimEvent::Resume { host } => self.resume(host),
            SimEvent::Restart { host } => {
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
                SimEvent::Take { phase } => self.takes(usize::MAX - phase)?,
                other => self.happen(other)?,
            }
        }
        Ok(())
    }
}

impl HostQuota {
    fn new(plan: &Plan, limit: u64, mistakes: Mistakes<Mistake>) -> Self {
        let quota = plan.quota(limit);
        let terms = Terms::with(&quota, plan.timing).expect("a quota that can be leased");
        Self { limit, terms: terms.making(mistakes), quota }
    }
}

/// The error of a clock: often the greatest possible.
fn drift(rng: &mut Rng, ppm: u64) -> i64 {
    if rng.percent(60) {
        rng.pick(&[ppm as i64, -(ppm as i64)])
    } else {
        rng.range(0, 2 * ppm) as i64 - ppm as i64
    }
}
