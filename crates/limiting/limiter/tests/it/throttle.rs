//! Quotas that come with the request.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::collections::HashMap;
use std::time::Duration;

use crate::common::desk::{Desk, NOW};
use crate::common::{NOON, Routed, ask, ask_at, beside_memory, limiter, of, policy};
use proptest::prelude::*;
use tollgate_core::{Algorithm, Align, Cost, Period, Quota, Refill, RetryAfter};
use tollgate_limiter::{
    Limiter, LimiterSettings, OnStoreFailure, Policy, Scratch, Throttle, Throttled, Unit,
};
use tollgate_store::suite::OutageStore;
use tollgate_store::{ModelStore, Origin, block_on};
use tollgate_store_memory::MemoryStore;

fn empty() -> Limiter<ModelStore> {
    Limiter::new(Policy::empty(), ModelStore::default(), LimiterSettings::default())
}

fn bucket(burst: u64, limit: u64, seconds: u64) -> Quota {
    let algorithm = Algorithm::TokenBucket {
        burst: Some(burst),
        initial: None,
        overdraft: 0,
        refill: Refill::Continuous,
    };
    Quota::new(limit, Period::Span(Duration::from_secs(seconds)), algorithm).expect("in bounds")
}

fn throttle(limiter: &Limiter<ModelStore>, asks: &[(&[u8], &Quota, u64)], after: Duration) -> Vec<Throttled> {
    let asks: Vec<Throttle<'_>> =
        asks.iter().map(|(key, quota, cost)| Throttle { key, quota, cost: Cost(*cost) }).collect();
    let mut out = Vec::new();
    block_on(limiter.throttle(&asks, NOON + after, &mut Scratch::new(), &mut out));
    out
}

#[test]
fn the_servers_shadow_mode_counts_and_admits() {
    let settings = LimiterSettings { shadow_mode: true, ..LimiterSettings::default() };
    let store = ModelStore::default();
    let quota = bucket(2, 1, 1);
    let limiter: Limiter<ModelStore> = Limiter::new(Policy::empty(), store, settings.clone());
    for (at_ms, cost, want) in [
        (0, 2, (false, 0)),
        (0, 1, (true, 0)), // would have been denied, and takes nothing
        (1_000, 1, (false, 0)),
        (1_000, 3, (true, 0)), // never fits
    ] {
        let told = throttle(&limiter, &[(b"k", &quota, cost)], Duration::from_millis(at_ms))[0];
        assert!(told.is_admitted() && told.retry_after() == RetryAfter::Now, "at {at_ms} ms, cost {cost}");
        assert_eq!((told.is_shadowed, told.remaining()), want, "at {at_ms} ms, cost {cost}");
    }
    let metrics = limiter.metrics().render();
    for line in [
        r#"tollgate_decisions_total{domain="",rule="(throttle)",outcome="admit"} 2"#,
        r#"tollgate_decisions_total{domain="",rule="(throttle)",outcome="deny"} 2"#,
        "tollgate_shadowed_requests_total 2",
    ] {
        assert!(metrics.lines().any(|it| it == line), "no `{line}` in\n{metrics}");
    }
    // A setting that denies while the store does not answer is overruled too.
    let settings = LimiterSettings { throttle_on_store_failure: OnStoreFailure::Deny, ..settings };
    let limiter: Limiter<OutageStore> =
        Limiter::new(Policy::empty(), OutageStore::default().down(), settings);
    let ask = Throttle { key: b"k", quota: &quota, cost: Cost::ONE };
    let mut out = Vec::new();
    block_on(limiter.throttle(&[ask], NOON, &mut Scratch::new(), &mut out));
    assert!(out[0].is_admitted() && out[0].is_shadowed && out[0].degraded.is_some());
}

#[test]
fn a_burst_of_two_then_one_a_second_and_a_batch_is_as_one_after_another() {
    let limiter = empty();
    let quota = bucket(2, 1, 1);
    for (at_ms, cost, want) in [
        (0, 1, (true, 1)),
        (0, 2, (false, 1)),
        (0, 1, (true, 0)),
        (0, 1, (false, 0)),
        (999, 1, (false, 0)),
        (1_000, 0, (true, 1)), // a peek
        (1_000, 1, (true, 0)),
        (1_000, 3, (false, 0)), // never
    ] {
        let told = throttle(&limiter, &[(b"k", &quota, cost)], Duration::from_millis(at_ms))[0];
        assert_eq!((told.is_admitted(), told.remaining()), want, "at {at_ms} ms, cost {cost}");
    }
    let told = throttle(
        &limiter,
        &[(b"b", &quota, 1), (b"c", &quota, 1), (b"b", &quota, 1), (b"b", &quota, 1)],
        Duration::ZERO,
    );
    let told: Vec<_> = told.iter().map(|it| (it.is_admitted(), it.remaining(), it.retry_after())).collect();
    let second = RetryAfter::After(Duration::from_secs(1));
    assert_eq!(
        told,
        [
            (true, 1, RetryAfter::Now),
            (true, 1, RetryAfter::Now),
            (true, 0, RetryAfter::Now),
            (false, 0, second)
        ]
    );
}

#[test]
fn another_rate_is_another_counter_and_another_burst_is_not() {
    let limiter = empty();
    let spend =
        |quota: &Quota, cost| throttle(&limiter, &[(b"k", quota, cost)], Duration::ZERO)[0].remaining();
    assert_eq!(spend(&bucket(10, 10, 1), 4), 6);
    for (what, quota, left) in [
        ("a larger burst", bucket(20, 10, 1), 16),
        ("a smaller burst", bucket(5, 10, 1), 1),
        ("another limit", bucket(10, 11, 1), 10),
        ("another period", bucket(10, 10, 2), 10),
        ("another algorithm", Quota::fixed_window(10, Duration::from_secs(1)).expect("in bounds"), 10),
    ] {
        assert_eq!(spend(&quota, 0), left, "{what}");
    }
}

#[test]
fn quotas_that_keep_instants_share_a_counter_at_all_rates() {
    let limiter = empty();
    let spend = |quota: Quota, cost| {
        throttle(&limiter, &[(b"k", &quota.keeping_instants(), cost)], Duration::ZERO)[0].remaining()
    };
    assert_eq!(spend(bucket(10, 10, 1), 4), 6); // full again in 400 ms
    for (what, quota, left) in [
        ("a larger burst", bucket(20, 10, 1), 16),
        ("a smaller burst", bucket(5, 10, 1), 1),
        ("another limit", bucket(10, 20, 1), 2),
        ("another period", bucket(10, 10, 2), 8),
    ] {
        assert_eq!(spend(quota, 0), left, "{what}");
    }
    let other = throttle(&limiter, &[(b"k", &bucket(10, 10, 1), 0)], Duration::ZERO)[0];
    assert_eq!(other.remaining(), 10, "one that keeps none has its own counter");
}

#[test]
fn a_share_keeps_its_instant_too_when_the_rate_changes() {
    let store = OutageStore::default().with_nodes(2).unable();
    let limiter: Limiter<Routed> =
        Limiter::new(Policy::empty(), beside_memory(store), LimiterSettings::default());
    let passes = |quota: &Quota, cost| {
        let ask = Throttle { key: b"k", quota, cost: Cost(cost) };
        let mut out = Vec::new();
        block_on(limiter.throttle(&[ask], NOON, &mut Scratch::new(), &mut out));
        out[0].is_admitted()
    };
    assert!(passes(&bucket(4, 1, 60).keeping_instants(), 2), "half of the burst");
    assert!(!passes(&bucket(4, 1, 50).keeping_instants(), 1), "and the rest is not there at another rate");
}

#[test]
fn no_key_of_a_caller_is_a_rules_counter() {
    let limiter =
        limiter("{domain: d, descriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 1}}]}");
    let minute = Quota::fixed_window(1, Duration::from_secs(60)).expect("in bounds");
    assert_eq!(ask(&limiter, &[of("k=v")]), "OK: ok 0/1");
    // The rule's own key, and what is in front of a caller's key, guessed.
    for key in [&b"d|k=v|minute"[..], b"\x03\0\0\0\0\x01\0\0\0\x0d\xf8\x47\x58\0d|k=v|minute", b""] {
        assert!(throttle(&limiter, &[(key, &minute, 1)], Duration::ZERO)[0].is_admitted(), "{key:?}");
    }
    assert_eq!(ask(&limiter, &[of("k=v")]), "OVER: over 0/1 in 60s");
}

/// Neither part of the memory gives way to the other, so what a caller chooses must be in its own.
#[test]
fn memory_keeps_limits_of_requests_apart_unless_a_rule_matches() {
    let rules = "{domain: d, descriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 9}}]}";
    let limiter = Limiter::new(policy(rules), MemoryStore::default(), LimiterSettings::default());
    let desk: Desk<MemoryStore> = Desk(limiter);
    let tracked =
        || [Origin::Rule, Origin::Request].map(|origin| desk.0.store().stats_of(origin).tracked_keys);
    let minute = Unit::Minute;
    for (asked, want, kept) in [
        (of("a=1"), "OK: ok 8/9", [1, 0]),
        (of("a=1").limit(3, minute), "OK: ok 1/3", [1, 0]), // shares the rule's counter
        (of("no=rule").limit(5, minute), "OK: ok 4/5", [1, 1]),
        (of("no=rule").limit(5, minute), "OK: ok 3/5", [1, 1]),
    ] {
        assert_eq!(ask_at(&desk.0, "d", &[asked], NOON), want, "{asked:?}");
        assert_eq!(tracked(), kept, "{asked:?}");
    }
    let held = desk.try_reserve(&[of("no=rule").limit(5, minute)], 3, NOW, NOON).expect("there is room");
    assert_eq!(ask_at(&desk.0, "d", &[of("no=rule").limit(5, minute)], NOON), "OVER: over 0/5 in 60s");
    desk.cancel(held.id.expect("it is held"), NOON).expect("it is open");
    assert_eq!(ask_at(&desk.0, "d", &[of("no=rule").limit(5, minute).hits(0)], NOON), "OK: ok 2/5");
    let quota = bucket(1, 1, 60);
    let ask = Throttle { key: b"k", quota: &quota, cost: Cost::ONE };
    let mut out = Vec::new();
    block_on(desk.0.throttle(&[ask], NOON, &mut Scratch::new(), &mut out));
    assert_eq!(tracked(), [1, 2]);
}

fn any_quota() -> impl Strategy<Value = (usize, u64, u64)> {
    (0..5_usize, 1..4_u64, 1..4_u64)
}

fn quota((which, limit, seconds): (usize, u64, u64)) -> Quota {
    let algorithm = match which {
        0 => return bucket(3, limit, seconds),
        1 => Algorithm::TokenBucket { burst: None, initial: None, overdraft: 0, refill: Refill::Interval },
        2 => Algorithm::FixedWindow { align: Align::Calendar },
        3 => Algorithm::FixedWindow { align: Align::FirstHit },
        _ => Algorithm::SlidingWindowCounter,
    };
    Quota::new(limit, Period::Span(Duration::from_secs(seconds)), algorithm).expect("in bounds")
}

proptest! {
    /// Each key with its rate has a counter of its own: as if there were a limiter for each.
    #[test]
    fn two_questions_share_a_counter_only_when_key_algorithm_and_rate_are_equal(
        asks in prop::collection::vec((prop::collection::vec(0..3_u8, 0..3), any_quota()), 1..40),
    ) {
        let limiter = empty();
        let mut alone: HashMap<_, Limiter<ModelStore>> = HashMap::new();
        for (key, numbers) in asks {
            let quota = quota(numbers);
            let own = alone.entry((key.clone(), numbers)).or_insert_with(empty);
            let want = throttle(own, &[(b"only", &quota, 1)], Duration::ZERO)[0];
            let got = throttle(&limiter, &[(&key, &quota, 1)], Duration::ZERO)[0];
            prop_assert_eq!(got.decision, want.decision);
        }
    }
}

#[test]
fn it_is_counted_as_a_rule_of_its_own_and_its_top_keys_are_kept() {
    let limiter = empty();
    let quota = bucket(1, 1, 60);
    assert!(!limiter.metrics().render().contains("(throttle)"));
    throttle(
        &limiter,
        &[(b"ann", &quota, 1), (b"ann", &quota, 1), (b"bob\x1b\xff!", &quota, 2)],
        Duration::ZERO,
    );
    let text = limiter.metrics().render();
    for line in [
        "tollgate_decisions_total{domain=\"\",rule=\"(throttle)\",outcome=\"admit\"} 1",
        "tollgate_decisions_total{domain=\"\",rule=\"(throttle)\",outcome=\"deny\"} 2",
        "tollgate_hits_total{domain=\"\",rule=\"(throttle)\"} 4",
        "tollgate_denied_hits_total{domain=\"\",rule=\"(throttle)\"} 3",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let report = limiter.report(NOON);
    assert_eq!((report.throttle.admitted, report.throttle.denied), (1, 2));
    let top: Vec<_> = report.throttle_top_limited.iter().map(|it| (it.key.as_str(), it.denied)).collect();
    assert_eq!(top, [("ann", 1), (r"bob\x1B\xFF!", 1)]);
}

#[test]
fn without_the_store_the_limiters_setting_decides() {
    for (way, want) in [
        (OnStoreFailure::Allow, ["allow true", "allow true", "allow true"]),
        (OnStoreFailure::Deny, ["deny false", "deny false", "deny false"]),
        (OnStoreFailure::Local, ["local true", "local true", "local false"]),
    ] {
        let settings = LimiterSettings { throttle_on_store_failure: way, ..LimiterSettings::default() };
        let limiter: Limiter<Routed> =
            Limiter::new(Policy::empty(), beside_memory(OutageStore::default().down()), settings);
        let quota = bucket(2, 1, 60);
        let mut out = Vec::new();
        let ask = Throttle { key: b"k", quota: &quota, cost: Cost::ONE };
        block_on(limiter.throttle(&[ask; 3], NOON, &mut Scratch::new(), &mut out));
        let told: Vec<_> = out
            .iter()
            .map(|it| format!("{} {}", it.degraded.expect("it is down").name(), it.is_admitted()))
            .collect();
        assert_eq!(told, want);
        if way == OnStoreFailure::Deny {
            assert_eq!(out[0].retry_after(), RetryAfter::After(Duration::from_secs(1)));
        }
        let text = limiter.metrics().render();
        assert!(
            text.contains("tollgate_degraded_decisions_total{domain=\"\",rule=\"(throttle)\"} 3"),
            "{text}"
        );
    }
}

#[test]
fn what_a_store_cannot_count_each_node_counts_by_its_share_and_that_is_no_outage() {
    let settings =
        LimiterSettings { throttle_on_store_failure: OnStoreFailure::Deny, ..LimiterSettings::default() };
    let store = OutageStore::default().with_nodes(2).unable();
    let limiter: Limiter<Routed> = Limiter::new(Policy::empty(), beside_memory(store), settings);
    let quota = bucket(4, 1, 60);
    let mut out = Vec::new();
    let ask = Throttle { key: b"k", quota: &quota, cost: Cost::ONE };
    block_on(limiter.throttle(&[ask; 3], NOON, &mut Scratch::new(), &mut out));
    let told: Vec<_> = out.iter().map(|it| (it.is_admitted(), it.degraded)).collect();
    assert_eq!(told, [(true, None), (true, None), (false, None)], "half of the burst");
    let text = limiter.metrics().render();
    for line in [
        "tollgate_degraded_decisions_total{domain=\"\",rule=\"(throttle)\"} 0",
        "tollgate_store_errors_total 0",
    ] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
}
