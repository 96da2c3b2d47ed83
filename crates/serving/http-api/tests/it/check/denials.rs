//! The replies to denied clients: status, fields and body.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_http_api::HttpSettings;

use crate::common::{RULES, Server, one};

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

/// Limits shown to a client are advice; they are enforced whatever the client does or sends.
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

/// The rule of the README's first page: both limits are charged, so both are shown.
#[tokio::test]
async fn a_rule_with_several_limits_shows_all_of_them_in_every_reply() {
    let rules = "domain: shop
charge: together
descriptors:
  - key: user
    limits:
      - {name: short, unit: minute, requests_per_unit: 2}
      - {name: daily, unit: day, requests_per_unit: 20}
";
    for (style, names, states) in [
        (
            "draft-11",
            ["ratelimit-policy", "ratelimit"],
            [
                ["\"short\";q=2;w=60, \"daily\";q=20;w=86400", "\"short\";r=1;t=40, \"daily\";r=19;t=6400"],
                ["\"short\";q=2;w=60, \"daily\";q=20;w=86400", "\"short\";r=0;t=40, \"daily\";r=18;t=6400"],
                ["\"short\";q=2;w=60, \"daily\";q=20;w=86400", "\"short\";r=0;t=40, \"daily\";r=18;t=6400"],
            ],
        ),
        (
            "draft-07",
            ["ratelimit-policy", "ratelimit"],
            [
                ["2;w=60, 20;w=86400", "limit=2, remaining=1, reset=40"],
                ["2;w=60, 20;w=86400", "limit=2, remaining=0, reset=40"],
                ["2;w=60, 20;w=86400", "limit=2, remaining=0, reset=40"],
            ],
        ),
        (
            "draft-03",
            ["ratelimit-limit", "ratelimit-remaining"],
            [["2, 2;w=60, 20;w=86400", "1"], ["2, 2;w=60, 20;w=86400", "0"], ["2, 2;w=60, 20;w=86400", "0"]],
        ),
    ] {
        let settings = HttpSettings { style: style.parse().unwrap(), ..HttpSettings::default() };
        let server = Server::start(rules, settings).await;
        let mut client = server.client().await;
        for (request, want) in states.into_iter().enumerate() {
            let reply = match request {
                0 => client.post("/v1/check", &one("user", "ann")).await,
                1 => {
                    let body = one("user", "ann").replacen('{', "{\"ttl_ms\":60000,", 1);
                    client.post("/v1/reserve", &body).await
                }
                _ => client.get("/v1/check?domain=shop&entry=user=ann&status=403").await,
            };
            assert_eq!(names.map(|name| reply.header(name)), want.map(Some), "{style}: {reply:?}");
            assert_eq!(reply.header("retry-after"), (request == 2).then_some("40"), "{style}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn the_suppliers_own_denial_comes_back_byte_for_byte() {
    let rules = std::fs::read_to_string("../../../examples/rules/circuit.yaml").expect("the example");
    let server = Server::start(&rules, HttpSettings::default()).await;
    let mut client = server.client().await;
    let body = r#"{"domain":"circuit","descriptors":[[{"key":"app","value":"hotel"}]],"hits":101}"#;
    let reply = client.post("/v1/check?status=rule", body).await;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(
        reply.text(),
        r#"{
    "result": "FAILURE",
    "errorMessage": {
        "code": 2000,
        "desc": "请求过于频繁, 请稍后重试"
    }
}"#
    );
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
    // The other limit admits, so it is not the reason.
    let reply = client.post("/v1/check?status=403", &both.to_string()).await;
    (body["title"], body["status"]) = (json!("Forbidden"), json!(403));
    assert_eq!((reply.json(), reply.header("retry-after")), (body, None));
    let reply = client.get("/v1/check?domain=shop&entry=ip=192.0.2.2&status=rule").await;
    assert_eq!((reply.status, reply.text()), (403, "rule ip=192.0.2.2, limit 0, wait never"));
    let explained = client.get("/v1/explain?domain=shop&entry=ip=192.0.2.2").await.json();
    assert_eq!((&explained["rule"]["denies"], &explained["denied"]["status"]), (&json!(true), &json!(403)));
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
