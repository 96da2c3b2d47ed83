//! Costs other than 1 on leased keys. Each test asks an `exact` key for the same costs at the same moments
//! and compares the two.
//!
//! Not here: nodes that are not asked alike (`fleet_uneven`), rates that change (`fleet_rates`).

use std::time::Duration;

use tokio::time::Instant;
use tollgate_testkit::redis::{NetworkFault, Options, Proxy, Redis};

use crate::arrivals::{Calls, Load, Random, ask, assert_bound, permits, what};
use crate::fleet::{DEADLINE, Fleet, What};
use crate::rls::{self, Client};

const NODES: usize = 4;
const SECONDS: f64 = 8.0;
const KEYS: &[&str] = &["leased", "exact"];

/// A leased key and an exact one of the same quota.
fn rules(quota: &str) -> String {
    let rule = |key| format!("  - {{key: {key}, rate_limit: {{{quota}, sharing: {key}}}}}\n");
    format!("domain: fleet\ndescriptors:\n{}{}", rule("leased"), rule("exact"))
}

fn bucket(rate: u32, burst: u32) -> String {
    rules(&format!("unit: second, requests_per_unit: {rate}, algorithm: token_bucket, burst: {burst}"))
}

/// `rate` calls a second at each node, in groups.
fn even(rate: f64, group: u32, seed: u64, cost: impl Fn(&mut Random) -> u32) -> Load {
    (0..NODES).fold(Load::of(KEYS), |load, node| load.at(node, (rate, group), SECONDS, seed, &cost))
}

async fn run(rules: &str, load: Load) -> Option<Calls> {
    let store = Redis::start(&Options::new())?;
    let fleet = Fleet::start(NODES, rules, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let calls = load.run(&fleet.grpc()).await;
    KEYS.iter().for_each(|key| calls.assert_unmarked(key));
    Some(calls)
}

/// Asserts that the leased key admitted at least 95 % of what the exact key did, less one take.
fn assert_as_many(calls: &Calls, cost: f64) {
    let [leased, exact] = [0, 1].map(|key| permits(calls.of(KEYS[key]).filter(|it| it.passed())));
    let asked = permits(calls.of("leased"));
    println!("{leased} admitted, {exact} of the exact key, {asked} asked for");
    let least = 0.95 * exact - cost;
    assert!(leased >= least, "{leased} admitted, at least {least} of the {exact} of the exact key");
}

/// `calls` a second at each of four nodes, each for `cost` permits.
async fn assert_bucket((rate, burst): (u32, u32), cost: u32, calls: f64, group: u32, seed: u64) {
    let load = even(calls, group, seed, |_| cost);
    let Some(calls) = run(&bucket(rate, burst), load).await else { return };
    for key in KEYS {
        let most = assert_bound(calls.of(key), f64::from(burst), f64::from(rate));
        println!("{key}: a burst of {most:.1} of {burst}");
    }
    assert_as_many(&calls, f64::from(cost));
}

#[tokio::test(flavor = "multi_thread")]
async fn takes_of_more_than_half_a_leased_burst_are_admitted_as_of_an_exact_one() {
    assert_bucket((1_000, 1_000), 600, 20.0, 1, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn takes_of_a_fifth_of_a_leased_burst_are_admitted_as_of_an_exact_one() {
    assert_bucket((2_000, 1_000), 200, 50.0, 3, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn takes_of_most_of_a_small_leased_burst_are_admitted_as_of_an_exact_one() {
    assert_bucket((100, 100), 60, 20.0, 1, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn takes_that_seldom_come_and_are_large_are_admitted_as_of_an_exact_bucket() {
    // One call in two seconds at each node, more than the life of a lease; in all a little more than the
    // rate.
    assert_bucket((1_000, 1_000), 600, 0.5, 1, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn takes_of_mixed_costs_of_a_leased_bucket_are_admitted_as_of_an_exact_one() {
    let load = even(40.0, 2, 5, |random| random.up_to(50));
    let Some(calls) = run(&bucket(1_000, 200), load).await else { return };
    for key in KEYS {
        let most = assert_bound(calls.of(key), 200.0, 1_000.0);
        println!("{key}: a burst of {most:.1} of 200");
    }
    assert_as_many(&calls, 50.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn takes_of_a_leased_window_admit_what_an_exact_one_does() {
    for (limit, cost, seed) in [(20_000_u32, 300, 6), (1_000, 200, 7)] {
        let load = even(20.0, 2, seed, |_| cost);
        let quota = rules(&format!("unit: year, requests_per_unit: {limit}"));
        let Some(calls) = run(&quota, load.first(4.0)).await else { return };
        let [leased, exact] = [0, 1].map(|key| permits(calls.of(KEYS[key]).filter(|it| it.passed())));
        let limit = f64::from(limit);
        assert!(leased <= limit && exact <= limit, "{leased} and {exact} admitted of {limit}");
        assert_as_many(&calls, f64::from(cost));
    }
}

/// Costs of `1..=most` at a rate of 1,000 `unit` a second and a burst of 10 `unit`: too small to be leased
/// over a round trip of a millisecond, so that each take goes to the ledger. The load is several times the
/// rate.
async fn assert_central(most: u32, unit: u32, seed: u64) {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let proxy = Proxy::before(store.address());
    let rate = 1_000 * unit;
    let burst = 10 * unit;
    let url = format!("redis://{}", proxy.address());
    let fleet = Fleet::start(1, &bucket(rate, burst), &url, &[]);
    fleet.wait_for_store("up").await;
    tokio::task::block_in_place(|| proxy.set(NetworkFault::Latency(Duration::from_millis(1))));
    let load = Load::of(KEYS).at(0, (1_500.0, 4), 6.0, seed, |random| random.up_to(most));
    let calls = load.run(&fleet.grpc()).await;

    let rate = f64::from(rate);
    let burst = f64::from(burst);
    let of = |key| {
        let all = calls.of(key).count();
        let marked = calls.of(key).filter(|it| it.degraded());
        let unlimited = permits(marked.clone().filter(|it| it.passed()));
        let admitted = permits(calls.of(key).filter(|it| it.passed()));
        println!(
            "{key}: {admitted} admitted of {}, {} of {all} calls without the store, {unlimited} permits",
            permits(calls.of(key)),
            marked.clone().count()
        );
        (admitted, unlimited, marked.count() as f64 / all as f64)
    };
    let (leased, _, share) = of("leased");
    let (exact, unlimited, exact_share) = of("exact");
    let central = fleet.metric("tollgate_lease_central_takes_total", "").await;
    let decisions = fleet.metric("tollgate_lease_decisions_total", "").await;
    println!("{central} central takes, {decisions} decisions by leases");
    let all = calls.of("leased");
    let from = all.clone().map(|it| it.sent).min().expect("some");
    let seconds = (all.map(|it| it.heard).max().expect("some") - from).as_secs_f64();
    assert!(
        share <= exact_share + 0.01,
        "{share:.3} of the calls without the store, {exact_share:.3} of the exact key's"
    );
    assert!(leased <= burst + rate * seconds + unlimited, "{leased} permits in {seconds} s");
    // With a burst this small a millisecond between two calls decides, so the margin is wider than elsewhere.
    assert!(
        leased >= 0.8 * (exact - unlimited) - f64::from(most),
        "{leased} permits, {exact} of the exact key"
    );
    assert!(
        central > 0.5 * calls.of("leased").count() as f64,
        "{central} went to the ledger: not what this is about"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn small_mixed_costs_that_go_to_the_ledger_are_all_answered_by_it() {
    assert_central(4, 1, 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_different_costs_that_go_to_the_ledger_are_all_answered_by_it() {
    assert_central(1_000_000, 250_000, 9).await;
}

/// Whether a node admits, and the remaining permits that it reports.
async fn answer(client: &mut Client, key: &str, cost: u32) -> (bool, f64) {
    let mut request = rls::hit("fleet", key, "all");
    request.hits_addend = cost;
    let answer = client.ask(if cost == 0 { request.peek() } else { request }).await.expect("an answer");
    assert_eq!(what(&answer) == What::Admitted, answer.overall_code == rls::OK, "no mark: {answer:?}");
    (answer.overall_code == rls::OK, f64::from(answer.statuses[0].limit_remaining))
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_costs_leave_of_a_leased_key_what_they_leave_of_an_exact_one() {
    const BURST: u32 = 1_000;
    const RATE: f64 = 50.0;
    let Some(store) = Redis::start(&Options::new()) else { return };
    // Over gRPC no more than the rate remains: per minute it is above the burst.
    let per_minute = 60 * RATE as u32;
    let text =
        format!("unit: minute, requests_per_unit: {per_minute}, algorithm: token_bucket, burst: {BURST}");
    let fleet = Fleet::start(1, &rules(&text), &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let mut client = Client::connect(fleet.nodes[0].grpc).await.expect("it listens");
    for key in KEYS {
        let mut used = 0.0;
        let mut began = None;
        for (turn, (cost, admitted)) in [
            (0, true),
            (BURST + 1, false),
            (u32::MAX, false),
            (1, true),
            (0, true),
            (BURST + 1, false),
            (BURST / 2, true),
            (BURST, false),
            (u32::MAX, false),
            (BURST / 2 - 1, true),
            (0, true),
            (BURST, false),
            (BURST + 1, false),
        ]
        .into_iter()
        .enumerate()
        {
            let began = *began.get_or_insert_with(Instant::now);
            let (passed, left) = answer(&mut client, key, cost).await;
            used += if passed { f64::from(cost) } else { 0.0 };
            let come = RATE * began.elapsed().as_secs_f64();
            let there = f64::from(BURST) - used;
            assert_eq!(passed, admitted, "{key}, turn {turn}: {cost} of {there} and {come:.0} more");
            // Over gRPC a denial always reports 0.
            let fits = !passed && left == 0.0 || (there - 1.0..=there + come + 1.0).contains(&left);
            assert!(fits, "{key}, turn {turn}, {cost}: {left} left of {there} and {come:.0} more");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_costs_of_a_leased_window_are_answered_as_of_an_exact_one() {
    const LIMIT: u32 = 500;
    let Some(store) = Redis::start(&Options::new()) else { return };
    let rules = rules(&format!("unit: year, requests_per_unit: {LIMIT}"));
    for costs in [
        &[0, 1, 0, LIMIT - 1, 0, 1, LIMIT + 1, u32::MAX, 0][..],
        &[0, LIMIT, 0, LIMIT, 1, u32::MAX][..],
        &[LIMIT + 1, 0, 1, LIMIT][..],
        &[u32::MAX, u32::MAX, 0, 1][..],
    ] {
        let fleet = Fleet::start(1, &rules, &store.url(), &[]);
        fleet.wait_for_store("up").await;
        store.command(&["FLUSHALL"]);
        let mut client = Client::connect(fleet.nodes[0].grpc).await.expect("it listens");
        for (turn, &cost) in costs.iter().enumerate() {
            let leased = answer(&mut client, "leased", cost).await;
            let exact = answer(&mut client, "exact", cost).await;
            println!("{turn}: {cost}: {leased:?} {exact:?}");
            assert_eq!(leased, exact, "turn {turn} of {costs:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_costs_are_answered_as_by_an_exact_key_and_starve_nobody() {
    const BURST: u32 = 400;
    const RATE: u32 = 400;
    let Some(store) = Redis::start(&Options::new()) else { return };
    let fleet = Fleet::start(NODES, &bucket(RATE, BURST), &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let mut clients = Vec::new();
    for node in fleet.grpc() {
        clients.push(Client::connect(node).await.expect("it listens"));
    }
    let rude = [0, BURST + 1, u32::MAX, 0, u32::MAX, BURST + 1];
    for key in KEYS {
        // A cost above the burst is denied and a peek is not; neither takes a permit, at any node.
        for (turn, cost) in rude.into_iter().enumerate() {
            let what = ask(&mut clients[turn % NODES], key, cost).await;
            assert_eq!(what, if cost == 0 { What::Admitted } else { What::Denied }, "{key}: {cost}");
        }
        assert_eq!(ask(&mut clients[1], key, BURST).await, What::Admitted, "{key}: all was there");
        assert_eq!(ask(&mut clients[2], key, BURST).await, What::Denied, "{key}: nothing is there");
    }
    // The same costs beside takes of one permit that use up the key, and takes of the whole burst.
    let mut load = Load::of(KEYS);
    for node in 0..NODES {
        load = load
            .at(node, (f64::from(RATE) / 2.0, 2), SECONDS, 10, |_| 1)
            .at(node, (20.0, 2), SECONDS, 11, |random| rude[random.up_to(6) as usize - 1])
            .at(node, (2.0, 1), SECONDS, 12, |_| BURST);
    }
    let calls = load.run(&fleet.grpc()).await;
    for key in KEYS {
        calls.assert_unmarked(key);
        let most = assert_bound(calls.of(key), f64::from(BURST), f64::from(RATE));
        println!("{key}: a burst of {most:.1} of {BURST}");
        let beyond = calls.of(key).find(|it| it.cost > f64::from(BURST) && it.passed());
        assert!(beyond.is_none(), "{key}: {beyond:?}");
        let ones = permits(calls.of(key).filter(|it| it.cost == 1.0 && it.passed()));
        println!("{key}: {ones} takes of one");
    }
    assert_as_many(&calls, f64::from(BURST));
    // An ordinary load afterwards.
    let calls = even(f64::from(RATE) / 2.0, 1, 13, |_| 1).first(4.0).run(&fleet.grpc()).await;
    KEYS.iter().for_each(|key| calls.assert_unmarked(key));
    assert_as_many(&calls, 1.0);
    assert!(calls.of("leased").all(|it| it.heard - it.sent < 4 * DEADLINE), "nobody waits");
}
