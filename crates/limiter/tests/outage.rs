//! A store that gives no answer: each rule decides as it says, and the answer is marked.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

mod common;

use std::sync::atomic::Ordering::SeqCst;

use common::{Moody, NOON, ask_at, of, policy};
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_store::ModelStore;

const RULES: &str = "
domain: d
descriptors:
  - {key: open, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: shut, rate_limit: {unit: minute, requests_per_unit: 2, on_store_failure: deny}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2, on_store_failure: deny}}
  - {key: local, rate_limit: {unit: minute, requests_per_unit: 2, on_store_failure: local}}";

#[test]
fn each_rule_decides_without_its_store_as_it_says() {
    let limiter = Limiter::new(policy(RULES), Moody::default(), LimiterSettings::default())
        .with_local(ModelStore::default());
    let ask = |asks: &[common::Ask<'_>]| ask_at(&limiter, "d", asks, NOON);
    assert_eq!(ask(&[of("open=1"), of("local=1")]), "OK: ok 1/2, ok 1/2");
    limiter.store().is_down.store(true, SeqCst);
    for (asks, want) in [
        (&[of("open=1")][..], "OK: ok degraded:allow"),
        (&[of("shut=1")], "OVER: over 0/2 degraded:deny in 1s"),
        (&[of("shadow=1")], "OK: ok 0/2 shadow degraded:deny"),
        (&[of("local=1")], "OK: ok 1/2 degraded:local"),
        (&[of("local=1"), of("open=1")], "OK: ok 0/2 degraded:local, ok degraded:allow"),
        (&[of("local=1")], "OVER: over 0/2 degraded:local in 60s"),
    ] {
        assert_eq!(ask(asks), want);
    }
    limiter.store().is_down.store(false, SeqCst);
    assert_eq!(ask(&[of("open=1"), of("local=1")]), "OK: ok 0/2, ok 0/2");
    let text = limiter.metrics().render();
    for line in [
        r#"tollgate_degraded_decisions_total{domain="d",rule="open"} 2"#,
        r#"tollgate_degraded_decisions_total{domain="d",rule="local"} 3"#,
        "tollgate_store_errors_total 7",
    ] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
}

#[test]
fn local_without_a_local_store_lets_pass() {
    let limiter: Limiter<Moody> = Limiter::new(policy(RULES), Moody::default(), LimiterSettings::default());
    limiter.store().is_down.store(true, SeqCst);
    assert_eq!(ask_at(&limiter, "d", &[of("local=1")], NOON), "OK: ok degraded:allow");
}
