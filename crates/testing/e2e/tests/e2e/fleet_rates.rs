//! Nodes with different rates for the same key: they admit between the amounts of the lower and the higher
//! rate.
//!
//! Not here: uneven load at one rate (`fleet_uneven`); how soon a changed file is in force (`reload`).

use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::{Instant, sleep_until};
use tollgate_testkit::redis::{Options, Redis};

use crate::arrivals::{Calls, Load, Running, assert_bound, longest_stall, one_bucket, permits};
use crate::fleet::{Fleet, until};
use crate::rls::{self, Client};

const BOTH: &[&str] = &["exact", "leased"];
const NODES: usize = 4;
const BURST: f64 = 100.0;
/// All calls of a test.
const ALL: (f64, f64) = (0.0, 60.0);
/// Longer than any call takes on a busy machine.
const HANG: Duration = Duration::from_secs(60);

fn rules(rate: u32, burst: u32) -> String {
    let quota = format!("unit: second, requests_per_unit: {rate}, algorithm: token_bucket, burst: {burst}");
    let rule = |key| {
        format!("  - {{key: {key}, rate_limit: {{{quota}, sharing: {key}, on_store_failure: deny}}}}\n")
    };
    format!("domain: fleet\ndescriptors:\n{}{}", rule("leased"), rule("exact"))
}

/// Calls for `permits` a second in all at four nodes, in groups of a different size at each node.
fn load(keys: &'static [&'static str], permits: f64, cost: u32, seconds: f64, seed: u64) -> Load {
    let rate = permits / f64::from(cost) / NODES as f64;
    (0..NODES)
        .fold(Load::of(keys), |load, node| load.at(node, (rate, 1 + node as u32), seconds, seed, |_| cost))
}

/// Waits until each node applies this rate.
async fn until_in_force(fleet: &Fleet, rate: u32) {
    for node in &fleet.nodes {
        let mut client = Client::connect(node.grpc).await.expect("it listens");
        until(&format!("{rate} to be in force"), async || {
            let answer = client.ask(rls::hit("fleet", "exact", "another").peek()).await.ok()?;
            (answer.statuses.first()?.current_limit.as_ref()?.requests_per_unit == rate).then_some(())
        })
        .await;
    }
}

/// Asserts that each key admitted between the amounts of the lower and the higher rate, from a bucket that is
/// `full` or empty when the span begins. If the exact key admitted less, the leased key is compared with the
/// exact one.
fn assert_between(
    what: &str,
    calls: &Calls,
    span: (f64, f64),
    (low, high): (u32, u32),
    burst: f64,
    full: bool,
) {
    let low = f64::from(low);
    let high = f64::from(high);
    let mut exact = f64::INFINITY;
    for key in BOTH {
        let calls = calls.between(key, span).filter(|it| it.decided());
        let most = assert_bound(calls.clone(), burst, high);
        let cost = calls.clone().map(|it| it.cost).fold(0.0, f64::max);
        let admitted = permits(calls.clone().filter(|it| it.passed()));
        let there = one_bucket(calls.clone(), burst, low) - if full { 0.0 } else { burst };
        let lost = low * longest_stall(calls.clone());
        println!(
            "{key}, {what}: {admitted} admitted of {}, {there:.0} by the lower rate; a burst of {most:.1} of {burst}; {lost:.0} lost",
            permits(calls)
        );
        let least = 0.95 * there.min(exact) - cost - lost; // a part of the last cost may be there
        assert!(
            admitted >= least,
            "{key}, {what}: {admitted} admitted, {there:.0} by the lower rate, at least {least:.0}"
        );
        exact = admitted;
    }
}

/// The nodes of two fleets that share a store.
fn addresses(fleets: [&Fleet; 2]) -> Vec<std::net::SocketAddr> {
    fleets.into_iter().flat_map(Fleet::grpc).collect()
}

/// Sleeps until `seconds` after the start of a load: the length of a stretch is part of the measurement.
async fn at(load: &Running, seconds: f64) {
    sleep_until(load.began + Duration::from_secs_f64(seconds)).await;
}

/// Seconds since then.
fn since(began: Instant) -> f64 {
    began.elapsed().as_secs_f64()
}

/// Four nodes of the rate `from`; two of them change to `to` and then flip once a second.
async fn assert_reload(from: u32, to: u32, permits: f64, cost: u32, seed: u64) {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let burst = from.max(2 * cost);
    let fleets = [(); 2].map(|()| Fleet::start(NODES / 2, &rules(from, burst), &store.url(), &[]));
    for fleet in &fleets {
        fleet.wait_for_store("up").await;
    }
    let [_, half] = &fleets;
    let running = load(BOTH, permits, cost, 12.0, seed).start(&addresses(fleets.each_ref())).await;
    at(&running, 1.0).await;
    half.replace(&rules(to, burst));
    until_in_force(half, to).await;
    let changed = since(running.began);
    at(&running, changed + 4.0).await;
    let flipping = since(running.began);
    for turn in 0.. {
        let rate = [from, to][turn % 2];
        half.replace(&rules(rate, burst));
        until_in_force(half, rate).await;
        at(&running, flipping + (turn + 1) as f64).await;
        if since(running.began) > 11.0 {
            break;
        }
    }
    let calls = running.end().await;
    BOTH.iter().for_each(|key| calls.assert_unmarked(key));
    let rates = (from.min(to), from.max(to));
    let burst = f64::from(burst);
    assert_between("in all", &calls, ALL, rates, burst, true);
    assert_between("one rate", &calls, (0.0, 1.0), (from, from), burst, true);
    assert_between("two rates", &calls, (changed, flipping), rates, burst, false);
    assert_between("back and forth", &calls, (flipping, ALL.1), rates, burst, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_go_from_10_to_11_a_second_admit_between_the_two() {
    assert_reload(10, 11, 200.0, 1, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_go_from_100_to_110_a_second_admit_between_the_two() {
    assert_reload(100, 110, 400.0, 1, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_go_from_1000_to_2000_a_second_admit_between_the_two() {
    assert_reload(1_000, 2_000, 5_000.0, 10, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_go_from_2000_to_1000_a_second_admit_between_the_two() {
    assert_reload(2_000, 1_000, 3_000.0, 5, 4).await;
}

/// Two nodes of each rate, all just started.
async fn assert_young(low: u32, high: u32, burst: u32, permits: f64, seed: u64) {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let (url, start) =
        (store.url(), |rate, url: &str| Fleet::start(NODES / 2, &rules(rate, burst), url, &[]));
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| start(low, &url));
        (start(high, &url), one.join().expect("it starts"))
    });
    for fleet in [&one, &other] {
        fleet.wait_for_store("up").await;
    }
    let calls = load(BOTH, permits, 1, 8.0, seed).run(&addresses([&one, &other])).await;
    BOTH.iter().for_each(|key| calls.assert_unmarked(key));
    assert_between("young", &calls, ALL, (low, high), f64::from(burst), true);
}

#[tokio::test(flavor = "multi_thread")]
async fn young_nodes_of_1_and_2_a_second_admit_between_the_two() {
    assert_young(1, 2, 10, 100.0, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn young_nodes_of_10_and_11_a_second_admit_between_the_two() {
    assert_young(10, 11, 10, 200.0, 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn young_nodes_of_100_and_110_a_second_admit_between_the_two() {
    assert_young(100, 110, 100, 500.0, 7).await;
}

/// Four nodes of the rate `from`, restarted one after the other with the rate `to`.
async fn assert_restart(from: u32, to: u32, seed: u64) {
    const SECONDS: f64 = 13.0;
    let Some(store) = Redis::start(&Options::new()) else { return };
    let mut fleets = Vec::new();
    for _ in 0..NODES {
        let fleet = Fleet::start(1, &rules(from, BURST as u32), &store.url(), &["--drain-delay", "0s"]);
        fleet.wait_for_store("up").await;
        fleets.push(fleet);
    }
    let nodes: Vec<_> = fleets.iter().flat_map(Fleet::grpc).collect();
    let running = load(BOTH, 600.0, 1, SECONDS, seed).start(&nodes).await;
    for (turn, fleet) in fleets.iter_mut().enumerate() {
        at(&running, 1.5 * (turn + 1) as f64).await;
        block_in_place(|| fleet.restart(0, &rules(to, BURST as u32)));
        fleet.wait_for_store("up").await;
    }
    let last = since(running.began);
    let settled = last + 1.0; // clients have connected anew, and what old nodes held is written off
    let calls = running.end().await;
    for key in BOTH {
        let odd = calls.between(key, (settled, SECONDS)).find(|it| !it.decided());
        assert!(odd.is_none(), "{odd:?}");
        let all = calls.of(key).count();
        let lost = calls.of(key).filter(|it| !it.decided()).count();
        let slowest = calls.of(key).map(|it| it.heard - it.sent).max();
        println!(
            "{key}: {lost} of {all} calls were not decided, restarts until {last:.1} s, slowest {slowest:?}"
        );
        assert!(slowest < Some(HANG), "{slowest:?}");
    }
    assert_between("in all", &calls, ALL, (from.min(to), from.max(to)), BURST, true);
    assert_between("afterwards", &calls, (settled, SECONDS), (to, to), BURST, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_restarted_one_by_one_with_a_higher_rate_keep_both_bounds() {
    assert_restart(100, 150, 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_restarted_one_by_one_with_a_lower_rate_keep_both_bounds() {
    assert_restart(200, 100, 9).await;
}
