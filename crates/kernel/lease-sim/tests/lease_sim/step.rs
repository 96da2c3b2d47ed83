//! The cost and yield of leases when demand steps up: 2,000 permits a second with a burst of 1,000, shared by
//! 8 and by 32 nodes; three quiet seconds at half the rate, then two at five times it; messages take 2 ms
//! each way.

use std::time::Duration;

use tollgate_core::{Algorithm, Refill};
use tollgate_lease::Timing;

use crate::run;
use tollgate_lease_sim::{Costs, Gaps, MS, Phase, Plan, Sharing};

const RATE: u64 = 2_000;
const BURST: u64 = 1_000;
const QUIET_NS: u64 = 3_000 * MS;
const STEP_NS: u64 = 2_000 * MS;

fn step(hosts: usize) -> Plan {
    let end_ns = QUIET_NS + STEP_NS;
    let phase = |host, from_ns, until_ns, a_second: u64| {
        let every_ns = 1_000 * MS * hosts as u64 / a_second;
        Phase { host, from_ns, until_ns, every_ns, gaps: Gaps::Even, together: 1, costs: Costs::UpTo(1) }
    };
    let phases = (0..hosts)
        .flat_map(|host| [phase(host, 0, QUIET_NS, RATE / 2), phase(host, QUIET_NS, end_ns, 5 * RATE)])
        .collect();
    Plan {
        seed: 1,
        hosts,
        limit: RATE,
        limits: Vec::new(),
        period_ns: 1_000 * MS,
        burst: BURST,
        algorithm: Algorithm::TokenBucket {
            burst: Some(BURST),
            initial: None,
            overdraft: 0,
            refill: Refill::Continuous,
        },
        timing: Timing { tau: Duration::from_millis(200), ..Timing::default() },
        delay_ns: (2 * MS, 2 * MS),
        far_ns: 0,
        slow: 0,
        loss: 0,
        twice: 0,
        drift_ppm: 0,
        refunds: 0,
        late_refunds: false,
        charges: 0,
        pays: 0,
        local_share: false,
        phases,
        troubles: Vec::new(),
        calm_from_ns: 0,
        measured_ns: (end_ns - 1, end_ns),
        is_fleet: false,
        deadline_ns: 0,
        sharing: Sharing::Leased,
        record_every_ns: 0,
    }
}

#[test]
fn a_step_in_demand_is_met_within_the_bound_and_with_few_messages() {
    println!("nodes  burst/B  admitted/ideal  requests/s  central calls/s");
    for (hosts, most_requests) in [(8, 200.0), (32, 700.0)] {
        let outcome = run(&step(hosts), None, false);
        assert_eq!(outcome.broken, None);
        let seconds = (QUIET_NS + STEP_NS) as f64 / 1e9;
        // All of the quiet time's demand; then the burst and the refill.
        let quiet = (RATE / 2 * QUIET_NS / 1_000 / MS) as f64;
        let ideal = quiet + BURST as f64 + (RATE * STEP_NS / 1_000 / MS) as f64;
        let admitted = outcome.admitted as f64 / ideal;
        let requests = outcome.requests as f64 / seconds;
        let centrals = outcome.centrals as f64 / seconds;
        println!("{hosts:>5}  {:>7.2}  {admitted:>14.3}  {requests:>10.0}  {centrals:>15.0}", outcome.peak);
        assert!(outcome.peak <= 1.0, "more than burst + rate·t");
        assert!(admitted >= 0.95, "{admitted} of the ideal");
        assert!(requests + centrals <= most_requests, "{requests} and {centrals} a second");
    }
}
