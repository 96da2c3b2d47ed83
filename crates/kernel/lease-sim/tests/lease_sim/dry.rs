//! The price of an exhausted key: once the ledger has reported that it is empty, nodes deny by themselves for
//! a horizon at most.

use tollgate_core::{Algorithm, Align, Refill};
use tollgate_lease::Timing;

use crate::run;
use tollgate_lease_sim::{Costs, Gaps, MS, Phase, Plan, Sharing};

const SPAN_NS: u64 = 2_000 * MS;
const EVERY_NS: u64 = MS / 10;

/// Four nodes, 10,000 takes a second at each, of a quota that has nothing left after a moment; 0.5 ms each
/// way.
fn dry(limit: u64, period_ns: u64, algorithm: Algorithm) -> Plan {
    let phase = |host| Phase {
        host,
        from_ns: 0,
        until_ns: SPAN_NS,
        every_ns: EVERY_NS,
        gaps: Gaps::Even,
        together: 1,
        costs: Costs::UpTo(1),
    };
    Plan {
        seed: 1,
        hosts: 4,
        limit,
        limits: Vec::new(),
        period_ns,
        burst: limit,
        algorithm,
        timing: Timing::default(),
        delay_ns: (MS / 2, MS / 2),
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
        phases: (0..4).map(phase).collect(),
        troubles: Vec::new(),
        calm_from_ns: 0,
        measured_ns: (SPAN_NS - 1, SPAN_NS),
        is_fleet: false,
        deadline_ns: 0,
        sharing: Sharing::Leased,
        record_every_ns: 0,
    }
}

#[test]
fn a_key_that_is_used_up_is_seldom_asked_for() {
    let bucket = |burst| Algorithm::TokenBucket {
        burst: Some(burst),
        initial: None,
        overdraft: 0,
        refill: Refill::Continuous,
    };
    let window = || Algorithm::FixedWindow { align: Align::Calendar };
    println!("                     admitted  decisions a call");
    for (name, limit, period_ms, algorithm, least) in [
        ("window 1,000/min", 1_000, 60_000, window(), 100.0),
        ("window 20,000/min", 20_000, 60_000, window(), 100.0),
        ("bucket 1,000/min", 1_000, 60_000, bucket(1_000), 50.0),
        ("bucket 500/s", 500, 1_000, bucket(500), 50.0),
    ] {
        let outcome = run(&dry(limit, period_ms * MS, algorithm), None, false);
        assert_eq!(outcome.broken, None, "{name}");
        let decisions = (4 * SPAN_NS / EVERY_NS) as f64;
        let calls = (outcome.requests + outcome.centrals) as f64;
        println!("{name:<20} {:>9} {:>17.0}", outcome.admitted, decisions / calls);
        assert!(decisions >= least * calls, "{name}: {calls} calls for {decisions} decisions");
    }
}
