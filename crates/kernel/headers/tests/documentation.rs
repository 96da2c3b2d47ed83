//! The example rule file's body goes out byte for byte, and placeholders are filled in.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use std::path::Path;
use std::time::Duration;

use tollgate_headers::{
    Content, LimitState, PROBLEM_JSON, RetryAfter, Values, detail, fill, fill_header, problem,
    problem_without_limit,
};
use tollgate_rule_files::{Options, load};

/// Two limits, of which one admits, denies, or denies for good.
fn limits(case: &str) -> [LimitState<'static>; 2] {
    let reset_after = Duration::from_millis(41_200);
    let (remaining, retry_after) = match case {
        "admitted" => (3, RetryAfter::Now),
        "denied" => (0, RetryAfter::After(reset_after)),
        "never" => (3, RetryAfter::Never),
        other => panic!("what is {other}?"),
    };
    let short = LimitState {
        name: "short",
        limit: 10,
        burst: 10,
        window: Duration::from_secs(60),
        remaining,
        reset_after,
        retry_after,
        is_unknown: false,
    };
    let daily = LimitState {
        name: "daily",
        limit: 1_000,
        burst: 1_000,
        window: Duration::from_secs(86_400),
        remaining: 862,
        reset_after: Duration::from_secs(28_800),
        retry_after: RetryAfter::Now,
        is_unknown: false,
    };
    [short, daily]
}

#[test]
fn the_body_of_the_example_rule_file_goes_out_byte_for_byte() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/rules/circuit.yaml");
    let policy = load(&[file], &Options::default()).expect("it loads").policy;
    let response = policy.domain("circuit").and_then(|domain| domain.response()).expect("a response");
    let content_type = response.content_type.as_deref().expect("a content type");
    assert_eq!((response.status, Content::of(content_type)), (Some(429), Content::Json));
    let values = Values { domain: "circuit", rule: "app", limit: Some(limits("denied")[0]) };
    let body = fill(response.body.as_ref().expect("a body"), Content::Json, &values);
    assert_eq!(
        body,
        r#"{
    "result": "FAILURE",
    "errorMessage": {
        "code": 2000,
        "desc": "请求过于频繁, 请稍后重试"
    }
}"#
    );
    assert_eq!(PROBLEM_JSON, "application/problem+json");
}

const ALL: &str = "{{retry_after}} {{retry_after_ms}} {{limit}} {{remaining}} {{reset_after}} {{reset_after_ms}} {{window}} \
                   {{policy}} {{rule}} {{domain}} {{detail}}";

#[test]
fn every_placeholder_is_filled_in() {
    let template = ALL.parse().expect("a template");
    for (case, want) in [
        (
            "denied",
            "42 41200 10 0 42 41200 60 short user → id shop The limit short (10 per minute) is used up; try again in 42 seconds.",
        ),
        (
            "never",
            "never never 10 3 42 41200 60 short user → id shop The request asks for more than the limit short (10 per \
             minute) can ever give; waiting does not help.",
        ),
    ] {
        let values = Values { domain: "shop", rule: "user → id", limit: Some(limits(case)[0]) };
        assert_eq!(fill(&template, Content::Plain, &values), want);
    }
    for (rule, detail) in [
        ("", "No rule admits this request; waiting does not help."),
        ("user → id", "The rule user → id denies this request; waiting does not help."),
    ] {
        let want = format!("never never 0 0 999999999 999999999000 0  {rule} shop {detail}");
        let values = Values { domain: "shop", rule, limit: None };
        assert_eq!(fill(&template, Content::Plain, &values), want);
        let told: serde_json::Value = serde_json::from_str(&problem_without_limit(rule, 403)).expect("JSON");
        assert_eq!((told["title"].as_str(), told["detail"].as_str()), (Some("Forbidden"), Some(detail)));
    }
    let mut total = limits("never")[0];
    (total.window, total.remaining) = (Duration::ZERO, 0);
    assert_eq!(
        detail(&total),
        "The limit short (10) has 0 left and is never refilled; waiting does not help."
    );
}

#[test]
fn no_value_breaks_out_of_its_place() {
    let mut limit = limits("never")[0];
    limit.name = "\"},{<b>&'\\\r\n\u{0}\u{7f}";
    let values = Values { domain: "d\"\r\nSet-Cookie: x", rule: limit.name, limit: Some(limit) };
    let json =
        r#"{"policy": "{{policy}}", "wait": {{retry_after}}, "detail": "{{detail}}"}"#.parse().expect("ok");
    let filled: serde_json::Value = serde_json::from_str(&fill(&json, Content::Json, &values)).expect("JSON");
    assert_eq!(filled["policy"], limit.name);
    assert!(filled["wait"].is_null());

    let html = "<p title='{{policy}}'>{{rule}}</p>".parse().expect("ok");
    let filled = fill(&html, Content::Markup, &values);
    assert_eq!(filled.matches(['<', '>', '\'']).count(), 6, "{filled}");

    let field = fill_header(&"a {{domain}} 请".parse().expect("ok"), &values);
    assert_eq!(field.as_bytes(), "a d\"Set-Cookie: x 请".as_bytes());

    let told: serde_json::Value = serde_json::from_str(&problem(&[limit], 429)).expect("JSON");
    assert_eq!(told["violated-policies"][0], limit.name);
}
