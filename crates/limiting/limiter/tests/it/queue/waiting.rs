//! Who waits, for what, and what waiting takes.

use std::time::Duration;

use tollgate_core::RetryAfter;
use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Request, Scratch};
use tollgate_store::{ModelStore, block_on};

use super::RequestFate::{Denied, Passed, Waits};
use super::{Hall, LONG};
use crate::common::{limiter, policy};

/// One a second, after a burst of one.
const RULES: &str = "
domain: d
descriptors:
  - key: slow
    rate_limit: {rate: 1/s burst 1, on_limit: queue, max_wait: 5s}
  - key: slower
    rate_limit: {rate: 1/2s burst 1, on_limit: queue, max_wait: 8s}
  - key: strict
    rate_limit: {rate: 2/h burst 2}
  - key: shadow
    shadow_mode: true
    rate_limit: {rate: 1/s burst 1, on_limit: queue, max_wait: 5s}
  - key: window
    rate_limit: {unit: second, requests_per_unit: 2, on_limit: queue, max_wait: 3s}
  - key: soft
    quota_mode: true
    rate_limit: {rate: 1/s burst 1, on_limit: queue, max_wait: 5s}
";

#[test]
fn requests_pass_one_by_one_in_the_order_in_which_they_came() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    for _ in 0..7 {
        hall.ask("slow=a");
    }
    hall.ask("slow=b");
    let at_first = [Passed(0), Waits, Waits, Waits, Waits, Waits, Denied(0), Passed(0)];
    assert_eq!(hall.seen(), at_first, "the seventh would wait six seconds");
    assert_eq!((hall.waiting(), hall.event("too_long")), (5, 1));
    hall.pass_ms(10_000);
    assert_eq!(hall.seen()[1..6], [1, 2, 3, 4, 5].map(|s| Passed(s * 1_000)));
    assert_eq!((hall.waiting(), hall.event("passed"), hall.event("timed_out")), (0, 5, 0));
    assert_eq!(hall.metric("tollgate_queue_wait_seconds_count"), 5);
    assert_eq!(hall.metric(r#"tollgate_queue_wait_seconds_bucket{le="2.5"}"#), 2);
    // Two for the one that waited first, one for each other that waited, one for each that came first; the
    // one that was denied looked at what is left.
    assert_eq!(hall.metric("tollgate_store_batch_takes_count"), 1 + 2 + 4 + 1 + 1);
}

#[test]
fn a_window_lets_as_many_pass_as_it_has() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    hall.pass_ms(400);
    for _ in 0..9 {
        hall.ask("window=a");
    }
    hall.pass_ms(5_000);
    let want = [0, 0, 600, 600, 1_600, 1_600, 2_600, 2_600].map(Passed);
    assert_eq!((&hall.seen()[..8], hall.seen()[8]), (&want[..], Denied(0)));
}

#[test]
fn a_request_that_another_rule_denies_does_not_wait_and_takes_nothing() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    hall.ask_for(&[("strict=a", 2)], LONG);
    hall.ask_for(&[("slow=a", 1), ("strict=a", 1)], LONG);
    assert_eq!(hall.seen(), [Passed(0), Denied(0)]);
    assert_eq!(
        hall.left("slow=a"),
        1,
        "of a request that a rule with a queue matches all or nothing is charged"
    );
    // Nor does it wait behind others.
    hall.ask("slow=a");
    hall.ask("slow=a");
    hall.ask_for(&[("slow=a", 1), ("strict=a", 1)], LONG);
    assert_eq!(hall.seen()[2..], [Passed(0), Waits, Denied(0)]);
    hall.pass_ms(2_000);
    assert_eq!(hall.seen()[3], Passed(1_000));
    // It is the first in line when the other rule denies it: it goes, and the next comes up.
    hall.ask_for(&[("strict=b", 1)], LONG);
    hall.ask("slow=a");
    let unlucky = hall.ask_for(&[("slow=a", 1), ("strict=b", 1)], LONG);
    hall.ask("slow=a");
    hall.ask_for(&[("strict=b", 1)], LONG);
    hall.pass_ms(3_000);
    assert_eq!(hall.seen()[unlucky..], [Denied(1_000), Passed(1_000), Passed(0)]);
}

#[test]
fn a_request_of_two_lines_waits_for_both_and_holds_nothing_meanwhile() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    hall.ask("slower=a");
    let both = hall.ask_for(&[("slow=a", 1), ("slower=a", 1)], LONG);
    hall.pass_ms(500);
    assert_eq!((hall.seen()[both], hall.left("slow=a")), (Waits, 1));
    // In the order of arrival, though a permit is there for it.
    let behind = hall.ask("slow=a");
    hall.pass_ms(10_000);
    // The other counter is charged when the request is granted its permits, shortly before its turn.
    assert_eq!((hall.seen()[both], hall.seen()[behind]), (Passed(2_000), Passed(2_480)));
    // Two that want the same counters the other way round do not wait for each other.
    hall.ask_for(&[("slow=b", 1), ("slower=b", 1)], LONG);
    let one = hall.ask_for(&[("slow=b", 1), ("slower=b", 1)], LONG);
    let other = hall.ask_for(&[("slower=b", 1), ("slow=b", 1)], LONG);
    hall.pass_ms(10_000);
    assert_eq!((hall.seen()[one], hall.seen()[other]), (Passed(2_000), Passed(4_000)));
}

#[test]
fn a_descriptor_that_comes_twice_wants_the_sum() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    hall.ask_for(&[("window=a", 1), ("window=a", 1)], LONG);
    hall.ask_for(&[("window=a", 1), ("window=a", 1)], LONG);
    hall.ask("window=a");
    hall.pass_ms(5_000);
    assert_eq!(hall.seen(), [Passed(0), Passed(1_000), Passed(2_000)]);
}

#[test]
fn a_request_for_nothing_a_shadow_rule_and_a_spare_soft_limit_have_nobody_wait() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    for _ in 0..2 {
        hall.ask("slow=a");
        hall.ask("shadow=a");
    }
    hall.ask_for(&[("slow=a", 0)], LONG);
    hall.ask_for(&[("soft=a", 1), ("soft=b", 1)], LONG);
    // One of two soft limits is used up, so that the other one admits it; with both it waits.
    hall.ask_for(&[("soft=a", 1), ("soft=c", 1)], LONG);
    let waits = hall.ask_for(&[("soft=a", 1), ("soft=b", 1)], LONG);
    assert_eq!(hall.seen()[..2], [Passed(0); 2]);
    assert_eq!(hall.seen()[2], Waits);
    assert_eq!(hall.seen()[3..waits], [Passed(0); 4][..waits - 3]);
    assert_eq!(hall.seen()[waits], Waits);
    hall.pass_ms(2_000);
    assert_eq!((hall.seen()[2], hall.seen()[waits]), (Passed(1_000), Passed(1_000)));
}

#[test]
fn the_shortest_of_what_the_rule_and_the_caller_allow_is_the_longest_wait() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    let ms = Duration::from_millis;
    hall.ask("slow=a");
    for (longest, want) in [
        (ms(999), Denied(0)),
        (ms(1_000), Waits),
        (ms(1_999), Denied(0)),
        (ms(2_000), Waits),
        (ms(0), Denied(0)),
    ] {
        let index = hall.ask_for(&[("slow=a", 1)], longest);
        assert_eq!(hall.seen()[index], want, "{longest:?}");
    }
    assert_eq!(hall.event("too_long"), 2, "a caller without any time does not want to wait");
    hall.pass_ms(3_000);
    assert_eq!(hall.seen()[2..5], [Passed(1_000), Denied(0), Passed(2_000)]);
}

#[test]
fn a_plain_decision_never_waits_and_overtakes_nobody() {
    let limiter = limiter(RULES);
    let mut hall = Hall::new(&limiter);
    hall.ask("window=a");
    hall.ask_for(&[("window=a", 2)], LONG);
    let entries = [Entry::new("window", "a")];
    let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits: 1 };
    let mut scratch = Scratch::new();
    let answer = block_on(limiter.decide(&request, hall.now(), &mut scratch)).expect("valid");
    let only = answer.descriptor(0).expect("one");
    assert_eq!((answer.is_admitted(), only.remaining(), only.is_charged), (false, 0, false), "one is left");
    assert_eq!(answer.retry_after(), RetryAfter::After(Duration::from_secs(2)), "after the one that waits");
    drop(answer);
    hall.pass_ms(1_000);
    assert_eq!(hall.seen(), [Passed(0), Passed(1_000)]);
    assert_eq!(hall.event("joined"), 1);
}

#[test]
fn as_many_wait_as_may_and_not_one_more() {
    let settings = LimiterSettings { max_queued: 2, ..LimiterSettings::default() };
    let limiter = Limiter::new(policy(RULES), ModelStore::default(), settings);
    let mut hall = Hall::new(&limiter);
    for key in ["slow=a", "slow=b", "slow=c"] {
        hall.ask(key);
        hall.ask(key);
    }
    assert_eq!(hall.seen(), [Passed(0), Waits, Passed(0), Waits, Passed(0), Denied(0)]);
    assert_eq!((hall.waiting(), hall.metric("tollgate_queued_requests_limit")), (2, 2));
    assert_eq!(hall.event("full"), 1);
    hall.leave(1);
    // One that waits for two counters takes two places.
    let two = hall.ask_for(&[("slow=c", 1), ("slow=a", 1)], LONG);
    assert_eq!((hall.seen()[two], hall.event("full")), (Denied(0), 2));
    let next = hall.ask("slow=c");
    hall.pass_ms(1_000);
    assert_eq!((hall.seen()[3], hall.seen()[next]), (Passed(1_000), Passed(1_000)));
    assert_eq!((hall.waiting(), hall.event("left")), (0, 1));
}

#[test]
fn in_shadow_mode_nobody_waits() {
    let settings = LimiterSettings { shadow_mode: true, ..LimiterSettings::default() };
    let limiter = Limiter::new(policy(RULES), ModelStore::default(), settings);
    let mut hall = Hall::new(&limiter);
    for _ in 0..3 {
        hall.ask("slow=a");
    }
    assert_eq!(hall.seen(), [Passed(0); 3]);
}

#[test]
fn what_was_used_is_charged_once_by_a_request_that_waits_and_denies_it_only_before_it_waits() {
    let rules = "domain: d
descriptors:
  - {key: slow, rate_limit: {rate: 1/s burst 1, on_limit: queue, max_wait: 5s}}
  - {key: tokens, rate_limit: {algorithm: total, limit: 100, post_paid: true}}";
    let limiter = limiter(rules);
    let mut hall = Hall::new(&limiter);
    for tokens in [30, 30, 41, 5] {
        hall.ask_for(&[("slow=a", 1), ("tokens=a", tokens)], LONG);
    }
    assert_eq!(hall.seen(), [Passed(0), Waits, Waits, Denied(0)]);
    hall.pass_ms(9_000);
    assert_eq!(hall.seen(), [Passed(0), Passed(1_000), Passed(2_000), Denied(0)]);
    let entries = [Entry::new("tokens", "a")];
    let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits: 0 };
    let mut scratch = Scratch::new();
    let answer = block_on(limiter.consume(&request, hall.now(), &mut scratch)).expect("valid");
    assert_eq!(answer.descriptor(0).map(|it| it.owed()), Some(6));
}
