//! `/v1/throttle`: limits that come with the request.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::time::Duration;

use crate::common::Server;
use serde_json::{Value, json};
use tollgate_http_api::HttpSettings;
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_store_memory::{MemoryConfig, MemoryStore};

#[tokio::test]
async fn a_limit_of_its_own_is_a_bucket_that_is_refilled_evenly() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    // Three at once, and one more every two seconds.
    let admit = |remaining: u64, reset: u64| json!({"outcome": "admit", "burst": 3, "remaining": remaining, "retry_after_ms": 0, "reset_after_ms": reset, "degraded": null});
    let deny = |remaining: u64, retry: Option<u64>, reset: u64| json!({"outcome": "deny", "burst": 3, "remaining": remaining, "retry_after_ms": retry, "reset_after_ms": reset, "degraded": null});
    for (wait_ms, hits, want) in [
        (0, 0, admit(3, 0)),
        (0, 1, admit(2, 2_000)),
        (0, 2, admit(0, 6_000)),
        (0, 1, deny(0, Some(2_000), 6_000)),
        (1_999, 1, deny(0, Some(1), 4_001)),
        (1, 1, admit(0, 6_000)),
        (0, 4, deny(0, None, 6_000)),
        (6_000, 3, admit(0, 6_000)),
    ] {
        server.clock.advance(Duration::from_millis(wait_ms));
        let ask = json!({"key": "ann", "limit": 30, "period_ms": 60_000, "burst": 3, "hits": hits});
        let reply = client.post("/v1/throttle", &ask.to_string()).await;
        assert_eq!((reply.status, reply.json()), (200, want), "{hits} hits after {wait_ms} ms");
    }
    let other = json!({"key": "bob", "limit": 5, "period_ms": 1_000});
    let reply = client.post("/v1/throttle", &other.to_string()).await.json();
    assert_eq!((&reply["burst"], &reply["remaining"]), (&json!(5), &json!(4)), "the burst is the limit");
    let metrics = client.get("/metrics").await;
    let denied = r#"tollgate_decisions_total{domain="",rule="(throttle)",outcome="deny"} 3"#;
    assert!(metrics.text().contains(denied), "{}", metrics.text());
}

#[tokio::test]
async fn in_the_servers_shadow_mode_a_denial_is_counted_and_admitted() {
    let settings = LimiterSettings { shadow_mode: true, ..LimiterSettings::default() };
    let limiter = Limiter::new(
        crate::common::policy(crate::common::RULES),
        MemoryStore::new(MemoryConfig::default()),
        settings,
    );
    let server =
        Server::serve(crate::common::api_over(limiter, HttpSettings::default()), crate::common::loopback())
            .await;
    let mut client = server.client().await;
    let ask = json!({"key": "ann", "limit": 30, "period_ms": 60_000, "burst": 1}).to_string();
    for shadow in [Value::Null, json!(true)] {
        let json = client.post("/v1/throttle", &ask).await.json();
        let got = (&json["outcome"], &json["remaining"], &json["retry_after_ms"], &json["shadow"]);
        assert_eq!(got, (&json!("admit"), &json!(0), &json!(0), &shadow));
    }
    let metrics = client.get("/metrics").await;
    assert!(metrics.text().contains("\ntollgate_shadowed_requests_total 1\n"), "{}", metrics.text());
}

#[tokio::test]
async fn what_no_limit_can_be_is_rejected_with_what_is_wrong() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for (body, want) in [
        ("{}", "missing field `key`"),
        (r#"{"key":"a","limit":1}"#, "missing field `period_ms`"),
        (r#"{"key":"a","limit":0,"period_ms":1}"#, "limit is 0; the smallest is 1"),
        (r#"{"key":"a","limit":1,"period_ms":0}"#, "period_ms is 0; the smallest is 1"),
        (r#"{"key":"a","limit":1,"period_ms":1,"burst":0}"#, "burst is 0; the smallest is 1"),
        (r#"{"key":"a","limit":1,"period_ms":86400000,"burst":1000000}"#, "more than thirty years to fill"),
        (r#"{"key":"a","limit":-1,"period_ms":1}"#, "expected u64"),
        (r#"{"key":"a","limit":1,"period_ms":1,"hits":-1}"#, "a whole number from 0"),
        (r#"{"key":"a","limit":1,"period_ms":1,"period":1}"#, "unknown field `period`"),
        (r#"{"key":"a","key":"b","limit":1,"period_ms":1}"#, "duplicate field `key`"),
    ] {
        let detail = client.post("/v1/throttle", body).await.problem(400);
        assert!(detail.contains(want), "{body}: {detail:?} lacks {want:?}");
    }
    assert_eq!(client.get("/v1/throttle").await.status, 405);
}
