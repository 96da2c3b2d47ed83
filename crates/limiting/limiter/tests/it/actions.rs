//! Rules that admit or deny everything: allow lists and deny lists.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use crate::common::{Ask, NOON, ask_at, entries, limiter, of};
use tollgate_limiter::{Descriptor, KeyError, Request, ReserveTerms, Scratch, Unit, Unmatched};
use tollgate_store::block_on;

const RULES: &str = "
domain: d
descriptors:
  - {key: ip, rate: 1/minute}
  - {key: ip, value_cidr: 10.0.0.0/8, action: allow}
  - {key: ip, value_cidr: 192.0.2.0/24, action: deny}
  - {key: ip, value: 192.0.2.7, shadow_mode: true, action: deny}
  - {key: ip, value: 192.0.2.8, quota_mode: true, action: deny}
  - {key: user, rate: 1/minute}
  - {key: ip, value: 192.0.2.9, action: deny}";

#[test]
fn an_allow_list_admits_and_a_deny_list_denies_without_a_wait() {
    let limiter = limiter(RULES);
    for (asks, want) in [
        (&["ip=10.1.2.3"][..], "OK: ok unlimited"),
        (&["ip=10.1.2.3"], "OK: ok unlimited"),
        (&["ip=192.0.2.1"], "OVER: over never"),
        (&["ip=192.0.2.7"], "OK: ok shadow"),
        (&["ip=198.51.100.1"], "OK: ok 0/1"),
        (&["ip=198.51.100.1"], "OVER: over 0/1 in 60s"),
        // Every limit is charged separately, unless the domain says otherwise.
        (&["ip=192.0.2.1", "user=ann"], "OVER: over never, ok 0/1"),
        (&["ip=192.0.2.1", "user=ann"], "OVER: over never, over 0/1 in 60s"),
        (&["ip=10.1.2.3", "user=ann"], "OVER: ok unlimited, over 0/1 in 60s"),
        (&["ip=192.0.2.8"], "OVER: over quota never"),
        (&["ip=192.0.2.8", "user=bob"], "OVER: over quota never, ok 0/1"),
    ] {
        let asks: Vec<Ask<'_>> = asks.iter().map(|entries| of(entries)).collect();
        assert_eq!(ask_at(&limiter, "d", &asks, NOON), want, "{asks:?}");
    }
    let own = of("ip=192.0.2.1").limit(5, Unit::Hour);
    assert_eq!(
        ask_at(&limiter, "d", &[own], NOON),
        "OK: ok 4/5",
        "a limit of the request goes before the rule"
    );
    let error = block_on(limiter.inspect("d", &entries("ip=192.0.2.1"), NOON)).expect_err("not counted");
    assert!(matches!(error, KeyError::Denies(_)), "{error}");
}

#[test]
fn a_denial_by_list_charges_nothing_where_all_or_nothing_is_charged() {
    let limiter = limiter(&RULES.replace("domain: d", "domain: d\ncharge: together"));
    let ask = |asks: &[&str]| {
        let asks: Vec<Ask<'_>> = asks.iter().map(|entries| of(entries)).collect();
        ask_at(&limiter, "d", &asks, NOON)
    };
    assert_eq!(ask(&["user=ann", "ip=192.0.2.1"]), "OVER: ok, over never");
    assert_eq!(ask(&["user=ann", "ip=192.0.2.7"]), "OK: ok 0/1, ok shadow", "shadow mode denies nothing");
    let asked = [entries("user=bob"), entries("ip=192.0.2.1")];
    let descriptors = [Descriptor::new(&asked[0]), Descriptor::new(&asked[1])];
    let request = Request { domain: "d", descriptors: &descriptors, hits: 1 };
    let mut scratch = Scratch::new();
    let reserved = block_on(limiter.reserve(&request, ReserveTerms::default(), NOON, &mut scratch));
    let reserved = reserved.expect("a place");
    assert!(!reserved.answer.is_admitted() && reserved.id.is_none());
    drop(reserved);
    assert_eq!(ask(&["user=bob"]), "OK: ok 0/1", "nothing was held");
}

#[test]
fn denials_by_list_are_counted_and_explained() {
    let limiter = limiter(RULES);
    ask_at(&limiter, "d", &[of("ip=192.0.2.1").hits(3)], NOON);
    ask_at(&limiter, "d", &[of("ip=10.0.0.1")], NOON);
    let text = limiter.metrics().render();
    for line in [
        r#"tollgate_decisions_total{domain="d",rule="ip in 192.0.2.0/24",outcome="deny"} 1"#,
        r#"tollgate_denied_hits_total{domain="d",rule="ip in 192.0.2.0/24"} 3"#,
        r#"tollgate_decisions_total{domain="d",rule="ip in 10.0.0.0/8",outcome="admit"} 1"#,
        r#"tollgate_unmatched_descriptors_total{domain="d"} 0"#,
    ] {
        assert!(text.lines().any(|it| it == line), "no `{line}` in\n{text}");
    }
    let rules = limiter.rules();
    let asked = entries("ip=192.0.2.1");
    let explained =
        tollgate_limiter::explain::explain(rules.policy(), "d", &asked, Unmatched::Admit).to_string();
    assert!(explained.contains("limit    none: the rule denies everything\n"), "{explained}");
}
