//! Hits that are reported after they were used: always counted, and denied where nothing was left before.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use crate::common::{
    Ask, NOON, Routed, ask, ask_at, beside_memory, cut, entries, limiter, of, policy, seconds,
};
use proptest::prelude::*;
use tollgate_core::{Outcome, Timestamp};
use tollgate_limiter::{
    Degraded, Descriptor, Limiter, LimiterSettings, Request, RequestError, ReserveTerms, Scratch, Unit,
};
use tollgate_store::suite::{Down, OutageStore};
use tollgate_store::{ModelStore, Store, block_on};
use tollgate_store_memory::MemoryStore;

/// Limits of a thousand an hour of every algorithm.
const ALGORITHMS: [&str; 13] = [
    "unit: hour, requests_per_unit: 1000",
    "unit: hour, requests_per_unit: 1000, align: first_hit",
    "unit: hour, requests_per_unit: 1000, algorithm: sliding_window",
    "unit: hour, requests_per_unit: 1000, algorithm: sliding_window_counter",
    "unit: hour, requests_per_unit: 1000, algorithm: sliding_window_log",
    "unit: hour, requests_per_unit: 1000, algorithm: sliding_window_log, log_denied: true",
    "unit: hour, requests_per_unit: 1000, algorithm: token_bucket",
    "unit: hour, requests_per_unit: 1000, algorithm: token_bucket, refill: interval",
    "unit: hour, requests_per_unit: 1000, algorithm: token_bucket, overdraft: 50",
    "unit: hour, requests_per_unit: 1000, algorithm: leaky_bucket",
    "unit: hour, requests_per_unit: 1000, algorithm: leaky_bucket, form: queue",
    "limit: 1000, algorithm: total",
    "rate: 1000/h burst 1000",
];

/// Rules of a rule `a` with `limit`, in a domain with `more`.
fn rules(limit: &str, more: &str) -> String {
    format!("{{domain: d, {more} descriptors: [{{key: a, rate_limit: {{{limit}}}}}]}}")
}

fn consumed<S: Store>(limiter: &Limiter<S>, key: &str, hits: u64, now: Timestamp) -> (Outcome, u64, u64) {
    let entries = entries(key);
    let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits };
    let mut scratch = Scratch::new();
    let answer = block_on(limiter.consume(&request, now, &mut scratch)).expect("a valid request");
    let shown = answer.descriptor(0).expect("one");
    (answer.overall(), shown.remaining(), shown.decision.map_or(0, |it| it.owed()))
}

/// Number of `responses` that may start, each of which then reports that it used 900.
fn started<S: Store>(limiter: &Limiter<S>, responses: usize) -> usize {
    let mut started = 0;
    for _ in 0..responses {
        let checked = ask_at(limiter, "d", &[of("a=1").hits(0)], NOON);
        if checked.starts_with("OK") {
            started += 1;
            ask_at(limiter, "d", &[of("a=1").hits(900)], NOON);
        }
    }
    started
}

#[test]
fn two_responses_of_900_start_and_then_none_by_every_algorithm_however_limits_are_charged() {
    for algorithm in ALGORITHMS {
        for charge in ["", "charge: each,", "charge: together,", "charge: spare_others,"] {
            let rules = rules(&format!("{algorithm}, post_paid: true"), charge);
            assert_eq!(started(&limiter(&rules), 8), 2, "{algorithm}, {charge}");
            let memory: Limiter<MemoryStore> =
                Limiter::new(policy(&rules), MemoryStore::default(), LimiterSettings::default());
            assert_eq!(started(&memory, 8), 2, "{algorithm}, {charge}");
        }
    }
}

#[test]
fn a_window_that_spares_others_counts_what_goes_over_it_also_without_the_key() {
    for (charge, want) in [("", 2), ("charge: together,", 8), ("charge: spare_others,", 2)] {
        assert_eq!(started(&limiter(&rules(ALGORITHMS[0], charge)), 8), want, "{charge}");
    }
}

#[test]
fn sparing_others_charges_the_windows_that_deny_and_no_other_limit() {
    let text = "{domain: d, charge: spare_others, descriptors: [
        {key: small, rate: 2/h}, {key: wide, rate: 10/h}, {key: bucket, rate: 2/h burst 2},
        {key: quota, quota_mode: true, rate_limit: {rate: 10/h}}]}";
    let limiter = limiter(text);
    for (asks, want) in [
        (&[of("small=1").hits(3), of("wide=1").hits(3)][..], "OVER: over 0/2 never, ok 10/10"),
        (&[of("small=1").hits(0)], "OVER: over 0/2 in 3600s"), // three of two are counted
        (&[of("bucket=1").hits(3), of("wide=1").hits(1)], "OVER: over 0/2 never, ok 10/10"),
        (&[of("bucket=1").hits(2), of("wide=1").hits(1)], "OK: ok 0/2, ok 9/10"),
        (&[of("bucket=1"), of("wide=1"), of("quota=1")], "OVER: over 0/2 in 1800s, ok 9/10, ok 10/10 quota"),
        (&[of("wide=1").hits(9), of("quota=1").hits(9)], "OK: ok 0/10, ok 1/10 quota"),
    ] {
        assert_eq!(ask(&limiter, asks), want, "{asks:?}");
    }
}

#[test]
fn a_request_with_hits_is_counted_in_full_and_denied_where_nothing_was_left_before() {
    let limiter = limiter(&rules("rate: 3/h burst 3, post_paid: true", ""));
    for (hits, want) in [
        (0, "OK: ok 3/3"),
        (1, "OK: ok 2/3"),
        (4, "OK: ok 0/3"),              // two are owed
        (0, "OVER: over 0/3 in 3600s"), // one after three of 20 minutes each
        (1, "OVER: over 0/3 in 4800s"),
        (0, "OVER: over 0/3 in 4800s"),
    ] {
        assert_eq!(ask(&limiter, &[of("a=1").hits(hits)]), want, "{hits}");
    }
    let later = NOON + seconds(4_800);
    assert_eq!(ask_at(&limiter, "d", &[of("a=1").hits(0)], later), "OK: ok 1/3");
}

#[test]
fn finished_work_counts_whatever_denies_the_request_and_a_denied_check_spares_the_others() {
    let text = "{domain: d, charge: together, descriptors: [
        {key: calls, rate: 2/h},
        {key: tokens, rate_limit: {rate: 100/h, post_paid: true}},
        {key: never, rate: 0/h}]}";
    let limiter = limiter(text);
    let calls = of("calls=1");
    let tokens = of("tokens=1");
    let never = of("never=1");
    for (asks, want) in [
        (&[calls, tokens.hits(0)][..], "OK: ok 1/2, ok 100/100"),
        (&[calls.hits(2), tokens.hits(60)], "OVER: over 0/2 in 3600s, ok 40/100"),
        (&[tokens.hits(60), never], "OVER: ok 0/100, over 0/0 never"),
        (&[calls, tokens.hits(0)], "OVER: ok 1/2, over 0/100 in 3600s"),
        (&[calls, tokens.hits(5)], "OVER: ok 1/2, over 0/100 in 3600s"),
        (&[calls], "OK: ok 0/2"),
    ] {
        assert_eq!(ask(&limiter, asks), want, "{asks:?}");
    }
    assert_eq!(consumed(&limiter, "tokens=1", 0, NOON), (Outcome::Admit, 0, 25));
}

#[test]
fn a_soft_or_shadowed_limit_is_charged_afterwards_too_and_keeps_no_other_from_being_charged() {
    let text = "{domain: d, charge: together, descriptors: [
        {key: calls, rate: 9/h},
        {key: soft, quota_mode: true, rate_limit: {rate: 10/h, post_paid: true}},
        {key: soft2, quota_mode: true, rate_limit: {rate: 10/h, post_paid: true}},
        {key: shadow, shadow_mode: true, rate_limit: {rate: 10/h, post_paid: true}}]}";
    let limiter = limiter(text);
    for (asks, want) in [
        (
            &[of("calls=1"), of("soft=1").hits(30), of("soft2=1").hits(3), of("shadow=1").hits(30)][..],
            "OK: ok 8/9, ok 0/10 quota, ok 7/10 quota, ok 0/10",
        ),
        (
            &[of("calls=1"), of("soft=1").hits(3), of("soft2=1").hits(3), of("shadow=1").hits(0)],
            "OK: ok 7/9, over 0/10 quota in 3600s, ok 4/10 quota, ok 0/10 shadow in 3600s",
        ),
    ] {
        assert_eq!(ask(&limiter, asks), want, "{asks:?}");
    }
    assert_eq!(consumed(&limiter, "soft=1", 0, NOON), (Outcome::Admit, 0, 23));
}

#[test]
fn a_limit_that_comes_with_the_request_of_a_post_paid_rule_is_post_paid() {
    let limiter = limiter(&rules("unit: hour, requests_per_unit: 1000, post_paid: true", ""));
    let own = of("a=1").limit(10, Unit::Hour);
    for (hits, want) in [(0, "OK: ok 10/10"), (25, "OK: ok 0/10"), (0, "OVER: over 0/10 in 3600s")] {
        assert_eq!(ask(&limiter, &[own.hits(hits)]), want, "{hits}");
    }
    assert_eq!(ask(&limiter, &[of("a=1").hits(0)]), "OK: ok 975/1000", "the rule's own window");
}

#[test]
fn consumed_hits_are_counted_in_full_by_any_rule_and_no_limit_denies_them() {
    for algorithm in ALGORITHMS {
        for charge in ["", "charge: together,"] {
            let limiter = limiter(&rules(algorithm, charge));
            assert_eq!(consumed(&limiter, "a=1", 900, NOON), (Outcome::Admit, 100, 0), "{algorithm}");
            assert_eq!(consumed(&limiter, "a=1", 900, NOON), (Outcome::Admit, 0, 800), "{algorithm}");
            assert_eq!(consumed(&limiter, "a=1", 0, NOON), (Outcome::Admit, 0, 800), "{algorithm}");
            assert!(ask(&limiter, &[of("a=1")]).starts_with("OVER"), "{algorithm}");
        }
    }
}

#[test]
fn what_a_rule_or_an_operator_denies_is_not_counted_and_a_rule_with_slots_needs_a_holder() {
    let text = "{domain: d, descriptors: [{key: none, rate: 0/h},
        {key: slots, rate_limit: {algorithm: concurrency, limit: 2, ttl: 30s}}]}";
    let limiter = limiter(text);
    assert_eq!(consumed(&limiter, "none=1", 5, NOON).0, Outcome::Admit, "a limit of nothing is a limit");
    let entries = entries("slots=1");
    let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits: 1 };
    let error = block_on(limiter.consume(&request, NOON, &mut Scratch::new())).map(drop);
    assert!(matches!(error, Err(RequestError::NeedsHolder { .. })), "{error:?}");
    assert_eq!(consumed(&limiter, "unknown=1", 5, NOON), (Outcome::Admit, 0, 0));
}

#[test]
fn a_reservation_holds_an_estimate_of_a_post_paid_limit_and_settles_what_was_used() {
    let limiter = limiter(&rules("rate: 1000/h burst 1000, post_paid: true", ""));
    let entries = entries("a=1");
    let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits: 800 };
    let mut scratch = Scratch::new();
    let id = block_on(limiter.reserve(&request, ReserveTerms::default(), NOON, &mut scratch)).unwrap().id;
    let second = block_on(limiter.reserve(&request, ReserveTerms::default(), NOON, &mut scratch)).unwrap().id;
    assert!(second.is_none(), "what is held ahead must fit");
    block_on(limiter.commit(id.unwrap(), Some(1_200), NOON)).unwrap();
    assert_eq!(consumed(&limiter, "a=1", 0, NOON), (Outcome::Admit, 0, 200));
}

#[test]
fn without_a_store_a_share_counts_what_was_used_and_what_nobody_counts_is_measured() {
    let text = "{domain: d, descriptors: [
        {key: open, rate_limit: {rate: 10/h, post_paid: true}},
        {key: shut, rate_limit: {rate: 10/h, post_paid: true, on_store_failure: deny}},
        {key: local, rate_limit: {rate: 10/h, post_paid: true, on_store_failure: local}}]}";
    let store = beside_memory(OutageStore::default().with_nodes(2));
    let limiter: Limiter<Routed> = Limiter::new(policy(text), store, LimiterSettings::default());
    cut(&limiter, Down::All);
    for (asks, want) in [
        (&[of("local=1").hits(0)][..], "OK: ok 5/10 degraded:local"),
        (&[of("local=1").hits(7)], "OK: ok 0/10 degraded:local"),
        (&[of("local=1").hits(0)], "OVER: over 0/10 degraded:local in 3600s"),
        (&[of("open=1").hits(70)], "OK: ok degraded:allow"),
        (&[of("shut=1").hits(600)], "OVER: over 0/10 degraded:deny in 1s"),
        (&[of("shut=1").hits(0)], "OVER: over 0/10 degraded:deny in 1s"),
    ] {
        assert_eq!(ask_at(&limiter, "d", asks, NOON), want, "{asks:?}");
    }
    let text = limiter.metrics().render();
    assert!(text.contains("tollgate_lost_hits_total 670"), "{text}");
    let entries = entries("shut=1");
    let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits: 5 };
    let mut scratch = Scratch::new();
    let answer = block_on(limiter.consume(&request, NOON, &mut scratch)).unwrap();
    assert_eq!((answer.is_admitted(), answer.degraded()), (false, Some(Degraded::Denied)));
}

#[test]
fn a_store_that_fails_after_used_hits_were_counted_gives_none_of_them_back() {
    let text = "{domain: d, charge: together, descriptors: [
        {key: tokens, rate_limit: {rate: 100/h, post_paid: true}},
        {key: calls, rate_limit: {rate: 5/h, on_store_failure: deny}}]}";
    let store = beside_memory(OutageStore::default());
    let limiter: Limiter<Routed> = Limiter::new(policy(text), store, LimiterSettings::default());
    cut(&limiter, Down::Holding("calls"));
    let answer = ask_at(&limiter, "d", &[of("calls=1"), of("tokens=1").hits(30)], NOON);
    assert_eq!(answer, "OVER: over 0/5 degraded:deny in 1s, ok 70/100");
    cut(&limiter, Down::Nothing);
    assert_eq!(ask_at(&limiter, "d", &[of("tokens=1").hits(0)], NOON), "OK: ok 70/100");
}

#[test]
fn a_rule_that_queues_has_no_post_paid_limit() {
    let text = rules("rate: 1/s burst 1, post_paid: true, on_limit: queue, max_wait: 2s", "");
    let faults = tollgate_rule_files::parse_text("rules.yaml", text).map(drop).expect_err("both").to_string();
    assert!(faults.contains("the hits of a post_paid limit are used already"), "{faults}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Post-paid and other limits in one request, whichever deny: what was used is counted, each time.
    #[test]
    fn no_order_of_requests_loses_hits_that_were_used(
        asks in prop::collection::vec((0..3_u64, 0..40_u64, 0..3_u64), 1..40),
        charge in prop_oneof![Just("each"), Just("together"), Just("spare_others")],
    ) {
        let text = format!("{{domain: d, charge: {charge}, descriptors: [
            {{key: calls, rate: 5/h}}, {{key: tokens, rate_limit: {{rate: 100/h, post_paid: true}}}},
            {{key: bucket, rate_limit: {{algorithm: total, limit: 90, post_paid: true}}}}]}}");
        let limiter: Limiter<ModelStore> = limiter(&text);
        let mut tokens = 0;
        let mut bucket = 0;
        for (calls, used, other) in asks {
            let asked: [Ask<'_>; 3] =
                [of("calls=1").hits(calls), of("bucket=1").hits(other), of("tokens=1").hits(used)];
            ask(&limiter, &asked);
            (tokens, bucket) = (tokens + used, bucket + other);
        }
        prop_assert_eq!(consumed(&limiter, "tokens=1", 0, NOON).2, tokens.saturating_sub(100));
        prop_assert_eq!(consumed(&limiter, "bucket=1", 0, NOON).2, bucket.saturating_sub(90_u64));
    }
}

#[test]
fn hits_that_are_forgotten_after_a_check_are_counted_by_rule_and_logged_once() {
    let text = |limit: &str| rules(limit, "").replace("key: a,", "key: a, value: v,");
    for (limit, want) in [
        ("rate: 1000/h burst 1000", 2),
        ("unit: hour, requests_per_unit: 1000, algorithm: sliding_window", 2),
        ("unit: hour, requests_per_unit: 1000", 0),
        ("rate: 1000/h burst 1000, post_paid: true", 0),
    ] {
        let limiter = limiter(&text(limit));
        let forgotten = || {
            let text = limiter.metrics().render();
            let of_rule = r#"tollgate_forgotten_charges_total{domain="d",rule="a=v"} "#;
            text.lines().find_map(|line| line.strip_prefix(of_rule)?.parse::<u64>().ok()).unwrap_or(0)
        };
        for hits in [900, 900] {
            ask(&limiter, &[of("a=v").hits(hits)]);
        }
        assert_eq!(forgotten(), 0, "{limit}: nobody has checked");
        for hits in [0, 900, 0, 900] {
            ask(&limiter, &[of("a=v").hits(hits)]);
        }
        assert_eq!(forgotten(), want, "{limit}");
        let reported =
            limiter.report(NOON).domains[0].rules.iter().map(|rule| rule.totals.forgotten).sum::<u64>();
        assert_eq!(reported, want, "{limit}: to the control plane too");
        limiter.replace(policy(&text(limit).replace("domain: d,", "domain: d, unmatched: admit,")), NOON);
        assert_eq!(forgotten(), want, "{limit}: kept by a reload");
    }
}
