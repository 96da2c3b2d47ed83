//! Limits of which a hit takes several permits (`cost`), and limits that are tried beside others (`shadow`).
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use proptest::prelude::*;
use tollgate_core::Timestamp;

use crate::common::{NOON, ask_at, limiter, of, seconds};

const COSTS: &str = "
domain: d
descriptors:
  - {key: a, rate_limit: {unit: second, requests_per_unit: 100, cost: 20}}
  - {key: b, rate_limit: {unit: second, requests_per_unit: 10, algorithm: token_bucket, burst: 10, overdraft: 5, cost: 15}}";

#[test]
fn a_hit_takes_its_cost_and_waits_for_all_of_it() {
    let limiter = limiter(COSTS);
    for left in [80, 60, 40, 20, 0] {
        assert_eq!(ask_at(&limiter, "d", &[of("a=1")], NOON), format!("OK: ok {left}/100"));
    }
    assert_eq!(ask_at(&limiter, "d", &[of("a=1")], NOON), "OVER: over 0/100 in 1s");
    assert_eq!(ask_at(&limiter, "d", &[of("a=2").hits(6)], NOON), "OVER: over 0/100 never");
    assert_eq!(ask_at(&limiter, "d", &[of("a=3").hits(0)], NOON), "OK: ok 100/100");
    assert_eq!(ask_at(&limiter, "d", &[of("a=4").hits(i64::MAX as u64)], NOON), "OVER: over 0/100 never");
    // Ten are there and five are taken in advance; then fifteen have to be.
    assert_eq!(ask_at(&limiter, "d", &[of("b=1")], NOON), "OK: ok 0/10");
    let denied = ask_at(&limiter, "d", &[of("b=1")], NOON);
    assert!(denied.starts_with("OVER: over 0/10 in "), "{denied}");
    let wait: f64 = denied.rsplit("in ").next().and_then(|it| it.strip_suffix('s')).unwrap().parse().unwrap();
    let before = NOON + std::time::Duration::from_secs_f64(wait - 0.001);
    assert!(ask_at(&limiter, "d", &[of("b=1")], before).starts_with("OVER"), "never too early");
    let at = NOON + std::time::Duration::from_secs_f64(wait);
    assert!(ask_at(&limiter, "d", &[of("b=1")], at).starts_with("OK"), "and not later than it says");
}

const SHADOWS: &str = "
domain: d
descriptors:
  - key: a
    limits:
      - {name: next, unit: minute, requests_per_unit: 2, shadow: true}
      - {name: now, unit: minute, requests_per_unit: 4}";

#[test]
fn a_limit_in_shadow_tells_what_it_alone_would_deny() {
    for charge in ["", "\ncharge: together"] {
        let limiter = limiter(&format!("{SHADOWS}{charge}"));
        for want in ["OK: ok 3/4", "OK: ok 2/4", "OK: ok 1/4 shadow", "OK: ok 0/4 shadow"] {
            assert_eq!(ask_at(&limiter, "d", &[of("a=1")], NOON), want, "{charge}");
        }
        // The limit in force denies it: it is not a matter of the other.
        assert_eq!(ask_at(&limiter, "d", &[of("a=1")], NOON), "OVER: over 0/4 in 60s", "{charge}");
        assert_eq!(ask_at(&limiter, "d", &[of("a=1")], NOON + seconds(60)), "OK: ok 3/4", "{charge}");
        let metrics = limiter.metrics().render();
        for line in [
            r#"tollgate_decisions_total{domain="d",rule="a",outcome="shadow_deny"} 2"#,
            r#"tollgate_decisions_total{domain="d",rule="a",outcome="deny"} 1"#,
            r#"tollgate_decisions_total{domain="d",rule="a",outcome="admit"} 3"#,
        ] {
            assert!(metrics.lines().any(|it| it == line), "{charge}: no `{line}` in\n{metrics}");
        }
    }
}

fn keys() -> impl Strategy<Value = (u64, u64, &'static str)> {
    let algorithms = prop::sample::select(vec![
        "token_bucket",
        "fixed_window",
        "sliding_window",
        "sliding_window_counter",
        "sliding_window_log",
        "leaky_bucket",
    ]);
    (1..60_u64, 1..8_u64, algorithms)
        .prop_map(|(requests, cost, algorithm)| (requests.max(cost), cost, algorithm))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// A hit of cost c is c hits of a limit without a cost, and a limit in shadow beside changes nothing.
    #[test]
    fn a_cost_is_that_many_hits_and_a_shadow_changes_no_outcome(
        (requests, cost, algorithm) in keys(),
        steps in prop::collection::vec((0..4_u64, 0..9_000_u64), 1..40),
        shadow in 1..50_u64,
    ) {
        let limit = format!("unit: second, unit_multiplier: 10, requests_per_unit: {requests}, algorithm: {algorithm}");
        let one = |limit: &str| limiter(&format!("{{domain: d, descriptors: [{{key: a, {limit}}}]}}"));
        let plain = one(&format!("rate_limit: {{{limit}}}"));
        let costly = one(&format!("rate_limit: {{{limit}, cost: {cost}}}"));
        let tried = one(&format!(
            "limits: [{{name: t, unit: second, requests_per_unit: {shadow}, shadow: true}}, {{name: n, {limit}, cost: {cost}}}]"
        ));
        let mut now: Timestamp = NOON;
        for (hits, millis) in steps {
            now = now + std::time::Duration::from_millis(millis);
            let want = ask_at(&plain, "d", &[of("a=1").hits(hits * cost)], now);
            prop_assert_eq!(&ask_at(&costly, "d", &[of("a=1").hits(hits)], now), &want);
            let tried = ask_at(&tried, "d", &[of("a=1").hits(hits)], now);
            prop_assert_eq!(tried.replace(" shadow", ""), want);
        }
    }
}
