//! Fleets under load, without faults: uneven and changing demand, costs above 1, two rates at once, up to 64
//! nodes. The admissions of leases are compared with one exact bucket under the same arrivals, between the
//! nodes, and with the number of calls.

mod laws;
mod rows;

use std::time::Duration;

use tollgate_core::{Algorithm, Align, Refill};
use tollgate_lease::Timing;

use tollgate_lease_sim::{Costs, Gaps, MS, Phase, Plan, Rng, Sharing, Trouble};

const SECOND: u64 = 1_000 * MS;
/// Fairness is reached by then.
const WARM_NS: u64 = 5 * SECOND;
/// Figures over fewer takes are chance.
const MEASURED_TAKES: f64 = 1_500.0;
/// More takes a second make a run longer, and show nothing else.
const MOST_TAKES: f64 = 4_000.0;

/// Takes of one node, per second, and their costs.
#[derive(Clone, Debug)]
struct Load {
    takes: f64,
    costs: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Fleet {
    name: String,
    seed: u64,
    rate: u64,
    /// Rates of the nodes in turn, where they differ.
    rates: Vec<u64>,
    burst: u64,
    loads: Vec<Load>,
    /// One way of a message, in microseconds.
    way_us: u64,
    /// Additional time of one way of the first node's messages, in microseconds.
    far_us: u64,
    /// Length of a fixed window; 0: a bucket.
    window_ms: u64,
    gaps: Gaps,
    /// Period after which loads move to other nodes; 0: never.
    turns_ms: u64,
    troubles: Vec<(u64, Trouble)>,
    measured_ns: u64,
}

fn even(nodes: usize, takes: f64, costs: &[u64]) -> Vec<Load> {
    vec![Load { takes, costs: costs.to_vec() }; nodes]
}

impl Fleet {
    fn new(name: &str, rate: u64, burst: u64, loads: Vec<Load>) -> Self {
        Self {
            name: name.to_owned(),
            seed: 1,
            rate,
            rates: Vec::new(),
            burst,
            loads,
            way_us: 1_000,
            far_us: 0,
            window_ms: 0,
            gaps: Gaps::Poisson,
            turns_ms: 0,
            troubles: Vec::new(),
            measured_ns: 20 * SECOND,
        }
    }

    /// The fleet of a seed.
    fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0xF1EE7);
        // Each draw changes the ones after it, so a change here gives known seeds other fleets.
        let nodes = rng.pick(&[2, 2, 3, 4, 8, 16, 32, 64]);
        let rate = rng.pick(&[20, 50, 100, 200, 500, 1_000, 5_000]);
        let burst = (rate * rng.pick(&[2, 5, 10, 10, 20]) / 10).max(10);
        let small: Vec<u64> = (1..=rng.pick(&[5, 20])).collect();
        let costs = match rng.range(0, 9) {
            0..=3 => vec![1],
            4 => vec![(burst / 50).max(2)],
            5 => vec![(burst / 5).max(2)],
            6 => vec![burst * 3 / 5],
            7 => vec![1, 1, 1, 1, 1, 1, 1, 1, 1, (burst / 4).max(2)],
            8 if burst >= 100 => small,
            _ => vec![burst],
        };
        let mean = costs.iter().sum::<u64>() as f64 / costs.len() as f64;
        let total = rate as f64 / mean * rng.pick(&[0.6, 0.95, 1.3, 3.0, 10.0, 30.0]);
        let total = total.min(MOST_TAKES);
        let each = total / nodes as f64;
        let mut fleet = Self::new(&format!("seed {seed}"), rate, burst, even(nodes, each, &costs));
        match rng.range(0, 3) {
            0 => {
                fleet.loads[1..].iter_mut().for_each(|load| load.takes = 5.0);
                fleet.loads[0].takes = total;
            }
            1 => {
                let first = total * 0.5;
                for (nth, load) in fleet.loads.iter_mut().enumerate() {
                    load.takes = (first / 1.6_f64.powi(nth as i32)).max(2.0);
                }
            }
            _ => {}
        }
        if rng.percent(15) {
            fleet.rates = rng.pick(&[[100, 110], [100, 200], [100, 101]]).map(|of| rate * of / 100).to_vec();
            if rng.percent(50) {
                fleet.flip();
            }
        } else if rng.percent(20) {
            fleet.turns_ms = rng.pick(&[300, 1_000]);
        } else if rng.percent(20) {
            fleet.window_ms = rng.pick(&[500, 2_000, 20_000]);
            if fleet.window_ms == 20_000 {
                fleet.churn(&mut rng);
            }
        }
        fleet.seed = seed;
        fleet.way_us = rng.pick(&[100, 1_000, 1_000, 3_000]);
        fleet.far_us = rng.pick(&[0, 0, 0, 0, 14_000]);
        fleet.gaps = rng.pick(&[Gaps::Poisson, Gaps::Poisson, Gaps::Bursts(4), Gaps::Even]);
        let takes: f64 = fleet.loads.iter().map(|load| load.takes).sum();
        fleet.measured_ns = ((MEASURED_TAKES / takes) as u64).clamp(6, 20) * SECOND;
        fleet
    }

    /// Half of the nodes change their rate every second.
    fn flip(&mut self) {
        let until = (WARM_NS + self.measured_ns) / SECOND;
        for second in 1..until {
            for host in (0..self.loads.len()).step_by(2) {
                let limit = self.rates[(second % 2) as usize];
                self.troubles.push((second * SECOND, Trouble::Reload { host, limit }));
            }
        }
    }

    /// Nodes leave and come back as others all the time, some after giving back and some not.
    fn churn(&mut self, rng: &mut Rng) {
        let until = WARM_NS + self.measured_ns;
        for at in (0..until).step_by(100 * MS as usize) {
            let host = rng.range(0, self.loads.len() as u64 - 1) as usize;
            let trouble = Trouble::Crash { host, down_ns: 10 * MS };
            if rng.percent(80) {
                self.troubles.push((at, Trouble::Leave { host }));
            }
            self.troubles.push((at + 5 * self.way_us * 1_000 + MS, trouble));
        }
    }

    fn plan(&self) -> Plan {
        let end_ns = WARM_NS + self.measured_ns;
        let algorithm = if self.window_ms > 0 {
            Algorithm::FixedWindow { align: Align::Calendar }
        } else {
            let initial = None;
            let refill = Refill::Continuous;
            Algorithm::TokenBucket { burst: Some(self.burst), initial, overdraft: 0, refill }
        };
        let phase = |host: usize, load: &Load, from_ns, until_ns| Phase {
            host,
            from_ns,
            until_ns,
            every_ns: (1e9 / load.takes) as u64,
            gaps: self.gaps,
            together: 1,
            costs: Costs::OneOf(load.costs.clone()),
        };
        let nodes = self.loads.len();
        // Each turn gives every host the load of the next one.
        let turn_ns = if self.turns_ms > 0 { self.turns_ms * MS } else { end_ns };
        let phases = (0..end_ns.div_ceil(turn_ns)).flat_map(|turn| {
            let from_ns = turn * turn_ns;
            let until_ns = (turn + 1) * turn_ns;
            (0..nodes).map(move |host| {
                phase(host, &self.loads[(host + turn as usize) % nodes], from_ns, until_ns.min(end_ns))
            })
        });
        Plan {
            seed: self.seed,
            hosts: nodes,
            limit: if self.window_ms > 0 { self.burst } else { self.highest() },
            limits: self.rates.clone(),
            period_ns: if self.window_ms > 0 { self.window_ms * MS } else { SECOND },
            burst: self.burst,
            algorithm,
            timing: Timing { tau: Duration::from_millis(500), ..Timing::default() },
            delay_ns: (self.way_us * 900, self.way_us * 1_100),
            far_ns: self.far_us * 1_000,
            slow: 0,
            loss: 0,
            twice: 0,
            drift_ppm: 1_000,
            refunds: 0,
            late_refunds: false,
            charges: 0,
            pays: 0,
            local_share: false,
            phases: phases.collect(),
            troubles: self.troubles.clone(),
            calm_from_ns: 0,
            measured_ns: (WARM_NS, end_ns),
            is_fleet: true,
            deadline_ns: 0,
            sharing: Sharing::Leased,
            record_every_ns: 0,
        }
    }

    fn lowest(&self) -> u64 {
        self.rates.iter().copied().min().unwrap_or(self.rate)
    }

    fn highest(&self) -> u64 {
        self.rates.iter().copied().max().unwrap_or(self.rate)
    }

    fn largest_cost(&self) -> u64 {
        self.loads.iter().flat_map(|load| &load.costs).copied().max().unwrap_or(1)
    }

    /// Permits asked for per second.
    fn demand(&self) -> f64 {
        let of = |load: &Load| load.takes * load.costs.iter().sum::<u64>() as f64 / load.costs.len() as f64;
        self.loads.iter().map(of).sum()
    }
}
