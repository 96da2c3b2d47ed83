//! Answers to requests, in rows: matching, modes, overrides, several limits, charging together, errors.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::time::Duration;

use crate::common::{Ask, NOON, ask, ask_at, entries, limiter, of, policy, seconds};
use tollgate_limiter::{
    Descriptor, Limiter, LimiterSettings, Request, RequestError, ReserveTerms, Scratch, Unit,
};
use tollgate_store::{ModelStore, block_on};

/// Asks each row in order, and compares the answers.
fn rows(rules: &str, rows: &[(&[Ask<'_>], &str)]) {
    let limiter = limiter(rules);
    for (index, (asks, want)) in rows.iter().enumerate() {
        assert_eq!(&ask(&limiter, asks), want, "row {index}");
    }
}

#[test]
fn the_third_of_two_a_second_is_over() {
    let limiter =
        limiter("{domain: d, descriptors: [{key: a, rate_limit: {unit: second, requests_per_unit: 2}}]}");
    for (at, want) in [(0, "OK: ok 1/2"), (0, "OK: ok 0/2"), (0, "OVER: over 0/2 in 1s"), (1, "OK: ok 1/2")] {
        assert_eq!(ask_at(&limiter, "d", &[of("a=1")], NOON + seconds(at)), want, "at {at} s");
    }
}

#[test]
fn what_no_rule_limits_passes() {
    let rules = "
domain: d
descriptors:
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors: [{key: b, rate_limit: {unit: minute, requests_per_unit: 3}}]
  - {key: free}";
    rows(
        rules,
        &[
            (&[of("x=1")], "OK: ok"),
            (&[of("a=1 c=1")], "OK: ok"),
            (&[of("a=1 b=1")], "OK: ok 2/3"),
            (&[of("a=1")], "OK: ok 0/1"),
            (&[of("free=1")], "OK: ok"),
            (&[of("")], "OK: ok"),
            (&[of("a=1"), of("x=1")], "OVER: over 0/1 in 60s, ok"),
        ],
    );
    assert_eq!(ask_at(&limiter(rules), "elsewhere", &[of("a=1")], NOON), "OK: ok");
}

#[test]
fn a_descriptor_that_comes_twice_counts_twice() {
    let rules = "{domain: d, descriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 20}}]}";
    rows(rules, &[(&[of("a=1"), of("a=1")], "OK: ok 19/20, ok 18/20")]);
}

#[test]
fn hits_of_a_descriptor_come_before_those_of_the_request_and_zero_peeks() {
    let rules = "{domain: d, descriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 20}}]}";
    rows(
        rules,
        &[
            (&[of("a=1").hits(15)], "OK: ok 5/20"),
            (&[of("a=1").hits(0)], "OK: ok 5/20"),
            (&[of("a=1").hits(10)], "OVER: over 0/20 in 60s"),
            (&[of("a=1").hits(0)], "OVER: over 0/20 in 60s"), // the denied hits were counted
            (&[of("a=1").hits(21)], "OVER: over 0/20 never"),
        ],
    );
}

#[test]
fn an_invalid_request_is_rejected_and_takes_nothing() {
    let rules = "{domain: d, descriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 2}}]}";
    let limiter = limiter(rules);
    assert_eq!(ask_at(&limiter, "", &[of("a=1")], NOON), format!("error: {}", RequestError::EmptyDomain));
    assert_eq!(ask(&limiter, &[]), format!("error: {}", RequestError::NoDescriptors));
    assert_eq!(ask(&limiter, &[of("a=1")]), "OK: ok 1/2");
}

#[test]
fn any_number_of_hits_is_decided_and_the_largest_never_fit() {
    let limit = |more: &str| format!("rate_limit: {{unit: minute, requests_per_unit: 2{more}}}");
    for (rule, left) in [
        (limit(""), 0), // a fixed window counts what never fits
        (limit(", algorithm: token_bucket"), 2),
        (limit(", algorithm: token_bucket, cost: 2"), 2),
        (limit(", algorithm: sliding_window"), 2),
        (limit(", algorithm: sliding_window_counter"), 2),
        (limit(", algorithm: sliding_window_log"), 2),
        (limit(", algorithm: leaky_bucket"), 2),
        ("rate_limit: {algorithm: total, limit: 2}".to_owned(), 2),
    ] {
        let limiter = limiter(&format!("{{domain: d, descriptors: [{{key: a, {rule}}}]}}"));
        for hits in [(1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX] {
            // Alone, and together with as many of another descriptor.
            for asks in [&[of("a=1").hits(hits)][..], &[of("a=1").hits(hits), of("a=1").hits(hits)]] {
                let answer = ask(&limiter, asks);
                assert!(answer.starts_with("OVER") && answer.contains("never"), "{rule}, {hits}: {answer}");
            }
        }
        let peek = ask(&limiter, &[of("a=1").hits(0)]);
        assert!(peek.contains(&format!(" {left}/2")), "{rule}: {peek}");
    }
}

#[test]
fn an_unlimited_rule_counts_nothing() {
    let rules = "
domain: d
descriptors:
  - {key: a, value: vip, rate_limit: {unlimited: true}}
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 1}}";
    rows(
        rules,
        &[
            (&[of("a=vip").hits(1_000_000)], "OK: ok unlimited"),
            (&[of("a=vip"), of("a=x")], "OK: ok unlimited, ok 0/1"),
        ],
    );
}

#[test]
fn a_shadow_rule_reports_but_never_denies() {
    let rules = "
domain: d
descriptors:
  - {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 2}}";
    rows(
        rules,
        &[
            (&[of("s=1"), of("a=1")], "OK: ok 0/1, ok 1/2"),
            (&[of("s=1"), of("a=1")], "OK: ok 0/1 shadow in 60s, ok 0/2"),
            (&[of("s=1"), of("a=1")], "OVER: ok 0/1 shadow in 60s, over 0/2 in 60s"),
        ],
    );
}

#[test]
fn soft_limits_deny_only_all_together() {
    let rules = "
domain: d
descriptors:
  - {key: q1, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: q2, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: hard, rate_limit: {unit: minute, requests_per_unit: 9}}";
    rows(
        rules,
        &[
            (&[of("q1=1"), of("q2=1")], "OK: ok 0/1 quota, ok 1/2 quota"),
            (&[of("q1=1"), of("q2=1")], "OK: over 0/1 quota in 60s, ok 0/2 quota"),
            (&[of("q1=1"), of("q2=1")], "OVER: over 0/1 quota in 60s, over 0/2 quota in 60s"),
            (&[of("hard=1"), of("q1=1")], "OVER: ok 8/9, over 0/1 quota in 60s"),
        ],
    );
}

#[test]
fn a_rule_takes_the_place_of_those_it_replaces() {
    let rules = "
domain: d
descriptors:
  - {key: a, rate_limit: {name: all, unit: minute, requests_per_unit: 1}}
  - {key: b, rate_limit: {name: b, unit: minute, requests_per_unit: 5, replaces: [{name: all}]}}
  - {key: c, rate_limit: {name: c, unlimited: true, replaces: [{name: b}, {name: unknown}]}}";
    rows(
        rules,
        &[
            (&[of("a=1"), of("b=1")], "OK: ok replaced, ok 4/5"),
            (&[of("b=1"), of("a=1")], "OK: ok 3/5, ok replaced"),
            (&[of("a=1"), of("b=1"), of("c=1")], "OK: ok replaced, ok replaced, ok unlimited"),
            (&[of("a=1")], "OK: ok 0/1"),
        ],
    );
}

#[test]
fn a_limit_that_comes_with_the_request_goes_before_the_rule_and_shares_its_counter() {
    let rules = "
domain: d
descriptors:
  - {key: a, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 9}}
  - {key: u, rate_limit: {unlimited: true}}";
    let minute = Unit::Minute;
    rows(
        rules,
        &[
            (&[of("a=1")], "OK: ok 8/9"),
            (&[of("a=1").limit(3, minute)], "OK: ok 1/3"),
            (&[of("a=1").limit(2, minute)], "OVER: over 0/2 in 60s"), // the shadow mode is the rule's
            (&[of("a=1").limit(5, Unit::Hour)], "OK: ok 4/5"),
            (&[of("u=1").limit(0, minute)], "OVER: over 0/0 never"),
            (&[of("no=rule").limit(1, minute)], "OK: ok 0/1"),
            (&[of("").limit(1, minute)], "OK: ok 0/1"),
        ],
    );
    assert_eq!(ask_at(&limiter(rules), "elsewhere", &[of("a=1").limit(0, minute)], NOON), "OK: ok");
}

#[test]
fn the_tightest_of_several_limits_is_shown_and_each_is_charged() {
    let rules = "
domain: d
descriptors:
  - key: a
    limits:
      - {name: short, requests_per_unit: 2, unit: second}
      - {name: daily, requests_per_unit: 4, unit: day}";
    let limiter = limiter(rules);
    for (at, want) in [
        (0, "OK: ok 1/2"),
        (0, "OK: ok 0/2"),
        (0, "OVER: over 0/2 in 1s"), // the day counts it too
        (1, "OK: ok 0/4"),
        (2, "OVER: over 0/4 in 86398s"),
    ] {
        assert_eq!(ask_at(&limiter, "d", &[of("a=1")], NOON + seconds(at)), want, "at {at} s");
    }
}

const TOGETHER: &str = "
domain: d
charge: together
descriptors:
  - {key: wide, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: narrow, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: soft, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: soft2, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 3}}";

#[test]
fn together_charges_nothing_when_one_denies() {
    rows(
        TOGETHER,
        &[
            (&[of("wide=1"), of("narrow=1")], "OK: ok 4/5, ok 0/1"),
            (&[of("wide=1"), of("narrow=1")], "OVER: ok 4/5, over 0/1 in 60s"),
            (&[of("narrow=1"), of("wide=1")], "OVER: over 0/1 in 60s, ok 4/5"),
            (&[of("wide=1").hits(0)], "OK: ok 4/5"),
        ],
    );
}

#[test]
fn together_a_rule_that_cannot_deny_keeps_no_other_from_being_charged() {
    rows(
        TOGETHER,
        &[
            (&[of("shadow=1"), of("wide=1")], "OK: ok 0/1, ok 4/5"),
            (&[of("shadow=1"), of("wide=1")], "OK: ok 0/1 shadow in 60s, ok 3/5"),
            (&[of("soft=1"), of("soft2=1"), of("wide=1")], "OK: ok 0/1 quota, ok 2/3 quota, ok 2/5"),
            (&[of("soft=1"), of("soft2=1"), of("wide=1")], "OK: over 0/1 quota in 60s, ok 1/3 quota, ok 1/5"),
            // The only soft limit is a hard one.
            (&[of("soft=1"), of("wide=1")], "OVER: over 0/1 quota in 60s, ok 1/5"),
            (
                &[of("soft2=1"), of("soft=2"), of("wide=1").hits(9)],
                "OVER: ok 1/3 quota, ok 1/1 quota, over 0/5 never",
            ),
            (&[of("wide=1").hits(0), of("soft2=1").hits(0)], "OK: ok 1/5, ok 1/3 quota"),
        ],
    );
}

#[test]
fn the_servers_shadow_mode_lets_all_pass_and_tells() {
    let rules = "{domain: d, descriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 1}}]}";
    let settings = LimiterSettings { shadow_mode: true, ..LimiterSettings::default() };
    let limiter = Limiter::new(policy(rules), ModelStore::default(), settings);
    assert_eq!(ask(&limiter, &[of("a=1")]), "OK: ok 0/1");
    assert_eq!(ask(&limiter, &[of("a=1")]), "OK (shadow): over 0/1 in 60s");
}

#[test]
fn in_the_servers_quota_mode_a_descriptor_that_nothing_limits_is_a_passed_quota() {
    let rules = "{domain: d, descriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 1}}]}";
    let settings = LimiterSettings { quota_mode: true, ..LimiterSettings::default() };
    let limiter = Limiter::new(policy(rules), ModelStore::default(), settings);
    for (asks, want) in [
        (&[of("a=1")][..], "OK: ok 0/1 quota"),
        (&[of("a=1")], "OVER: over 0/1 quota in 60s"),
        (&[of("a=1"), of("x=1")], "OK: over 0/1 quota in 60s, ok quota"),
    ] {
        assert_eq!(ask(&limiter, asks), want);
    }
}

#[test]
fn a_new_number_keeps_the_count() {
    let rules = |limit| {
        format!(
            "{{domain: d, descriptors: [{{key: a, rate_limit: {{unit: minute, requests_per_unit: {limit}}}}}]}}"
        )
    };
    let limiter = limiter(&rules(5));
    assert_eq!(ask(&limiter, &[of("a=1")]), "OK: ok 4/5");
    limiter.replace(policy(&rules(2)), NOON);
    assert_eq!(ask(&limiter, &[of("a=1")]), "OK: ok 0/2");
    assert_eq!(ask(&limiter, &[of("a=1")]), "OVER: over 0/2 in 60s");
    limiter.replace(policy(&rules(9)), NOON);
    assert_eq!(ask(&limiter, &[of("a=1")]), "OK: ok 5/9");
}

#[test]
fn a_bucket_that_starts_empty_fills_also_where_all_limits_are_charged_together_and_where_one_reserves() {
    let text = "{domain: d, charge: together, descriptors: [
        {key: k, rate_limit: {unit: second, requests_per_unit: 10, algorithm: token_bucket, initial: 0}},
        {key: o, rate_limit: {unit: second, requests_per_unit: 10}}]}";
    fn check<S: tollgate_store::Store>(limiter: &Limiter<S>) {
        let asks = [of("k=v"), of("o=v")];
        assert_eq!(ask_at(limiter, "d", &asks, NOON), "OVER: over 0/10 in 0.1s, ok 10/10");
        assert_eq!(ask_at(limiter, "d", &asks, NOON + Duration::from_millis(100)), "OK: ok 0/10, ok 9/10");
        let entries = entries("k=other");
        let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits: 1 };
        for (at_ms, want) in [(0, false), (99, false), (100, true), (100, false)] {
            let now = NOON + Duration::from_millis(at_ms);
            let mut scratch = Scratch::new();
            let reserved = block_on(limiter.reserve(&request, ReserveTerms::default(), now, &mut scratch));
            assert_eq!(reserved.expect("there is room").id.is_some(), want, "at {at_ms} ms");
        }
    }
    check(&limiter(text));
    check(&Limiter::new(
        policy(text),
        tollgate_store_memory::MemoryStore::default(),
        LimiterSettings::default(),
    ));
}
