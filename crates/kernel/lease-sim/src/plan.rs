//! The events of one run, all of them drawn from a seed: the quota, the machines, the network, the faults and
//! the demand.

use std::time::Duration;

use tollgate_core::{Algorithm, Align, LeakyForm, Period, Quota, Refill};
use tollgate_lease::Timing;

use crate::rng::Rng;

/// Nanoseconds of a millisecond.
pub const MS: u64 = 1_000_000;
/// Time for which a host waits for a reply.
pub(crate) const PATIENCE_NS: u64 = 25 * MS;

/// A demand: takes of one host from an instant on.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Index of the host.
    pub host: usize,
    /// Takes begin at this instant.
    pub from_ns: u64,
    /// Takes end before this instant.
    pub until_ns: u64,
    /// Average time between two takes.
    pub every_ns: u64,
    /// Distribution of the time between them.
    pub gaps: Gaps,
    /// Number of takes that come together.
    pub together: u64,
    /// Cost of each take.
    pub costs: Costs,
}

/// The distribution of the gaps between takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// Half to one and a half times the average.
    Even,
    /// Exponentially: a Poisson process.
    Poisson,
    /// Bursts of this many takes at once, a Poisson process of their own.
    Bursts(u64),
}

impl Gaps {
    pub(crate) fn draw(self, every_ns: u64, rng: &mut Rng) -> u64 {
        let gap = match self {
            Self::Even => rng.range(every_ns / 2, every_ns * 3 / 2),
            Self::Poisson => rng.exponential(every_ns),
            Self::Bursts(size) => rng.exponential(every_ns.saturating_mul(size)),
        };
        gap.max(1)
    }

    /// Takes that come together.
    #[must_use]
    pub const fn at_once(self) -> u64 {
        if let Self::Bursts(size) = self { size } else { 1 }
    }
}

/// The distribution of the costs of takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Costs {
    /// Evenly from 1 to this.
    UpTo(u64),
    /// One of these, each as likely as its number of places.
    OneOf(Vec<u64>),
}

impl Costs {
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::UpTo(most) => rng.range(1, *most),
            Self::OneOf(costs) => rng.pick(costs),
        }
    }

    pub(crate) fn largest(&self) -> u64 {
        match self {
            Self::UpTo(most) => *most,
            Self::OneOf(costs) => costs.iter().copied().max().unwrap_or(1),
        }
    }
}

/// A fault of a machine, a clock or a caller.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// The host dies with the permits that it holds, and comes back as another after this time.
    Crash { host: usize, down_ns: u64 },
    /// The host does nothing for this time; its clock keeps running.
    Pause { host: usize, for_ns: u64 },
    /// The ledger's clock is set.
    LedgerStep { by_us: i64 },
    /// A host's wall clock is set; its monotonic clock is not.
    WallStep { host: usize, by_ns: i64 },
    /// Nothing reaches the ledger, or comes from it.
    Outage { for_ns: u64 },
    /// The ledger loses the key.
    KeyLoss,
    /// Callers that wait go away, so that permits requested for them are held unspent.
    Cancel { host: usize },
    /// All hosts take at once, as much as there is.
    Dump { takes: u64 },
    /// All hosts lease their part of the burst, for callers that go away at once; a [`Trouble::Siege`]
    /// follows.
    Hoard,
    /// No message arrives until all leases are written off; hoarded permits are spent at the last moment, and
    /// more are requested at the first.
    Siege,
    /// All hosts ask for this many permits, one by one.
    Rush { takes: u64 },
    /// The host asks for more right before the ledger's epoch ends, then pauses until that lease is written
    /// off.
    Edge { host: usize },
    /// Checks the ledger's book.
    Look,
    /// The host's process ends in order: it gives back its permits, then starts again.
    Leave { host: usize },
    /// The host reloads its rule, with another limit.
    Reload { host: usize, limit: u64 },
}

/// The place where takes are decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Nodes lease permits, as the code of leases says.
    #[default]
    Leased,
    /// The store decides every take; those that wait meanwhile travel together.
    Exact,
    /// Each node decides by its share of the quota, and sends no requests.
    Local,
}

/// All that happens in one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of everything that is drawn during the run.
    pub seed: u64,
    /// Number of hosts, each with one node.
    pub hosts: usize,
    /// The limit by which the laws hold: the highest of all hosts'.
    pub limit: u64,
    /// Limits of the hosts, in turn, where they differ; empty: all have `limit`.
    pub limits: Vec<u64>,
    /// The limit's period.
    pub period_ns: u64,
    /// Most permits at once.
    pub burst: u64,
    /// Algorithm of the quota.
    pub algorithm: Algorithm,
    /// Timing of the leases.
    pub timing: Timing,
    /// Least and greatest delay of a message.
    pub delay_ns: (u64, u64),
    /// Additional delay of each message of the first host. Hosts then wait four times as much longer for a
    /// reply.
    pub far_ns: u64,
    /// Per cent of messages that take up to three times tau.
    pub slow: u64,
    /// Per cent of messages that are lost.
    pub loss: u64,
    /// Per cent of messages that come twice.
    pub twice: u64,
    /// The greatest error of clocks, in millionths.
    pub drift_ppm: u64,
    /// Per cent of takes that are given back, and of takes that turn out to cost more.
    pub refunds: u64,
    /// Permits are given back only after a while, also those taken centrally; otherwise at once, from the
    /// lease.
    pub late_refunds: bool,
    /// Per cent of takes that turn out to cost one more.
    pub charges: u64,
    /// Per cent of takes that are paid for afterwards: a check, and the charge once the work is done.
    pub pays: u64,
    /// Without a store, a host decides by its share of the quota; otherwise it denies.
    pub local_share: bool,
    /// The demand, by host and time.
    pub phases: Vec<Phase>,
    /// Faults of machines, clocks and callers, each with its instant.
    pub troubles: Vec<(u64, Trouble)>,
    /// Faults happen before this instant only.
    pub calm_from_ns: u64,
    /// From here on to the end, demand is twice the rate: nothing of the quota may be lost.
    pub measured_ns: (u64, u64),
    /// Served without faults: compared with one exact bucket under the same arrivals, and not asked for the
    /// rate's 95 %.
    pub is_fleet: bool,
    /// Time for which hosts wait for a reply; 0: 25 ms.
    pub deadline_ns: u64,
    /// Where takes are decided.
    pub sharing: Sharing,
    /// Length of the spans whose figures are kept; 0: no figures are kept.
    pub record_every_ns: u64,
}

/// The kind of plans that a seed draws. Mistakes that show only in rare events are looked for where these are
/// frequent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanKind {
    /// Everything, as often as it is drawn.
    Usual,
    /// Plans with windows only.
    Windows,
    /// The ledger loses its key, and callers give back late.
    Losses,
    /// Half of the work is paid for afterwards, and costs up to three times the burst. The ledger's clock and
    /// its key are left alone: permits that they lose are owed no longer.
    Paid,
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self::of_kind(seed, PlanKind::Usual)
    }

    /// The same, of a kind.
    #[must_use]
    pub fn of_kind(seed: u64, kind: PlanKind) -> Self {
        let mut rng = Rng::new(seed);
        let tau_ms = rng.pick(&[40, 60, 100, 200, 400]);
        let horizon_ms = tau_ms / rng.pick(&[2, 2, 4]);
        let hosts = rng.pick(&[1, 2, 3, 4, 5, 8]) as usize;
        let timing = Timing {
            tau: Duration::from_millis(tau_ms),
            horizon: Duration::from_millis(horizon_ms),
            skew: Duration::from_millis(1),
            ..Timing::default()
        };
        // Mostly large enough to be leased, by a little or by much; sometimes not.
        let ration = rng.pick(&[1, 5, 8, 12, 30]) * hosts as u64;
        let period_ns = rng.pick(&[1_000, 700, 333, 2_000]) * MS;
        let rate_ns = horizon_ms * MS;
        let limit = (ration * period_ns / rate_ns).max(1) + rng.range(0, 6);
        let per_tau = (limit * tau_ms * MS / period_ns).max(1);
        let burst = match rng.range(0, 3) {
            0 => (per_tau / 4).max(2),
            1 => per_tau,
            2 => limit,
            _ => per_tau * 3 + 5,
        };
        let is_window = rng.percent(25) || kind == PlanKind::Windows;
        let algorithm = if is_window { any_window(&mut rng) } else { any_bucket(&mut rng, burst) };
        let burst = if is_window { limit } else { burst };
        let tau_ns = tau_ms * MS;
        let calm_from_ns = tau_ns * rng.range(6, 12);
        // By then everything delayed, paused or hoarded is over.
        let from_ns = calm_from_ns + 8 * tau_ns;
        let measured_for_ns = if is_window { 2 * period_ns + tau_ns } else { 8 * tau_ns };
        let mut plan = Self {
            seed,
            hosts,
            limit,
            limits: Vec::new(),
            period_ns,
            burst,
            algorithm,
            timing,
            delay_ns: rng.pick(&[(20_000, 200_000), (100_000, 2 * MS), (500_000, 8 * MS)]),
            far_ns: 0,
            slow: rng.pick(&[0, 0, 2, 10]),
            loss: rng.pick(&[0, 0, 3, 20]),
            twice: rng.pick(&[0, 0, 5, 30]),
            drift_ppm: rng.pick(&[0, 1_000, 1_000]),
            refunds: rng.pick(&[0, 0, 0, 10, 30]),
            late_refunds: rng.percent(75),
            charges: rng.pick(&[0, 0, 0, 0, 2]),
            pays: 0,
            local_share: rng.percent(30),
            phases: Vec::new(),
            troubles: Vec::new(),
            calm_from_ns,
            measured_ns: (from_ns, from_ns + measured_for_ns),
            is_fleet: false,
            deadline_ns: 0,
            sharing: Sharing::Leased,
            record_every_ns: 0,
        };
        plan.add_demand(&mut rng);
        plan.add_troubles(&mut rng);
        plan.make_it(kind, &mut rng);
        plan
    }

    fn make_it(&mut self, kind: PlanKind, rng: &mut Rng) {
        if kind == PlanKind::Losses {
            (self.refunds, self.late_refunds) = (30, true);
            let losses = (0..6).map(|_| (rng.range(0, self.calm_from_ns - 1), Trouble::KeyLoss));
            self.troubles.extend(losses);
        }
        if kind == PlanKind::Paid {
            (self.pays, self.charges) = (50, 0);
            let is_lossy =
                |trouble: &Trouble| matches!(trouble, Trouble::LedgerStep { .. } | Trouble::KeyLoss);
            self.troubles.retain(|(_, trouble)| !is_lossy(trouble));
        }
    }

    pub(crate) fn quota(&self, limit: u64) -> Quota {
        let period = Period::Span(Duration::from_nanos(self.period_ns));
        Quota::new(limit, period, self.algorithm.clone()).expect("a quota within bounds")
    }

    /// The limit that a host goes by at first.
    pub(crate) fn limit_of(&self, host: usize) -> u64 {
        if self.limits.is_empty() { self.limit } else { self.limits[host % self.limits.len()] }
    }

    pub(crate) fn patience_ns(&self) -> u64 {
        let deadline_ns = if self.deadline_ns == 0 { PATIENCE_NS } else { self.deadline_ns };
        deadline_ns + 4 * self.far_ns
    }

    /// Whether the quota counts windows.
    #[must_use]
    pub fn is_window(&self) -> bool {
        matches!(self.algorithm, Algorithm::FixedWindow { .. })
    }

    pub(crate) fn tau_ns(&self) -> u64 {
        self.timing.tau.as_nanos() as u64
    }

    fn add_demand(&mut self, rng: &mut Rng) {
        let even_ns = (self.period_ns * self.hosts as u64 / self.limit).max(1);
        for host in 0..self.hosts {
            let mut at = 0;
            while at < self.calm_from_ns {
                let until_ns = at + rng.range(self.tau_ns() / 2, 4 * self.tau_ns());
                // Idle, as fast as the quota allows, faster, and much faster.
                if let Some(speed) = rng.pick(&[None, Some(1_u64), Some(2), Some(4), Some(4), Some(12)]) {
                    let together = rng.pick(&[1, 1, 1, 4, 16]);
                    let largest_cost = rng.pick(&[1, 1, 1, 3, (self.burst / 2).max(1)]);
                    let every_ns = (even_ns * together * largest_cost.div_ceil(2) * 2 / speed).max(20_000);
                    let gaps = Gaps::Even;
                    let costs = Costs::UpTo(largest_cost);
                    self.phases.push(Phase { host, from_ns: at, until_ns, every_ns, gaps, together, costs });
                }
                at = until_ns;
            }
            let from_ns = self.calm_from_ns + self.tau_ns();
            let until_ns = self.measured_ns.1;
            self.phases.push(Phase {
                host,
                from_ns,
                until_ns,
                every_ns: even_ns / 2 + 1,
                gaps: Gaps::Even,
                together: 1,
                costs: Costs::UpTo(1),
            });
        }
    }

    fn add_troubles(&mut self, rng: &mut Rng) {
        let tau_ns = self.tau_ns();
        let end_ns = self.calm_from_ns;
        let kinds = rng.range(0, 5);
        let times = |rng: &mut Rng, most: u64| {
            (0..rng.range(1, most)).map(|_| rng.range(0, end_ns - 1)).collect::<Vec<_>>()
        };
        for _ in 0..kinds {
            let kind = rng.range(0, 8);
            for at in times(rng, 3) {
                let host = rng.range(0, self.hosts as u64 - 1) as usize;
                let left_ns = end_ns - at;
                let span_ns = rng.pick(&[tau_ns / 8, tau_ns, 3 * tau_ns]).min(left_ns);
                let back = rng.percent(50);
                let trouble = match kind {
                    0 => Trouble::Crash { host, down_ns: span_ns },
                    1 => Trouble::Pause { host, for_ns: span_ns },
                    2 => {
                        let by_us =
                            rng.pick(&[1_000, tau_ns / 2_000, tau_ns / 500, 2_000_000, 90_000_000]) as i64;
                        Trouble::LedgerStep { by_us: if back { -by_us } else { by_us } }
                    }
                    3 => Trouble::WallStep {
                        host,
                        by_ns: if back { -3_600_000_000_000 } else { 3_600_000_000_000 },
                    },
                    4 => Trouble::Outage { for_ns: span_ns },
                    5 => Trouble::KeyLoss,
                    6 => Trouble::Cancel { host },
                    7 => Trouble::Leave { host },
                    _ => Trouble::Dump { takes: self.burst },
                };
                self.troubles.push((at, trouble));
                if let Trouble::LedgerStep { by_us } = trouble
                    && rng.percent(60)
                {
                    // And right again, after a while.
                    let back_at = (at + rng.range(1, 2 * tau_ns)).min(end_ns);
                    self.troubles.push((back_at, Trouble::LedgerStep { by_us: -by_us }));
                }
            }
        }
        if rng.percent(15) {
            self.troubles.push((rng.range(end_ns / 4, end_ns * 3 / 4), Trouble::Hoard));
        }
        if rng.percent(25) {
            for at in times(rng, 4) {
                let host = rng.range(0, self.hosts as u64 - 1) as usize;
                self.troubles.push((at, Trouble::Edge { host }));
            }
        }
        // Only an adversary hoards and dumps; otherwise both are rare.
        if rng.percent(50) {
            for at in times(rng, 4) {
                let host = rng.range(0, self.hosts as u64 - 1) as usize;
                self.troubles.push((at, Trouble::Cancel { host }));
                self.troubles
                    .push(((at + rng.range(0, tau_ns)).min(end_ns), Trouble::Dump { takes: self.burst }));
            }
        }
    }
}

fn any_window(rng: &mut Rng) -> Algorithm {
    Algorithm::FixedWindow { align: rng.pick(&[Align::Calendar, Align::Calendar, Align::FirstHit]) }
}

fn any_bucket(rng: &mut Rng, burst: u64) -> Algorithm {
    if rng.percent(15) {
        Algorithm::LeakyBucket { capacity: Some(burst), form: LeakyForm::Meter }
    } else {
        let refill = Refill::Continuous;
        Algorithm::TokenBucket { burst: Some(burst), initial: None, overdraft: 0, refill }
    }
}
