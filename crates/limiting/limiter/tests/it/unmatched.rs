//! Treatment of requests for which no rule matches.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use crate::common::{Ask, NOON, ask_at, entries, of, policy};
use tollgate_core::Timestamp;
use tollgate_limiter::{
    Descriptor, Limiter, LimiterSettings, Request, ReserveTerms, Scratch, Unit, Unmatched,
};
use tollgate_store::{ModelStore, block_on};

const DESCRIPTORS: &str = "
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: user, value: operator}
  - {key: probe, rate_limit: {unlimited: true}}
  - key: plan
    descriptors:
      - {key: path, rate_limit: {unit: minute, requests_per_unit: 1}}";

fn limiter(unmatched: &str, settings: LimiterSettings) -> Limiter<ModelStore> {
    Limiter::new(policy(&format!("domain: d{unmatched}{DESCRIPTORS}")), ModelStore::default(), settings)
}

fn ask(limiter: &Limiter<ModelStore>, domain: &str, asks: &[&str]) -> String {
    let asks: Vec<Ask<'_>> = asks.iter().map(|entries| of(entries)).collect();
    ask_at(limiter, domain, &asks, NOON)
}

#[test]
fn a_request_that_no_rule_matches_is_denied_where_its_domain_says_so() {
    let limiter = limiter("\nunmatched: deny", LimiterSettings::default());
    for (asks, want) in [
        (&["nobody=x"][..], "OVER: over never"),
        (&["nobody=x", "user=ann extra=1"], "OVER: over never, over never"),
        (&["plan=gold"], "OVER: over never"), // rules go on below it, and none ends there
        (&["user=ann"], "OK: ok 0/1"),
        (&["nobody=x", "user=bob"], "OK: ok, ok 0/1"), // a rule matches the request
        (&["user=operator"], "OK: ok"),                // an exception that was written on purpose
        (&["nobody=x", "user=operator"], "OK: ok, ok"),
        (&["probe=x"], "OK: ok unlimited"),
    ] {
        assert_eq!(ask(&limiter, "d", asks), want, "{asks:?}");
    }
    let own = of("nobody=x").limit(5, Unit::Hour);
    assert_eq!(ask_at(&limiter, "d", &[own], NOON), "OK: ok 4/5", "its own limit is a limit");
    assert_eq!(ask(&limiter, "elsewhere", &["nobody=x"]), "OK: ok", "which is another domain");
}

#[test]
fn the_setting_decides_for_unknown_domains_and_for_those_that_do_not_say() {
    let deny = LimiterSettings { unmatched: Unmatched::Deny, ..LimiterSettings::default() };
    for (rules, settings, known, unknown) in [
        ("", LimiterSettings::default(), "OK: ok", "OK: ok"),
        ("", deny.clone(), "OVER: over never", "OVER: over never"),
        ("\nunmatched: admit", deny.clone(), "OK: ok", "OVER: over never"),
        ("\nunmatched: deny", LimiterSettings::default(), "OVER: over never", "OK: ok"),
        (
            "",
            LimiterSettings { shadow_mode: true, ..deny },
            "OK (shadow): over never",
            "OK (shadow): over never",
        ),
    ] {
        let limiter = limiter(rules, settings);
        assert_eq!(ask(&limiter, "d", &["nobody=x"]), known, "{rules}");
        assert_eq!(ask(&limiter, "elsewhere", &["nobody=x"]), unknown, "{rules}");
    }
}

#[test]
fn a_reservation_that_no_rule_matches_is_denied_as_well() {
    let limiter = limiter("\nunmatched: deny", LimiterSettings::default());
    for (asked, is_admitted) in [("nobody=x", false), ("user=ann", true), ("user=operator", true)] {
        let entries = entries(asked);
        let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits: 1 };
        let now: Timestamp = NOON;
        let mut scratch = Scratch::new();
        let reserved = block_on(limiter.reserve(&request, ReserveTerms::default(), now, &mut scratch));
        let reserved = reserved.expect("a place");
        assert_eq!(
            (reserved.answer.is_admitted(), reserved.id.is_some()),
            (is_admitted, is_admitted),
            "{asked}"
        );
    }
}

#[test]
fn requests_that_no_rule_matches_are_counted_by_domain_and_outcome() {
    let limiter = limiter("\nunmatched: deny", LimiterSettings::default());
    for asks in [&["nobody=x"][..], &["nobody=x", "nobody=y"], &["nobody=x", "user=ann"], &["user=operator"]]
    {
        ask(&limiter, "d", asks);
    }
    for name in ["a", "b", "c"] {
        ask(&limiter, name, &["nobody=x"]);
    }
    let text = limiter.metrics().render();
    let got: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("tollgate_unmatched_requests_total")).collect();
    let want = [
        r#"{domain="d",outcome="admit"} 1"#,
        r#"{domain="d",outcome="deny"} 2"#,
        r#"{domain="(unknown)",outcome="admit"} 3"#,
        r#"{domain="(unknown)",outcome="deny"} 0"#,
    ];
    assert_eq!(got, want);
}
