//! `/v1/check`, asked in every form.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

mod common;

use std::time::Duration;

use common::{RULES, Server, one};
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

#[tokio::test]
async fn the_third_request_within_a_second_gets_429() {
    let rules =
        "{domain: shop, descriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: 2}}]}";
    let server = Server::start(rules, HttpSettings::default()).await;
    let mut client = server.client().await;
    for (wait_ns, status) in [(0, 200), (0, 200), (0, 429), (999_999_999, 429), (1, 200), (0, 200), (0, 429)]
    {
        server.clock.advance(Duration::from_nanos(wait_ns));
        let reply = client.get("/v1/check?domain=shop&entry=user=ann&status=429").await;
        assert_eq!(reply.status, status, "{reply:?}");
        assert_eq!(reply.header("retry-after"), (status == 429).then_some("1"));
    }
}

/// What a client knows of a limit is advice: it is not asked whether it keeps to it.
#[tokio::test]
async fn a_client_that_ignores_the_advice_is_still_limited() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let claims = "content-type: application/json\r\nx-ratelimit-limit: 1000000\r\n\
        x-ratelimit-remaining: 1000000\r\nratelimit-policy: \"own\";q=1000000;w=1\r\n\
        ratelimit: \"own\";r=1000000;t=1\r\n";
    let mut statuses = Vec::new();
    for _ in 0..100 {
        let reply = client.ask("POST", "/v1/check?status=429", claims, &one("user", "ann")).await;
        statuses.push(reply.status);
        if reply.status == 429 {
            assert_eq!(reply.header("retry-after"), Some("40"), "asking does not change the wait");
        }
    }
    assert_eq!((&statuses[..2], statuses[2..].iter().all(|it| *it == 429)), (&[200, 200][..], true));
}

#[tokio::test]
async fn a_response_of_the_rule_comes_before_that_of_its_domain() {
    let rules = "
domain: shop
response: {status: 503, content_type: text/plain, body: 'domain {{domain}}', headers: {X-Of: domain}}
descriptors:
  - key: own
    response: {status: 402, content_type: text/html, body: '<p>rule {{rule}}', headers: {X-Of: rule}}
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: plain
    rate_limit: {unit: minute, requests_per_unit: 1}
";
    let server = Server::start(rules, HttpSettings::default()).await;
    let mut client = server.client().await;
    for (key, status, content_type, of, body) in [
        ("own", 402, "text/html", "rule", "<p>rule own"),
        ("plain", 503, "text/plain", "domain", "domain shop"),
    ] {
        let target = format!("/v1/check?domain=shop&entry={key}=x&status=rule");
        assert_eq!(client.get(&target).await.status, 200);
        let denied = client.get(&target).await;
        assert_eq!((denied.status, denied.text()), (status, body));
        assert_eq!((denied.header("content-type"), denied.header("x-of")), (Some(content_type), Some(of)));
    }
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
        let limiter = Limiter::new(common::policy(rules), store, settings);
        Server::serve(common::api_over(limiter, HttpSettings::default()), common::loopback()).await
    };
    let servers = [start(false).await, start(true).await];
    let (yes, no) = (Some(true), None);
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
async fn a_proxy_gets_a_denial_in_the_status_that_it_asked_for() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for (key, query, status, content_type, body) in [
        ("user", "status=429", 429, "application/problem+json", None),
        ("user", "status=403", 403, "application/problem+json", None),
        ("user", "status=rule", 429, "application/problem+json", None),
        (
            "told",
            "status=403",
            403,
            "application/json",
            Some(r#"{"error": "slow down, shop", "retry_after": 40}"#),
        ),
        (
            "told",
            "status=rule",
            402,
            "application/json",
            Some(r#"{"error": "slow down, shop", "retry_after": 40}"#),
        ),
    ] {
        let target = format!("/v1/check?{query}");
        let value = format!("v-{status}-{query}");
        let first = client.post(&target, &one(key, &value)).await;
        assert_eq!((first.status, &first.json()["outcome"]), (200, &json!("admit")), "{query}");
        client.post(&target, &one(key, &value)).await;
        let get = format!("{target}&domain=shop&entry={key}={value}");
        for reply in [client.post(&target, &one(key, &value)).await, client.get(&get).await] {
            assert_eq!(reply.status, status, "{query}");
            assert_eq!(reply.header("content-type"), Some(content_type));
            assert_eq!(reply.header("retry-after"), Some("40"));
            assert_eq!(reply.header("x-ratelimit-remaining"), Some("0"));
            match body {
                Some(body) => {
                    assert_eq!(reply.text(), body);
                    assert_eq!(reply.header("x-support"), Some("https://example.com/1"));
                }
                None => {
                    let problem = reply.json();
                    assert_eq!(problem["status"], status);
                    assert_eq!(problem["violated-policies"], json!(["per_user"]));
                    assert!(problem["type"].as_str().unwrap().ends_with("#quota-exceeded"));
                }
            }
        }
    }
    let shadowed = client.post("/v1/check?status=429", &one("shadowed", "x")).await;
    assert_eq!(shadowed.status, 200);
    assert_eq!(
        client.post("/v1/check?status=429", &one("shadowed", "x")).await.status,
        200,
        "shadow mode refuses nothing"
    );
}

#[tokio::test]
async fn the_style_is_that_of_the_setting() {
    for (style, want) in [
        ("off", vec![]),
        (
            "draft-11",
            vec![("ratelimit", "\"per_user\";r=1;t=40"), ("ratelimit-policy", "\"per_user\";q=2;w=60")],
        ),
        (
            "legacy",
            vec![("x-ratelimit-limit", "2"), ("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", "40")],
        ),
    ] {
        let server =
            Server::start(RULES, HttpSettings { style: style.parse().unwrap(), ..HttpSettings::default() })
                .await;
        let reply = server.client().await.post("/v1/check", &one("user", "ann")).await;
        let mut told: Vec<_> = reply
            .headers
            .iter()
            .filter(|(name, _)| name.contains("ratelimit"))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        told.sort_unstable();
        assert_eq!(told, want, "{style}");
    }
}

#[tokio::test]
async fn the_suppliers_own_denial_comes_back_byte_for_byte() {
    let rules = std::fs::read_to_string("../../examples/rules/circuit.yaml").expect("the example");
    let server = Server::start(&rules, HttpSettings::default()).await;
    let mut client = server.client().await;
    let body = r#"{"domain":"circuit","descriptors":[[{"key":"app","value":"hotel"}]],"hits":101}"#;
    let reply = client.post("/v1/check?status=rule", body).await;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(
        reply.text(),
        r#"{"result":"FAILURE","errorMessage":{"code":2000,"desc":"请求过于频繁, 请稍后重试"}}"#
    );
}

#[tokio::test]
async fn every_fault_of_a_body_is_reported_with_its_place() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let deep = "[".repeat(10_000);
    let many = format!("[{}]", vec![r#"{"key":"a"}"#; 10_001].join(","));
    let ask = |descriptors: &str| format!(r#"{{"domain":"shop","descriptors":{descriptors}}}"#);
    for (body, want) in [
        (String::new(), "EOF while parsing a value at line 1 column 0"),
        ("{".into(), "EOF while parsing an object at line 1 column 1"),
        ("[]".into(), "invalid type: sequence, expected an object with `domain` and `descriptors`"),
        ("{}".into(), "missing field `domain` at line 1 column 2"),
        (r#"{"domain":"shop"}"#.into(), "missing field `descriptors`"),
        (ask("[]"), "there is no descriptor"),
        (r#"{"domain":"","descriptors":[[]]}"#.into(), "the domain is empty"),
        (
            r#"{"domain":"shop","domain":"x","descriptors":[[]]}"#.into(),
            "duplicate field `domain` at line 1 column 25",
        ),
        (r#"{"domain":"shop","descriptors":[[{"key":"a","key":"b"}]]}"#.into(), "duplicate field `key`"),
        (r#"{"requests":[],"requests":[]}"#.into(), "duplicate field `requests`"),
        (
            r#"{"requests":[],"domain":"shop"}"#.into(),
            "`requests` cannot be combined with members of a single request",
        ),
        (r#"{"requests":[{"requests":[]}]}"#.into(), "unknown field `requests`"),
        (ask("{}"), "expected a list of descriptors"),
        (ask("[1]"), "expected a list of entries"),
        (ask(r#"[{"hits":1}]"#), "missing field `entries`"),
        (ask(r#"[{"entries":[],"entries":[]}]"#), "duplicate field `entries`"),
        (ask(r#"[[{"value":"x"}]]"#), "missing field `key`"),
        (ask(r#"[[{"key":1}]]"#), "invalid type: integer `1`, expected a string"),
        (ask(r#"[[{"key":"a","valeu":"b"}]]"#), "unknown field `valeu`, expected `key` or `value`"),
        (r#"{"domain":"shop","descriptors":[[]],"hit":1}"#.into(), "unknown field `hit`"),
        (
            r#"{"domain":"shop","descriptors":[[]],"hits":-1}"#.into(),
            "integer `-1`, expected a whole number from 0 to 9223372036854775807",
        ),
        (
            r#"{"domain":"shop","descriptors":[[]],"hits":1.5}"#.into(),
            "floating point `1.5`, expected a whole number",
        ),
        (r#"{"domain":"shop","descriptors":[[]],"hits":NaN}"#.into(), "expected value at line 1 column 44"),
        (r#"{"domain":"shop","descriptors":[[]],"hits":1e400}"#.into(), "number out of range"),
        (
            r#"{"domain":"shop","descriptors":[[]],"hits":9223372036854775808}"#.into(),
            "expected a whole number from 0 to 9223372036854775807",
        ),
        (
            r#"{"domain":"shop","descriptors":[[]],"ttl_ms":1}"#.into(),
            "unknown field `ttl_ms`, expected one of `domain`, `descriptors`, `hits`, `requests`",
        ),
        (format!("{} x", one("user", "x")), "trailing characters at line 1"),
        (deep, "invalid type: sequence, expected an object"),
        (
            format!(r#"{{"domain":"shop","descriptors":{}"#, "[".repeat(1_000)),
            "invalid type: sequence, expected",
        ),
        (ask(&format!("[{many}]")), "more than 10000 entries"),
        (ask(&format!("[{}]", vec!["[]"; 1_001].join(","))), "more than 1000 descriptors"),
    ] {
        let reply = client.post("/v1/check", &body).await;
        if body.len() > 64 * 1024 && reply.status == 413 {
            continue; // rejected for its size already
        }
        let detail = reply.problem(400);
        assert!(detail.contains(want), "{detail:?} lacks {want:?}");
    }
    client
        .send(b"POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 14\r\n\r\n{\"domain\":\"\xff\"}")
        .await;
    let detail = client.reply().await.expect("an answer").problem(400);
    assert!(detail.contains("invalid unicode code point"), "{detail}");
}

#[tokio::test]
async fn every_fault_of_a_query_is_reported() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for (query, want) in [
        ("", "the query has no request"),
        ("?", "the query has no request"),
        ("?status=429", "the query has no request"),
        ("?entry=user=ann", "the query has no `domain`"),
        ("?domain=shop", "descriptor 0 of the query has no `entry`"),
        ("?domain=shop&entry=a=b&descriptor", "descriptor 1 of the query has no `entry`"),
        ("?domain=&entry=a=b", "the domain is empty"),
        ("?domain=shop&domain=x&entry=a=b", "duplicate query parameter `domain`"),
        ("?domain=shop&entry=ab", "entry `ab` has no value: expected entry=KEY=VALUE"),
        ("?domain=shop&entry==b", "entry `=b` has no key"),
        (
            "?domain=shop&entry=a=b&hits=-1",
            "invalid hits `-1`: expected a whole number from 0 to 9223372036854775807",
        ),
        ("?domain=shop&entry=a=b&hits=9223372036854775808", "expected a whole number"),
        ("?domain=shop&entry=a=b&status=200", "invalid status `200`: expected 400 to 499"),
        ("?domain=shop&entry=a=b&status=500", "invalid status `500`"),
        ("?domain=shop&entry=a=b&descriptor=3", "`descriptor` takes no value"),
        ("?domain=shop&entri=a=b", "unknown query parameter `entri`; did you mean entry?"),
        ("?domain=shop&entry=a%3", "has a % without two hexadecimal digits"),
        ("?domain=shop&entry=a%zz", "has a % without two hexadecimal digits"),
        ("?domain=shop&entry=a=%ff", "is not UTF-8"),
    ] {
        let detail = client.get(&format!("/v1/check{query}")).await.problem(400);
        assert!(detail.contains(want), "{query}: {detail:?} lacks {want:?}");
    }
    let twice = client.post("/v1/check?domain=shop&entry=a=b", &one("user", "ann")).await.problem(400);
    assert!(twice.contains("the request belongs into the body"), "{twice}");
    let batch = client.post("/v1/check?status=429", r#"{"requests":[]}"#).await.problem(400);
    assert!(batch.contains("a batch has no single status"), "{batch}");
}

#[tokio::test]
async fn content_types_that_are_not_json_are_rejected_and_a_missing_one_is_not() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for (content_type, status) in [
        ("", 200),
        ("content-type: application/json\r\n", 200),
        ("Content-Type: Application/JSON; charset=utf-8\r\n", 200),
        ("content-type: application/problem+json\r\n", 200),
        ("content-type: application/x-www-form-urlencoded\r\n", 200),
        ("content-type: text/plain\r\n", 415),
        ("content-type: text/json+json\r\n", 415),
        ("content-type: \r\n", 415),
    ] {
        let reply = client.ask("POST", "/v1/check", content_type, &one("api_key", "k1")).await;
        assert_eq!(reply.status, status, "{content_type:?}");
        if status == 415 {
            assert!(reply.problem(415).contains("application/json"));
        }
    }
}

#[tokio::test]
async fn a_denial_by_list_has_the_response_of_its_rule_and_no_wait() {
    let rules = "
domain: shop
descriptors:
  - {key: ip, rate: 9/minute}
  - {key: ip, value: 192.0.2.1, action: deny}
  - key: ip
    value: 192.0.2.2
    action: deny
    response: {status: 403, body: 'rule {{rule}}, limit {{limit}}, wait {{retry_after}}'}";
    let server = Server::start(rules, HttpSettings::default()).await;
    let mut client = server.client().await;
    let line = json!({
        "outcome": "deny", "limit": null, "remaining": null, "delay_ms": 0, "retry_after_ms": null,
        "reset_after_ms": 0, "rule": "ip=192.0.2.1", "degraded": null,
    });
    let mut want = line.clone();
    want["descriptors"] = json!([line]);
    let reply = client.post("/v1/check", &one("ip", "192.0.2.1")).await;
    assert_eq!((reply.json(), reply.header("retry-after")), (want, None));
    let both = json!({"domain": "shop", "descriptors": [
        [{"key": "ip", "value": "192.0.2.3"}], [{"key": "ip", "value": "192.0.2.1"}],
    ]});
    let reply = client.post("/v1/check", &both.to_string()).await.json();
    assert_eq!((&reply["rule"], &reply["retry_after_ms"]), (&json!("ip=192.0.2.1"), &Value::Null));
    let reply = client.get("/v1/check?domain=shop&entry=ip=192.0.2.1&status=rule").await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, None));
    let mut body = json!({
        "type": "about:blank", "title": "Too Many Requests", "status": 429, "violated-policies": ["ip=192.0.2.1"],
        "detail": "The rule ip=192.0.2.1 denies this request; waiting does not help.", "retry_after": null,
    });
    assert_eq!(reply.json(), body);
    // A limit beside it, which admits, is not the reason.
    let reply = client.post("/v1/check?status=403", &both.to_string()).await;
    (body["title"], body["status"]) = (json!("Forbidden"), json!(403));
    assert_eq!((reply.json(), reply.header("retry-after")), (body, None));
    let reply = client.get("/v1/check?domain=shop&entry=ip=192.0.2.2&status=rule").await;
    assert_eq!((reply.status, reply.text()), (403, "rule ip=192.0.2.2, limit 0, wait never"));
    let explained = client.get("/v1/explain?domain=shop&entry=ip=192.0.2.2").await.json();
    assert_eq!((&explained["rule"]["denies"], &explained["denied"]["status"]), (&json!(true), &json!(403)));
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
async fn a_denial_because_no_rule_matches_says_so_and_names_no_quota() {
    let rules = "{domain: shop, unmatched: deny, descriptors: [{key: user, rate: 5/s}]}";
    let server = Server::start(rules, HttpSettings::default()).await;
    let reply = server.client().await.get("/v1/check?domain=shop&entry=a=b&status=rule").await;
    let body = json!({
        "type": "about:blank", "title": "Too Many Requests", "status": 429, "violated-policies": [],
        "detail": "No rule admits this request; waiting does not help.", "retry_after": null,
    });
    assert_eq!((reply.status, reply.json(), reply.header("retry-after")), (429, body, None));
    let templates = "
domain: shop
unmatched: deny
response: {status: 403, content_type: text/plain, body: '{{detail}}|{{rule}}|{{policy}}|{{retry_after}}'}
descriptors: [{key: user, rate: 5/s}]";
    let server = Server::start(templates, HttpSettings::default()).await;
    let reply = server.client().await.get("/v1/check?domain=shop&entry=a=b&status=rule").await;
    let text = "No rule admits this request; waiting does not help.|||never";
    assert_eq!((reply.status, reply.text()), (403, text));
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

#[tokio::test]
async fn without_any_rule_nothing_is_decided_whatever_is_asked() {
    let api = common::api_of(tollgate_policy::Policy::empty(), HttpSettings::default());
    let server = Server::serve(api, common::loopback()).await;
    let mut client = server.client().await;
    let one = r#"{"domain":"shop","descriptors":[[{"key":"user","value":"ann"}]]}"#;
    let batch = format!(r#"{{"requests":[{one}]}}"#);
    for (path, body) in
        [("/v1/check", one), ("/v1/check?status=429", one), ("/v1/check", &batch), ("/v1/reserve", one)]
    {
        let reply = client.post(path, body).await;
        assert_eq!(reply.status, 503, "{path} {body}");
        assert_eq!(reply.json()["detail"], "no rules are loaded; nothing was counted", "{path} {body}");
    }
    assert_eq!(client.get("/v1/check?domain=shop&entry=user=ann").await.status, 503);
}
