//! Loads that once starved nodes of a fleet, and the result that each must reach.

use tollgate_lease::Mistake;

use super::{Fleet, Load, SECOND, even};
use crate::run;
use tollgate_lease_sim::{Gaps, Rng};

/// The required result: share of the exact bucket, the worst node's share, and calls per take.
struct RequiredResult {
    fleet: Fleet,
    of_exact: f64,
    worst: f64,
    calls: f64,
}

fn light(hot: f64) -> Vec<Load> {
    [even(1, hot, &[1]), even(3, 5.0, &[1])].concat()
}

/// Each node in turn is asked for more than the window has, and then for hardly anything.
fn hot_in_turns() -> RequiredResult {
    let loads = [even(1, 600.0, &[1]), even(7, 1.0, &[1])].concat();
    let mut fleet = Fleet::new("window of 400, hot in turns", 200, 400, loads);
    (fleet.window_ms, fleet.turns_ms) = (2_000, 500);
    RequiredResult { fleet, of_exact: 0.95, worst: 0.0, calls: 1.3 }
}

/// Nodes of a long window that end and start ten times a second: the permits that they held count as spent,
/// and they are forgotten.
fn churn() -> RequiredResult {
    let mut fleet = Fleet::new("window of 60,000, nodes come and go", 1_000, 60_000, even(10, 100.0, &[1]));
    fleet.window_ms = 60_000;
    fleet.churn(&mut Rng::new(1));
    RequiredResult { fleet, of_exact: 0.85, worst: 0.0, calls: 1.3 }
}

/// One node 30 ms away from the store beside three that are near.
fn one_far() -> RequiredResult {
    let mut fleet = Fleet::new("one of 4 nodes 30 ms away", 1_000, 1_000, even(4, 500.0, &[1]));
    fleet.far_us = 14_000;
    RequiredResult { fleet, of_exact: 0.95, worst: 0.8, calls: 0.1 }
}

/// The busiest node is 30 ms away, and its callers wait behind one whose take is large.
fn far_behind_a_large_take() -> RequiredResult {
    let costs = [1, 1, 1, 1, 1, 1, 1, 1, 1, 625];
    let loads = [even(1, 100.0, &costs), even(7, 5.0, &costs)].concat();
    let mut fleet = Fleet::new("30 ms away, costs 1 and 625", 5_000, 2_500, loads);
    (fleet.far_us, fleet.gaps, fleet.measured_ns) = (14_000, Gaps::Bursts(4), 60 * SECOND);
    RequiredResult { fleet, of_exact: 0.94, worst: 0.0, calls: 0.5 }
}

fn rows() -> Vec<RequiredResult> {
    let costly = |name, rate, burst, nodes, takes, costs: &[u64]| RequiredResult {
        fleet: Fleet::new(name, rate, burst, even(nodes, takes, costs)),
        of_exact: 0.95,
        worst: 0.0,
        calls: 1.3,
    };
    let uneven = |name, rate, burst, loads| RequiredResult {
        fleet: Fleet::new(name, rate, burst, loads),
        of_exact: 0.95,
        worst: 0.8,
        calls: 1.0,
    };
    let used_up = |name, rate, burst, nodes, takes: f64| RequiredResult {
        fleet: Fleet::new(name, rate, burst, even(nodes, takes / nodes as f64, &[1])),
        of_exact: 0.95,
        worst: 0.0,
        calls: 0.05,
    };
    let two_rates = |name, rates: [u64; 2], burst, nodes, takes| RequiredResult {
        fleet: Fleet { rates: rates.to_vec(), ..Fleet::new(name, rates[0], burst, even(nodes, takes, &[1])) },
        of_exact: 0.95,
        worst: 0.0,
        calls: 1.0,
    };
    let window = |name, cost, nodes| RequiredResult {
        fleet: Fleet {
            window_ms: 2_000,
            ..Fleet::new(name, 500, 1_000, even(nodes, 1_000.0 / nodes as f64 / cost as f64, &[cost]))
        },
        of_exact: 0.95,
        worst: 0.0,
        calls: 1.3,
    };
    // Takes per second of each node, so that all nodes together ask for three times the rate.
    let evenly = |rate: f64, nodes: f64, cost: f64| 3.0 * rate / nodes / cost;
    let mixed: Vec<u64> = (1..=50).collect();
    vec![
        costly("2 nodes, B 1000, cost 600", 1_000, 1_000, 2, 20.0, &[600]),
        costly("8 nodes, B 1000, cost 200", 2_000, 1_000, 8, 50.0, &[200]),
        costly("4 nodes, B 100, cost 60", 100, 100, 4, 20.0, &[60]),
        costly("16 nodes, cost 0.1 B", 5_000, 1_000, 16, evenly(5_000.0, 16.0, 100.0), &[100]),
        costly("32 nodes, cost 0.1 B", 5_000, 1_000, 32, evenly(5_000.0, 32.0, 100.0), &[100]),
        costly("16 nodes, cost 0.2 B", 5_000, 1_000, 16, evenly(5_000.0, 16.0, 200.0), &[200]),
        costly("4 nodes, cost 0.4 B", 5_000, 1_000, 4, evenly(5_000.0, 4.0, 400.0), &[400]),
        costly("2 nodes, cost 0.6 B", 5_000, 1_000, 2, evenly(5_000.0, 2.0, 600.0), &[600]),
        costly("8 nodes, costs 1 to 50", 2_000, 200, 8, 1.5 * 2_000.0 / 8.0 / 25.5, &mixed),
        costly("4 nodes, costs 1 and 600", 1_000, 1_000, 4, 100.0, &[1, 1, 1, 1, 1, 1, 1, 1, 1, 600]),
        costly("3 nodes, cost B", 1_000, 100, 3, 20.0, &[100]),
        costly("8 nodes, 0.9 of the rate, mixed", 1_000, 200, 8, 10.0, &[1, 1, 1, 41]),
        uneven("one at 1.05 r, 3 at 5/s, r 10,000", 10_000, 1_000, light(10_500.0)),
        uneven("one at 1.5 r, 3 at 5/s, r 1,000", 1_000, 1_000, light(1_500.0)),
        uneven("one at 5 r, 3 at 5/s, r 200", 200, 200, light(1_000.0)),
        uneven("64 equal nodes", 1_000, 1_000, even(64, 50.0, &[1])),
        uneven("8 equal nodes, r 100", 100, 100, even(8, 100.0, &[1])),
        uneven("5 equal nodes, B 20", 100, 20, even(5, 100.0, &[1])),
        uneven("16 equal nodes", 2_000, 2_000, even(16, 500.0, &[1])),
        uneven("2 hot, 14 medium", 1_000, 1_000, [even(2, 2_000.0, &[1]), even(14, 40.0, &[1])].concat()),
        used_up("64 nodes, r 500", 500, 500, 64, 10_000.0),
        used_up("32 nodes, r 200", 200, 2_000, 32, 20_000.0),
        used_up("64 nodes, r 100", 100, 100, 64, 10_000.0),
        used_up("16 nodes, r 10", 10, 10, 16, 5_000.0),
        used_up("64 nodes, r 20", 20, 20, 64, 10_000.0),
        used_up("16 nodes, r 1000", 1_000, 1_000, 16, 20_000.0),
        two_rates("8 nodes, 10 and 11/s", [10, 11], 10, 8, 50.0),
        two_rates("2 nodes, 1 and 2/s", [1, 2], 10, 2, 20.0),
        two_rates("32 nodes, 100 and 110/s", [100, 110], 100, 32, 30.0),
        two_rates("8 nodes, 1,000 and 1,100/s", [1_000, 1_100], 1_000, 8, 300.0),
        two_rates("8 nodes, 100 and 1,000/s", [100, 1_000], 100, 8, 300.0),
        one_far(),
        far_behind_a_large_take(),
        hot_in_turns(),
        churn(),
        costly("1 node, B 30, costs 1 to 20", 5_000, 30, 1, 2_000.0, &(1..=20).collect::<Vec<_>>()),
        window("window of 1000, 8 nodes, cost 200", 200, 8),
        window("window of 1000, 8 nodes", 1, 8),
        window("window of 1000, 16 nodes, cost 30", 30, 16),
    ]
}

/// The rows that miss what they must reach, with their figures: of all rows, or of one.
pub(super) fn short_rows(fault: Option<Mistake>, only: Option<&str>) -> Vec<(String, String)> {
    let mut short = Vec::new();
    for RequiredResult { fleet, of_exact, worst, calls } in rows() {
        if only.is_some_and(|name| name != fleet.name) {
            continue;
        }
        let outcome = run(&fleet.plan(), fault, false);
        let figures = fleet.figures(&outcome);
        println!(
            "{:<36} {:>7.1}%  {:>17.1}%  {:>10.2}  {:>12.3}",
            fleet.name,
            100.0 * figures.of_lower,
            100.0 * figures.of_higher,
            figures.worst,
            figures.calls
        );
        let is_short = outcome.broken.is_some()
            || outcome.entries > fleet.loads.len() + 35
            || figures.of_lower < of_exact
            || figures.of_higher > 1.01
            || figures.worst < worst
            || figures.calls > calls
            || figures.late > 0.000_5;
        if is_short {
            short.push((fleet.name, format!("{:?} {figures:?}", outcome.broken)));
        }
    }
    short
}

#[test]
fn loads_that_starved_fleets_are_served() {
    println!("{:<36} of exact  of the higher rate  worst node  calls a take", "");
    let short = short_rows(None, None);
    assert!(short.is_empty(), "{short:#?}");
}
