//! Soft limits with a stated excess: admitted and marked up to it, and no further.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use crate::common::{NOON, Routed, ask_at, beside_memory, cut, entries, limiter, of, policy, seconds};
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_store::block_on;
use tollgate_store::suite::{Down, OutageStore};

fn rules(limit: &str) -> String {
    format!("{{domain: d, descriptors: [{{key: a, rate_limit: {{{limit}}}}}]}}")
}

#[test]
fn a_soft_limit_admits_up_to_its_excess_and_marks_what_is_above_the_limit() {
    for (limit, refilled) in [
        ("rate: 4/minute, excess: 50 %", "OK: ok 3/4"),
        ("rate: 4/minute, excess: 2", "OK: ok 3/4"),
        ("rate: 4/minute, excess: 50 %, algorithm: sliding_window", "OK: ok 3/4"),
        ("rate: 4/minute, excess: 50 %, algorithm: sliding_window_log", "OK: ok 3/4"),
        ("algorithm: total, limit: 4, excess: 2", "OVER: over 0/4 never"),
    ] {
        let limiter = limiter(&rules(limit));
        let mut wants = vec!["OK: ok 3/4", "OK: ok 2/4", "OK: ok 1/4", "OK: ok 0/4"];
        wants.extend(["OK: ok 0/4 excess", "OK: ok 0/4 excess"]);
        for (index, want) in wants.into_iter().enumerate() {
            assert_eq!(ask_at(&limiter, "d", &[of("a=1")], NOON), want, "{limit}, {index}");
        }
        let denied = ask_at(&limiter, "d", &[of("a=1")], NOON);
        assert!(denied.starts_with("OVER: over 0/4 "), "{limit}: {denied}");
        assert!(!denied.contains("excess"), "{limit}: {denied}");
        assert_eq!(ask_at(&limiter, "d", &[of("a=1")], NOON + seconds(200)), refilled, "{limit}");
    }
}

#[test]
fn a_cost_is_in_excess_from_its_first_permit_above_the_limit_on_and_a_peek_never_is() {
    let limiter = limiter(&rules("rate: 4/minute, excess: 2"));
    for (hits, want) in
        [(3, "OK: ok 1/4"), (2, "OK: ok 0/4 excess"), (0, "OK: ok 0/4"), (2, "OVER: over 0/4 in 60s")]
    {
        assert_eq!(ask_at(&limiter, "d", &[of("a=1").hits(hits)], NOON), want, "{hits}");
    }
}

#[test]
fn admissions_in_excess_are_counted_by_rule_over_a_reload_and_near_hits_are_those_of_the_limit() {
    let text =
        rules("rate: 10/minute, excess: 2").replace("descriptors: [", "descriptors: [{key: b, rate: 1/s}, ");
    let limiter = limiter(&text);
    (0..8).for_each(|_| drop(ask_at(&limiter, "d", &[of("a=1")], NOON)));
    let near = r#"ratelimit_service_rate_limit_near_limit{domain="d",key1="a"}"#;
    let has = |line: &str| {
        let text = limiter.metrics().render();
        assert!(text.lines().any(|it| it == line), "no `{line}` in\n{text}");
    };
    has(&format!("{near} 0"));
    (0..6).for_each(|_| drop(ask_at(&limiter, "d", &[of("a=1")], NOON)));
    let excess = r#"tollgate_excess_decisions_total{domain="d",rule="a"}"#;
    has(&format!("{excess} 2"));
    has(r#"tollgate_decisions_total{domain="d",rule="a",outcome="admit"} 12"#);
    has(r#"tollgate_decisions_total{domain="d",rule="a",outcome="deny"} 2"#);
    assert!(!limiter.metrics().render().contains(r#"tollgate_excess_decisions_total{domain="d",rule="b"}"#));
    limiter.replace(policy(&text.replace("excess: 2", "excess: 3")), NOON);
    // The counts stay, and denied requests count too: the window is full.
    assert_eq!(ask_at(&limiter, "d", &[of("a=1")], NOON), "OVER: over 0/10 in 60s");
    has(&format!("{excess} 2"));
}

#[test]
fn all_or_nothing_marks_only_what_is_charged() {
    let text = "{domain: d, charge: together, descriptors: [
        {key: a, rate_limit: {rate: 1/minute, excess: 1}}, {key: b, rate: 1/minute}]}";
    let limiter = limiter(text);
    for (asks, want) in [
        (&["a=1"][..], "OK: ok 0/1"),
        (&["b=1"], "OK: ok 0/1"),
        (&["a=1", "b=1"], "OVER: ok 0/1, over 0/1 in 60s"),
        (&["a=1"], "OK: ok 0/1 excess"),
        (&["a=1"], "OVER: over 0/1 in 60s"),
    ] {
        let asks: Vec<_> = asks.iter().map(|entries| of(entries)).collect();
        assert_eq!(ask_at(&limiter, "d", &asks, NOON), want, "{asks:?}");
    }
}

#[test]
fn a_node_on_its_own_has_its_share_of_the_excess() {
    let store = beside_memory(OutageStore::default().with_nodes(2));
    let text = rules("rate: 8/minute, excess: 4, on_store_failure: local");
    let limiter: Limiter<Routed> = Limiter::new(policy(&text), store, LimiterSettings::default());
    cut(&limiter, Down::All);
    let answers: Vec<String> = (0..20).map(|_| ask_at(&limiter, "d", &[of("a=1")], NOON)).collect();
    let number = |of: &str| answers.iter().filter(|answer| answer.contains(of)).count();
    assert_eq!((number("OK"), number("excess")), (6, 2), "{answers:?}");
}

#[test]
fn a_counter_that_is_looked_at_has_what_is_left_of_the_limit() {
    let limiter = limiter(&rules("rate: 4/minute, excess: 2"));
    (0..5).for_each(|_| drop(ask_at(&limiter, "d", &[of("a=1")], NOON)));
    let reports = block_on(limiter.inspect("d", &entries("a=1"), NOON)).expect("counted");
    assert_eq!((reports[0].decision.remaining(), reports[0].excess), (1, 2));
    assert_eq!(reports[0].limit, "4 per minute, fixed_window, excess 2");
}
