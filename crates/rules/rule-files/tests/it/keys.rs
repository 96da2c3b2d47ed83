//! Counter keys: which requests share a counter, and that no others do.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use std::sync::LazyLock;

use proptest::prelude::*;
use tollgate_policy::{Entry, KeyParts, Override, Policy, Rule, Unit};
use tollgate_rule_files::parse_text;

fn policy(text: &str) -> Policy {
    parse_text("rules.yaml", text).unwrap_or_else(|faults| panic!("{faults}"))
}

fn key(rule: &Rule, limit: usize, domain: &str, entries: &[Entry<'_>]) -> String {
    let mut key = Vec::new();
    rule.write_key(limit, domain, entries, &mut key);
    String::from_utf8(key).expect("keys are text")
}

/// The key of the first limit that a request falls under.
fn key_of(policy: &Policy, entries: &[Entry<'_>]) -> String {
    let domain = &policy.domains()[0];
    key(domain.find(entries).expect("a rule"), 0, domain.name(), entries)
}

fn entry<'a>(key: &'a str, value: &'a str) -> Entry<'a> {
    Entry::new(key, value)
}

const RULES: &str = r#"
domain: d
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: file, value: img/*, share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: file, value: "*", rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: id, value_regex: "img/.*", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 4}}
  - {key: net, value_cidr: 10.0.0.0/8, share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: net, value_cidr: 11.0.0.0/8, rate_limit: {unit: minute, requests_per_unit: 6}}
  - {key: ip, ipv6_prefix: 64, rate_limit: {unit: minute, requests_per_unit: 7}}
  - {key: wk*, share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 8}}
  - key: parent
    value: p/*
    share_threshold: true
    descriptors:
      - {key: child, value: c/*, rate_limit: {unit: minute, requests_per_unit: 9}}
"#;

#[test]
fn keys_are_readable_text() {
    let policy = policy(RULES);
    for (entries, want) in [
        (vec![entry("user", "ann")], "d|user=ann|minute"),
        (vec![entry("user", "")], "d|user=|minute"),
        (vec![entry("user", "a=b|c%{d}\n~é")], "d|user=a=b%7Cc%25%7Bd%7D%0A~é|minute"),
        (vec![entry("file", "img/1")], "d|file~img/*|minute"),
        (vec![entry("file", "img/2")], "d|file~img/*|minute"),
        (vec![entry("file", "txt/1")], "d|file=txt/1|minute"),
        (vec![entry("id", "img/1")], "d|id^img/.*|minute"),
        (vec![entry("net", "10.1.2.3")], "d|net@10.0.0.0/8|minute"),
        (vec![entry("net", "11.1.2.3")], "d|net@11.1.2.3|minute"),
        (vec![entry("net", "::ffff:11.1.2.3")], "d|net@11.1.2.3|minute"),
        (vec![entry("ip", "2001:db8::1")], "d|ip@2001:db8::/64|minute"),
        (vec![entry("ip", "2001:DB8:0:0:ffff::2")], "d|ip@2001:db8::/64|minute"),
        (vec![entry("ip", "192.0.2.1")], "d|ip@192.0.2.1|minute"),
        (vec![entry("ip", "2001:db8::/64")], "d|ip=2001:db8::/64|minute"),
        (vec![entry("wkfoo", "1")], "d|wkfoo*wk*|minute"),
        (vec![entry("parent", "p/1"), entry("child", "c/1")], "d|parent~p/*|child=c/1|minute"),
    ] {
        assert_eq!(key_of(&policy, &entries), want);
    }
}

#[test]
fn limits_that_count_differently_have_different_last_parts_of_keys() {
    let tails = [
        ("{unit: minute, requests_per_unit: 1}", "minute"),
        ("{unit: MINUTE, requests_per_unit: 99}", "minute"),
        ("{period: 60s, requests_per_unit: 1}", "minute"),
        ("{unit: hour, requests_per_unit: 1}", "hour"),
        ("{unit: second, unit_multiplier: 10, requests_per_unit: 1}", "10s"),
        ("{period: 10s, requests_per_unit: 1}", "10s"),
        ("{period: 1500ms, requests_per_unit: 1}", "1500ms"),
        ("{unit: day, requests_per_unit: 1, time_zone: asia/shanghai}", "day:Asia/Shanghai"),
        ("{unit: day, requests_per_unit: 1, align: first_hit}", "first_hit:day"),
        ("{unit: minute, requests_per_unit: 1, algorithm: sliding_window}", "sliding_window:minute/10"),
        (
            "{unit: minute, requests_per_unit: 1, algorithm: sliding_window, cells: 6}",
            "sliding_window:minute/6",
        ),
        (
            "{unit: minute, requests_per_unit: 1, algorithm: sliding_window, cells: 6, leaving_cell: drop}",
            "sliding_window:minute/6:drop",
        ),
        (
            "{unit: minute, requests_per_unit: 1, algorithm: sliding_window_counter}",
            "sliding_window_counter:minute",
        ),
        ("{unit: minute, requests_per_unit: 1, algorithm: sliding_window_log}", "sliding_window_log:minute"),
        ("{unit: minute, requests_per_unit: 1, algorithm: token_bucket}", "token_bucket"),
        ("{unit: hour, requests_per_unit: 7, algorithm: token_bucket, burst: 9}", "token_bucket"),
        ("{unit: minute, requests_per_unit: 0, algorithm: token_bucket, burst: 9}", "token_bucket:0"),
        (
            "{unit: minute, requests_per_unit: 1, algorithm: token_bucket, refill: interval}",
            "token_bucket:interval",
        ),
        ("{unit: minute, requests_per_unit: 1, algorithm: leaky_bucket}", "leaky_bucket"),
        ("{unit: minute, requests_per_unit: 1, algorithm: leaky_bucket, form: queue}", "leaky_bucket:queue"),
        ("{algorithm: total, limit: 5}", "total"),
    ];
    for (limit, want) in tails {
        let policy = policy(&format!("domain: d\ndescriptors:\n  - {{key: k, rate_limit: {limit}}}\n"));
        assert_eq!(key_of(&policy, &[entry("k", "v")]), format!("d|k=v|{want}"), "{limit}");
    }
}

#[test]
fn several_limits_of_one_descriptor_count_under_their_names() {
    let policy = policy(
        "
domain: d
descriptors:
  - key: k
    limits:
      - {name: short, unit: minute, requests_per_unit: 1}
      - {name: 'a|b', unit: minute, requests_per_unit: 1}
",
    );
    let entries = [entry("k", "v")];
    let rule = policy.domains()[0].find(&entries).expect("found");
    assert_eq!(key(rule, 0, "d", &entries), "d|k=v|minute#short");
    assert_eq!(key(rule, 1, "d", &entries), "d|k=v|minute#a%7Cb");
    assert_eq!(key(rule, 2, "d", &entries), "", "there is no third");
}

#[test]
fn an_override_counts_with_the_configured_window_of_its_unit() {
    let policy = policy(RULES);
    let domain = &policy.domains()[0];
    let limit = Override::new(50, Unit::Minute).expect("a quota");
    let over = |entries: &[Entry<'_>]| {
        let mut key = Vec::new();
        limit.write_key(domain.find(entries), "d", entries, &mut key);
        String::from_utf8(key).expect("text")
    };
    let ann = [entry("user", "ann")];
    assert_eq!(over(&ann), key_of(&policy, &ann));
    assert_eq!(over(&[entry("ip", "2001:db8::1")]), "d|ip@2001:db8::/64|minute");
    assert_eq!(
        over(&[entry("file", "img/1")]),
        "d|file=img/1|minute",
        "an override does not share a threshold"
    );
    assert_eq!(over(&[entry("nowhere", "x"), entry("deep", "y")]), "d|nowhere=x|deep=y|minute");
    assert_eq!(over(&[]), "d|minute");
    let daily = Override::new(0, Unit::Day).expect("a quota");
    let mut key = Vec::new();
    daily.write_key(None, "d", &ann, &mut key);
    assert_eq!(key, b"d|user=ann|day");
}

#[test]
fn statistics_paths_have_the_form_of_envoyproxy_ratelimit() {
    let policy = policy(
        r#"
domain: d
descriptors:
  - key: a
    value: b.c:d
    descriptors:
      - {key: ip, value: 10.0.0.1, rate_limit: {unit: hour, requests_per_unit: 1}}
      - {key: all, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - key: route
    value: api/*
    share_threshold: true
    value_to_metric: true
    descriptors:
      - {key: method, rate_limit: {unit: hour, requests_per_unit: 3}}
  - key: r2
    value: api/*
    value_to_metric: true
    descriptors:
      - {key: method, rate_limit: {unit: hour, requests_per_unit: 4}}
"#,
    );
    for (entries, want, varies) in [
        (vec![entry("a", "b.c:d"), entry("ip", "10.0.0.1")], "a_b.c_d.ip_10_0_0_1", false),
        (vec![entry("a", "b.c:d"), entry("all", "x|1.2.3.4")], "a_b.c_d.all_x_1_2_3_4", true),
        (vec![entry("route", "api/1"), entry("method", "GET")], "route_api/*.method", false),
        (vec![entry("r2", "api/1"), entry("method", "GET")], "r2_api/1.method", true),
    ] {
        let rule = policy.domains()[0].find(&entries).expect("found");
        let mut stat = String::new();
        rule.write_stat(&entries, &mut stat);
        assert_eq!((stat.as_str(), rule.stat_varies()), (want, varies));
    }
}

/// Bytes, also broken ones, made of characters that have a meaning in keys.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let odd =
        prop::sample::select(vec![&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"\xe9", "\u{fffd}".as_bytes()]);
    let piece = prop_oneof![3 => text().prop_map(String::into_bytes), 1 => odd.prop_map(<[u8]>::to_vec)];
    prop::collection::vec(piece, 0..3).prop_map(|pieces| pieces.concat())
}

/// Text made of characters that have a meaning in keys.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("|"),
        Just("%"),
        Just("="),
        Just("~"),
        Just("*"),
        Just("^"),
        Just("@"),
        Just("#"),
        Just("%7C"),
        Just("_"),
        Just("a"),
        Just("b"),
        Just("minute"),
        Just("\n"),
        Just("{"),
        Just("é"),
        Just("img/"),
        Just("10.0.0.1"),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

/// Domain, entries, and the number of a unit.
type Asked = (String, Vec<(Vec<u8>, Vec<u8>)>, u8);

fn request() -> impl Strategy<Value = Asked> {
    (text(), prop::collection::vec((bytes(), bytes()), 0..4), 0..7_u8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn two_requests_share_a_key_only_when_domain_entries_and_unit_are_equal(a in request(), b in request()) {
        let key = |(domain, entries, unit): &Asked| {
            let entries: Vec<_> = entries.iter().map(|(key, value)| Entry::new(key, value)).collect();
            let limit = Override::new(1, Unit::ALL[usize::from(*unit)]).expect("a quota");
            let mut key = Vec::new();
            limit.write_key(None, domain, &entries, &mut key);
            key
        };
        prop_assert_eq!(key(&a) == key(&b), a == b);
        let parts = KeyParts::read(&key(&a)).expect("a key");
        prop_assert_eq!((parts.domain, parts.entries), (a.0, Some(a.1)));
    }

    #[test]
    fn rules_of_one_file_share_a_key_only_where_they_count_as_one(
        a in (0..9_usize, bytes()), b in (0..9_usize, bytes()),
    ) {
        static POLICY: LazyLock<Policy> = LazyLock::new(|| policy(RULES));
        let domain = &POLICY.domains()[0];
        let keys = ["user", "file", "id", "net", "ip", "wkfoo", "wk*", "file*img/", "x"];
        let find = |(key, value): &(usize, Vec<u8>)| {
            let entries = [Entry::new(keys[*key], value)];
            let mut bytes = Vec::new();
            let rule = domain.find(&entries)?;
            rule.write_key(0, "d", &entries, &mut bytes);
            Some((rule.index, bytes))
        };
        if let (Some((rule_a, key_a)), Some((rule_b, key_b))) = (find(&a), find(&b)) && key_a == key_b {
            prop_assert_eq!(rule_a, rule_b);
            prop_assert_eq!(a.0, b.0);
            let groups = [2, 4, 5, 8].contains(&domain.rules()[rule_a].limits[0].requests_per_unit);
            prop_assert!(a == b || groups, "{}", key_a.escape_ascii());
        }
    }
}

#[test]
fn three_buckets_a_user_one_an_address_and_one_for_all() {
    let policy = policy(
        "
domain: app
descriptors:
  - key: action
    value: post
    descriptors:
      - {key: user, rate_limit: {unit: second, requests_per_unit: 1, algorithm: token_bucket}}
  - key: action
    value: friend
    descriptors:
      - {key: user, rate_limit: {unit: day, requests_per_unit: 150, algorithm: token_bucket}}
  - key: action
    value: like
    descriptors:
      - {key: user, rate_limit: {unit: second, requests_per_unit: 5, algorithm: token_bucket}}
  - {key: remote_address, rate_limit: {unit: second, requests_per_unit: 10, algorithm: token_bucket}}
  - key: generic_key
    value: all
    rate_limit: {unit: second, requests_per_unit: 10000, algorithm: token_bucket}
",
    );
    let mut keys = Vec::new();
    for user in ["ann", "bob"] {
        for action in ["post", "friend", "like"] {
            keys.push(key_of(&policy, &[entry("action", action), entry("user", user)]));
        }
        keys.push(key_of(
            &policy,
            &[entry("remote_address", if user == "ann" { "192.0.2.1" } else { "192.0.2.2" })],
        ));
    }
    keys.push(key_of(&policy, &[entry("generic_key", "all")]));
    assert_eq!(keys[0], "app|action=post|user=ann|token_bucket");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 2 * 4 + 1);
}

/// Limits of one bucket share a counter: that of the domain and the name, and of the values that their rules
/// leave open.
#[test]
fn limits_of_one_bucket_share_a_counter_by_the_values_that_their_rules_leave_open() {
    let limit = |more: &str| format!("rate_limit: {{rate: 10/s, algorithm: token_bucket, {more}}}");
    let in_bucket = limit("bucket: backend");
    let both =
        "limits: [{name: own, rate: 5/s}, {name: all, rate: 10/s, algorithm: token_bucket, bucket: backend}]";
    for (descriptors, asked, want) in [
        // Exact values name classes.
        (
            format!(
                "- {{key: call, value: a, {in_bucket}}}\n  - {{key: call, value: b, {}}}",
                limit("bucket: backend, cost: 3")
            ),
            &["call=a", "call=b"][..],
            &["d|token_bucket$backend"; 2][..],
        ),
        // So does a pattern that shares a counter.
        (
            format!(
                "- {{key: call, value: a*, share_threshold: true, {in_bucket}}}\n  - {{key: job, value: x, {in_bucket}}}"
            ),
            &["call=ab", "call=ac", "job=x"],
            &["d|token_bucket$backend"; 3],
        ),
        // A value that the rule leaves open separates counters, wherever it is.
        (
            format!(
                "- {{key: call, value: a, descriptors: [{{key: user, {in_bucket}}}]}}\n  - {{key: user, descriptors: [{{key: call, value: b, {in_bucket}}}]}}"
            ),
            &["call=a user=ann", "user=ann call=b", "user=bob call=b"],
            &[
                "d|user=ann|token_bucket$backend",
                "d|user=ann|token_bucket$backend",
                "d|user=bob|token_bucket$backend",
            ],
        ),
        (
            format!("- {{key: call, value: a*, {in_bucket}}}\n  - {{key: call, {in_bucket}}}"),
            &["call=ab", "call=b"],
            &["d|call=ab|token_bucket$backend", "d|call=b|token_bucket$backend"],
        ),
        (
            format!("- {{key: ip, value_cidr: 10.0.0.0/8, {in_bucket}}}"),
            &["ip=10.0.0.1", "ip=::ffff:10.0.0.1"],
            &["d|ip@10.0.0.1|token_bucket$backend"; 2],
        ),
        // Limits in shadow share another.
        (
            format!(
                "- {{key: call, value: a, {in_bucket}}}\n  - {{key: call, value: b, shadow_mode: true, {in_bucket}}}"
            ),
            &["call=a", "call=b"],
            &["d|token_bucket$backend", "d|token_bucket!backend"],
        ),
        // No name runs into another part of the key.
        (
            format!("- {{key: call, value: a, {}}}", limit("bucket: 'a|b{c}$d#e'")),
            &["call=a"],
            &["d|token_bucket$a%7Cb%7Bc%7D$d#e"],
        ),
    ] {
        let rules = format!("domain: d\ndescriptors:\n  {descriptors}");
        let policy = parse_text("d.yaml", &*rules).unwrap_or_else(|faults| panic!("{faults}\n{rules}"));
        let domain = policy.domain("d").expect("it is there");
        for (asked, want) in asked.iter().zip(want) {
            let entries: Vec<Entry<'_>> = asked
                .split_whitespace()
                .filter_map(|entry| entry.split_once('='))
                .map(|(key, value)| Entry::new(key, value))
                .collect();
            let rule = domain.find(&entries).expect("a rule");
            assert_eq!(key(rule, 0, "d", &entries), *want, "{asked} by\n{rules}");
        }
    }
    // A limit beside it keeps a counter of its own.
    let rules = format!("domain: d\ndescriptors:\n  - {{key: call, value: a, {both}}}");
    let policy = parse_text("d.yaml", &*rules).unwrap_or_else(|faults| panic!("{faults}"));
    let entries = [Entry::new("call", "a")];
    let rule = policy.domain("d").and_then(|domain| domain.find(&entries)).expect("a rule");
    assert_eq!(key(rule, 0, "d", &entries), "d|call=a|second#own");
    assert_eq!(key(rule, 1, "d", &entries), "d|token_bucket$backend");
}
