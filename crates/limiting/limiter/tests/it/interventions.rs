//! Blocks and allowances by operators, in each kind of request.
#![allow(clippy::expect_used, reason = "in a test a panic is the finding")]

use std::time::Duration;

use tollgate_core::{RetryAfter, Timestamp};
use tollgate_limiter::{
    Descriptor, Entry, Intervened, Intervention, Limiter, LimiterSettings, Request, Scratch, SlotError,
    Unmatched,
};
use tollgate_store::{ModelStore, block_on};

use crate::common::desk::{Desk, NOW};
use crate::common::{NOON, ask, ask_at, entries, limiter, of, policy, seconds};

const RULES: &str = "
domain: d
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: user, value: vip, rate_limit: {name: vip, unit: minute, requests_per_unit: 5, replaces: [{name: ip}]}}
  - {key: ip, rate_limit: {name: ip, unit: minute, requests_per_unit: 1}}
  - {key: soft, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: export, rate_limit: {algorithm: concurrency, limit: 1, ttl: 30s}}";

fn one(names: &str, action: Intervened, for_seconds: u64) -> Intervention {
    let entries = entries(names).iter().map(|it| (it.key.to_owned(), it.value.to_owned())).collect();
    Intervention { domain: "d".to_owned(), entries, action, until: NOON + seconds(for_seconds) }
}

fn block(names: &str) -> Intervention {
    one(names, Intervened::Blocked, 60)
}

fn allow(names: &str) -> Intervention {
    one(names, Intervened::Allowed, 60)
}

fn with(list: Vec<Intervention>) -> Limiter<ModelStore> {
    let limiter = limiter(RULES);
    let count = list.len();
    assert_eq!(limiter.intervene(list, NOON).in_force, count);
    limiter
}

#[test]
fn a_block_denies_with_the_time_left_and_counts_nothing_until_it_ends() {
    let limiter = with(vec![block("user=ann")]);
    let at = |ms: u64, names| ask_at(&limiter, "d", &[of(names)], NOON + Duration::from_millis(ms));
    assert_eq!(at(0, "user=ann"), "OVER: over in 60s");
    assert_eq!(at(58_500, "user=ann"), "OVER: over in 1.5s");
    assert_eq!(at(0, "user=bob"), "OK: ok 1/2");
    assert_eq!(at(60_000, "user=ann"), "OK: ok 1/2", "it has ended by itself, and nothing was counted");
    assert_eq!(at(60_000, "user=ann"), "OK: ok 0/2");
    assert_eq!(at(60_000, "user=ann"), "OVER: over 0/2 in 60s");
}

#[test]
fn an_allowance_admits_and_counts_nothing() {
    let limiter = with(vec![allow("user=ann")]);
    for _ in 0..5 {
        assert_eq!(ask(&limiter, &[of("user=ann")]), "OK: ok");
    }
    limiter.intervene(Vec::new(), NOON);
    assert_eq!(ask(&limiter, &[of("user=ann")]), "OK: ok 1/2");
}

#[test]
fn it_decides_its_own_descriptor_and_the_others_as_ever() {
    let limiter = with(vec![block("user=ann"), allow("user=bob"), allow("user=vip"), block("soft=x")]);
    assert_eq!(ask(&limiter, &[of("user=ann"), of("ip=1")]), "OVER: over in 60s, ok 0/1");
    assert_eq!(ask(&limiter, &[of("user=bob"), of("ip=1")]), "OVER: ok, over 0/1 in 60s");
    // The rule that it passes by still takes the place of the other.
    assert_eq!(ask(&limiter, &[of("user=vip"), of("ip=1")]), "OK: ok, ok replaced");
    // A block is hard, also where the rule is soft or in shadow mode.
    assert_eq!(ask(&limiter, &[of("soft=x"), of("user=eve")]), "OVER: over in 60s, ok 1/2");
    limiter.intervene(vec![block("shadow=x")], NOON);
    assert_eq!(ask(&limiter, &[of("shadow=x")]), "OVER: over in 60s");
    assert_eq!(ask(&limiter, &[of("shadow=y")]), "OK: ok 0/0 shadow never");
}

#[test]
fn limits_that_are_charged_together_are_not_charged_beside_a_block() {
    let limiter = limiter(&format!("{RULES}\ncharge: together"));
    limiter.intervene(vec![block("user=ann")], NOON);
    assert_eq!(ask(&limiter, &[of("user=ann"), of("ip=1")]), "OVER: over in 60s, ok");
    assert_eq!(ask(&limiter, &[of("ip=1")]), "OK: ok 0/1");
}

#[test]
fn a_whole_domain_with_or_without_rules_and_entries_that_no_rule_matches() {
    let limiter = with(vec![block(""), allow("user=ann"), block("user=ann path=/x")]);
    for (names, want) in [
        ("user=bob", "OVER: over in 60s"),
        ("nothing=1", "OVER: over in 60s"),
        ("user=ann", "OK: ok"),
        ("user=ann path=/y", "OK: ok"),
        ("user=ann path=/x more=1", "OVER: over in 60s"),
    ] {
        assert_eq!(ask(&limiter, &[of(names)]), want, "{names}");
    }
    assert_eq!(ask_at(&limiter, "other", &[of("user=ann")], NOON), "OK: ok");
    limiter.intervene(vec![Intervention { domain: "other".into(), ..block("user=ann") }], NOON);
    assert_eq!(ask_at(&limiter, "other", &[of("user=ann")], NOON), "OVER: over in 60s");
    assert_eq!(ask_at(&limiter, "other", &[of("user=bob")], NOON), "OK: ok");
    assert_eq!(ask(&limiter, &[of("user=ann")]), "OK: ok 1/2");
    // Where requests without a rule are denied, an allowance lets them pass.
    let settings = LimiterSettings { unmatched: Unmatched::Deny, ..LimiterSettings::default() };
    let strict: Limiter<ModelStore> = Limiter::new(policy(RULES), ModelStore::default(), settings);
    let in_other = Intervention { domain: "other".into(), ..allow("a=1") };
    strict.intervene(vec![allow("nothing=1"), in_other], NOON);
    assert_eq!(ask(&strict, &[of("nothing=1")]), "OK: ok");
    assert_eq!(ask(&strict, &[of("nothing=2")]), "OVER: over never");
    assert_eq!(ask_at(&strict, "other", &[of("a=1")], NOON), "OK: ok");
    assert_eq!(ask_at(&strict, "other", &[of("a=2")], NOON), "OVER: over never");
}

#[test]
fn it_stays_in_force_when_rules_change_and_goes_when_the_list_does() {
    let limiter = with(vec![block("user=ann")]);
    limiter.replace(policy(&RULES.replace("requests_per_unit: 2", "requests_per_unit: 9")), NOON);
    assert_eq!(ask(&limiter, &[of("user=ann")]), "OVER: over in 60s");
    assert_eq!(ask(&limiter, &[of("user=bob")]), "OK: ok 8/9");
    // A domain that the rules have only now.
    limiter.intervene(vec![Intervention { domain: "late".into(), ..block("user=ann") }], NOON);
    limiter.replace(policy("{domain: late, descriptors: [{key: user, rate_limit: {rate: 5/s}}]}"), NOON);
    assert_eq!(ask_at(&limiter, "late", &[of("user=ann")], NOON), "OVER: over in 60s");
    limiter.intervene(Vec::new(), NOON);
    assert_eq!(ask_at(&limiter, "late", &[of("user=ann")], NOON), "OK: ok 4/5");
}

#[test]
fn one_put_in_force_after_others_have_ended_is_found() {
    let limiter = with(vec![one("user=ann", Intervened::Blocked, 1)]);
    let later = NOON + seconds(5);
    assert_eq!(ask_at(&limiter, "d", &[of("user=ann")], later), "OK: ok 1/2");
    assert_eq!(limiter.intervene(vec![block("user=ann")], later).in_force, 1);
    assert_eq!(ask_at(&limiter, "d", &[of("user=ann")], later), "OVER: over in 55s");
}

#[test]
fn reservations_are_denied_or_hold_nothing() {
    let desk = Desk(with(vec![block("user=ann"), allow("user=bob")]));
    let denied = desk.reserve("user=ann", 1, NOW, NOON);
    assert_eq!((denied.id, denied.retry_after), (None, vec![RetryAfter::After(seconds(60))]));
    let free = desk.reserve("user=bob", 100, NOW, NOON).id.expect("granted");
    assert!(desk.commit(free, Some(100), NOON).is_ok());
    assert_eq!((desk.left("user=ann", NOON), desk.left("user=bob", NOON)), (2, 2));
}

#[test]
fn slots_are_denied_or_not_needed() {
    let acquire = |limiter: &Limiter<ModelStore>, now: Timestamp| {
        let entries = entries("export=a");
        let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits: 1 };
        block_on(limiter.acquire(&request, None, now, &mut Scratch::new())).expect("an answer")
    };
    let limiter = with(vec![block("export=a")]);
    let denied = acquire(&limiter, NOON);
    assert_eq!((denied.is_admitted(), denied.retry_after()), (false, RetryAfter::After(seconds(60))));
    limiter.intervene(vec![allow("export=a")], NOON);
    for _ in 0..3 {
        let allowed = acquire(&limiter, NOON);
        assert_eq!((allowed.is_admitted(), allowed.limit, allowed.ttl), (true, None, None));
    }
    limiter.intervene(Vec::new(), NOON);
    assert!(acquire(&limiter, NOON).is_admitted(), "the slot is free");
    assert!(!acquire(&limiter, NOON).is_admitted());
    // A check of a rule with slots stays an error.
    limiter.intervene(vec![allow("export=a")], NOON);
    let error = ask(&limiter, &[of("export=a")]);
    assert!(error.starts_with("error: rule export limits what runs"), "{error}");
    let rate = Desk(limiter);
    assert_eq!(rate.left("user=a", NOON), 2);
    let entries = entries("user=a");
    let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits: 1 };
    let wrong = block_on(rate.0.acquire(&request, None, NOON, &mut Scratch::new()));
    assert!(matches!(wrong, Err(SlotError::CountsPermits { .. })));
}

#[test]
fn an_explanation_and_metrics_show_it() {
    let limiter = with(vec![block("user=ann"), allow("")]);
    let ann = limiter.explain("d", &entries("user=ann ip=1"), NOON);
    let found = ann.intervention.expect("a block");
    assert_eq!((found.action, found.entries, found.left), (Intervened::Blocked, 1, seconds(60)));
    let text = ann.to_string();
    assert!(text.contains("\noperator blocked for another 60s, by its first entry\n"), "{text}");
    let text = limiter.explain("d", &entries("ip=1"), NOON).to_string();
    assert!(text.contains("operator allowed without being counted for another 60s, as is the whole domain"));
    assert!(limiter.explain("d", &entries("user=ann"), NOON + seconds(60)).intervention.is_none());
    let _ = (ask(&limiter, &[of("user=ann")]), ask(&limiter, &[of("user=bob"), of("ip=1")]));
    let text = limiter.metrics().render();
    for line in [
        "tollgate_interventions 2",
        "tollgate_intervened_descriptors_total{action=\"block\"} 1",
        "tollgate_intervened_descriptors_total{action=\"allow\"} 2",
        "tollgate_decisions_total{domain=\"d\",rule=\"user\",outcome=\"deny\"} 1",
        "tollgate_decisions_total{domain=\"d\",rule=\"user\",outcome=\"admit\"} 1",
        "tollgate_unmatched_descriptors_total{domain=\"d\"} 0",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line} is missing in\n{text}");
    }
}

#[test]
fn an_address_is_blocked_or_allowed_in_every_spelling_and_of_a_list_the_one_that_counts() {
    let rules = "
domain: d
descriptors:
  - {key: ip, ipv6_prefix: 64, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: list, forwarded: 2, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: host, rate_limit: {unit: minute, requests_per_unit: 2}}
  - key: app
    descriptors:
      - {key: ip, value_cidr: 0.0.0.0/0, rate_limit: {unit: minute, requests_per_unit: 2}}";
    let limiter = limiter(rules);
    let list = vec![
        block("ip=203.0.113.7"),
        block("ip=2001:DB8::7"),
        allow("ip=203.0.113.8"),
        block("list=203.0.113.7"),
        block("app=a ip=203.0.113.7"),
        block("host=203.0.113.9:80"),
        block("other=203.0.113.7"),
    ];
    assert_eq!(limiter.intervene(list, NOON).in_force, 7);
    let found = |key: &str, value: &str| {
        let entries = [Entry::new(key, value)];
        limiter.intervention("d", &entries, NOON).map(|it| it.action)
    };
    let blocked = Some(Intervened::Blocked);
    let allowed = Some(Intervened::Allowed);
    for (key, value, want) in [
        ("ip", "203.0.113.7", blocked),
        ("ip", "203.0.113.7:50001", blocked),
        ("ip", " \"[::ffff:cb00:7107]:443\"", blocked),
        ("ip", "[2001:db8::7%eth0]:443", blocked),
        ("ip", "2001:db8::8", None), // the block names one address, not the network that shares a counter
        ("ip", "6.6.6.6, 203.0.113.7", blocked),
        ("ip", "203.0.113.7, 6.6.6.6", None),
        ("ip", "203.0.113.8:1", allowed),
        ("ip", "6.6.6.6, 203.0.113.8", None), // a proxy in between may have written it
        ("list", "6.6.6.6, 203.0.113.7:5, 10.0.0.1", blocked),
        ("list", "203.0.113.7, 10.0.0.1, 10.0.0.2", None),
        ("list", "203.0.113.7", None),
        // No rule takes addresses: an address alone still is one, and a host with its port is that host.
        ("other", "203.0.113.7:50001", blocked),
        ("host", "203.0.113.9:80", blocked),
        ("host", "203.0.113.9:81", None),
        ("host", "203.0.113.9", None),
    ] {
        assert_eq!(found(key, value), want, "{key}={value}");
    }
    // In decisions, also below another entry.
    assert_eq!(ask(&limiter, &[of("ip=203.0.113.7:50001")]), "OVER: over in 60s");
    assert_eq!(ask(&limiter, &[of("app=a ip=203.0.113.7:50001")]), "OVER: over in 60s");
    assert_eq!(ask(&limiter, &[of("app=b ip=203.0.113.7:50001")]), "OK: ok 1/2");
}
