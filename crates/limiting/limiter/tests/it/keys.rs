//! One counter looked at and forgotten, and the report of them all.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use crate::common::{NOON, ask, ask_at, beside_memory, cut, entries, limiter, of, policy, seconds};
use tollgate_limiter::{Degraded, KeyReport, Limiter, LimiterSettings, ObserveSettings, Totals};
use tollgate_store::suite::{Down, OutageStore};
use tollgate_store::{ModelStore, block_on};

const RULES: &str = "
domain: d
descriptors:
  - {key: user, rate_limit: {name: per user, unit: minute, requests_per_unit: 3}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: free, rate_limit: {unlimited: true}}
  - key: two
    limits:
      - {name: short, requests_per_unit: 2, unit: second}
      - {name: long, requests_per_unit: 9, unit: minute}";

fn told(reports: &[KeyReport]) -> Vec<String> {
    let tell = |it: &KeyReport| {
        let tracked = if it.is_tracked { "" } else { " (nothing kept)" };
        format!("{} | {} | {} | {} left{tracked}", it.rule, it.limit, it.key, it.decision.remaining())
    };
    reports.iter().map(tell).collect()
}

#[test]
fn each_limit_of_the_rule_is_reported_and_nothing_changes() {
    let limiter = limiter(RULES);
    let look = |of: &str| told(&block_on(limiter.inspect("d", &entries(of), NOON)).expect("it is counted"));
    assert_eq!(
        look("user=ann|b"),
        ["user | per user: 3 per minute, fixed_window | d|user=ann%7Cb|minute | 3 left (nothing kept)"]
    );
    ask(&limiter, &[of("user=ann|b")]);
    ask(&limiter, &[of("two=k").hits(2)]);
    for _ in 0..2 {
        assert_eq!(
            look("user=ann|b"),
            ["user | per user: 3 per minute, fixed_window | d|user=ann%7Cb|minute | 2 left"]
        );
        let want = [
            "two | short: 2 per second, fixed_window | d|two=k|second#short | 0 left",
            "two | long: 9 per minute, fixed_window | d|two=k|minute#long | 7 left",
        ];
        assert_eq!(look("two=k"), want);
    }
}

#[test]
fn a_reset_forgets_every_limit_of_the_rule_and_says_whether_there_was_something() {
    let limiter = limiter(RULES);
    let reset =
        |of: &str, now| told(&block_on(limiter.reset("d", &entries(of), now)).expect("it is counted"));
    ask(&limiter, &[of("two=k").hits(2)]);
    ask(&limiter, &[of("two=other").hits(2)]);
    // The second is over, the minute is not.
    let want = [
        "two | short: 2 per second, fixed_window | d|two=k|second#short | 2 left (nothing kept)",
        "two | long: 9 per minute, fixed_window | d|two=k|minute#long | 9 left",
    ];
    assert_eq!(reset("two=k", NOON + seconds(1)), want);
    assert!(reset("two=k", NOON + seconds(1)).iter().all(|line| line.ends_with("(nothing kept)")));
    assert_eq!(ask_at(&limiter, "d", &[of("two=k").hits(2)], NOON + seconds(1)), "OK: ok 0/2");
    assert_eq!(ask_at(&limiter, "d", &[of("two=other").hits(9)], NOON + seconds(1)), "OVER: over 0/2 never");
}

#[test]
fn uncounted_descriptors_and_an_unavailable_store_are_errors() {
    let limiter: Limiter<OutageStore> =
        Limiter::new(policy(RULES), OutageStore::default(), LimiterSettings::default());
    let error = |domain: &str, of: &str| {
        let look = block_on(limiter.inspect(domain, &entries(of), NOON))
            .expect_err("nothing is counted")
            .to_string();
        let reset =
            block_on(limiter.reset(domain, &entries(of), NOON)).expect_err("nothing is counted").to_string();
        assert_eq!(look, reset);
        look
    };
    assert_eq!(
        error("elsewhere", "user=a"),
        "there is no domain \"elsewhere\", so nothing is counted for it"
    );
    assert_eq!(error("d", "nobody=a b=c"), "no rule of domain \"d\" limits nobody=a, b=c");
    assert_eq!(error("d", "free=a"), "rule free is unlimited, so nothing is counted for it");
    limiter.store().outage().set(Down::All);
    assert!(error("d", "user=a").starts_with("store outage did not answer within"));
}

#[test]
fn without_the_store_a_node_reports_the_share_that_it_decides_by() {
    const RULES: &str = "
domain: d
descriptors:
  - {key: open, rate_limit: {unit: minute, requests_per_unit: 6}}
  - {key: share, rate_limit: {unit: minute, requests_per_unit: 6, on_store_failure: local}}";
    let store = OutageStore::default().with_nodes(2);
    let limiter = Limiter::new(policy(RULES), beside_memory(store), LimiterSettings::default());
    let look = |of: &str| block_on(limiter.inspect("d", &entries(of), NOON));
    ask_at(&limiter, "d", &[of("share=k").hits(4)], NOON);
    cut(&limiter, Down::All);
    let degraded = || {
        let reports = look("share=k").expect("its share is known here");
        (told(&reports).remove(0), reports[0].degraded.map(Degraded::name))
    };
    let line = |left| format!("share | 6 per minute, fixed_window | d|share=k|minute | {left}");
    assert_eq!(degraded(), (line("3 left (nothing kept)"), Some("local")), "half of the limit");
    ask_at(&limiter, "d", &[of("share=k").hits(2)], NOON);
    assert_eq!(degraded(), (line("1 left"), Some("local")));
    assert!(look("open=k").is_err(), "nothing is counted here");
    assert!(block_on(limiter.reset("d", &entries("share=k"), NOON)).is_err(), "that cannot be promised");
    assert_eq!(degraded(), (line("1 left"), Some("local")), "nor was it done");
    cut(&limiter, Down::Nothing);
    let reports = look("share=k").expect("the store is back");
    assert_eq!((told(&reports).remove(0), reports[0].degraded), (line("2 left"), None));
}

/// A rule's totals, and its top keys.
fn rows(limiter: &Limiter<ModelStore>, now: tollgate_core::Timestamp) -> Vec<String> {
    let report = limiter.report(now);
    let rules = report.domains.iter().flat_map(|domain| domain.rules.iter().map(move |rule| (domain, rule)));
    rules
        .map(|(domain, it)| {
            let Totals { admitted, denied, shadow_denied, .. } = it.totals;
            let top: Vec<String> =
                it.top_limited.iter().map(|top| format!("{} {}", top.key, top.denied)).collect();
            format!("{}: {} {admitted}/{denied}/{shadow_denied} [{}]", domain.name, it.rule, top.join("; "))
        })
        .collect()
}

#[test]
fn the_report_has_the_rules_in_force_their_totals_and_top_keys() {
    let limiter = limiter(RULES);
    let version = limiter.report(NOON).version;
    let began = limiter.report(NOON).loaded_at;
    assert_eq!((version.len(), began), (12, tollgate_core::Timestamp::ZERO));
    for (user, requests) in [("ann", 5), ("bob", 8), ("cid", 3)] {
        for _ in 0..requests {
            ask(&limiter, &[of(&format!("user={user}"))]);
        }
    }
    for _ in 0..3 {
        ask(&limiter, &[of("shadow=s")]);
    }
    let want =
        ["d: user 9/7/0 [bob 5; ann 2]", "d: shadow 1/0/2 [s 2]", "d: free 0/0/0 []", "d: two 0/0/0 []"];
    assert_eq!(rows(&limiter, NOON), want);
    let report = limiter.report(NOON);
    assert_eq!(report.domains[0].rules[0].name, "per user");
    assert_eq!(
        report.domains[0].rules[3].limits,
        ["short: 2 per second, fixed_window", "long: 9 per minute, fixed_window"]
    );
    let text = limiter.metrics().render();
    for line in ["tollgate_top_keys_capacity_bytes 33554432", "tollgate_top_keys_missed 0"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains("tollgate_top_keys_bytes 0"), "two rules have denied: {text}");

    // A faulty reload is reported and changes nothing else; a good one keeps the counts of rules that stay.
    limiter.reject_because(&"rules.yaml:1:1: no".into(), NOON);
    assert_eq!(limiter.report(NOON).last_error.as_deref(), Some("rules.yaml:1:1: no"));
    assert_eq!(rows(&limiter, NOON), want);
    limiter.replace(policy("{domain: d, descriptors: [{key: new}, {key: user, rate_limit: {unit: minute, requests_per_unit: 4}}]}"), NOON);
    let report = limiter.report(NOON);
    assert_eq!((report.last_error, report.loaded_at), (None, NOON));
    assert_ne!(report.version, version);
    assert_eq!(rows(&limiter, NOON), ["d: user 9/7/0 [bob 5; ann 2]"]);
    // In five minutes they count half, and the totals do not.
    assert_eq!(rows(&limiter, NOON + seconds(300)), ["d: user 9/7/0 [bob 2; ann 1]"]);
}

#[test]
fn rules_above_the_cap_on_series_share_their_totals_and_say_so_and_keep_their_own_top_keys() {
    let text = "{domain: d, descriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 0}},
        {key: b, rate_limit: {unit: minute, requests_per_unit: 0}}, {key: c, rate_limit: {unit: minute, requests_per_unit: 0}}]}";
    let settings = LimiterSettings {
        observe: ObserveSettings { max_rule_series: 1, top_keys: 2, ..ObserveSettings::default() },
        ..LimiterSettings::default()
    };
    let limiter = Limiter::new(policy(text), ModelStore::default(), settings);
    for of_ in ["a=1", "b=1", "b=2", "c=3"] {
        ask(&limiter, &[of(of_)]);
    }
    assert_eq!(rows(&limiter, NOON), ["d: a 0/1/0 [1 1]", "d: b 0/3/0 [1 1; 2 1]", "d: c 0/3/0 [3 1]"]);
    let shared: Vec<bool> = limiter.report(NOON).domains[0].rules.iter().map(|it| it.is_shared).collect();
    assert_eq!(shared, [false, true, true]);
    limiter.replace(policy(text), NOON);
    assert_eq!(rows(&limiter, NOON)[1], "d: b 0/3/0 [1 1; 2 1]");
    let off = LimiterSettings {
        observe: ObserveSettings { top_keys: 0, ..ObserveSettings::default() },
        ..LimiterSettings::default()
    };
    let limiter = Limiter::new(policy(text), ModelStore::default(), off);
    ask(&limiter, &[of("a=1")]);
    assert_eq!(rows(&limiter, NOON)[0], "d: a 0/1/0 []");
}
