//! Rules with `on_limit: queue` on real nodes: requests wait at any of them for the permits of one bucket.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_testkit::redis::{Options, Redis};

use crate::bench::bench;
use crate::fleet::{Fleet, Seen, What, assert_within_bucket, until};
use crate::http;
use crate::start::{self, rules};
use crate::tollgate::{Start, Tollgate};

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
    for limit in [
        "20/s burst 1, algorithm: token_bucket, sharing: exact",
        "20/s burst 1, algorithm: token_bucket, sharing: leased",
        // Never colder than its rate, so that it is as the others.
        "20/s, algorithm: warm_up, warm_up: 1s, cold_factor: 1",
        // A class alone gets the whole rate.
        "20/s burst 1, algorithm: priority_buckets, classes: {x: 1}",
    ] {
        store.command(&["FLUSHALL"]);
        all_pass_as_fast_as_the_bucket_allows(&store, limit).await;
    }
}

async fn all_pass_as_fast_as_the_bucket_allows(store: &Redis, limit: &str) {
    const REQUESTS: usize = 24;
    let rule = rule(limit);
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
    assert!(asks <= 4.0 * REQUESTS as f64, "{limit}: {asks} calls to the store");
}

/// Closed loops of 64 clients at a rate that a late timer cuts down, unless permits are promised ahead. The
/// simulation holds at least 95 % to it; here the machine may be busy with other things.
#[tokio::test(flavor = "multi_thread")]
async fn the_rate_of_a_rule_that_queues_flows_with_a_burst_of_one() {
    const RATE: f64 = 1_000.0;
    let rules = rule("1000/s burst 1");
    let store = Redis::start(&Options::new());
    let shared = store.as_ref().map(|store| store.url());
    for store in [None, shared.as_deref()] {
        let (alone, fleet);
        let nodes = match store {
            None => {
                alone = start::rules(&rules);
                fleet = None;
                vec![Start::new(alone.path()).go()]
            }
            Some(url) => {
                fleet = Some(Fleet::start(2, &rules, url, &["--store-deadline", "2s"]));
                if let Some(fleet) = &fleet {
                    fleet.wait_for_store("up").await;
                }
                Vec::new()
            }
        };
        let targets: Vec<_> = match &fleet {
            Some(fleet) => fleet.addresses(),
            None => nodes.iter().map(|node| node.http).collect(),
        };
        let most = 64 / targets.len();
        let began = Instant::now();
        let mut loads = JoinSet::new();
        for target in targets {
            loads.spawn_blocking(move || {
                let (target, connections) = (format!("http://{target}"), most.to_string());
                let flags =
                    ["--domain", "fleet", "--entry", "queue=x", "--duration", "3s", "--warm-up", "0s"];
                bench(&target, &[&flags[..], &["--connections", &connections]].concat())
            });
        }
        let reports = loads.join_all().await;
        let sum = |name: &str| reports.iter().filter_map(|report| report[name].as_u64()).sum::<u64>() as f64;
        let admitted = sum("admitted");
        let denied = sum("denied");
        println!("{store:?}: {admitted} admitted of {}", 3.0 * RATE);
        assert!(denied == 0.0 && sum("errors") == 0.0, "{reports:?}");
        assert!(admitted <= 1.0 + RATE * began.elapsed().as_secs_f64(), "{reports:?}");
        assert!(admitted >= 0.7 * 3.0 * RATE, "{reports:?}");
    }
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

/// A request that waits behind others, over HTTP and over the Redis protocol.
const OVER_HTTP: &str = r#"POST /v1/check HTTP/1.1
Host: node
Content-Type: application/json
Content-Length: 70

{"domain":"fleet","descriptors":[[{"key":"queue","value":"x"}]]}      "#;
const OVER_RESP: &str = "TOLLGATE.CHECK fleet queue x\r\n";

async fn send(to: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut client = TcpStream::connect(to).await.expect("it listens");
    client.write_all(bytes).await.expect("it is taken");
    client
}

async fn event(server: &Tollgate, event: &str) -> f64 {
    server.metric(EVENTS, &format!("event=\"{event}\"")).await.expect("a metric")
}

async fn until_event(server: &Tollgate, name: &str, number: f64) {
    until(&format!("{number} that {name}"), async || (event(server, name).await == number).then_some(()))
        .await;
}

/// A turn comes every 20 s, so nothing here passes by waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_closes_its_connection_gives_up_its_place_at_once() {
    let folder = rules(&rule("1/20s burst 1"));
    let server = Start::new(folder.path()).go();
    assert!(http::post(server.http, "/v1/check", CHECK).await.expect("an answer").body.contains("admit"));
    let mut left = 0.0;
    for (to, request) in [(server.http, OVER_HTTP), (server.resp, OVER_RESP)] {
        let request = request.replace("\r\n", "\n").replace('\n', "\r\n");
        for resets in [false, true] {
            let client = send(to, request.as_bytes()).await;
            until_event(&server, "joined", left + 1.0).await;
            assert_eq!(server.metric("tollgate_queued_requests ", "").await, Some(1.0));
            if resets {
                client.set_zero_linger().expect("a socket");
            }
            drop(client);
            left += 1.0;
            until_event(&server, "left", left).await;
            assert_eq!(server.metric("tollgate_queued_requests ", "").await, Some(0.0));
        }
        // A client that only closes its sending side gets its reply.
        let mut client = send(to, request.as_bytes()).await;
        until_event(&server, "joined", left + 1.0).await;
        client.shutdown().await.expect("it is open");
        left += 1.0;
        until_event(&server, "left", left).await;
        let mut reply = String::new();
        tokio::time::timeout(Duration::from_secs(300), client.read_to_string(&mut reply))
            .await
            .expect("in time")
            .expect("a reply, and the end");
        assert!(reply.contains(r#""outcome":"deny""#) || reply.starts_with("*6\r\n:1\r\n"), "{reply}");
    }
    assert_eq!(event(&server, "timed_out").await + event(&server, "passed").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_behind_one_that_waits_are_answered_when_the_client_sends_no_more() {
    let folder = rules(&rule("1/20s burst 1"));
    let server = Start::new(folder.path()).go();
    let mut client = send(server.resp, format!("{OVER_RESP}{OVER_RESP}PING\r\n").as_bytes()).await;
    until_event(&server, "joined", 1.0).await;
    client.write_all(b"ECHO later\r\n").await.expect("it is taken");
    client.shutdown().await.expect("it is open");
    let mut reply = String::new();
    client.read_to_string(&mut reply).await.expect("replies, and the end");
    assert!(reply.starts_with("*6\r\n:0\r\n") && reply.contains("*6\r\n:1\r\n"), "{reply}");
    assert!(reply.ends_with("+PONG\r\n$5\r\nlater\r\n"), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn classes_at_two_nodes_share_one_bucket() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let limit =
        "unit: year, requests_per_unit: 40, algorithm: priority_buckets, classes: {paying: 3, free: 1}";
    let rules = format!("{{domain: fleet, descriptors: [{{key: class, rate_limit: {{{limit}}}}}]}}");
    let fleet = Fleet::start(2, &rules, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let mut asking = JoinSet::new();
    for index in 0..120 {
        let node = fleet.addresses()[index % 2];
        let class = ["paying", "free", "nobody"][index % 3];
        let body = format!(r#"{{"domain":"fleet","descriptors":[[{{"key":"class","value":"{class}"}}]]}}"#);
        asking.spawn(async move {
            let answer = http::post(node, "/v1/check", &body).await.expect("an answer");
            assert!(!answer.body.contains(r#""degraded":""#), "{answer:?}");
            (class, answer.body.contains(r#""outcome":"admit""#))
        });
    }
    let admitted = asking.join_all().await.into_iter().filter(|(_, is_admitted)| *is_admitted);
    let (paying, free): (Vec<_>, Vec<_>) = admitted.partition(|(class, _)| *class == "paying");
    assert_eq!((paying.len(), free.len()), (30, 10), "each class its part, and the others share the last");
}
