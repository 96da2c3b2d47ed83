//! Requests that cannot be decided: every error is reported with its place.

use tollgate_http_api::HttpSettings;

use crate::common::{Server, one};

#[tokio::test]
async fn every_fault_of_a_body_is_reported_with_its_place() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let deep = "[".repeat(10_000);
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
            "integer `-1`, expected a whole number from 0",
        ),
        (
            r#"{"domain":"shop","descriptors":[[]],"hits":1.5}"#.into(),
            "floating point `1.5`, expected a whole number",
        ),
        (r#"{"domain":"shop","descriptors":[[]],"hits":NaN}"#.into(), "expected value at line 1 column 44"),
        (r#"{"domain":"shop","descriptors":[[]],"hits":1e400}"#.into(), "number out of range"),
        (
            r#"{"domain":"shop","descriptors":[[]],"ttl_ms":1}"#.into(),
            "unknown field `ttl_ms`, expected one of `domain`, `descriptors`, `hits`, `consumed`, `max_wait_ms`, `requests`",
        ),
        (
            r#"{"requests":[{"domain":"shop","descriptors":[[]],"max_wait_ms":1}]}"#.into(),
            "unknown field `max_wait_ms`, expected one of `domain`, `descriptors`, `hits`, `consumed`",
        ),
        (r#"{"requests":[],"max_wait_ms":1}"#.into(), "cannot be combined"),
        (format!("{} x", one("user", "x")), "trailing characters at line 1"),
        (deep, "invalid type: sequence, expected an object"),
        (
            format!(r#"{{"domain":"shop","descriptors":{}"#, "[".repeat(1_000)),
            "invalid type: sequence, expected",
        ),
        (r#"{"domain":"shop","descriptors":[[]],"hits":"9"}"#.into(), "expected a whole number from 0"),
    ] {
        let reply = client.post("/v1/check", &body).await;
        let detail = reply.problem(400);
        assert!(detail.contains(want), "{detail:?} lacks {want:?}");
    }
    client
        .send(b"POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\n\r\n{\"dom\xffin\":\"\"}")
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
        ("?domain=shop&entry=a=b&hits=-1", "invalid hits `-1`: expected a whole number from 0"),
        ("?domain=shop&entry=a=b&hits=", "expected a whole number"),
        ("?domain=shop&entry=a=b&status=200", "invalid status `200`: expected 400 to 499"),
        ("?domain=shop&entry=a=b&status=500", "invalid status `500`"),
        ("?domain=shop&entry=a=b&descriptor=3", "`descriptor` takes no value"),
        ("?domain=shop&entri=a=b", "unknown query parameter `entri`; did you mean entry?"),
        ("?domain=shop&entry=a%3", "has a % without two hexadecimal digits"),
        ("?domain=shop&entry=a%zz", "has a % without two hexadecimal digits"),
        ("?domain=shop&ent%ff=a=b", "is not UTF-8"),
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
async fn without_any_rule_nothing_is_decided_whatever_is_asked() {
    let api = crate::common::api_of(tollgate_policy::Policy::empty(), HttpSettings::default());
    let server = Server::serve(api, crate::common::loopback()).await;
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
