//! Counts while messages between a node and its store are late, lost or cut off: a proxy is between the two.
//!
//! Not here: stores and nodes that end (`outage`).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::{JoinSet, block_in_place};
use tollgate_testkit::redis::{Cluster, NetworkFault, Options, Proxy, Redis};

use crate::fleet::{Fleet, until};
use crate::http;
use crate::tollgate::Tollgate;

const LIMIT: i64 = 60;

const RULES: &str = "domain: fleet
descriptors:
  - {key: count, rate_limit: {requests_per_unit: 60, algorithm: total, on_store_failure: deny}}
";

/// Asks a node about entries, each a descriptor of its own; the whole answer.
async fn check(node: &Tollgate, entries: &[(&str, &str)], hits: u64) -> Value {
    let entry = |(key, value): &(&str, &str)| json!([{"key": key, "value": value}]);
    let descriptors: Vec<_> = entries.iter().map(entry).collect();
    let body = json!({"domain": "fleet", "descriptors": descriptors, "hits": hits}).to_string();
    let answer = http::post(node.http, "/v1/check", &body).await.expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).expect("JSON")
}

/// Used permits of an entry, as the store counts them.
async fn used(node: &Tollgate, key: &str, value: &str, limit: i64) -> i64 {
    until("the store's word", async || {
        let answer = check(node, &[(key, value)], 0).await;
        if answer["degraded"].is_null() { answer["remaining"].as_i64() } else { None }
    })
    .await
    .abs_diff(limit) as i64
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_is_never_asked_for_again() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let proxy = Proxy::before(store.address());
    let fleet = Fleet::start(1, RULES, &format!("redis://{}", proxy.address()), &[]);
    let node = &fleet.nodes[0];
    fleet.wait_for_store("up").await;
    let late = |ms| NetworkFault::Latency(Duration::from_millis(ms));
    // (fault, its requests are decided without the store, they may still have been counted)
    for (row, (fault, degrades, counts)) in [
        (late(50), false, false),
        (late(1000), true, true),
        (NetworkFault::Stall, true, true),
        (NetworkFault::DropReplies, true, true),
        (NetworkFault::CutReplies, true, true),
        (NetworkFault::DropRequests, true, false),
        (NetworkFault::Refuse, false, false), // of new connections; the open one goes on
    ]
    .into_iter()
    .enumerate()
    {
        let client = format!("c{row}");
        let mut admitted = 0;
        let mut lost = 0;
        for _ in 0..3 {
            admitted += i64::from(check(node, &[("count", &client)], 1).await["outcome"] == "admit");
        }
        block_in_place(|| proxy.set(fault));
        for _ in 0..5 {
            let answer = check(node, &[("count", &client)], 1).await;
            match answer["degraded"].as_str() {
                Some(how) => assert_eq!((how, &answer["outcome"]), ("deny", &json!("deny")), "{fault:?}"),
                None => assert_eq!(answer["outcome"], "admit", "{fault:?}"),
            }
            lost += i64::from(!answer["degraded"].is_null());
            admitted += i64::from(answer["outcome"] == "admit");
        }
        block_in_place(|| proxy.set(NetworkFault::None));
        assert_eq!(lost > 0, degrades, "{fault:?}: {lost} without the store");
        let used = used(node, "count", &client, LIMIT).await;
        let most = if counts { admitted + lost } else { admitted };
        assert!(
            (admitted..=most).contains(&used),
            "{fault:?}: {admitted} admitted, {lost} lost, {used} counted"
        );
    }
    // A connection that is cut between two requests is made anew, and no request fails.
    block_in_place(|| proxy.cut());
    assert!(used(node, "count", "cut", LIMIT).await == 0);
}

const TOGETHER: &str = "domain: fleet
charge: together
descriptors:
  - {key: caller, rate_limit: {requests_per_unit: 30, algorithm: total}}
  - {key: all, rate_limit: {requests_per_unit: 70, algorithm: total}}
";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_slot_denies_is_given_back_in_the_others() {
    let Some(cluster) = Cluster::start() else { return };
    let fleet = Fleet::start(4, TOGETHER, &cluster.url(), &[]);
    fleet.wait_for_store("up").await;
    let fleet = std::sync::Arc::new(fleet);
    let mut asking = JoinSet::new();
    for caller in 0..8_usize {
        let fleet = fleet.clone();
        asking.spawn(async move {
            let name = format!("c{}", caller % 4);
            let mut admitted = 0;
            for turn in 0..30 {
                let node = &fleet.nodes[(caller + turn) % 4];
                let answer = check(node, &[("caller", &name), ("all", "of them")], 1).await;
                assert!(answer["degraded"].is_null(), "{answer}");
                admitted += i64::from(answer["outcome"] == "admit");
            }
            (name, admitted)
        });
    }
    let mut admitted = std::collections::BTreeMap::<String, i64>::new();
    for (name, n) in asking.join_all().await {
        *admitted.entry(name).or_default() += n;
    }
    let sum: i64 = admitted.values().sum();
    assert!(sum <= 70 && admitted.values().all(|n| *n <= 30), "{admitted:?}");
    for (name, n) in &admitted {
        assert_eq!(
            used(&fleet.nodes[0], "caller", name, 30).await,
            *n,
            "{name}: what was denied was given back"
        );
    }
    assert_eq!(used(&fleet.nodes[0], "all", "of them", 70).await, sum, "what was denied was given back");
    // No other client asks, so nothing is missing for a moment: the rest is all there.
    let mut rest = 0;
    for name in ["d0", "d1", "d2"] {
        for _ in 0..30 {
            rest += i64::from(
                check(&fleet.nodes[1], &[("caller", name), ("all", "of them")], 1).await["outcome"]
                    == "admit",
            );
        }
    }
    assert_eq!(sum + rest, 70, "{sum} while all asked, {rest} afterwards");
}
