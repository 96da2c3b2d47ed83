//! Fleets under load: what leases admit beside one exact bucket, how fairly, and at which price. No faults: only demand.

use std::time::Duration;

use tollgate_core::{Algorithm, Align, Refill};
use tollgate_store_redis::lease::Timing;

use crate::plan::{Costs, Gaps, MS, Phase, Plan};
use crate::run;

/// Takes of one node, a second, and what they cost.
#[derive(Clone)]
struct Load(f64, Vec<u64>);

struct Fleet {
    name: &'static str,
    rate: u64,
    rates: Vec<u64>,
    burst: u64,
    loads: Vec<Load>,
    way_us: u64,
    window_ms: u64,
    gaps: Gaps,
}

const SECOND: u64 = 1_000 * MS;

fn even(nodes: usize, a_second: f64, costs: &[u64]) -> Vec<Load> {
    vec![Load(a_second, costs.to_vec()); nodes]
}

fn fleet(name: &'static str, rate: u64, burst: u64, loads: Vec<Load>) -> Fleet {
    Fleet { name, rate, rates: Vec::new(), burst, loads, way_us: 1_000, window_ms: 0, gaps: Gaps::Poisson }
}

impl Fleet {
    fn plan(&self) -> Plan {
        let (from, until) = (5 * SECOND, 25 * SECOND);
        let algorithm = if self.window_ms > 0 {
            Algorithm::FixedWindow { align: Align::Calendar }
        } else {
            Algorithm::TokenBucket {
                burst: Some(self.burst),
                initial: None,
                overdraft: 0,
                refill: Refill::Continuous,
            }
        };
        let phases = self.loads.iter().enumerate().map(|(host, Load(a_second, costs))| Phase {
            host,
            from_ns: 0,
            until_ns: until,
            every_ns: (1e9 / a_second) as u64,
            gaps: self.gaps,
            together: 1,
            costs: Costs::OneOf(costs.clone()),
        });
        Plan {
            seed: 1,
            hosts: self.loads.len(),
            limit: self.rate.max(self.rates.iter().copied().max().unwrap_or(0)),
            limits: self.rates.clone(),
            period_ns: if self.window_ms > 0 { self.window_ms * MS } else { SECOND },
            burst: self.burst,
            algorithm,
            timing: Timing { tau: Duration::from_millis(500), ..Timing::default() },
            delay_ns: (self.way_us * 900, self.way_us * 1_100),
            slow: 0,
            loss: 0,
            twice: 0,
            drift_ppm: 1_000,
            refunds: 0,
            late_refunds: false,
            charges: 0,
            local_share: false,
            phases: phases.collect(),
            troubles: Vec::new(),
            calm_from_ns: 0,
            measured_ns: (from, until),
            records: true,
        }
    }
}

#[test]
fn fleets() {
    let mut all = vec![
        fleet("F1 2x cost 600", 1_000, 1_000, even(2, 20.0, &[600])),
        fleet("F1 8x cost 200", 2_000, 1_000, even(8, 50.0, &[200])),
        fleet("F1 4x cost 60 r100", 100, 100, even(4, 20.0, &[60])),
        fleet("F1 16x 0.1B", 5_000, 1_000, even(16, 3.0 * 5000.0 / 16.0 / 100.0, &[100])),
        fleet("F1 32x 0.1B", 5_000, 1_000, even(32, 3.0 * 5000.0 / 32.0 / 100.0, &[100])),
        fleet("F1 16x 0.2B", 5_000, 1_000, even(16, 3.0 * 5000.0 / 16.0 / 200.0, &[200])),
        fleet("F1 4x 0.4B", 5_000, 1_000, even(4, 3.0 * 5000.0 / 4.0 / 400.0, &[400])),
        fleet("F1 2x 0.6B", 5_000, 1_000, even(2, 3.0 * 5000.0 / 2.0 / 600.0, &[600])),
        fleet("F1 8x 1..50 B200", 2_000, 200, even(8, 1.5 * 2000.0 / 8.0 / 25.5, &(1..=50).collect::<Vec<_>>())),
        fleet("mix 1 and 600", 1_000, 1_000, even(4, 100.0, &[1, 1, 1, 1, 1, 1, 1, 1, 1, 600])),
        fleet("mix 1 | 200 nodes", 1_000, 1_000, [even(4, 200.0, &[1]), even(2, 5.0, &[200])].concat()),
        fleet("big B 8x 20000", 1_667, 100_000, even(8, 10.0, &[20_000])),
        fleet("cost B", 1_000, 100, even(3, 20.0, &[100])),
        fleet("F3 hot 1.05 + 3 light r10k", 10_000, 1_000, vec![Load(10_500.0, vec![1]), Load(5.0, vec![1]), Load(5.0, vec![1]), Load(5.0, vec![1])]),
        fleet("F3 hot 1.5 + 3 light r1000", 1_000, 1_000, vec![Load(1_500.0, vec![1]), Load(5.0, vec![1]), Load(5.0, vec![1]), Load(5.0, vec![1])]),
        fleet("F3 hot 1.05 + 3 light r50", 50, 50, vec![Load(55.0, vec![1]), Load(5.0, vec![1]), Load(5.0, vec![1]), Load(5.0, vec![1])]),
        fleet("F3 hot 5x + 3 light r200", 200, 200, vec![Load(1000.0, vec![1]), Load(5.0, vec![1]), Load(5.0, vec![1]), Load(5.0, vec![1])]),
        fleet("F3 64 equal", 1_000, 1_000, even(64, 50.0, &[1])),
        fleet("F3 8 equal r100", 100, 100, even(8, 100.0, &[1])),
        fleet("F3 5 equal r100 B20", 100, 20, even(5, 100.0, &[1])),
        fleet("F3 16 equal r2000", 2_000, 2_000, even(16, 500.0, &[1])),
        fleet("F3 2 hot 14 medium", 1_000, 1_000, [even(2, 2_000.0, &[1]), even(14, 40.0, &[1])].concat()),
        fleet("F3 spread", 1_000, 500, (0..12).map(|n| Load(4.0 * 1.7_f64.powi(n), vec![1])).collect()),
        fleet("F6 r500 64 10k/s", 500, 500, even(64, 10_000.0 / 64.0, &[1])),
        fleet("F6 r200 32 20k/s", 200, 2_000, even(32, 20_000.0 / 32.0, &[1])),
        fleet("F6 r100 64 10k/s", 100, 100, even(64, 10_000.0 / 64.0, &[1])),
        fleet("F6 r10 16 5k/s", 10, 10, even(16, 5_000.0 / 16.0, &[1])),
        fleet("F6 r20 64 10k/s", 20, 20, even(64, 10_000.0 / 64.0, &[1])),
        fleet("F6 r1000 16 20k/s", 1_000, 1_000, even(16, 20_000.0 / 16.0, &[1])),
        fleet("under 0.9 r", 1_000, 200, even(8, 112.0, &[1])),
        fleet("under 0.9 r mixed", 1_000, 200, even(8, 10.0, &[1, 1, 1, 41])),
    ];
    for (rates, burst, nodes, each) in [(vec![10, 11], 10, 8, 50.0), (vec![1, 2], 10, 2, 20.0), (vec![100, 110], 100, 32, 30.0), (vec![1_000, 1_100], 1_000, 8, 300.0), (vec![100, 1_000], 100, 8, 300.0)] {
        all.push(Fleet { rates: rates.clone(), ..fleet("F2", rates[0], burst, even(nodes, each, &[1])) });
    }
    for (limit, cost, nodes) in [(1_000, 200, 8), (1_000, 1, 8), (1_000, 30, 16), (100, 60, 2)] {
        let each = 2.0 * limit as f64 / 2.0 / nodes as f64 / cost as f64;
        all.push(Fleet { window_ms: 2_000, ..fleet("window", limit, limit, even(nodes, each, &[cost])) });
    }
    println!("{:<28} {:>6} {:>7} {:>7} {:>7} {:>6}  worst node of its fair share", "", "of", "of", "calls a", "leases", "");
    println!("{:<28} {:>6} {:>7} {:>7} {:>7} {:>6}", "", "exact", "higher", "decision", "/s", "");
    let only = std::env::var("FLEET").unwrap_or_default();
    for fleet in all.iter().filter(|fleet| fleet.name.contains(&only)) {
        let plan = fleet.plan();
        let outcome = run(&plan, None, std::env::var("TRACE").is_ok());
        if std::env::var("TRACE").is_ok() { println!("{}", outcome.trace); }
        let served = &outcome.served;
        let got: u64 = served.hosts.iter().map(|host| host.admitted).sum();
        let takes: u64 = served.hosts.iter().map(|host| host.takes).sum();
        let low = plan.limits.iter().copied().min().unwrap_or(plan.limit);
        let (exact, high) = (served.exact(&plan, low), served.exact(&plan, plan.limit));
        let fair = served.fair(got.max(exact.min(got * 2)));
        let mut shares: Vec<(f64, usize)> = served.hosts.iter().zip(&fair).map(|(host, fair)| host.admitted as f64 / fair).zip(0..).collect();
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        let calls = (outcome.requests + outcome.centrals) as f64 / (takes as f64 * 25.0 / 20.0);
        println!(
            "{:<28} {:>5.1}% {:>6.1}% {:>7.3} {:>7.0} {:>6}  {:.2} {:.2} {:.2} .. {:.2}  (demand of worst {} of {})",
            fleet.name, 100.0 * got as f64 / exact as f64, 100.0 * got as f64 / high as f64, calls,
            outcome.requests as f64 / 25.0, outcome.centrals / 25,
            shares[0].0, shares[shares.len() / 10].0, shares[shares.len() / 2].0, shares[shares.len() - 1].0,
            served.hosts[shares[0].1].asked, served.hosts.iter().map(|h| h.asked).sum::<u64>()
        );
        if let Some(broken) = &outcome.broken { println!("    BROKEN {broken}"); }
    }
}
