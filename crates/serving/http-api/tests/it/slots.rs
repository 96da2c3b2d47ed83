//! `/v1/acquire` and `/v1/release` over a real connection.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::time::Duration;

use crate::common::Server;
use serde_json::{Value, json};

fn of(id: Option<&Value>) -> String {
    let mut body = json!({"domain": "shop", "descriptors": [[{"key": "export", "value": "orders"}]]});
    if let Some(id) = id {
        body["id"] = id.clone();
    }
    body.to_string()
}

#[tokio::test]
async fn a_slot_is_acquired_renewed_and_released_once() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let first = client.post("/v1/acquire", &of(None)).await;
    let id = first.json()["id"].clone();
    assert_eq!(id.as_str().map(str::len), Some(32));
    let want = json!({"outcome": "admit", "id": id, "limit": 2, "remaining": 1, "retry_after_ms": 0, "expires_in_ms": 30_000, "renewed": false, "rule": "export", "degraded": null});
    assert_eq!((first.status, first.json()), (200, want));
    server.clock.advance(Duration::from_secs(10));
    let chosen = json!("0123456789ABCDEF0123456789abcdef");
    let second = client.post("/v1/acquire", &of(Some(&chosen))).await.json();
    assert_eq!((&second["outcome"], &second["remaining"]), (&json!("admit"), &json!(0)));
    let again = client.post("/v1/acquire", &of(Some(&chosen))).await.json();
    assert_eq!((&again["renewed"], &again["remaining"]), (&json!(true), &json!(0)));
    let third = client.post("/v1/acquire", &of(None)).await;
    let denied = json!({"outcome": "deny", "id": null, "limit": 2, "remaining": 0, "retry_after_ms": 20_000, "expires_in_ms": null, "renewed": false, "rule": "export", "degraded": null});
    assert_eq!((third.status, third.json()), (200, denied));
    for released in [true, false] {
        let reply = client.post("/v1/release", &of(Some(&id))).await;
        assert_eq!((reply.status, reply.json()), (200, json!({"released": released})));
    }
    assert_eq!(client.post("/v1/acquire", &of(None)).await.json()["outcome"], "admit", "free at once");
}

#[tokio::test]
async fn a_batch_with_a_rule_of_slots_is_rejected_and_nothing_of_it_is_charged() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let one = |key: &str, hits: u64| json!({"domain": "shop", "descriptors": [[{"key": key}]], "hits": hits});
    let left = async |client: &mut crate::common::HttpClient| {
        client.post("/v1/check", &one("user", 0).to_string()).await.json()["remaining"].clone()
    };
    let before = left(&mut client).await;
    let batch = json!({"requests": [one("user", 2), one("export", 1), one("user", 1)]}).to_string();
    let reply = client.post("/v1/check", &batch).await;
    assert_eq!(reply.status, 400);
    assert!(reply.text().contains("requests[1]: rule export limits what runs"), "{}", reply.text());
    assert_eq!(left(&mut client).await, before);
}

#[tokio::test]
async fn what_is_no_request_for_a_slot_is_rejected_with_what_to_do() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let id = "00000000000000000000000000000001";
    for (path, body, status, want) in [
        ("/v1/acquire", "{}", 400, "missing field `domain`"),
        (
            "/v1/acquire",
            r#"{"domain":"shop","descriptors":[[{"key":"export"}]],"id":"7"}"#,
            400,
            "32 hexadecimal digits",
        ),
        (
            "/v1/acquire",
            r#"{"domain":"shop","descriptors":[[{"key":"export"}]],"ttl_ms":7}"#,
            400,
            "unknown field `ttl_ms`",
        ),
        (
            "/v1/acquire",
            r#"{"domain":"shop","descriptors":[[{"key":"user"}]]}"#,
            400,
            "rule user counts permits",
        ),
        ("/v1/acquire", r#"{"domain":"shop","descriptors":[[{"key":"export"}]],"hits":2}"#, 400, "2 hits"),
        ("/v1/release", r#"{"domain":"shop","descriptors":[[{"key":"export"}]]}"#, 400, "missing field `id`"),
        (
            "/v1/release",
            &format!(r#"{{"domain":"x","descriptors":[[{{"key":"x"}}]],"id":"{id}"}}"#),
            404,
            "no rule with algorithm: concurrency",
        ),
        (
            "/v1/check",
            r#"{"domain":"shop","descriptors":[[{"key":"export"}]]}"#,
            400,
            "acquire a slot and release it",
        ),
        (
            "/v1/check",
            r#"{"domain":"shop","descriptors":[[{"key":"user"}]],"id":"7"}"#,
            400,
            "unknown field `id`",
        ),
        (
            "/v1/reserve",
            r#"{"domain":"shop","descriptors":[[{"key":"export"}]]}"#,
            400,
            "acquire a slot and release it",
        ),
    ] {
        let reply = client.post(path, body).await;
        assert_eq!(reply.status, status, "{path} {body}");
        assert!(reply.text().contains(want), "{path} {body}: {}", reply.text());
    }
}

/// Row 66: two zones of nginx's `limit_conn` at one place, 1 per address and 2 per server, are two calls,
/// since a call takes one descriptor. A denial by the second zone gives the slot of the first back.
#[tokio::test]
async fn two_zones_of_slots_are_two_calls_and_both_are_enforced() {
    let rules = "
domain: nginx
descriptors:
  - key: conn_zone
    value: perip
    descriptors: [{key: remote_address, rate_limit: {algorithm: concurrency, limit: 1, ttl: 1m}}]
  - key: conn_zone
    value: perserver
    descriptors: [{key: server_name, rate_limit: {algorithm: concurrency, limit: 2, ttl: 1m}}]
";
    let server = Server::start(rules, tollgate_http_api::HttpSettings::default()).await;
    let mut client = server.client().await;
    let of = |zone: &str, key: &str, value: &str| json!([[{"key": "conn_zone", "value": zone}, {"key": key, "value": value}]]);
    let both = json!([of("perip", "remote_address", "a")[0], of("perserver", "server_name", "s")[0]]);
    let whole =
        client.post("/v1/acquire", &json!({"domain": "nginx", "descriptors": both}).to_string()).await;
    assert_eq!(whole.status, 400, "a call takes one: {whole:?}");
    for (address, want) in [
        ("a", ["admit", "admit"]),
        ("a", ["deny", "-"]),
        ("b", ["admit", "admit"]),
        ("c", ["admit", "deny"]),
        ("c", ["admit", "deny"]), // the slot of its address came back
    ] {
        let of_address = of("perip", "remote_address", address);
        let first = json!({"domain": "nginx", "descriptors": of_address}).to_string();
        let first = client.post("/v1/acquire", &first).await.json();
        let mut got = [first["outcome"].clone(), json!("-")];
        if got[0] == "admit" {
            let second = json!({"domain": "nginx", "descriptors": of("perserver", "server_name", "s")});
            got[1] = client.post("/v1/acquire", &second.to_string()).await.json()["outcome"].clone();
        }
        if got[1] == "deny" {
            let back = json!({"domain": "nginx", "descriptors": of_address, "id": first["id"]});
            assert_eq!(client.post("/v1/release", &back.to_string()).await.json()["released"], true);
        }
        assert_eq!(got, want.map(Value::from), "{address}");
    }
}
