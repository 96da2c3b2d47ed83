//! `/v1/explain`: which rule, why, and the reply to a denied client.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use crate::common::{Server, one};
use serde_json::{Value, json};
use tollgate_http_api::HttpSettings;
use tollgate_limiter::{Intervened, Intervention, Limiter, LimiterSettings, Unmatched};
use tollgate_store_memory::{MemoryConfig, MemoryStore};

/// The reply to a denied client with `entry`, as `/v1/explain` shows it.
async fn denied(server: &Server, entry: &str) -> Value {
    let mut client = server.client().await;
    client.get(&format!("/v1/explain?domain=shop&entry={entry}")).await.json()["denied"].clone()
}

/// The value of a header field of that reply.
fn field(denied: &Value, name: &str) -> Value {
    let fields = denied["headers"].as_array().expect("fields");
    fields.iter().find(|it| it[0] == name).map_or(Value::Null, |it| it[1].clone())
}

#[tokio::test]
async fn explain_says_which_rule_and_how_it_would_deny() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let json = client.get("/v1/explain?domain=shop&entry=told=x").await.json();
    assert_eq!(json["rule"]["path"], "told");
    assert_eq!(json["rule"]["limits"][0]["limit"], "1 per minute, fixed_window");
    assert_eq!(json["steps"], json!(["default"]));
    assert_eq!(json["denied"]["status"], 402);
    assert_eq!(json["denied"]["body"], r#"{"error": "slow down, shop", "retry_after": 60}"#);
    assert!(
        json["denied"]["headers"]
            .as_array()
            .unwrap()
            .contains(&json!(["x-support", "https://example.com/1"]))
    );
    assert!(json["text"].as_str().unwrap().contains("rule     told"));

    // A limit without a name goes by its rule's path, as in a real denial.
    for (entry, name) in [("user=x", "per_user"), ("api_key=x", "api_key")] {
        let json = client.get(&format!("/v1/explain?domain=shop&entry={entry}")).await.json();
        let body: Value =
            serde_json::from_str(json["denied"]["body"].as_str().expect("a body")).expect("JSON");
        assert_eq!(body["violated-policies"], json!([name]));
    }

    for (query, why) in [
        ("domain=shpo&entry=user=x", "unknown_domain"),
        ("domain=shop&entry=usr=x", "no_rule_begins"),
        ("domain=shop&entry=user=x&entry=more=y", "untaken"),
    ] {
        let json = client.get(&format!("/v1/explain?{query}")).await.json();
        assert_eq!(
            (&json["rule"], &json["denied"], &json["why_none"]),
            (&Value::Null, &Value::Null, &json!(why))
        );
    }
    assert_eq!(
        client.post("/v1/check", &one("told", "x")).await.json()["remaining"],
        0,
        "explaining takes nothing"
    );
}

#[tokio::test]
async fn a_preview_waits_for_the_next_permit_and_not_for_a_whole_period() {
    let rules = "
domain: shop
descriptors:
  - {key: window, rate_limit: {requests_per_unit: 60, unit: hour}}
  - {key: bucket, rate: 60/hour burst 20}
  - {key: starting, rate_limit: {rate: 60/hour burst 20, initial: 0}}
  - {key: ahead, rate_limit: {rate: 60/hour burst 20, overdraft: 5}}
  - {key: stepped, rate_limit: {rate: 60/hour burst 20, refill: interval}}
  - {key: meter, rate_limit: {rate: 60/hour, algorithm: leaky_bucket, capacity: 20}}
  - {key: none, rate_limit: {requests_per_unit: 0, unit: hour}}
  - {key: total, rate_limit: {limit: 500, algorithm: total}}";
    let settings = HttpSettings { style: "legacy".parse().unwrap(), ..HttpSettings::default() };
    let server = Server::start(rules, settings).await;
    for (key, retry, reset) in [
        ("window", json!("3600"), json!("3600")),
        ("bucket", json!("60"), json!("1200")),
        ("starting", json!("60"), json!("1200")),
        ("ahead", json!("300"), json!("1500")), // the 5 come first
        ("stepped", json!("3600"), json!("3600")),
        ("meter", json!("60"), json!("1200")),
        ("none", Value::Null, json!("3600")),
        ("total", Value::Null, json!("999999999")),
    ] {
        let denied = denied(&server, &format!("{key}=x")).await;
        let got = (field(&denied, "retry-after"), field(&denied, "x-ratelimit-reset"));
        assert_eq!(got, (retry, reset), "{key}: {denied}");
    }
}

#[tokio::test]
async fn a_total_has_no_window_in_any_style() {
    let rules = "{domain: shop, descriptors: [{key: total, rate_limit: {limit: 1, algorithm: total}}]}";
    for (style, name, want) in [
        ("draft-03", "ratelimit-limit", json!("1, 1")),
        ("draft-07", "ratelimit-policy", Value::Null),
        ("draft-11", "ratelimit-policy", json!("\"total\";q=1")),
    ] {
        let settings = HttpSettings { style: style.parse().unwrap(), ..HttpSettings::default() };
        let server = Server::start(rules, settings).await;
        assert_eq!(field(&denied(&server, "total=x").await, name), want, "{style}, in the preview");
        let reply = server.client().await.get("/v1/check?domain=shop&entry=total=x").await;
        assert_eq!(json!(reply.header(name)), want, "{style}, in a reply");
    }
}

#[tokio::test]
async fn it_shows_what_a_request_gets_that_no_rule_matches() {
    let loose = "{domain: shop, descriptors: [{key: user, rate: 5/s}, {key: user, value: ann}]}";
    let strict =
        "{domain: shop, unmatched: deny, descriptors: [{key: user, rate: 5/s}, {key: user, value: ann}]}";
    let closed = LimiterSettings { unmatched: Unmatched::Deny, ..LimiterSettings::default() };
    let shadowed = LimiterSettings { shadow_mode: true, ..closed.clone() };
    for (rules, settings, domain, entry, unmatched, status) in [
        (loose, LimiterSettings::default(), "shop", "a=b", json!("admit"), Value::Null),
        (loose, closed.clone(), "shop", "a=b", json!("deny"), json!(429)),
        (loose, closed.clone(), "else", "a=b", json!("deny"), json!(429)),
        (strict, LimiterSettings::default(), "shop", "a=b", json!("deny"), json!(429)),
        (strict, LimiterSettings::default(), "else", "a=b", json!("admit"), Value::Null),
        (strict, closed.clone(), "shop", "user=ann", Value::Null, Value::Null), // an exception
        (strict, closed, "shop", "user=bob", Value::Null, json!(429)),
        (strict, shadowed, "shop", "a=b", json!("deny"), Value::Null), // shown, and not done
    ] {
        let limiter =
            Limiter::new(crate::common::policy(rules), MemoryStore::new(MemoryConfig::default()), settings);
        let server = Server::serve(
            crate::common::api_over(limiter, HttpSettings::default()),
            crate::common::loopback(),
        )
        .await;
        let mut client = server.client().await;
        let query = format!("domain={domain}&entry={entry}");
        let json = client.get(&format!("/v1/explain?{query}")).await.json();
        assert_eq!((&json["unmatched"], &json["denied"]["status"]), (&unmatched, &status), "{query}: {json}");
        // As it is then decided.
        if unmatched != Value::Null {
            let reply = client.get(&format!("/v1/check?{query}&status=rule")).await;
            assert_eq!(json!(reply.status), if status == Value::Null { json!(200) } else { status.clone() });
            let preview = json["denied"]["body"].as_str().map(|body| body.to_owned());
            assert_eq!(preview, (status != Value::Null).then(|| reply.text().to_owned()), "{query}");
        }
    }
}

#[tokio::test]
async fn a_block_is_shown_by_check_explain_and_the_reply_to_the_client() {
    let noon = crate::common::NOW;
    let limiter = Limiter::new(
        crate::common::policy(crate::common::RULES),
        MemoryStore::new(MemoryConfig::default()),
        LimiterSettings::default(),
    );
    let intervention = |key: &str, action| Intervention {
        domain: "shop".to_owned(),
        entries: vec![(key.into(), "x".into())],
        action,
        until: noon + std::time::Duration::from_millis(59_001),
    };
    limiter.intervene(
        vec![intervention("user", Intervened::Blocked), intervention("told", Intervened::Allowed)],
        noon,
    );
    let api = crate::common::api_over(limiter, HttpSettings::default());
    let server = Server::serve(api, crate::common::loopback()).await;
    let mut client = server.client().await;
    let blocked = client.post("/v1/check?status=429", &one_x("user")).await;
    assert_eq!((blocked.status, blocked.header("retry-after")), (429, Some("60")));
    assert_eq!(blocked.json()["detail"], "Such requests are blocked; try again in 1 minute.");
    let json = client.post("/v1/check", &one_x("user")).await.json();
    assert_eq!((&json["outcome"], &json["retry_after_ms"]), (&json!("deny"), &json!(59_001)));
    assert_eq!(
        (&json["intervention"], &json["rule"], &json["limit"]),
        (&json!("block"), &json!("user"), &Value::Null)
    );
    for _ in 0..3 {
        let json = client.post("/v1/check", &one_x("told")).await.json();
        assert_eq!((&json["outcome"], &json["remaining"]), (&json!("admit"), &Value::Null));
        assert_eq!(json["descriptors"][0]["intervention"], "allow");
    }
    let json = client.get("/v1/explain?domain=shop&entry=user=x").await.json();
    assert_eq!(json["intervention"], json!({"action": "block", "entries": 1, "left_ms": 59_001}));
    assert_eq!(client.get("/v1/explain?domain=shop&entry=user=y").await.json()["intervention"], Value::Null);
}

fn one_x(key: &str) -> String {
    one(key, "x")
}
