//! Waits that end without a permit: callers that leave, rules that change, stores that fail, a process that
//! ends, a clock that jumps.

use std::time::Duration;

use tollgate_limiter::{Intervened, Intervention, Limiter, LimiterSettings};
use tollgate_store::ModelStore;
use tollgate_store::suite::{Down, OutageStore};

use super::RequestFate::{Denied, Passed, Waits};
use super::{Hall, LONG};
use crate::common::{beside_memory, cut, limiter, policy};

const RULES: &str =
    "{domain: d, descriptors: [{key: slow, rate_limit: {rate: 1/s burst 4, on_limit: queue, max_wait: 5s}}]}";

#[test]
fn one_that_leaves_takes_nothing_and_those_behind_it_come_up_at_once() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    hall.ask_for(&[("slow=a", 4)], LONG);
    let large = hall.ask_for(&[("slow=a", 3)], LONG);
    let first = hall.ask("slow=a");
    let second = hall.ask("slow=a");
    hall.pass_ms(1_500);
    hall.leave(large);
    assert_eq!(hall.seen()[first..], [Passed(1_500), Waits], "a permit is there, and half of another");
    hall.pass_ms(499);
    assert_eq!(hall.seen()[second], Waits);
    hall.pass_ms(1);
    assert_eq!(hall.seen()[second], Passed(2_000));
    // From the middle of the line.
    let all: Vec<_> = (0..3).map(|_| hall.ask("slow=a")).collect();
    hall.leave(all[1]);
    hall.pass_ms(2_000);
    assert_eq!((hall.seen()[all[0]], hall.seen()[all[2]]), (Passed(1_000), Passed(2_000)));
    assert_eq!((hall.event("left"), hall.waiting()), (2, 0));
}

#[test]
fn a_denial_of_one_that_gives_up_says_when_it_would_have_its_turn_if_it_came_again() {
    for rule in ["rate: 1/s burst 4", "unit: second, requests_per_unit: 1"] {
        let rules = format!(
            "{{domain: d, descriptors: [{{key: slow, rate_limit: {{{rule}, on_limit: queue, max_wait: 5s}}}}]}}"
        );
        let limiter = limiter(&rules);
        let mut hall = Hall::new(&limiter);
        let at_once = if rule.starts_with("rate") { 4 } else { 1 };
        hall.ask_for(&[("slow=a", at_once)], LONG);
        let waiting: Vec<_> = (0..3).map(|_| hall.ask("slow=a")).collect();
        hall.pass_ms(400);
        // The last: it would be the last again. The first: after the two behind it.
        for (which, retry_ms) in [(2, 2_600), (0, 1_600)] {
            hall.close(waiting[which]);
            assert_eq!(hall.seen()[waiting[which]], Denied(400), "{rule}");
            assert_eq!(hall.retry_ms(waiting[which]), Some(retry_ms), "{rule}: the one at {which}");
        }
        hall.close(waiting[1]);
        assert_eq!(hall.retry_ms(waiting[1]), Some(600), "{rule}: nobody else waits");
        hall.pass_ms(600);
        let again = hall.ask("slow=a");
        assert_eq!(hall.seen()[again], Passed(0), "{rule}: nobody took anything");
    }
}

#[test]
fn a_denial_of_one_that_may_wait_no_longer_says_when_its_turn_would_have_been() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    hall.ask_for(&[("slow=a", 4)], LONG);
    let first = hall.ask("slow=a");
    let large = hall.ask_for(&[("slow=a", 3)], LONG);
    let other = hall.ask("slow=a");
    hall.pass_ms(100);
    hall.leave(first);
    limiter.end_queue();
    hall.pass_ms(0);
    // Three and one are wanted; whoever comes again comes last.
    assert_eq!((hall.seen()[large], hall.seen()[other]), (Denied(100), Denied(100)));
    assert!(hall.retry_ms(large) > Some(800) && hall.retry_ms(other) > Some(800));
}

#[test]
fn rules_that_change_hold_for_those_that_wait() {
    for (rule, first, second) in [
        ("{unlimited: true}", Passed(100), Passed(100)),
        ("{rate: 1/s burst 4}", Denied(100), Denied(100)), // no queue any more
        ("{rate: 10/s burst 4, on_limit: queue, max_wait: 5s}", Passed(190), Passed(290)),
    ] {
        let limiter = limiter(RULES);
        let mut hall = Hall::new(&limiter);
        hall.ask_for(&[("slow=a", 4)], LONG);
        let one = hall.ask("slow=a");
        let two = hall.ask("slow=a");
        hall.pass_ms(100);
        let text = format!("{{domain: d, descriptors: [{{key: slow, rate_limit: {rule}}}]}}");
        limiter.replace(policy(&text), hall.now());
        hall.pass_ms(2_000);
        assert_eq!((hall.seen()[one], hall.seen()[two]), (first, second), "{rule}");
    }
}

#[test]
fn an_operator_ends_the_wait_of_those_that_it_blocks_and_of_those_that_it_allows() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    for caller in ["slow=a", "slow=b", "slow=c"] {
        hall.ask_for(&[(caller, 4)], LONG);
    }
    let [a, b, c] = ["slow=a", "slow=b", "slow=c"].map(|caller| hall.ask(caller));
    hall.pass_ms(100);
    let one = |value: &str, action| Intervention {
        domain: "d".to_owned(),
        entries: vec![("slow".into(), value.into())],
        action,
        until: hall.now() + Duration::from_secs(60),
    };
    limiter.intervene(vec![one("a", Intervened::Blocked), one("b", Intervened::Allowed)], hall.now());
    hall.pass_ms(0);
    assert_eq!((hall.seen()[a], hall.seen()[b], hall.seen()[c]), (Denied(100), Passed(100), Waits));
    let again = hall.ask("slow=a");
    assert_eq!(hall.seen()[again], Denied(0), "it does not wait");
}

#[test]
fn rules_that_go_let_everybody_pass() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    hall.ask_for(&[("slow=a", 4)], LONG);
    hall.ask("slow=a");
    limiter.replace(policy("{domain: other, descriptors: []}"), hall.now());
    hall.pass_ms(0);
    assert_eq!(hall.seen(), [Passed(0), Passed(0)]);
}

#[test]
fn a_process_that_ends_denies_those_that_wait_and_has_nobody_wait_any_more() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    hall.ask_for(&[("slow=a", 4)], LONG);
    hall.ask("slow=a");
    hall.ask("slow=a");
    hall.pass_ms(300);
    limiter.end_queue();
    hall.pass_ms(0);
    hall.ask("slow=a");
    assert_eq!(hall.seen(), [Passed(0), Denied(300), Denied(300), Denied(0)]);
    assert_eq!((hall.waiting(), hall.event("ended")), (0, 3));
    hall.pass_ms(1_000);
    assert_eq!(hall.left("slow=a"), 1, "they took nothing");
}

#[test]
fn while_the_store_fails_the_rule_says_what_becomes_of_those_that_wait() {
    for (way, first, second) in [
        ("deny", Denied(1_000), Denied(1_000)),
        ("allow", Passed(1_000), Passed(1_000)),
        ("local", Passed(1_000), Passed(1_000)),
    ] {
        let rule = format!("{{rate: 1/s burst 4, on_limit: queue, max_wait: 5s, on_store_failure: {way}}}");
        let text = format!("{{domain: d, descriptors: [{{key: slow, rate_limit: {rule}}}]}}");
        let store = beside_memory(OutageStore::new(ModelStore::default()));
        let limiter = Limiter::new(policy(&text), store, LimiterSettings::default());
        let mut hall = Hall::new(&limiter);
        hall.ask_for(&[("slow=a", 4)], LONG);
        let one = hall.ask("slow=a");
        let two = hall.ask("slow=a");
        cut(&limiter, Down::All);
        hall.pass_ms(2_000);
        let seen = (hall.seen()[one], hall.seen()[two]);
        match way {
            // The first goes without its permit, so the second asks when the permit after it is there.
            "deny" | "allow" => assert_eq!(seen.0, first, "{way}"),
            _ => assert_eq!(seen.0, first),
        }
        let later = |seen| matches!(seen, Passed(ms) | Denied(ms) if ms <= 2_000);
        assert!(
            later(seen.1) && (matches!(seen.1, Passed(_)) == matches!(second, Passed(_))),
            "{way}: {seen:?}"
        );
    }
}

#[test]
fn a_clock_that_jumps_keeps_nobody_waiting_beyond_its_deadline() {
    for skew_s in [-100_000, -3, 3, 100_000] {
        let limiter = limiter(RULES);
        let mut hall = Hall::new(&limiter);
        hall.ask_for(&[("slow=a", 4)], LONG);
        let waiters: Vec<_> = (0..5).map(|_| hall.ask("slow=a")).collect();
        hall.pass_ms(1_500);
        hall.world.skew(skew_s);
        hall.pass_ms(3_500);
        for index in waiters {
            let seen = hall.seen()[index];
            assert!(matches!(seen, Passed(ms) | Denied(ms) if ms <= 5_000), "{skew_s} s: {seen:?}");
        }
        assert_eq!(hall.waiting(), 0);
    }
}

#[test]
fn a_call_that_the_store_does_not_finish_leaves_with_its_caller() {
    let store = beside_memory(OutageStore::new(ModelStore::default()).with_waits(3));
    let limiter = Limiter::new(policy(RULES), store, LimiterSettings::default());
    let mut hall = Hall::new(&limiter);
    hall.ask_for(&[("slow=a", 4)], LONG);
    let one = hall.ask("slow=a");
    let two = hall.ask("slow=a");
    hall.pass_ms(999);
    hall.leave(one);
    hall.pass_ms(Duration::from_secs(3).as_millis() as u64);
    assert_eq!(hall.seen()[two], Passed(1_000), "the permit of the one that left");
}

#[test]
fn rules_that_change_leave_those_their_permits_that_have_them() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    hall.ask_for(&[("slow=a", 4)], LONG);
    let one = hall.ask("slow=a");
    let two = hall.ask("slow=a");
    hall.pass_ms(1_000 - MOMENT);
    limiter.replace(policy("{domain: d, descriptors: [{key: slow, rate_limit: {rate: 0/s}}]}"), hall.now());
    hall.pass_ms(0);
    limiter.end_queue();
    hall.pass_ms(2_000);
    assert_eq!((hall.seen()[one], hall.seen()[two]), (Passed(1_000), Denied(1_000 - MOMENT)));
    assert_eq!((hall.event("passed"), hall.waiting()), (1, 0));
}

#[test]
fn over_a_shared_store_those_that_want_as_much_take_the_place_of_one_that_leaves() {
    let rules = "{domain: d, descriptors: [{key: k, rate_limit: {rate: 200/s burst 4, on_limit: queue, max_wait: 5s}}]}";
    for (costs, others_ms) in [
        ([1, 1, 1, 1], [5, 10, 15]),
        // Nobody else can use what it had: another node may have been promised the permits after it.
        ([2, 1, 1, 2], [15, 20, 30]),
    ] {
        let store = beside_memory(OutageStore::new(ModelStore::default()));
        let limiter = Limiter::new(policy(rules), store, LimiterSettings::default());
        let mut hall = Hall::new(&limiter);
        hall.ask_for(&[("k=a", 4)], LONG);
        let all = costs.map(|cost| hall.ask_for(&[("k=a", cost)], LONG));
        hall.pass_ms(1);
        hall.leave(all[0]);
        hall.pass_ms(1_000);
        assert_eq!(hall.seen()[all[1]..], others_ms.map(Passed), "{costs:?}");
        assert_eq!((hall.waiting(), hall.event("left")), (0, 1));
    }
}

/// A second before its turn a request has no permits yet, a moment before it does.
const MOMENT: u64 = 7;

#[test]
fn one_that_leaves_a_moment_before_its_turn_gives_its_permits_back() {
    for (costs, left_ms, others_ms) in [
        // Those behind it come up by what it had.
        ([1, 1, 1], 0, [1_000, 2_000]),
        ([1, 2, 1], 1, [1_000, 2_993]),
        ([2, 1, 2], 0, [1_993, 3_000]), // one permit is there, and two more a second later
    ] {
        let limiter = limiter(RULES);
        let mut hall = Hall::new(&limiter);
        hall.ask_for(&[("slow=a", 4)], LONG);
        let all = costs.map(|cost| hall.ask_for(&[("slow=a", cost)], LONG));
        let turns: u64 = costs[..=left_ms].iter().sum();
        hall.pass_ms(turns * 1_000 - MOMENT);
        hall.leave(all[left_ms]);
        hall.pass_ms(10_000);
        let rest = all.into_iter().filter(|index| *index != all[left_ms]);
        let passed: Vec<_> = rest.map(|index| hall.seen()[index]).collect();
        assert_eq!(passed, others_ms.map(Passed), "{costs:?} without {left_ms}");
        assert_eq!((hall.left("slow=a"), hall.waiting(), hall.event("left")), (4, 0, 1));
    }
}
