//! Decisions made without the store: each is marked where it stands, and by a header on whatever answer holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_core::{Cost, Decision, Quota, Timestamp};
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_store::{Charge, Inspection, Key, Store, StoreError, StoreName, Take, Verdicts};
use tollgate_store_memory::{MemoryConfig, MemoryStore};

use crate::common::{Server, api_over, loopback, one, policy};

const RULES: &str = "
domain: shop
descriptors:
  - {key: open, rate_limit: {requests_per_unit: 9, unit: minute, algorithm: token_bucket}}
  - {key: shut, rate_limit: {requests_per_unit: 9, unit: minute, on_store_failure: deny}}
  - {key: own, rate_limit: {requests_per_unit: 9, unit: minute, on_store_failure: local}}
";

/// Memory, and nothing while it is down.
#[derive(Debug)]
struct Moody {
    memory: MemoryStore,
    is_down: Arc<AtomicBool>,
}

impl Moody {
    fn silent(&self) -> StoreError {
        StoreError::Silent { store: self.name(), waited: Duration::from_millis(10) }
    }

    fn answers(&self) -> Result<&MemoryStore, StoreError> {
        if self.is_down.load(SeqCst) { Err(self.silent()) } else { Ok(&self.memory) }
    }
}

impl Store for Moody {
    fn name(&self) -> StoreName {
        StoreName::new("moody")
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        match self.answers() {
            Ok(store) => store.take(batch, charge, now, verdicts).await,
            Err(_) => verdicts.extend(batch.iter().map(|_| Err(self.silent()))),
        }
    }

    async fn give_back(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.answers()?.give_back(key, quota, cost, now).await
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        match self.answers() {
            Ok(store) => store.reserve(batch, max_wait, now, verdicts).await,
            Err(_) => verdicts.extend(batch.iter().map(|_| Err(self.silent()))),
        }
    }

    async fn charge(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.answers()?.charge(key, quota, cost, now).await
    }

    async fn reset(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<bool, StoreError> {
        self.answers()?.reset(key, quota, now).await
    }

    async fn inspect(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<Inspection, StoreError> {
        self.answers()?.inspect(key, quota, now).await
    }
}

/// A server over such a store, and the switch; with this node's memory beside it, or without.
async fn server(with_local: bool) -> (Server, Arc<AtomicBool>) {
    let memory = || MemoryStore::new(MemoryConfig { max_bytes: 16 << 20, ..MemoryConfig::default() });
    let is_down = Arc::new(AtomicBool::new(false));
    let store = Moody { memory: memory(), is_down: Arc::clone(&is_down) };
    let limiter = Limiter::<_, MemoryStore>::new(policy(RULES), store, LimiterSettings::default());
    let limiter = if with_local { limiter.with_local(memory()) } else { limiter };
    (Server::serve(api_over(limiter, loopback())).await, is_down)
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
        let (server, is_down) = server(with_local).await;
        let mut client = server.client().await;
        let ways = || WAYS.iter().filter(|(key, ..)| with_local || *key != "own");
        let batch = |keys: &[&str]| {
            let requests: Vec<_> = keys.iter().map(|key| one(key, "x")).collect();
            format!(r#"{{"requests":[{}]}}"#, requests.join(","))
        };
        for down in [true, false] {
            is_down.store(down, SeqCst);
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
            // Of several ways the one that says most.
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
async fn who_is_refused_because_nobody_could_count_is_not_told_that_a_limit_is_used_up() {
    let (server, is_down) = server(true).await;
    let mut client = server.client().await;
    is_down.store(true, SeqCst);
    let reply = client.get("/v1/check?domain=shop&entry=shut=x&status=429").await;
    let told = reply.json();
    assert_eq!((reply.status, &told["violated-policies"]), (429, &json!([])), "{told}");
    assert!(told["type"].as_str().is_some_and(|it| it.ends_with("#temporary-reduced-capacity")), "{told}");
    let detail = told["detail"].as_str().expect("a text");
    assert!(detail.contains("shut (9 per minute) cannot be checked now; try again in"), "{detail}");
}

#[tokio::test]
async fn a_settlement_that_the_store_did_not_hear_of_says_so_also_when_it_is_asked_again() {
    let (server, is_down) = server(true).await;
    let mut client = server.client().await;
    for (path, down) in [("/v1/commit", false), ("/v1/commit", true), ("/v1/cancel", true)] {
        let reserved = client.post("/v1/reserve", &one("open", "x")).await.json();
        let mut body = json!({"id": reserved["id"]});
        if path == "/v1/commit" {
            body["actual"] = json!(0);
        }
        is_down.store(down, SeqCst);
        for _ in 0..2 {
            let settled = client.post(path, &body.to_string()).await.json();
            assert_eq!((&settled["returned"], &settled["degraded"]), (&json!(1), &json!(down)), "{settled}");
            is_down.store(false, SeqCst);
        }
    }
}

#[tokio::test]
async fn a_counter_that_the_store_does_not_tell_of_is_this_nodes_or_no_answer() {
    let (server, is_down) = server(true).await;
    let mut client = server.client().await;
    is_down.store(true, SeqCst);
    let own = client.get("/v1/keys?domain=shop&entry=own=x").await;
    assert_eq!((own.status, own.header("x-ratelimit-degraded")), (200, Some("local")));
    assert_eq!(own.json()["counters"][0]["degraded"], "local");
    assert_eq!(client.get("/v1/keys?domain=shop&entry=open=x").await.status, 503);
}
