//! Uneven load on the nodes of one leased key: each node gets its max-min fair share, and all of them the
//! whole rate.
//!
//! Not here: costs other than 1 (`fleet_costs`), rates that change (`fleet_rates`).

use tollgate_testkit::redis::{Options, Redis};

use crate::arrivals::{Load, TAU, assert_bound, fair_shares, longest_stall, one_bucket, permits};
use crate::fleet::Fleet;

/// Seconds after which each node has its share, and seconds for which shares are counted.
const SETTLED: f64 = 2.0;
const COUNTED: f64 = 5.0;

/// `rate` is also the burst. A demand is the calls a second at one node, and the size of their groups.
async fn assert_fair(seed: u64, rate: f64, demands: &[(f64, u32)]) {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let rules = format!(
        "domain: fleet
descriptors:
  - key: leased
    rate_limit:
      {{unit: second, requests_per_unit: {rate}, algorithm: token_bucket, burst: {rate}, sharing: leased}}
"
    );
    let fleet = Fleet::start(demands.len(), &rules, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let mut load = Load::of(&["leased"]);
    for (node, demand) in demands.iter().enumerate() {
        load = load.at(node, *demand, SETTLED + COUNTED, seed, |_| 1);
    }
    let calls = load.run(&fleet.grpc()).await;
    calls.assert_unmarked("leased");
    let burst = assert_bound(calls.of("leased"), rate, rate);

    let span = (SETTLED, SETTLED + COUNTED);
    let of = |node, passed: bool| {
        permits(calls.between("leased", span).filter(|it| it.node == node && (it.passed() || !passed)))
    };
    let asked: Vec<_> = (0..demands.len()).map(|node| of(node, false)).collect();
    let admitted: Vec<_> = (0..demands.len()).map(|node| of(node, true)).collect();
    let there = one_bucket(calls.between("leased", span), rate, rate) - rate; // empty at first
    let shares = fair_shares(&asked, there);
    let all = admitted.iter().sum::<f64>();
    println!(
        "a burst of {burst:.1} of {rate}; {all} of {there:.0} admitted\nasked    {asked:?}\nfair     {shares:.0?}\nadmitted {admitted:?}"
    );
    println!("central {}", fleet.metric("tollgate_lease_central_takes_total", "").await);
    let there = there - rate * longest_stall(calls.between("leased", span));
    assert!(all >= 0.95 * there, "{all} of {there} admitted");
    // A share not asked for within tau goes to others, so a node that was late to ask gets less.
    let even = shares.iter().copied().fold(0.0, f64::max) / COUNTED;
    for (node, &admitted) in admitted.iter().enumerate() {
        let own = calls.between("leased", span).filter(|it| it.node == node);
        let share = shares[node].min(one_bucket(own, (even * TAU.as_secs_f64()).max(2.0), even));
        // Standard deviation of the count.
        let chance = (share / asked[node]).min(0.8);
        let deviation = (share.max(1.0) / chance.max(0.1) * chance * (1.0 - chance)).sqrt();
        let least = 0.8 * share - 2.0 * deviation;
        assert!(
            admitted >= least,
            "node {node}: {admitted} of {} admitted, {share:.0} is fair, at least {least:.0}",
            asked[node]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_quiet_nodes_beside_a_busy_one_get_what_they_ask_for() {
    assert_fair(1, 400.0, &[(600.0, 1), (5.0, 1), (5.0, 1), (5.0, 1)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_quiet_nodes_beside_one_that_is_asked_in_bursts_get_what_they_ask_for() {
    assert_fair(2, 400.0, &[(600.0, 20), (5.0, 1), (5.0, 1), (5.0, 1)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_nodes_that_are_asked_alike_get_alike() {
    assert_fair(3, 100.0, &[(50.0, 1); 8]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_nodes_that_are_asked_alike_get_alike() {
    assert_fair(4, 200.0, &[(40.0, 1); 16]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_nodes_of_very_different_demand_get_fair_shares() {
    let demands = std::array::from_fn::<_, 16, _>(|node| (5.0 * 1.3_f64.powi(node as i32), 1));
    assert_fair(5, 300.0, &demands).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_nodes_that_are_asked_alike_in_bursts_get_alike() {
    assert_fair(6, 200.0, &[(40.0, 3); 16]).await;
}
