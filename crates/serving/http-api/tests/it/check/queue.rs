//! Rules with `on_limit: queue`: the reply comes when it is the request's turn.

use std::time::Duration;

use serde_json::json;
use tollgate_http_api::HttpSettings;

use crate::common::{Server, one};

/// Ten a second, one at a time. The longest wait is real time, which nothing here waits for.
const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {rate: 10/s burst 1, on_limit: queue, max_wait: 30s}
";

/// Waits until `want` requests wait.
async fn queued(server: &Server, want: usize) {
    let mut client = server.client().await;
    let line = format!("tollgate_queued_requests {want}\n");
    while !client.get("/metrics").await.text().contains(&line) {}
}

#[tokio::test]
async fn a_request_over_the_limit_is_answered_at_its_turn_and_says_how_long_it_waited() {
    let server = Server::start(RULES, HttpSettings::default()).await;
    assert_eq!(server.client().await.post("/v1/check", &one("user", "ann")).await.json()["delay_ms"], 0);
    let mut waits = server.client().await;
    let body = one("user", "ann");
    waits
        .send(format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
        .await;
    queued(&server, 1).await;
    // Others are answered meanwhile, a batch at once.
    let mut others = server.client().await;
    assert_eq!(others.post("/v1/check", &one("user", "bob")).await.json()["outcome"], "admit");
    let batch = others.post("/v1/check", &format!(r#"{{"requests":[{body}]}}"#)).await.json();
    assert_eq!(batch["decisions"][0]["outcome"], "deny");
    assert_eq!(batch["decisions"][0]["retry_after_ms"], 200, "after the one that waits");
    server.clock.advance(Duration::from_millis(100));
    let reply = waits.reply().await.expect("it is its turn");
    let line = json!({
        "outcome": "admit", "limit": 1, "remaining": 0, "delay_ms": 100, "waited_ms": 100, "retry_after_ms": 0,
        "reset_after_ms": 100, "rule": "user", "degraded": null,
    });
    let mut want = line.clone();
    want["descriptors"] = json!([line]);
    assert_eq!((reply.status, reply.json()), (200, want));
    assert_eq!(reply.header("retry-after"), None);
    queued(&server, 0).await;
}

#[tokio::test]
async fn the_form_of_envoyproxy_waits_too_and_explain_says_so() {
    let server = Server::start(RULES, HttpSettings::default()).await;
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
    assert_eq!(server.client().await.post("/json", body).await.status, 200);
    let mut waits = server.client().await;
    waits
        .send(format!("POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
        .await;
    queued(&server, 1).await;
    server.clock.advance(Duration::from_millis(100));
    assert_eq!(waits.reply().await.expect("it is its turn").status, 200);
    let explained = server.client().await.get("/v1/explain?domain=shop&entry=user=ann").await.json();
    assert_eq!(explained["rule"]["max_wait_ms"], 30_000);
    let text = explained["text"].as_str().expect("a text");
    let line = "over     queue: a request waits for its turn, for at most 30s, before it is denied\n";
    assert!(text.contains(line), "{text}");
}
