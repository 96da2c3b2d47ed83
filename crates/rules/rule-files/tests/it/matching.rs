//! Which rule a descriptor finds, level by level.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use tollgate_policy::{Domain, Entry, Matched, Policy, Unmatched};
use tollgate_rule_files::{Options, RuleFile, parse, parse_text};

fn policy(text: &str) -> Policy {
    parse_text("rules.yaml", text).unwrap_or_else(|faults| panic!("{faults}"))
}

/// Entries from `key=value key=value`.
fn entries(text: &str) -> Vec<Entry<'_>> {
    let pairs = text.split_ascii_whitespace().map(|pair| pair.split_once('=').expect("key=value"));
    pairs.map(|(key, value)| Entry::new(key, value)).collect()
}

/// The limit of the rule that is found; 0 if there is no such rule.
fn found(domain: &Domain, text: &str) -> u64 {
    domain.find(&entries(text)).map_or(0, |rule| rule.limits[0].requests_per_unit)
}

fn check(text: &str, rows: &[(&str, u64)]) {
    let policy = policy(text);
    for (request, want) in rows {
        assert_eq!(found(&policy.domains()[0], request), *want, "{request}");
    }
}

#[test]
fn a_value_that_is_not_utf8_matches_patterns_with_the_replacement_character_and_no_network() {
    let policy = policy(
        "
domain: d
descriptors:
  - {key: a, value: \"x\\uFFFDy\", rate: 1/h}
  - {key: a, value: api/*, rate: 2/h}
  - {key: a, value_regex: '.', rate: 3/h}
  - {key: a, value_regex: '^$', rate: 4/h}
  - {key: a, value_cidr: 0.0.0.0/0, rate: 5/h}
  - {key: a, rate: 6/h}
  - {key: wk*z, rate: 7/h}
",
    );
    for (key, value, want) in [
        (&b"a"[..], &b"x\xffy"[..], 6), // an exact value is compared byte by byte
        (b"a", "x\u{fffd}y".as_bytes(), 1),
        (b"a", b"api/\xff", 2),
        (b"a", b"api/\xc3", 2),
        (b"a", b"\xffapi/", 6),
        (b"a", b"\xff", 3),
        (b"a", b"\xf0\x9f\x98", 3), // one cut character is one sequence
        (b"a", b"\xff\xff", 6),
        (b"a", b"", 4),
        (b"a", b"10.0.0.1", 5),
        (b"a", b"10.0.0.1\xff", 6),
        (b"wk\xff", b"\xe9z", 7),
        (b"wk", b"\xe9z\xe9", 0),
        (b"a\xff", b"x", 0),
    ] {
        let found = policy.domains()[0].find(&[Entry::new(key, value)]);
        let found = found.map_or(0, |rule| rule.limits[0].requests_per_unit);
        assert_eq!(found, want, "{}={}", key.escape_ascii(), value.escape_ascii());
    }
}

#[test]
fn a_rule_applies_only_if_it_matches_the_whole_descriptor() {
    let text = "
domain: d
descriptors:
  - {key: a, value: x}
  - key: a
    descriptors:
      - {key: b, rate_limit: {unit: hour, requests_per_unit: 7}}
  - key: p
    value: 1
    rate_limit: {unit: hour, requests_per_unit: 11}
    descriptors:
      - key: q
        rate_limit: {unit: hour, requests_per_unit: 12}
";
    check(
        text,
        &[
            ("a=y b=1", 7),
            ("a=y", 0),     // not a leaf
            ("a=x b=1", 0), // its own node hides the node without a value: matching never backtracks
            ("p=1", 11),
            ("p=1 q=2", 12),
            ("p=1 q=2 r=3", 0), // deeper than the file
            ("p=2", 0),
            ("q=2", 0),
            ("b=1 a=y", 0), // order matters
            ("", 0),
        ],
    );
}

#[test]
fn exact_comes_before_network_before_patterns_in_file_order_before_default() {
    let text = r#"
domain: d
descriptors:
  - {key: ip, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: ip, value: "10.1.*", rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: ip, value_regex: "10\\.[0-9.]+|un.*", rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: ip, value: "un*", rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: ip, value_cidr: 10.1.0.0/16, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: ip, value_cidr: 10.1.2.0/24, rate_limit: {unit: hour, requests_per_unit: 6}}
  - {key: ip, value: 10.1.2.3, rate_limit: {unit: hour, requests_per_unit: 7}}
  - {key: ip, value_cidr: "2001:db8::/32", rate_limit: {unit: hour, requests_per_unit: 8}}
  - {key: ip, value_cidr: "::/0", rate_limit: {unit: hour, requests_per_unit: 9}}
"#;
    check(
        text,
        &[
            ("ip=10.1.2.3", 7),
            ("ip=10.1.2.4", 6),
            ("ip=10.1.3.4", 5),
            ("ip=10.1.x", 2),
            ("ip=10.2.3.4", 3),
            ("ip=unknown", 3), // the expression comes before un*
            ("ip=192.0.2.1", 1),
            ("ip=", 1),
            ("ip=2001:db8::1", 8),
            ("ip=2001:DB8:0:0::1", 8),
            ("ip=2001:db9::1", 9),
            ("ip=::ffff:10.1.2.9", 6), // IPv4 mapped into IPv6 is IPv4
            ("ip=::ffff:192.0.2.1", 1),
            ("ip=10.1.2.4x", 2),
            ("other=1", 0),
        ],
    );
}

#[test]
fn wildcard_pieces_match_in_order_and_do_not_overlap() {
    let text = r#"
domain: d
descriptors:
  - {key: seg, value: a*b*a, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: host, value: "*.example.com", rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: any, value: "*", rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: any, rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: two, value: "a**b", rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: w, value: ab*, rate_limit: {unit: hour, requests_per_unit: 6}}
  - {key: w, value: a*, rate_limit: {unit: hour, requests_per_unit: 7}}
  - {key: mid, value: "*aba*ab*", rate_limit: {unit: hour, requests_per_unit: 8}}
"#;
    check(
        text,
        &[
            ("seg=aba", 1),
            ("seg=axxbxxa", 1),
            ("seg=ab", 0),
            ("seg=a", 0),
            ("seg=aa", 0),
            ("host=www.example.com", 2),
            ("host=.example.com", 2),
            ("host=example.com", 0),
            ("any=", 3), // the pattern comes before the default, also for an empty value
            ("any=x", 3),
            ("two=ab", 5),
            ("two=axb", 5),
            ("two=a", 0),
            ("w=abc", 6),
            ("w=ac", 7),
            ("w=b", 0),
            ("mid=xabaxabx", 8),
            ("mid=abab", 0), // no overlap
            ("mid=ababab", 8),
        ],
    );
}

#[test]
fn a_star_in_the_key_is_a_pattern_for_key_and_value_together() {
    let text = r#"
domain: d
descriptors:
  - {key: wk*, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: wkfoo, value: x*, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: "*id", value: "7*", rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: wkbar, value: x, rate_limit: {unit: hour, requests_per_unit: 4}}
"#;
    check(
        text,
        &[
            ("wkfoo=1", 1),
            ("wkfoo=x1", 1), // wk* comes first in the file
            ("wkbar=x", 4),  // exact before any pattern
            ("wk=1", 1),
            ("userid=71", 3),
            ("userid=81", 0),
            ("user=71", 0),
        ],
    );
    let long = "x".repeat(1000);
    let policy = policy(text);
    assert_eq!(found(&policy.domains()[0], &format!("wk{long}={long}")), 1);
}

#[test]
fn a_value_never_finds_the_rule_of_another_key() {
    // envoyproxy/ratelimit joins key and value with "_", so that foo=bar finds foo_bar there. Here a client
    // that chooses a value cannot choose another key's rule with it.
    let text = "
domain: d
descriptors:
  - {key: foo, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: foo_bar, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: a, value: b_c, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: a_b, value: c, rate_limit: {unit: hour, requests_per_unit: 4}}
";
    check(text, &[("foo=bar", 1), ("foo_bar=x", 2), ("a=b_c", 3), ("a_b=c", 4), ("a_b=x", 0)]);
}

#[test]
fn regular_expressions_match_whole_values() {
    let text = r#"
domain: d
descriptors:
  - {key: id, value_regex: "[0-9]+|root", rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: line, value_regex: "a.c", rate_limit: {unit: hour, requests_per_unit: 2}}
"#;
    check(
        text,
        &[("id=42", 1), ("id=root", 1), ("id=x42", 0), ("id=42x", 0), ("id=4root", 0), ("line=abc", 2)],
    );
    let policy = policy(text);
    assert!(policy.domains()[0].find(&[Entry::new("line", "abc\n")]).is_none());
}

#[test]
fn numbers_and_booleans_are_the_text_that_they_are_written_as() {
    let text = "
domain: d
descriptors:
  - {key: code, value: 50, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: code, value: 0x1F, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: code, value: yes, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: code, value: '1.5', rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: code, value: !!str 7.5, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: 8, rate_limit: {unit: hour, requests_per_unit: 6}}
";
    check(
        text,
        &[("code=50", 1), ("code=0x1F", 2), ("code=yes", 3), ("code=1.5", 4), ("code=7.5", 5), ("8=x", 6)],
    );
}

#[test]
fn anchors_merge_keys_and_the_last_of_double_keys_count() {
    let text = "
domain: ignored
domain: d
descriptors:
  - key: a
    rate_limit: &hourly {unit: hour, requests_per_unit: 5}
  - {key: b, rate_limit: *hourly}
  - {key: c, rate_limit: {<<: *hourly, requests_per_unit: 6}}
  - {key: e, rate_limit: {requests_per_unit: 7, <<: [{requests_per_unit: 9}, *hourly]}}
";
    let policy = policy(text);
    assert!(policy.domain("ignored").is_none());
    let domain = policy.domain("d").expect("the last domain counts");
    assert_eq!(["a=1", "b=1", "c=1", "e=1"].map(|request| found(domain, request)), [5, 5, 6, 7]);
}

#[test]
fn samples_with_a_capital_value_load_unchanged() {
    for (text, request, number, unit) in [
        (include_str!("../../../../../examples/rules/messaging.yaml"), "message_type=marketing", 5, "day"),
        (include_str!("../../../../../examples/rules/auth.yaml"), "auth_type=login", 5, "minute"),
    ] {
        let policy = policy(text);
        let domain = &policy.domains()[0];
        let limit = &domain.find(&entries(request)).expect("found").limits[0];
        assert_eq!((limit.requests_per_unit, limit.unit.map(|unit| unit.name())), (number, Some(unit)));
        assert_eq!(limit.quota.algorithm().name(), "fixed_window");
        // The value is read: any other one, and the key alone, are not limited.
        let (key, _) = request.split_once('=').expect("an entry");
        for other in ["other", ""] {
            assert!(domain.find(&entries(&format!("{key}={other}"))).is_none(), "{key}={other}");
        }
    }
}

#[test]
fn a_file_says_what_becomes_of_requests_that_no_rule_matches() {
    let below = "descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}, descriptors: \
                 [{key: plan, value: gold, rate_limit: {unit: day, requests_per_unit: 2}}]}]";
    for (unmatched, want, warnings) in [
        ("", None, 1),
        ("unmatched: admit,", Some(Unmatched::Admit), 1),
        // Other plans are denied, so nothing needs a warning.
        ("unmatched: deny,", Some(Unmatched::Deny), 0),
    ] {
        let text = format!("{{domain: d, {unmatched} {below}}}");
        let rules = parse(&[RuleFile { name: "d.yaml".into(), text }], &Options::default()).expect("rules");
        assert_eq!((rules.policy.domains()[0].unmatched(), rules.warnings.len()), (want, warnings));
    }
    let faults = parse_text("d.yaml", format!("{{domain: d, unmatched: reject, {below}}}"));
    let faults = faults.expect_err("unknown").to_string();
    assert_eq!(faults, "d.yaml:1:24: unmatched: unknown value \"reject\"; write admit or deny");
}

#[test]
fn a_trace_shows_how_each_entry_was_matched() {
    let text = "
domain: d
descriptors:
  - key: a
    descriptors:
      - key: ip
        value_cidr: 10.0.0.0/8
        descriptors:
          - key: path
            value: /api/*
            descriptors:
              - {key: user, value: ann, rate_limit: {unit: hour, requests_per_unit: 1}}
";
    let policy = policy(text);
    let trace = policy.domains()[0].trace(&entries("a=1 ip=10.0.0.1 path=/api/x user=ann"));
    assert_eq!(trace, [Matched::Default, Matched::Network, Matched::Pattern, Matched::Exact]);
    assert_eq!(policy.domains()[0].trace(&entries("a=1 ip=11.0.0.1 path=/api/x")), [Matched::Default]);
    let rule = policy.domains()[0].find(&entries("a=1 ip=10.0.0.1 path=/api/x user=ann")).expect("found");
    assert_eq!(rule.path, "a → ip in 10.0.0.0/8 → path=/api/* → user=ann");
}

#[test]
fn a_catch_all_matches_what_no_other_rule_does() {
    let text = "
domain: d
descriptors:
  - {key: path, value: /login, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 7}}
  - {key: '*', rate_limit: {unit: second, requests_per_unit: 100}}
";
    let policy = policy(text);
    let domain = &policy.domains()[0];
    for (request, limit) in [("path=/login", 5), ("path=/", 100), ("any=thing", 100), ("user=ann", 100)] {
        assert_eq!(found(domain, request), limit, "{request}");
    }
    let key = |request: &str| {
        let entries = entries(request);
        let mut key = Vec::new();
        domain.find(&entries).expect("found").write_key(0, "d", &entries, &mut key);
        key
    };
    assert!(key("path=/") != key("any=/") && key("path=/") != key("path=/a"), "a counter for each");
}

#[test]
fn huge_and_numerous_entries_are_matched_like_any_other() {
    let policy = policy(
        "
domain: d
descriptors:
  - {key: a, value: 'x*y*z', rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: a, value_regex: '(a|b)*c', rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: a, value_cidr: 10.0.0.0/8, rate_limit: {unit: hour, requests_per_unit: 3}}
",
    );
    let domain = &policy.domains()[0];
    let huge = "xy".repeat(500_000);
    assert!(domain.find(&[Entry::new("a", &huge)]).is_none());
    let huge = "ab".repeat(500_000) + "c";
    assert!(domain.find(&[Entry::new("a", &huge)]).is_some());
    let many = vec![Entry::new("a", "10.0.0.1"); 100_000];
    assert!(domain.find(&many).is_none());
    assert!(domain.find(&[Entry::new(&huge, "x")]).is_none());
}
