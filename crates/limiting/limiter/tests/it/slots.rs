//! Slots by rules: acquired, renewed, released, expired, and what else a holder may meet.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::time::Duration;

use crate::common::{NOON, Routed, beside_memory, cut, entries, policy};
use tollgate_core::{RetryAfter, Timestamp};
use tollgate_limiter::{
    Degraded, Descriptor, KeyError, Limiter, LimiterSettings, Request, RequestError, ReserveError,
    ReserveTerms, Scratch, SlotAnswer, SlotError, SlotId,
};
use tollgate_store::suite::{Down, OutageStore};
use tollgate_store::{ModelStore, Store, block_on};

const RULES: &str = "
domain: d
descriptors:
  - {key: export, rate_limit: {algorithm: concurrency, limit: 2, ttl: 30s}}
  - {key: one, rate_limit: {algorithm: concurrency, limit: 1, ttl: 30s, on_store_failure: deny}}
  - {key: shared, rate_limit: {algorithm: concurrency, limit: 4, ttl: 30s, on_store_failure: local}}
  - {key: here, rate_limit: {algorithm: concurrency, limit: 1, ttl: 30s, sharing: local}}
  - {key: shadow, shadow_mode: true, rate_limit: {algorithm: concurrency, limit: 1, ttl: 30s}}
  - {key: none, rate_limit: {algorithm: concurrency, limit: 0, ttl: 30s}}
  - {key: rate, rate_limit: {rate: 5/s}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: never, action: deny}";

fn limiter(rules: &str) -> Limiter<ModelStore> {
    Limiter::new(policy(rules), ModelStore::default(), LimiterSettings::default())
}

fn id(number: u32) -> SlotId {
    format!("{number:032x}").parse().expect("an id")
}

fn acquire<S: Store>(
    limiter: &Limiter<S>,
    of: &str,
    holder: Option<SlotId>,
    now: Timestamp,
) -> Result<SlotAnswer, SlotError> {
    let entries = entries(of);
    let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits: 1 };
    block_on(limiter.acquire(&request, holder, now, &mut Scratch::new()))
}

fn release<S: Store>(
    limiter: &Limiter<S>,
    of: &str,
    holder: SlotId,
    now: Timestamp,
) -> Result<bool, SlotError> {
    let entries = entries(of);
    let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits: 1 };
    block_on(limiter.release(&request, holder, now))
}

/// Whether it is admitted, and how many slots are free.
fn got<S: Store>(limiter: &Limiter<S>, of: &str, holder: u32, now: Timestamp) -> (bool, Option<u64>) {
    let answer = acquire(limiter, of, Some(id(holder)), now).expect("an answer");
    (answer.is_admitted(), answer.remaining())
}

fn after(seconds: u64) -> Timestamp {
    NOON + Duration::from_secs(seconds)
}

#[test]
fn a_slot_is_held_until_it_is_released_and_a_second_release_says_so() {
    let limiter = limiter(RULES);
    let first = acquire(&limiter, "export=a", None, NOON).expect("an answer");
    assert_eq!(
        (first.limit, first.remaining(), first.ttl),
        (Some(2), Some(1), Some(Duration::from_secs(30)))
    );
    assert_eq!((first.rule.as_deref(), first.is_renewal, first.degraded), (Some("export"), false, None));
    let own = first.id.expect("it is admitted");
    assert_eq!(got(&limiter, "export=a", 2, after(10)), (true, Some(0)));
    let denied = acquire(&limiter, "export=a", None, after(20)).expect("an answer");
    assert_eq!((denied.is_admitted(), denied.id, denied.ttl), (false, None, None));
    assert_eq!(denied.retry_after(), RetryAfter::After(Duration::from_secs(10)), "the first expires then");
    assert_eq!(got(&limiter, "export=b", 3, after(20)), (true, Some(1)), "another's slots");
    assert!(!release(&limiter, "export=a", id(7), after(20)).expect("an answer"), "it holds none");
    assert!(release(&limiter, "export=a", own, after(20)).expect("an answer"));
    assert!(!release(&limiter, "export=a", own, after(20)).expect("an answer"));
    assert_eq!(got(&limiter, "export=a", 4, after(20)), (true, Some(0)), "free at once");
    let metrics = limiter.metrics().render();
    for line in [
        "tollgate_slots_in_use 3",
        r#"tollgate_slot_events_total{event="acquired"} 4"#,
        r#"tollgate_slot_events_total{event="denied"} 1"#,
        r#"tollgate_slot_events_total{event="released"} 1"#,
        r#"tollgate_slot_events_total{event="not_held"} 2"#,
        r#"tollgate_decisions_total{domain="d",rule="export",outcome="deny"} 1"#,
    ] {
        assert!(metrics.contains(line), "no `{line}` in\n{metrics}");
    }
}

#[test]
fn acquiring_again_renews_and_a_crashed_holders_slot_is_free_after_its_ttl_and_not_before() {
    let limiter = limiter(RULES);
    assert_eq!(got(&limiter, "one=a", 1, NOON), (true, Some(0)));
    let renewed = acquire(&limiter, "one=a", Some(id(1)), after(20)).expect("an answer");
    assert!(renewed.is_renewal && renewed.is_admitted());
    let almost = NOON + Duration::from_nanos(49_999_999_999);
    assert_eq!(got(&limiter, "one=a", 2, almost), (false, Some(0)));
    assert_eq!(got(&limiter, "one=a", 2, after(50)), (true, Some(0)));
    assert!(!release(&limiter, "one=a", id(1), after(50)).expect("an answer"), "it has expired");
    let metrics = limiter.metrics().render();
    for line in [
        "tollgate_slots_in_use 1",
        r#"tollgate_slot_events_total{event="renewed"} 1"#,
        r#"tollgate_slot_events_total{event="expired"} 1"#,
    ] {
        assert!(metrics.contains(line), "no `{line}` in\n{metrics}");
    }
}

#[test]
fn what_is_no_request_for_a_slot_is_an_error_that_says_what_to_do() {
    let limiter = limiter(RULES);
    let entries = entries("export=a");
    let one = Descriptor::new(&entries);
    let ask = |descriptors: &[Descriptor<'_>], hits| {
        let request = Request { domain: "d", descriptors, hits };
        block_on(limiter.acquire(&request, None, NOON, &mut Scratch::new()))
            .expect_err("an error")
            .to_string()
    };
    assert!(ask(&[one, one], 1).starts_with("2 descriptors; a slot belongs to one"));
    assert!(ask(&[one], 2).starts_with("2 hits; a holder has one slot"));
    assert!(ask(&[], 1).starts_with("there is no descriptor"));
    let rate = acquire(&limiter, "rate=a", None, NOON).expect_err("it counts permits");
    assert!(matches!(&rate, SlotError::CountsPermits { rule } if rule == "rate"), "{rate}");
    for nothing in ["rate=a", "free=a", "other=a"] {
        assert!(matches!(release(&limiter, nothing, id(1), NOON), Err(SlotError::NoSlots)), "{nothing}");
    }
    let empty = Limiter::new(policy("domain: d"), ModelStore::default(), LimiterSettings::default());
    let said = acquire(&empty, "export=a", None, NOON).map(|answer| (answer.is_admitted(), answer.limit));
    assert_eq!(said.expect("nothing limits it"), (true, None));
    let none =
        Limiter::new(tollgate_limiter::Policy::empty(), ModelStore::default(), LimiterSettings::default());
    assert!(matches!(acquire(&none, "export=a", None, NOON), Err(SlotError::NoRules)));
    assert!(matches!(release(&none, "export=a", id(1), NOON), Err(SlotError::NoRules)));
}

#[test]
fn without_slots_a_holder_is_admitted_or_denied_as_a_check_would_be() {
    let limiter = limiter(RULES);
    for (of, want) in [("free=a", true), ("other=a", true), ("never=a", false)] {
        let answer = acquire(&limiter, of, None, NOON).expect("an answer");
        assert_eq!((answer.is_admitted(), answer.limit, answer.id.is_some()), (want, None, want), "{of}");
    }
    let none = acquire(&limiter, "none=a", None, NOON).expect("an answer");
    assert_eq!((none.is_admitted(), none.retry_after()), (false, RetryAfter::Never));
    let first = acquire(&limiter, "shadow=a", None, NOON).expect("an answer");
    let second = acquire(&limiter, "shadow=a", None, NOON).expect("an answer");
    assert_eq!((first.is_shadowed, second.is_shadowed), (false, true));
    assert_eq!((second.is_admitted(), second.ttl), (true, None), "it holds no slot");
}

/// Nothing would ever give back what a check takes.
#[test]
fn a_check_or_a_reservation_of_slots_is_an_error_that_names_the_rule() {
    let limiter = limiter(RULES);
    let slots = entries("export=a");
    let rate = entries("rate=a");
    let descriptors = [Descriptor::new(&rate), Descriptor::new(&slots)];
    let request = Request { domain: "d", descriptors: &descriptors, hits: 1 };
    let mut scratch = Scratch::new();
    let error = block_on(limiter.decide(&request, NOON, &mut scratch)).expect_err("an error");
    assert_eq!(error, RequestError::NeedsHolder { rule: "export".to_owned() });
    assert!(error.to_string().contains("acquire a slot"), "{error}");
    let error = block_on(limiter.reserve(&request, ReserveTerms::default(), NOON, &mut scratch));
    assert!(matches!(error, Err(ReserveError::Request(RequestError::NeedsHolder { .. }))));
    let left = block_on(limiter.inspect("d", &rate, NOON)).expect("a counter");
    assert_eq!(left[0].decision.remaining(), 5, "nothing was taken");
    let inspected = block_on(limiter.inspect("d", &slots, NOON));
    assert!(matches!(inspected, Err(KeyError::Slots(rule)) if rule == "export"));
}

#[test]
fn while_the_store_is_unavailable_each_rule_gives_out_slots_as_it_says() {
    let store = beside_memory(OutageStore::default().with_nodes(2));
    let limiter: Limiter<Routed> = Limiter::new(policy(RULES), store, LimiterSettings::default());
    let ask = |of: &str, holder| {
        let answer = acquire(&limiter, of, Some(id(holder)), NOON).expect("an answer");
        (answer.is_admitted(), answer.limit, answer.degraded)
    };
    assert_eq!(ask("shared=a", 1), (true, Some(4), None));
    cut(&limiter, Down::All);
    assert_eq!(ask("export=a", 1), (true, None, Some(Degraded::Allowed)));
    assert_eq!(ask("one=a", 1), (false, None, Some(Degraded::Denied)));
    // Half of four on each of two nodes, apart from those in the store.
    let here = Some(Degraded::Local);
    assert_eq!(
        [2, 3, 4].map(|holder| ask("shared=a", holder)),
        [(true, Some(2), here), (true, Some(2), here), (false, Some(2), here),]
    );
    assert_eq!([1, 2].map(|holder| ask("here=a", holder).0), [true, false], "the store is not asked");
    assert!(matches!(release(&limiter, "shared=a", id(1), NOON), Err(SlotError::Store(_))));
    assert!(release(&limiter, "shared=a", id(2), NOON).expect("it is in this node's memory"));
    cut(&limiter, Down::Nothing);
    assert!(release(&limiter, "shared=a", id(3), NOON).expect("it is in this node's memory still"));
    assert!(release(&limiter, "shared=a", id(1), NOON).expect("an answer"));
    assert!(!release(&limiter, "shared=a", id(1), NOON).expect("an answer"));

    // A holder with a slot in both places gives up both.
    cut(&limiter, Down::All);
    assert_eq!(ask("shared=a", 5), (true, Some(2), here));
    cut(&limiter, Down::Nothing);
    assert_eq!(ask("shared=a", 5), (true, Some(4), None));
    assert!(release(&limiter, "shared=a", id(5), NOON).expect("an answer"));
    cut(&limiter, Down::All);
    assert_eq!([6, 7, 8].map(|holder| ask("shared=a", holder).0), [true, true, false]);
}

#[test]
fn a_reload_keeps_the_slots_and_a_lower_limit_takes_none_away() {
    let limiter = limiter(RULES);
    assert_eq!(got(&limiter, "export=a", 1, NOON), (true, Some(1)));
    assert_eq!(got(&limiter, "export=a", 2, NOON), (true, Some(0)));
    limiter.replace(policy(&RULES.replace("limit: 2", "limit: 1")), NOON);
    assert_eq!(got(&limiter, "export=a", 1, NOON), (true, Some(0)), "it holds its slot still");
    assert!(release(&limiter, "export=a", id(1), NOON).expect("an answer"));
    assert_eq!(got(&limiter, "export=a", 3, NOON), (false, Some(0)), "one of one is in use");
    assert!(release(&limiter, "export=a", id(2), NOON).expect("an answer"));
    assert_eq!(got(&limiter, "export=a", 3, NOON), (true, Some(0)));
}
