//! A store that does not answer: each rule decides as it says, and the answer is marked.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::time::Duration;

use crate::common::{Ask, NOON, Routed, ask_at, beside_memory, cut, entries, of, policy};
use tollgate_core::{Cost, Quota};
use tollgate_limiter::{
    Degraded, Descriptor, Limiter, LimiterSettings, OnStoreFailure, Request, ReserveTerms, Scratch, Throttle,
    Unit,
};
use tollgate_store::block_on;
use tollgate_store::suite::{Down, OutageStore};

const RULES: &str = "
domain: d
descriptors:
  - {key: open, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: shut, rate_limit: {unit: minute, requests_per_unit: 2, on_store_failure: deny}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2, on_store_failure: deny}}
  - {key: local, rate_limit: {unit: minute, requests_per_unit: 2, on_store_failure: local}}";

#[test]
fn each_rule_decides_without_its_store_as_it_says() {
    let limiter =
        Limiter::new(policy(RULES), beside_memory(OutageStore::default()), LimiterSettings::default());
    let ask = |asks: &[crate::common::Ask<'_>]| ask_at(&limiter, "d", asks, NOON);
    assert_eq!(ask(&[of("open=1"), of("local=1")]), "OK: ok 1/2, ok 1/2");
    cut(&limiter, Down::All);
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
    cut(&limiter, Down::Nothing);
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
    let limiter: Limiter<OutageStore> =
        Limiter::new(policy(RULES), OutageStore::default(), LimiterSettings::default());
    limiter.store().outage().set(Down::All);
    assert_eq!(ask_at(&limiter, "d", &[of("local=1")], NOON), "OK: ok degraded:allow");
}

/// A node of four, beside a store that is up.
fn one_of_four(rules: &str) -> Limiter<Routed> {
    let settings =
        LimiterSettings { throttle_on_store_failure: OnStoreFailure::Local, ..LimiterSettings::default() };
    Limiter::new(policy(rules), beside_memory(OutageStore::default().with_nodes(4)), settings)
}

fn go_down(limiter: &Limiter<Routed>, is_down: bool) {
    cut(limiter, if is_down { Down::All } else { Down::Nothing });
}

/// Each of `steps`: whether the store is down, what is asked, what is answered.
fn walk(limiter: &Limiter<Routed>, steps: &[(bool, &[Ask<'_>], &str)]) {
    for (index, (is_down, asks, want)) in steps.iter().enumerate() {
        go_down(limiter, *is_down);
        assert_eq!(ask_at(limiter, "d", asks, NOON), *want, "step {index}");
    }
}

#[test]
fn a_node_of_four_admits_a_quarter_by_itself_and_counts_it_apart() {
    let limiter = one_of_four(
        "
domain: d
descriptors:
  - {key: many, rate_limit: {unit: minute, requests_per_unit: 10, on_store_failure: local}}
  - {key: few, rate_limit: {unit: minute, requests_per_unit: 2, on_store_failure: local}}
  - {key: flow, rate_limit: {unit: second, requests_per_unit: 8, algorithm: token_bucket, on_store_failure: local}}",
    );
    walk(
        &limiter,
        &[
            (false, &[of("many=1")], "OK: ok 9/10"),
            (true, &[of("many=1").hits(2)], "OK: ok 0/10 degraded:local"),
            (true, &[of("many=1")], "OVER: over 0/10 degraded:local in 60s"),
            (true, &[of("many=2")], "OK: ok 1/10 degraded:local"),
            (true, &[of("few=1")], "OK: ok 0/2 degraded:local"), // something on every node
            (true, &[of("flow=1").hits(2)], "OK: ok 0/8 degraded:local"),
            (true, &[of("flow=1")], "OVER: over 0/8 degraded:local in 0.5s"), // eight a second over four
            // A limit that came with the request falls to the rule that it is about.
            (true, &[of("many=3").limit(4, Unit::Hour)], "OK: ok 0/4 degraded:local"),
            // What this node counted itself never went to the store.
            (false, &[of("many=1")], "OK: ok 8/10"),
            (false, &[of("flow=1")], "OK: ok 7/8"),
        ],
    );
}

#[test]
fn what_is_local_never_goes_to_the_store() {
    let limiter = one_of_four(
        "
domain: d
descriptors:
  - {key: own, rate_limit: {unit: minute, requests_per_unit: 3, sharing: local, on_store_failure: deny}}
  - {key: all, rate_limit: {unit: minute, requests_per_unit: 3, on_store_failure: deny}}",
    );
    walk(
        &limiter,
        &[
            (false, &[of("own=1"), of("all=1"), of("own=1")], "OK: ok 2/3, ok 2/3, ok 1/3"),
            (true, &[of("own=1")], "OK: ok 0/3"),
            (true, &[of("own=1")], "OVER: over 0/3 in 60s"),
            (true, &[of("own=2"), of("all=1")], "OVER: ok 2/3, over 0/3 degraded:deny in 1s"),
            (true, &[of("own=2").limit(3, Unit::Minute)], "OK: ok 1/3"), // shares the rule's counter
        ],
    );
    go_down(&limiter, true);
    let found = block_on(limiter.inspect("d", &entries("own=1"), NOON)).expect("it is here");
    assert!(found[0].is_tracked && found[0].decision.remaining() == 0, "{found:?}");
    assert!(block_on(limiter.reset("d", &entries("own=1"), NOON)).expect("it is here")[0].is_tracked);
    assert_eq!(ask_at(&limiter, "d", &[of("own=1")], NOON), "OK: ok 2/3");
    assert!(block_on(limiter.inspect("d", &entries("all=1"), NOON)).is_err());
}

const TOGETHER: &str = "
domain: d
charge: together
descriptors:
  - {key: own, rate_limit: {unit: minute, requests_per_unit: 3, sharing: local}}
  - {key: all, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: shut, rate_limit: {unit: minute, requests_per_unit: 2, on_store_failure: deny}}
  - {key: part, rate_limit: {unit: minute, requests_per_unit: 8, on_store_failure: local}}
  - {key: soft, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 9}}";

#[test]
fn together_is_all_or_nothing_over_memory_and_store() {
    let limiter = one_of_four(TOGETHER);
    walk(
        &limiter,
        &[
            (false, &[of("own=1"), of("all=1")], "OK: ok 2/3, ok 1/2"),
            (false, &[of("all=1"), of("own=1")], "OK: ok 0/2, ok 1/3"),
            // The store denies: what memory had taken comes back.
            (false, &[of("own=1"), of("all=1")], "OVER: ok 1/3, over 0/2 in 60s"),
            (false, &[of("own=1").hits(0)], "OK: ok 1/3"),
            // Memory denies: the store is only looked at.
            (false, &[of("own=1").hits(2), of("all=2")], "OVER: over 0/3 in 60s, ok 2/2"),
            (false, &[of("all=2").hits(0)], "OK: ok 2/2"),
            (
                false,
                &[of("own=1"), of("all=2"), of("soft=1"), of("soft=1")],
                "OK: ok 0/3, ok 1/2, ok 8/9 quota, ok 7/9 quota",
            ),
        ],
    );
}

#[test]
fn together_is_all_or_nothing_while_the_store_is_silent() {
    let limiter = one_of_four(TOGETHER);
    walk(
        &limiter,
        &[
            // One rule denies for want of a store: the rest is given back.
            (
                true,
                &[of("own=1"), of("shut=1"), of("part=1")],
                "OVER: ok 3/3, over 0/2 degraded:deny in 1s, ok 2/8 degraded:local",
            ),
            (true, &[of("own=1").hits(0), of("part=1").hits(0)], "OK: ok 3/3, ok 2/8 degraded:local"),
            (
                true,
                &[of("own=1"), of("part=1"), of("all=1")],
                "OK: ok 2/3, ok 1/8 degraded:local, ok degraded:allow",
            ),
            // The share is used up: memory's own counter stays as it was.
            (true, &[of("own=1"), of("part=1").hits(2)], "OVER: ok 2/3, over 0/8 degraded:local in 60s"),
            (true, &[of("own=1").hits(0), of("part=1").hits(0)], "OK: ok 2/3, ok 1/8 degraded:local"),
        ],
    );
}

#[test]
fn a_reservation_of_an_outage_is_settled_where_it_was_made() {
    let limiter = one_of_four(TOGETHER);
    let lists = [entries("own=1"), entries("part=1")];
    let descriptors = lists.each_ref().map(|entries| Descriptor::new(entries));
    let request = Request { domain: "d", descriptors: &descriptors, hits: 2 };
    let mut scratch = Scratch::new();
    go_down(&limiter, true);
    let reserved =
        block_on(limiter.reserve(&request, ReserveTerms::default(), NOON, &mut scratch)).expect("asked");
    let id = reserved.id.expect("there are two");
    let look = [of("own=1").hits(0), of("part=1").hits(0)];
    assert_eq!(ask_at(&limiter, "d", &look, NOON), "OK: ok 1/3, ok 0/8 degraded:local");
    // The store is back: what was held here goes back here.
    go_down(&limiter, false);
    let settled = block_on(limiter.commit(id, Some(1), NOON)).expect("open");
    assert!(!settled.is_degraded && settled.returned() == 1, "{settled:?}");
    assert_eq!(ask_at(&limiter, "d", &look, NOON), "OK: ok 2/3, ok 8/8");
    go_down(&limiter, true);
    assert_eq!(ask_at(&limiter, "d", &look, NOON), "OK: ok 2/3, ok 1/8 degraded:local");
    // What the store denies is not held here either.
    go_down(&limiter, false);
    let lists = [entries("own=1"), entries("all=1")];
    let descriptors = lists.each_ref().map(|entries| Descriptor::new(entries));
    let request = Request { domain: "d", descriptors: &descriptors, hits: 3 };
    let mut scratch = Scratch::new();
    let reserved =
        block_on(limiter.reserve(&request, ReserveTerms::default(), NOON, &mut scratch)).expect("asked");
    assert!(reserved.id.is_none());
    assert_eq!(ask_at(&limiter, "d", &[of("own=1").hits(0)], NOON), "OK: ok 2/3");
}

#[test]
fn a_quota_that_came_with_the_question_is_shared_out_too() {
    let limiter = one_of_four(TOGETHER);
    let quota = Quota::token_bucket(8, Duration::from_secs(1)).expect("a quota");
    let ask = Throttle { key: b"ann", quota: &quota, cost: Cost::ONE };
    go_down(&limiter, true);
    let mut scratch = Scratch::new();
    let mut out = Vec::new();
    block_on(limiter.throttle(&[ask; 3], NOON, &mut scratch, &mut out));
    let told: Vec<_> =
        out.iter().map(|it| (it.is_admitted(), it.remaining(), it.degraded.is_some())).collect();
    assert_eq!(told, [(true, 1, true), (true, 0, true), (false, 0, true)]);
}

/// Beside a store of which some keys give no answer.
fn beside_part_of_a_store(rules: &str, nodes: u32) -> Limiter<Routed> {
    let store = OutageStore::default().with_nodes(nodes);
    Limiter::new(policy(rules), beside_memory(store), LimiterSettings::default())
}

#[test]
fn a_share_is_that_of_the_nodes_there_are_and_each_is_counted_by_itself() {
    let limiter = beside_part_of_a_store(
        "
domain: d
descriptors:
  - {key: many, rate_limit: {unit: minute, requests_per_unit: 12, on_store_failure: local}}",
        4,
    );
    cut(&limiter, Down::Holding("many"));
    for (nodes, hits, want) in [
        (4, 3, "OK: ok 0/12 degraded:local"),
        (4, 1, "OVER: over 0/12 degraded:local in 60s"),
        (2, 1, "OK: ok 5/12 degraded:local"), // two nodes are gone: the half, and counted afresh
        (4, 1, "OVER: over 0/12 degraded:local in 60s"),
        (2, 5, "OK: ok 0/12 degraded:local"),
    ] {
        limiter.store().shared().outage().set_nodes(nodes);
        assert_eq!(ask_at(&limiter, "d", &[of("many=1").hits(hits)], NOON), want, "{hits} on one of {nodes}");
    }
}

#[test]
fn a_reset_forgets_also_what_this_node_has_counted_by_itself() {
    let limiter = one_of_four(
        "{domain: d, descriptors: [
        {key: many, rate_limit: {unit: minute, requests_per_unit: 12, on_store_failure: local}}]}",
    );
    walk(&limiter, &[(true, &[of("many=1").hits(3)], "OK: ok 0/12 degraded:local")]);
    go_down(&limiter, false);
    block_on(limiter.reset("d", &entries("many=1"), NOON)).expect("it is up");
    walk(&limiter, &[(true, &[of("many=1").hits(1)], "OK: ok 2/12 degraded:local")]);
}

#[test]
fn a_limit_without_an_answer_marks_its_descriptor_though_another_limit_has_one() {
    let limiter = beside_part_of_a_store(
        "
domain: d
descriptors:
  - key: two
    limits:
      - {name: short, requests_per_unit: 2, unit: second}
      - {name: long, requests_per_unit: 9, unit: minute}",
        1,
    );
    for (down, want) in [
        ("short", "OK: ok 8/9 degraded:allow"),
        ("long", "OK: ok 1/2 degraded:allow"),
        ("never", "OK: ok 0/2"),
    ] {
        cut(&limiter, Down::Holding(down));
        assert_eq!(ask_at(&limiter, "d", &[of("two=1")], NOON), want, "{down}");
    }
}

#[test]
fn the_greatest_degradation_of_several_is_reported() {
    let limiter =
        Limiter::new(policy(RULES), beside_memory(OutageStore::default().down()), LimiterSettings::default());
    let told = |asks: [&str; 2]| {
        let lists = asks.map(entries);
        let descriptors = lists.each_ref().map(|entries| Descriptor::new(entries));
        let request = Request { domain: "d", descriptors: &descriptors, hits: 1 };
        let mut scratch = Scratch::new();
        block_on(limiter.decide(&request, NOON, &mut scratch)).expect("an answer").degraded()
    };
    for (one, other, want) in [
        ("open=1", "open=2", Degraded::Allowed),
        ("open=1", "local=1", Degraded::Local),
        ("open=1", "shut=1", Degraded::Denied),
        ("local=2", "shut=1", Degraded::Denied),
        ("nobody=1", "open=1", Degraded::Allowed),
    ] {
        assert_eq!(told([one, other]), Some(want), "{one}, {other}");
        assert_eq!(told([other, one]), Some(want), "{other}, {one}");
    }
    assert_eq!(told(["nobody=1", "nobody=2"]), None);
}

#[test]
fn what_a_part_of_the_store_has_charged_is_given_back_when_another_part_is_silent() {
    for (keeps_all, backs, left) in [(false, 2, "OK: ok 2/2, ok 2/2"), (true, 1, "OK: ok 1/2, ok 1/2")] {
        let limiter = beside_part_of_a_store(TOGETHER, 1);
        cut(&limiter, Down::Holding("shut"));
        limiter.store().shared().outage().set_keeps_all(keeps_all);
        let said = ask_at(&limiter, "d", &[of("all=1"), of("shut=1"), of("all=2")], NOON);
        assert_eq!(said, "OVER: ok 2/2, over 0/2 degraded:deny in 1s, ok 2/2");
        // One that fails is not asked again and again: each time may cost a deadline.
        assert_eq!(limiter.store().shared().outage().given_back(), backs);
        assert_eq!(ask_at(&limiter, "d", &[of("all=1").hits(0), of("all=2").hits(0)], NOON), left);
    }
}

#[test]
fn what_was_held_by_a_share_of_a_rate_goes_back_by_that_share() {
    let limiter = one_of_four(
        "
domain: d
charge: together
descriptors:
  - {key: flow, rate_limit: {unit: second, requests_per_unit: 8, algorithm: token_bucket, on_store_failure: local}}
  - {key: shut, rate_limit: {unit: minute, requests_per_unit: 2, on_store_failure: deny}}",
    );
    let reserve = |asks: &[&str]| {
        let lists: Vec<_> = asks.iter().map(|ask| entries(ask)).collect();
        let descriptors: Vec<_> = lists.iter().map(|entries| Descriptor::new(entries)).collect();
        let request = Request { domain: "d", descriptors: &descriptors, hits: 2 };
        let mut scratch = Scratch::new();
        block_on(limiter.reserve(&request, ReserveTerms::default(), NOON, &mut scratch)).expect("asked").id
    };
    go_down(&limiter, true);
    let look = |want: &str| assert_eq!(ask_at(&limiter, "d", &[of("flow=1").hits(0)], NOON), want);
    assert_eq!(reserve(&["flow=1", "shut=1"]), None);
    look("OK: ok 2/8 degraded:local"); // let go
    let id = reserve(&["flow=1"]).expect("two at once");
    look("OK: ok 0/8 degraded:local");
    block_on(limiter.cancel(id, NOON)).expect("open");
    look("OK: ok 2/8 degraded:local");
}

#[test]
fn what_memory_held_comes_back_when_the_store_denies_the_reservation() {
    let limiter = one_of_four(TOGETHER);
    walk(&limiter, &[(false, &[of("all=1").hits(2)], "OK: ok 0/2")]);
    let lists = [entries("own=1"), entries("all=1")];
    let descriptors = lists.each_ref().map(|entries| Descriptor::new(entries));
    let request = Request { domain: "d", descriptors: &descriptors, hits: 2 };
    let mut scratch = Scratch::new();
    let reserved =
        block_on(limiter.reserve(&request, ReserveTerms::default(), NOON, &mut scratch)).expect("asked");
    assert!(reserved.id.is_none());
    walk(&limiter, &[(false, &[of("own=1").hits(0)], "OK: ok 3/3")]);
}
