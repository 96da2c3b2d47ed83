//! Decisions made without the store: each is marked in its place, and by a header on whatever answer holds
//! it.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_http_api::HttpSettings;
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_store::routed::RoutedStore;
use tollgate_store::suite::{Down, Outage, OutageStore};
use tollgate_store_memory::{MemoryConfig, MemoryStore};

use crate::common::{Server, api_over, loopback, one, policy};

const RULES: &str = "
domain: shop
descriptors:
  - {key: open, rate_limit: {requests_per_unit: 9, unit: minute, algorithm: token_bucket}}
  - {key: shut, rate_limit: {requests_per_unit: 9, unit: minute, on_store_failure: deny}}
  - {key: own, rate_limit: {requests_per_unit: 9, unit: minute, on_store_failure: local}}
";

/// A server over a store that can be cut off, and the switch; with this node's memory beside it, or without.
async fn server(with_local: bool) -> (Server, Arc<Outage>) {
    let memory = || MemoryStore::new(MemoryConfig { max_bytes: 16 << 20, ..MemoryConfig::default() });
    let store = OutageStore::new(memory());
    let settings = LimiterSettings::default();
    let outage = Arc::clone(store.outage());
    let server = if with_local {
        let limiter = Limiter::new(policy(RULES), RoutedStore::new(store, memory()), settings);
        Server::serve(api_over(limiter, HttpSettings::default()), loopback()).await
    } else {
        Server::serve(
            api_over(Limiter::new(policy(RULES), store, settings), HttpSettings::default()),
            loopback(),
        )
        .await
    };
    (server, outage)
}

fn set(outage: &Outage, is_down: bool) {
    outage.set(if is_down { Down::All } else { Down::Nothing });
}

/// By the descriptor's key: the outcome while the store is down, and how it comes about.
const WAYS: [(&str, &str, Option<&str>); 4] = [
    ("open", "admit", Some("allow")),
    ("shut", "deny", Some("deny")),
    ("own", "admit", Some("local")),
    ("nobody", "admit", None),
];

fn says(decision: &Value, outcome: &str, degraded: Option<&str>) {
    assert_eq!(
        (&decision["outcome"], &decision["degraded"]),
        (&json!(outcome), &json!(degraded)),
        "{decision}"
    );
    assert_eq!(decision["descriptors"][0]["degraded"], json!(degraded), "{decision}");
}

#[tokio::test]
async fn a_check_alone_or_in_a_batch_and_a_reservation_say_how_they_were_decided_without_the_store() {
    for with_local in [true, false] {
        let (server, outage) = server(with_local).await;
        let mut client = server.client().await;
        let ways = || WAYS.iter().filter(|(key, ..)| with_local || *key != "own");
        let batch = |keys: &[&str]| {
            let requests: Vec<_> = keys.iter().map(|key| one(key, "x")).collect();
            format!(r#"{{"requests":[{}]}}"#, requests.join(","))
        };
        for down in [true, false] {
            set(&outage, down);
            for &(key, outcome, degraded) in ways() {
                let (outcome, degraded) = if down { (outcome, degraded) } else { ("admit", None) };
                let checked = client.post("/v1/check", &one(key, "x")).await;
                says(&checked.json(), outcome, degraded);
                let asked = client.get(&format!("/v1/check?domain=shop&entry={key}=x")).await;
                says(&asked.json(), outcome, degraded);
                let listed = client.post("/v1/check", &batch(&[key])).await;
                says(&listed.json()["decisions"][0], outcome, degraded);
                let reserved = client.post("/v1/reserve", &one(key, "x")).await;
                says(&reserved.json()["decision"], outcome, degraded);
                for (what, reply) in
                    [("check", checked), ("query", asked), ("batch", listed), ("reserve", reserved)]
                {
                    assert_eq!(reply.header("x-ratelimit-degraded"), degraded, "{what} of {key}: {reply:?}");
                }
            }
            let keys: Vec<_> = ways().map(|(key, ..)| *key).collect();
            let reply = client.post("/v1/check", &batch(&keys)).await;
            for (decision, &(_, outcome, degraded)) in
                reply.json()["decisions"].as_array().expect("a list").iter().zip(ways())
            {
                let (outcome, degraded) = if down { (outcome, degraded) } else { ("admit", None) };
                says(decision, outcome, degraded);
            }
            // If several fallbacks decided, the most informative one is reported.
            assert_eq!(reply.header("x-ratelimit-degraded"), down.then_some("deny"), "{reply:?}");
            // One descriptor among several, though none has a limit to show.
            let body = r#"{"domain":"shop","descriptors":[[{"key":"nobody"}],[{"key":"open"}]]}"#;
            let reply = client.post("/v1/check", body).await;
            let how = down.then_some("allow");
            assert_eq!((&reply.json()["degraded"], reply.header("x-ratelimit-degraded")), (&json!(how), how));
        }
    }
}

#[tokio::test]
async fn a_denial_for_want_of_the_store_does_not_claim_that_a_limit_is_used_up() {
    let (server, outage) = server(true).await;
    let mut client = server.client().await;
    set(&outage, true);
    let reply = client.get("/v1/check?domain=shop&entry=shut=x&status=429").await;
    let told = reply.json();
    assert_eq!((reply.status, &told["violated-policies"]), (429, &json!([])), "{told}");
    assert!(told["type"].as_str().is_some_and(|it| it.ends_with("#temporary-reduced-capacity")), "{told}");
    let detail = told["detail"].as_str().expect("a text");
    assert!(detail.contains("shut (9 per minute) cannot be checked now; try again in"), "{detail}");
}

#[tokio::test]
async fn a_settlement_that_did_not_reach_the_store_says_so_also_when_it_is_asked_again() {
    let (server, outage) = server(true).await;
    let mut client = server.client().await;
    for (path, down) in [("/v1/commit", false), ("/v1/commit", true), ("/v1/cancel", true)] {
        let reserved = client.post("/v1/reserve", &one("open", "x")).await.json();
        let mut body = json!({"id": reserved["id"]});
        if path == "/v1/commit" {
            body["actual"] = json!(0);
        }
        set(&outage, down);
        for _ in 0..2 {
            let settled = client.post(path, &body.to_string()).await.json();
            assert_eq!((&settled["returned"], &settled["degraded"]), (&json!(1), &json!(down)), "{settled}");
            set(&outage, false);
        }
    }
}

#[tokio::test]
async fn a_counter_that_the_store_cannot_report_is_this_nodes_or_no_answer() {
    let (server, outage) = server(true).await;
    let mut client = server.client().await;
    set(&outage, true);
    let own = client.get("/v1/keys?domain=shop&entry=own=x").await;
    assert_eq!((own.status, own.header("x-ratelimit-degraded")), (200, Some("local")));
    assert_eq!(own.json()["counters"][0]["degraded"], "local");
    assert_eq!(client.get("/v1/keys?domain=shop&entry=open=x").await.status, 503);
}
