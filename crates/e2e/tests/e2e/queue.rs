//! Rules with `on_limit: queue` on real nodes: requests wait at any of them for the permits of one bucket.

use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_testkit::redis::{Options, Redis};

use crate::fleet::{Fleet, Seen, What, assert_within_bucket, until};
use crate::http;
use crate::start::rules;
use crate::tollgate::Start;

const CHECK: &str = r#"{"domain":"fleet","descriptors":[[{"key":"queue","value":"x"}]]}"#;

const EVENTS: &str = "tollgate_queue_events_total";

fn rule(limit: &str) -> String {
    format!(
        "{{domain: fleet, descriptors: [{{key: queue, on_limit: queue, max_wait: 30s, rate_limit: {{rate: {limit}}}}}]}}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_two_nodes_wait_for_the_permits_of_one_bucket() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    for sharing in ["exact", "leased"] {
        all_pass_as_fast_as_the_bucket_allows(&store, sharing).await;
    }
}

async fn all_pass_as_fast_as_the_bucket_allows(store: &Redis, sharing: &str) {
    const REQUESTS: usize = 24;
    let rule = rule(&format!("20/s burst 1, algorithm: token_bucket, sharing: {sharing}"));
    let fleet = Fleet::start(2, &rule, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let mut asking = JoinSet::new();
    for index in 0..REQUESTS {
        let node = fleet.addresses()[index % 2];
        asking.spawn(async move {
            let sent = Instant::now();
            let answer = http::post(node, "/v1/check", CHECK).await.expect("an answer");
            let what =
                if answer.body.contains(r#""outcome":"admit""#) { What::Admitted } else { What::Denied };
            assert!(!answer.body.contains(r#""degraded":""#), "{answer:?}");
            Seen { key: "queue", client: 0, sent, heard: Instant::now(), what }
        });
    }
    let mut seen = asking.join_all().await;
    seen.sort_by_key(|seen| seen.heard);
    assert!(seen.iter().all(Seen::counted), "there is time for all of them: {seen:?}");
    assert_within_bucket(seen.iter(), 1.0, 20.0);
    let joined = fleet.metric(EVENTS, r#"event="joined""#).await;
    assert!(joined >= 1.0 && joined == fleet.metric(EVENTS, r#"event="passed""#).await, "{joined} waited");
    // Both nodes ask for each permit at most, once it is there, and each request asks when it comes.
    let asks = fleet.metric("tollgate_store_batch_takes_count", "").await;
    assert!(asks <= 4.0 * REQUESTS as f64, "{sharing}: {asks} calls to the store");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_denies_the_requests_that_wait() {
    let folder = rules(&rule("1/20s burst 1"));
    let mut server = Start::new(folder.path()).args(["--drain-delay", "0s"]).go();
    let node = server.http;
    assert!(http::post(node, "/v1/check", CHECK).await.expect("an answer").body.contains("admit"));
    let waits = tokio::spawn(async move { http::post(node, "/v1/check", CHECK).await });
    until("it to wait", async || (server.metric(EVENTS, r#"event="joined""#).await? == 1.0).then_some(()))
        .await;
    server.signal("TERM");
    let answer = waits.await.expect("no panic").expect("an answer");
    assert!(answer.body.contains(r#""outcome":"deny""#), "{answer:?}");
    assert!(server.wait().success());
}
