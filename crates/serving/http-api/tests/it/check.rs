//! `/v1/check`, asked in every form.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

mod denials;
mod queue;
mod rejected;

use std::time::Duration;

use crate::common::{Server, one};
use serde_json::{Value, json};
use tollgate_http_api::HttpSettings;
use tollgate_limiter::{Limiter, LimiterSettings, Unmatched};
use tollgate_store_memory::{MemoryConfig, MemoryStore};

#[tokio::test]
async fn two_per_minute_pass_and_the_third_gets_retry_after() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for (outcome, remaining, retry_ms, retry_s) in [
        ("admit", 1, 0, None),
        ("admit", 0, 0, None),
        ("deny", 0, 40_000, Some("40")),
        ("deny", 0, 40_000, Some("40")),
    ] {
        let reply = client.post("/v1/check", &one("user", "ann")).await;
        assert_eq!(reply.status, 200);
        let line = json!({
            "outcome": outcome, "limit": 2, "remaining": remaining, "delay_ms": 0, "retry_after_ms": retry_ms,
            "reset_after_ms": 40_000, "rule": "user", "degraded": null,
        });
        let mut want = line.clone();
        want["descriptors"] = json!([line]);
        assert_eq!(reply.json(), want);
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.header("x-ratelimit-limit"), Some("2"));
        assert_eq!(reply.header("x-ratelimit-remaining"), Some(remaining.to_string().as_str()));
        assert_eq!(reply.header("x-ratelimit-reset"), Some("40"));
        assert_eq!(reply.header("retry-after"), retry_s);
        assert_eq!(reply.header("x-ratelimit-retry-after"), retry_s);
    }
    // Waiting for as long as it says is enough, and a nanosecond less is not.
    for (wait, outcome) in
        [(Duration::from_secs(40) - Duration::from_nanos(1), "deny"), (Duration::from_nanos(1), "admit")]
    {
        server.clock.advance(wait);
        assert_eq!(client.post("/v1/check", &one("user", "ann")).await.json()["outcome"], outcome);
    }
}

/// Row 153: `Retry-After` over HTTP.
#[tokio::test]
async fn the_field_is_whole_seconds_never_early_and_less_than_a_second_late() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for _ in 0..2 {
        client.post("/v1/check", &one("user", "ann")).await;
    }
    // The window ends in 40 s.
    let mut passed = Duration::ZERO;
    for (at, want) in [
        (Duration::ZERO, "40"),
        (Duration::from_nanos(1), "40"),
        (Duration::from_millis(500), "40"),
        (Duration::from_nanos(999_999_999), "40"),
        (Duration::from_secs(1), "39"),
        (Duration::from_millis(38_999), "2"),
        (Duration::from_nanos(39_000_000_001), "1"),
        (Duration::from_nanos(39_999_999_999), "1"),
    ] {
        server.clock.advance(at - passed);
        passed = at;
        for path in ["/v1/check", "/v1/check?status=429"] {
            let reply = client.post(path, &one("user", "ann")).await;
            let fields = ["x-ratelimit-retry-after", "retry-after"].map(|name| reply.header(name));
            assert_eq!(fields, [Some(want); 2], "{at:?}, {path}");
        }
        let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
        let reply = client.post("/json", body).await;
        assert_eq!(reply.header("x-ratelimit-retry-after"), Some(want), "{at:?}, /json");
    }
    server.clock.advance(Duration::from_secs(40) - passed);
    assert_eq!(client.post("/v1/check", &one("user", "ann")).await.json()["outcome"], "admit");
}

#[tokio::test]
async fn each_descriptor_is_answered_and_the_most_restrictive_one_is_shown() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let body = json!({"domain": "shop", "hits": 2, "descriptors": [
        [{"key": "api_key", "value": "k1"}],
        {"entries": [{"key": "user", "value": "ann"}], "hits": 1},
        [{"key": "nobody", "value": "x"}],
        [{"key": "free", "value": "x"}],
        {"entries": [{"key": "shadowed"}]},
        [{"key": "quo\"te", "value": "\u{1}\"\\"}],
        [],
    ]});
    let json = client.post("/v1/check", &body.to_string()).await.json();
    let lines: Vec<_> = json["descriptors"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| {
            (
                it["outcome"].as_str().unwrap(),
                it["limit"].clone(),
                it["remaining"].clone(),
                it["rule"].clone(),
                it["shadow"].clone(),
            )
        })
        .collect();
    let null = Value::Null;
    assert_eq!(
        lines,
        [
            ("admit", json!(100), json!(98), json!("api_key"), null.clone()),
            ("admit", json!(2), json!(1), json!("user"), null.clone()),
            ("admit", null.clone(), null.clone(), null.clone(), null.clone()),
            ("admit", null.clone(), null.clone(), json!("free"), null.clone()),
            ("admit", json!(1), json!(0), json!("shadowed"), json!(true)),
            ("admit", json!(5), json!(3), json!("quo\"te"), null.clone()),
            ("admit", null.clone(), null.clone(), null.clone(), null.clone()),
        ]
    );
    // The shadow rule has the least left, and denies nothing.
    assert_eq!(
        (&json["outcome"], &json["rule"], &json["retry_after_ms"]),
        (&json!("admit"), &json!("shadowed"), &json!(0))
    );
}

#[tokio::test]
async fn what_only_shadow_mode_admits_says_so_as_a_whole_and_in_each_descriptor() {
    let rules = "
domain: shop
descriptors:
  - {key: user, rate: 1/minute}
  - {key: trial, shadow_mode: true, rate: 1/minute}
  - {key: listed, shadow_mode: true, action: deny}
  - {key: banned, action: deny}";
    let start = async |shadow_mode| {
        let settings =
            LimiterSettings { shadow_mode, unmatched: Unmatched::Deny, ..LimiterSettings::default() };
        let store = MemoryStore::new(MemoryConfig::default());
        let limiter = Limiter::new(crate::common::policy(rules), store, settings);
        Server::serve(crate::common::api_over(limiter, HttpSettings::default()), crate::common::loopback())
            .await
    };
    let servers = [start(false).await, start(true).await];
    let yes = Some(true);
    let no = None;
    for (server, keys, whole, parts) in [
        (0, &["trial"][..], ("admit", no), &[("admit", no)][..]),
        (0, &["trial"], ("admit", yes), &[("admit", yes)]),
        (0, &["listed"], ("admit", yes), &[("admit", yes)]),
        (0, &["user", "trial"], ("admit", yes), &[("admit", no), ("admit", yes)]),
        (0, &["user", "trial"], ("deny", no), &[("deny", no), ("admit", yes)]),
        (1, &["user"], ("admit", no), &[("admit", no)]),
        (1, &["user"], ("admit", yes), &[("admit", yes)]),
        (1, &["banned"], ("admit", yes), &[("admit", yes)]),
        (1, &["nobody"], ("admit", yes), &[("admit", yes)]),
        (1, &["user", "trial"], ("admit", yes), &[("admit", yes), ("admit", no)]),
    ] {
        let entries: Vec<_> = keys.iter().map(|key| json!([{"key": key, "value": "x"}])).collect();
        let body = json!({"domain": "shop", "descriptors": entries}).to_string();
        let reply = servers[server].client().await.post("/v1/check", &body).await;
        let json = reply.json();
        let told = |it: &Value| {
            let is_right = (it["outcome"] == "admit") == (it["retry_after_ms"] == 0);
            assert!(is_right, "{keys:?}: {json}");
            (it["outcome"].as_str().unwrap().to_owned(), it["shadow"].as_bool())
        };
        let want = |(outcome, shadow): (&str, Option<bool>)| (outcome.to_owned(), shadow);
        assert_eq!(told(&json), want(whole), "{keys:?}: {json}");
        let descriptors: Vec<_> = json["descriptors"].as_array().unwrap().iter().map(told).collect();
        assert_eq!(descriptors, parts.iter().map(|it| want(*it)).collect::<Vec<_>>(), "{keys:?}: {json}");
    }
}

#[tokio::test]
async fn what_nothing_limits_passes_without_a_limit() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for body in [
        r#"{"domain":"nowhere","descriptors":[[{"key":"user","value":"ann"}]]}"#.to_owned(),
        one("nobody", "x"),
        r#"{"descriptors":[[{"value":"ann","key":"nobody"}]],"domain":"shop"}"#.to_owned(),
    ] {
        let reply = client.post("/v1/check", &body).await;
        let json = reply.json();
        assert_eq!(json["outcome"], "admit");
        for name in ["limit", "remaining", "rule"] {
            assert_eq!(json[name], Value::Null, "{name} of {body}");
        }
        assert_eq!(reply.header("x-ratelimit-limit"), None);
    }
}

#[tokio::test]
async fn waits_that_never_end_are_null_and_paced_requests_get_their_delay() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let mut body: Value = serde_json::from_str(&one("never", "x")).unwrap();
    body["hits"] = json!(6);
    let reply = client.post("/v1/check", &body.to_string()).await;
    let json = reply.json();
    assert_eq!((&json["outcome"], &json["retry_after_ms"]), (&json!("deny"), &Value::Null));
    assert_eq!(reply.header("retry-after"), None);

    let delays = [0, 100, 200];
    for delay in delays {
        assert_eq!(client.post("/v1/check", &one("paced", "x")).await.json()["delay_ms"], delay);
    }
}

#[tokio::test]
async fn a_batch_is_answered_in_its_order() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let ann: Value = serde_json::from_str(&one("user", "ann")).unwrap();
    let bob: Value = serde_json::from_str(&one("user", "bob")).unwrap();
    let reply = client.post("/v1/check", &json!({"requests": [ann, bob, ann, ann]}).to_string()).await;
    assert_eq!(reply.status, 200);
    let json = reply.json();
    let outcomes: Vec<_> = json["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["outcome"].as_str().unwrap(), it["remaining"].as_u64().unwrap()))
        .collect();
    assert_eq!(outcomes, [("admit", 1), ("admit", 1), ("admit", 0), ("deny", 0)]);
    for name in ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-retry-after", "retry-after"] {
        assert_eq!(reply.header(name), None, "a batch has no single limit");
    }
    let limits = json["decisions"].as_array().unwrap().iter().map(|it| it["limit"].as_u64());
    assert_eq!(limits.collect::<Vec<_>>(), [Some(2); 4]);
    assert_eq!(json["decisions"][3]["retry_after_ms"], 40_000, "each decision has its own wait");
    assert_eq!(client.post("/v1/check", r#"{"requests":[]}"#).await.json(), json!({"decisions": []}));
}

#[tokio::test]
async fn a_batch_may_hold_a_thousand_and_no_more_and_is_decided_whole_or_not_at_all() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let ask: Value = serde_json::from_str(&one("api_key", "k1")).unwrap();
    let batch = |count| json!({"requests": vec![ask.clone(); count]}).to_string();
    let reply = client.post("/v1/check", &batch(1_000)).await;
    let decisions = reply.json()["decisions"].as_array().unwrap().clone();
    let admitted = decisions.iter().filter(|it| it["outcome"] == "admit").count();
    assert_eq!((decisions.len(), admitted), (1_000, 100));
    let detail = client.post("/v1/check", &batch(1_001)).await.problem(400);
    assert!(detail.contains("more than 1000 requests"), "{detail}");

    let mut faulty =
        json!({"requests": vec![serde_json::from_str::<Value>(&one("api_key", "k2")).unwrap(); 3]});
    faulty["requests"][2]["domain"] = json!("");
    let detail = client.post("/v1/check", &faulty.to_string()).await.problem(400);
    assert!(detail.starts_with("requests[2]: the domain is empty"), "{detail}");
    let json = client.post("/v1/check", &one("api_key", "k2")).await.json();
    assert_eq!(json["remaining"], 99, "nothing was taken by the faulty batch");
}

#[tokio::test]
async fn a_query_asks_what_a_body_asks() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for (target, fields, outcome, remaining) in [
        ("/v1/check?domain=shop&entry=user=ann", "", "admit", json!([1])),
        ("/v1/check?domain=shop&entry=user%3Dann&hits=0", "", "admit", json!([1])),
        (
            "/v1/check?entry=api_key=k+1%26&descriptor=&entry=user=%E8%AF%B7&domain=shop",
            "",
            "admit",
            json!([99, 1]),
        ),
        (
            "/v1/check?domain=shop&entry=api_key=k%201%26&descriptor&entry=user=a=b",
            "",
            "admit",
            json!([98, 1]),
        ),
        ("/v1/check?domain=shop&entry_header=user=X-User", "x-user: ann\r\n", "admit", json!([0])),
        ("/v1/check?domain=shop&entry_header=user=X-User", "x-user: ann\r\n", "deny", json!([0])),
        ("/v1/check?domain=shop&entry_header=user=X-User", "", "admit", json!([1])),
        (
            "/v1/check?domain=shop&entry_header=user=X-User",
            "x-user: a&entry=plan=gold\r\n",
            "admit",
            json!([1]),
        ),
    ] {
        let reply = client.ask("GET", target, fields, "").await;
        let json = reply.json();
        assert_eq!(json["outcome"], outcome, "{target}");
        let left: Vec<_> =
            json["descriptors"].as_array().unwrap().iter().map(|it| it["remaining"].clone()).collect();
        assert_eq!(Value::from(left), remaining, "{target}");
        assert!(reply.header("x-ratelimit-limit").is_some());
    }
}

#[tokio::test]
async fn a_request_above_a_soft_limit_is_marked_in_the_body_and_in_a_field() {
    let rules = "{domain: shop, descriptors: [{key: user, rate_limit: {rate: 2/minute, excess: 50 %}}]}";
    let server = Server::start(rules, HttpSettings::default()).await;
    let mut client = server.client().await;
    for (outcome, remaining, excess) in
        [("admit", 1, None), ("admit", 0, None), ("admit", 0, Some("true")), ("deny", 0, None)]
    {
        let reply = client.post("/v1/check", &one("user", "ann")).await;
        let json = reply.json();
        assert_eq!(
            (&json["outcome"], &json["limit"], &json["remaining"]),
            (&json!(outcome), &json!(2), &json!(remaining))
        );
        assert_eq!(reply.header("x-ratelimit-excess"), excess);
        let marked = if excess.is_some() { json!(true) } else { Value::Null };
        assert_eq!((&json["excess"], &json["descriptors"][0]["excess"]), (&marked, &marked));
    }
    let counter = client.get("/v1/keys?domain=shop&entry=user=ann").await.json()["counters"][0].clone();
    assert_eq!(
        (&counter["remaining"], &counter["limit"]),
        (&json!(0), &json!("2 per minute, fixed_window, excess 1"))
    );
}

#[tokio::test]
async fn consumed_permits_are_counted_in_full_and_no_limit_denies_them() {
    let rules = "{domain: llm, descriptors: [
        {key: team, rate_limit: {unit: hour, requests_per_unit: 1000, post_paid: true}},
        {key: user, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: token_bucket}}]}";
    let server = Server::start(rules, HttpSettings::default()).await;
    let mut client = server.client().await;
    let ask = |more: Value| {
        let mut body = json!({"domain": "llm", "descriptors": [[{"key": "team", "value": "a"}]]});
        body.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        body.to_string()
    };
    for (more, outcome, remaining, owed) in [
        (json!({"hits": 0}), "admit", 1_000, json!(null)),
        (json!({"hits": 900}), "admit", 100, json!(null)),
        (json!({"consumed": 900}), "admit", 0, json!(800)),
        (json!({"hits": 0}), "deny", 0, json!(800)),
        (json!({"consumed": 0}), "admit", 0, json!(800)),
        (json!({"hits": 5}), "deny", 0, json!(805)),
        (json!({"consumed": 5, "hits": null}), "admit", 0, json!(810)),
    ] {
        let json = client.post("/v1/check", &ask(more.clone())).await.json();
        let got = (&json["outcome"], &json["remaining"], &json["owed"], &json["descriptors"][0]["owed"]);
        assert_eq!(got, (&json!(outcome), &json!(remaining), &owed, &owed), "{more}");
    }
    let query = "/v1/check?domain=llm&entry=user=a&consumed=1500";
    let json = client.get(query).await.json();
    assert_eq!((&json["outcome"], &json["owed"]), (&json!("admit"), &json!(500)));
    let batch = json!({"requests": [
        {"domain": "llm", "descriptors": [[{"key": "user", "value": "a"}]]},
        {"domain": "llm", "consumed": 10, "descriptors": [
            {"entries": [{"key": "user", "value": "b"}], "consumed": 1_001}, [{"key": "team", "value": "b"}]]},
        {"domain": "llm", "descriptors": [{"entries": [{"key": "user", "value": "b"}], "consumed": 0}]},
    ]});
    let json = client.post("/v1/check", &batch.to_string()).await.json();
    let seen: Vec<_> =
        json["decisions"].as_array().expect("a list").iter().map(|it| &it["outcome"]).collect();
    assert_eq!(seen, ["deny", "admit", "admit"]);
    let second = &json["decisions"][1]["descriptors"];
    assert_eq!((&second[0]["owed"], &second[1]["remaining"]), (&json!(1), &json!(990)));

    let own = |hits: Value| {
        let mut own = json!({"entries": [{"key": "team", "value": "c"}]});
        own.as_object_mut().expect("a map").extend(hits.as_object().expect("a map").clone());
        own
    };
    let both = "`hits` and `consumed` cannot be combined";
    for (body, want) in [
        (ask(json!({"hits": 1, "consumed": 1})), both),
        (ask(json!({"hits": 1, "descriptors": [own(json!({"consumed": 1}))]})), both),
        (ask(json!({"consumed": 1, "descriptors": [own(json!({"hits": 1}))]})), both),
        (ask(json!({"descriptors": [own(json!({"hits": 1, "consumed": 1}))]})), both),
        (ask(json!({"descriptors": [own(json!({})), own(json!({"consumed": 1}))]})), "descriptors[0] has no"),
        (ask(json!({"consumed": 1, "max_wait_ms": 5})), "`max_wait_ms` belongs to `hits`"),
        (ask(json!({"consumed": -1})), "expected a whole number"),
        (json!({"requests": [], "consumed": 1}).to_string(), "cannot be combined with members"),
    ] {
        let reply = client.post("/v1/check", &body).await;
        let detail = reply.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!(reply.status == 400 && detail.contains(want), "{body}: {detail}");
    }
    for (path, body) in [
        ("/v1/reserve", ask(json!({"consumed": 1}))),
        ("/v1/reserve", ask(json!({"descriptors": [own(json!({"consumed": 1}))]}))),
        ("/v1/acquire", ask(json!({"consumed": 1}))),
    ] {
        let reply = client.post(path, &body).await;
        assert_eq!(reply.status, 400, "{path} {body}");
        assert!(reply.text().contains("unknown field `consumed`"), "{}", reply.text());
    }
    for query in ["hits=1&consumed=1", "consumed=1&consumed=1", "consumed=x"] {
        let reply = client.get(&format!("/v1/check?domain=llm&entry=team=c&{query}")).await;
        assert_eq!(reply.status, 400, "{query}");
    }
    let json = client.get("/v1/check?domain=llm&entry=team=c&hits=0").await.json();
    assert_eq!(json["remaining"], 1_000, "nothing that was rejected was counted");
}

#[tokio::test]
async fn a_reply_says_that_no_rule_matched_and_which_is_nearest() {
    let rules = "
domain: shop
descriptors:
  - key: user
    rate: 9/minute
    descriptors:
      - {key: plan, value: gold, rate: 9/minute}
      - {key: plan, value: basic}
  - key: region
    descriptors:
      - {key: tenant, rate: 9/minute}";
    let server = Server::start(rules, HttpSettings::default()).await;
    let mut client = server.client().await;
    for (query, nearest) in [
        ("entry=user=ann&entry=plan=silver", json!("user → plan=gold")), // another value
        ("entry=user=ann&entry=plam=gold", json!("user → plan=gold")),   // a misspelt key
        ("entry=user=ann&entry=color=red", json!("user")),               // another key below a rule
        ("entry=user=ann&entry=plan=gold&entry=more=x", json!("user → plan=gold")), // the rules end before
        ("entry=region=eu", json!("region → tenant")),                   // the rules go on
        ("entry=usr=ann", json!("user")),
        ("entry=color=red", Value::Null),
    ] {
        let json = client.get(&format!("/v1/check?domain=shop&{query}")).await.json();
        for part in [&json, &json["descriptors"][0]] {
            let got = (&part["outcome"], &part["rule"], &part["unmatched"], &part["nearest_rule"]);
            assert_eq!(got, (&json!("admit"), &Value::Null, &json!(true), &nearest), "{query}: {json}");
        }
    }
    for query in ["entry=user=ann", "entry=user=ann&entry=plan=basic"] {
        let json = client.get(&format!("/v1/check?domain=shop&{query}")).await.json();
        assert_eq!(
            (&json["unmatched"], &json["nearest_rule"]),
            (&Value::Null, &Value::Null),
            "{query}: {json}"
        );
    }
    let json = client.get("/v1/check?domain=shpo&entry=user=ann").await.json();
    assert_eq!((&json["unmatched"], &json["nearest_rule"]), (&json!(true), &Value::Null), "{json}");
    for (second, unmatched) in [("entry=user=ann", Value::Null), ("entry=color=blue", json!(true))] {
        let query = format!("/v1/check?domain=shop&entry=usr=ann&descriptor&{second}");
        let json = client.get(&query).await.json();
        assert_eq!(
            (&json["unmatched"], &json["nearest_rule"]),
            (&unmatched, &Value::Null),
            "{second}: {json}"
        );
        let first = &json["descriptors"][0];
        assert_eq!((&first["unmatched"], &first["nearest_rule"]), (&json!(true), &json!("user")), "{json}");
    }
}

#[tokio::test]
async fn permits_taken_in_advance_are_repaid_before_new_ones_are_granted() {
    let rules =
        "{domain: shop, descriptors: [{key: user, rate_limit: {rate: 60/minute burst 10, overdraft: 5}}]}";
    let server = Server::start(rules, HttpSettings::default()).await;
    let mut client = server.client().await;
    let body = |hits: u64| {
        json!({"domain": "shop", "descriptors": [[{"key": "user", "value": "ann"}]], "hits": hits})
            .to_string()
    };
    for (wait, hits, want) in [
        (Duration::ZERO, 16, ("deny", Value::Null)), // never: at most 10, and 5 in advance
        (Duration::ZERO, 15, ("admit", json!(0))),
        (Duration::ZERO, 1, ("deny", json!(5_000))), // the 5 come first
        (Duration::from_nanos(4_999_999_999), 1, ("deny", json!(1))),
        (Duration::from_nanos(1), 6, ("deny", json!(1_000))), // 5 in advance are the most
        (Duration::ZERO, 5, ("admit", json!(0))),
        (Duration::from_secs(15), 10, ("admit", json!(0))), // repaid, and full again
    ] {
        server.clock.advance(wait);
        let json = client.post("/v1/check", &body(hits)).await.json();
        assert_eq!(
            (json["outcome"].as_str(), &json["retry_after_ms"]),
            (Some(want.0), &want.1),
            "{hits}: {json}"
        );
        assert_eq!((&json["limit"], json["remaining"].is_u64()), (&json!(10), true), "{json}");
    }
}
