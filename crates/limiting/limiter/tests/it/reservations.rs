//! Permits held for a while: reserve, commit, cancel.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::time::Duration;

use crate::common::desk::{Desk, NOW, waiting};
use crate::common::{Ask, NOON, Routed, ask_at, beside_memory, cut, limiter, of, policy, seconds};
use tollgate_core::RetryAfter;
use tollgate_limiter::{
    Descriptor, Ending, Entry, Limiter, LimiterSettings, Request, ReservationId, ReservationShare,
    ReserveError, ReserveTerms, Scratch, SettleError,
};
use tollgate_rule_files::{Options, RuleFile, parse};
use tollgate_store::suite::{Down, OutageStore};
use tollgate_store::{ModelStore, block_on};

const RULES: &str = "
domain: d
descriptors:
  - {key: bucket, rate_limit: {unit: second, requests_per_unit: 10, algorithm: token_bucket}}
  - {key: minute, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: costly, rate_limit: {unit: minute, requests_per_unit: 30, cost: 3}}
  - {key: queue, rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_bucket, form: queue, capacity: 3}}
  - {key: strict, rate_limit: {unit: minute, requests_per_unit: 10, algorithm: sliding_window}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: soft, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: soft2, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: many, rate_limit: {unit: minute, requests_per_unit: 1000000}}
  - key: two
    limits:
      - {name: short, requests_per_unit: 4, unit: second}
      - {name: long, requests_per_unit: 6, unit: minute}";

fn desk() -> Desk<ModelStore> {
    Desk(limiter(RULES))
}

#[test]
fn what_is_not_used_goes_back_and_what_is_used_beyond_it_is_owed() {
    use Ending::{Cancelled, Committed};
    for (key, reserved, settle, want, left) in [
        ("bucket", 6, Some(None), (Committed, 6, 6), 4),
        ("bucket", 6, Some(Some(6)), (Committed, 6, 6), 4),
        ("bucket", 6, Some(Some(1)), (Committed, 6, 1), 9),
        ("bucket", 6, Some(Some(0)), (Committed, 6, 0), 10),
        ("bucket", 6, Some(Some(9)), (Committed, 6, 9), 1),
        ("bucket", 6, Some(Some(25)), (Committed, 6, 25), 0),
        ("bucket", 6, None, (Cancelled, 6, 0), 10),
        ("minute", 6, Some(Some(1)), (Committed, 6, 1), 9),
        ("minute", 6, None, (Cancelled, 6, 0), 10),
        ("costly", 6, Some(Some(1)), (Committed, 6, 1), 27),
        ("costly", 6, Some(Some(9)), (Committed, 6, 9), 3),
        ("costly", 6, None, (Cancelled, 6, 0), 30),
        ("strict", 6, Some(Some(7)), (Committed, 6, 7), 3),
        ("strict", 6, None, (Cancelled, 6, 0), 10),
        ("two", 4, Some(Some(1)), (Committed, 4, 1), 3),
    ] {
        let desk = desk();
        let of = format!("{key}=k");
        let id = desk.reserve(&of, reserved, NOW, NOON).id.expect("it fits");
        let got = match settle {
            Some(actual) => desk.commit(id, actual, NOON),
            None => desk.cancel(id, NOON),
        };
        assert_eq!(got, Ok(want), "{key}, {reserved}, {settle:?}");
        assert_eq!(desk.left(&of, NOON), left, "{key}, {reserved}, {settle:?}");
        // Whoever says it again, or something else, hears the first result, and nothing changes.
        for again in [desk.commit(id, None, NOON), desk.commit(id, Some(0), NOON), desk.cancel(id, NOON)] {
            assert_eq!(again, Ok(want));
        }
        assert_eq!(desk.left(&of, NOON), left, "a second time");
    }
}

#[test]
fn a_debt_is_repaid_before_anything_else_passes() {
    let desk = desk();
    let id = desk.reserve("bucket=k", 1, NOW, NOON).id.expect("it fits");
    assert_eq!(desk.commit(id, Some(25), NOON), Ok((Ending::Committed, 1, 25)));
    let told = ask_at(&desk.0, "d", &[of("bucket=k")], NOON);
    assert_eq!(told, "OVER: over 0/10 in 1.6s"); // 25 used of 10, ten a second, and one to pass
}

#[test]
fn a_bucket_promises_what_will_have_flowed_back_and_a_queue_a_place() {
    let desk = desk();
    for (key, hits, wait_ms, want) in [
        ("bucket", 10, 0, Ok(0)),
        ("bucket", 5, 0, Err(500)),
        ("bucket", 5, 499, Err(1)),
        ("bucket", 5, 500, Ok(500)),
        ("bucket", 10, 1_500, Ok(1_500)),
        ("bucket", 11, 60_000, Err(u64::MAX)),
        ("queue", 1, 0, Ok(0)),
        ("queue", 1, 999, Err(1)),
        ("queue", 1, 1_000, Ok(1_000)),
        ("queue", 1, 60_000, Ok(2_000)),
        ("queue", 1, 60_000, Err(1_000)), // three are in it
        ("minute", 10, 60_000, Ok(0)),
        ("minute", 1, 60_000, Err(60_000)), // a window promises nothing
    ] {
        let got = desk.reserve(&format!("{key}=k"), hits, waiting(Duration::from_millis(wait_ms)), NOON);
        let millis = |wait: Duration| u64::try_from(wait.as_millis()).expect("small");
        let told = match (got.id, got.retry_after[0]) {
            (Some(_), _) => Ok(millis(got.delay)),
            (None, RetryAfter::After(wait)) => Err(millis(wait)),
            (None, _) => Err(u64::MAX),
        };
        assert_eq!(told, want, "{key}, {hits} within {wait_ms} ms");
    }
}

#[test]
fn of_several_waits_the_longest_is_reported() {
    for asks in [["bucket=k", "queue=k"], ["queue=k", "bucket=k"]] {
        let desk = desk();
        let _all = desk.reserve("bucket=k", 10, NOW, NOON);
        let _first = desk.reserve("queue=k", 1, NOW, NOON);
        let got = desk.try_reserve(&asks.map(of), 1, waiting(seconds(9)), NOON).expect("there is room");
        assert_eq!(got.delay, seconds(1), "{asks:?}: 100 ms for the bucket, a second for the queue");
    }
}

#[test]
fn a_cancel_gives_all_back_until_the_start_and_nothing_after_it() {
    for (at_ms, want, left_then) in [
        (0, (Ending::Cancelled, 5, 0), 0),
        (499, (Ending::Cancelled, 5, 0), 4),
        (500, (Ending::Cancelled, 5, 0), 5),
        (501, (Ending::CancelledLate, 5, 5), 0),
    ] {
        let desk = desk();
        let _all = desk.reserve("bucket=k", 10, NOW, NOON);
        let got = desk.reserve("bucket=k", 5, waiting(seconds(1)), NOON);
        assert_eq!(got.delay, Duration::from_millis(500));
        let now = NOON + Duration::from_millis(at_ms);
        assert_eq!(desk.cancel(got.id.expect("it fits"), now), Ok(want), "at {at_ms} ms");
        assert_eq!(desk.left("bucket=k", now), left_then, "at {at_ms} ms");
    }
    // What was there at once has no start to wait for.
    let desk = desk();
    let id = desk.reserve("bucket=k", 5, NOW, NOON).id.expect("it fits");
    assert_eq!(desk.cancel(id, NOON + seconds(10)), Ok((Ending::Cancelled, 5, 0)));
    assert_eq!(desk.left("bucket=k", NOON + seconds(10)), 10);
}

#[test]
fn what_has_flowed_back_by_itself_is_not_given_back_twice() {
    let desk = desk();
    let bucket = desk.reserve("bucket=k", 10, NOW, NOON).id.expect("it fits");
    let minute = desk.reserve("minute=k", 10, NOW, NOON).id.expect("it fits");
    // A second later the bucket is full again, and somebody takes all of it; so in the next minute.
    let later = NOON + seconds(1);
    assert_eq!(ask_at(&desk.0, "d", &[of("bucket=k").hits(10)], later), "OK: ok 0/10");
    assert_eq!(desk.cancel(bucket, later), Ok((Ending::Cancelled, 10, 0)));
    assert_eq!(desk.left("bucket=k", later), 0);
    let next = NOON + Duration::from_millis(59_999);
    assert_eq!(desk.commit(minute, Some(4), next), Ok((Ending::Committed, 10, 4)));
    assert_eq!(desk.left("minute=k", next), 6);
    let minute =
        desk.reserve("minute=k", 6, ReserveTerms { ttl: seconds(300), ..NOW }, next).id.expect("it fits");
    let next = NOON + seconds(60);
    assert_eq!(ask_at(&desk.0, "d", &[of("minute=k").hits(8)], next), "OK: ok 2/10");
    assert_eq!(desk.cancel(minute, next), Ok((Ending::Cancelled, 6, 0)));
    assert_eq!(desk.left("minute=k", next), 2);
}

#[test]
fn an_unsettled_reservation_counts_as_used_and_is_removed() {
    let desk = desk();
    let terms = ReserveTerms { ttl: seconds(5), ..NOW };
    let id = desk.reserve("minute=k", 6, terms, NOON).id.expect("it fits");
    assert_eq!(desk.0.report(NOON).reservations, 1);
    assert_eq!(desk.commit(id, Some(0), NOON + seconds(5)), Err(SettleError::Unknown));
    assert_eq!(desk.left("minute=k", NOON + seconds(5)), 4);
    assert_eq!(desk.0.report(NOON).reservations, 0);
    let text = desk.0.metrics().render();
    assert!(text.contains("tollgate_reservation_events_total{event=\"expired\"} 1"), "{text}");
    let never: ReservationId = "00000000000000000000000000000001".parse().expect("32 digits");
    // The time to live begins when the permits may be used.
    let _all = desk.reserve("bucket=k", 10, NOW, NOON);
    let ahead = desk.reserve("bucket=k", 10, ReserveTerms { max_wait: seconds(1), ttl: seconds(1) }, NOON);
    assert_eq!(
        desk.commit(ahead.id.expect("it fits"), None, NOON + Duration::from_millis(1_999)),
        Ok((Ending::Committed, 10, 10))
    );
    assert_eq!(desk.commit(never, None, NOON), Err(SettleError::Unknown));
}

#[test]
fn of_many_that_are_over_none_can_be_settled_though_they_are_cleared_a_few_at_a_time() {
    let desk = desk();
    let terms = ReserveTerms { ttl: seconds(1), ..NOW };
    let ids: Vec<ReservationId> =
        (0..500).map(|_| desk.reserve("many=k", 1, terms, NOON).id.expect("there are many")).collect();
    for id in ids.iter().rev() {
        assert_eq!(desk.commit(*id, Some(0), NOON + seconds(1)), Err(SettleError::Unknown));
    }
    assert_eq!(desk.0.report(NOON).reservations, 0);
}

#[test]
fn all_limits_of_all_descriptors_are_held_or_none() {
    let desk = desk();
    for (asks, is_held, left) in [
        (&["bucket=k", "minute=k"][..], true, [7, 7, 4]),
        (&["minute=k", "two=k"], true, [7, 4, 1]),
        (&["bucket=k", "minute=k", "two=k"], false, [7, 4, 1]),
        (&["two=k", "bucket=k"], false, [7, 4, 1]),
        (&["minute=k", "bucket=k"], true, [4, 1, 1]),
        (&["bucket=k", "minute=k"], false, [4, 1, 1]),
        (&["bucket=k"], true, [1, 1, 1]),
    ] {
        let asks: Vec<Ask<'_>> = asks.iter().map(|entries| of(entries)).collect();
        let got = desk.try_reserve(&asks, 3, NOW, NOON).expect("there is room");
        assert_eq!(got.id.is_some(), is_held, "{:?}", got);
        assert_eq!(["bucket=k", "minute=k", "two=k"].map(|of| desk.left(of, NOON)), left);
    }
}

#[test]
fn descriptors_with_hits_of_their_own_keep_them() {
    let desk = desk();
    let asks = [of("bucket=k"), of("minute=k").hits(1)];
    let id = desk.try_reserve(&asks, 5, NOW, NOON).expect("there is room").id.expect("it fits");
    assert_eq!(desk.commit(id, Some(8), NOON), Ok((Ending::Committed, 5, 8)));
    assert_eq!((desk.left("bucket=k", NOON), desk.left("minute=k", NOON)), (2, 9));
    // A limit that came with the request is one like any other.
    let asks = [of("minute=other").limit(3, tollgate_limiter::Unit::Minute)];
    let id = desk.try_reserve(&asks, 3, NOW, NOON).expect("there is room").id.expect("it fits");
    assert!(desk.try_reserve(&asks, 1, NOW, NOON).expect("there is room").id.is_none());
    assert_eq!(desk.commit(id, Some(1), NOON), Ok((Ending::Committed, 3, 1)));
    assert_eq!(desk.left("minute=other", NOON), 9); // the rule's window of that unit
}

#[test]
fn soft_limits_shadow_rules_and_nothing_at_all_answer_as_a_decision_does() {
    let desk = desk();
    for (asks, want) in [
        (&["shadow=k"][..], [true, true, true]),
        (&["soft=a"], [true, false, false]), // the only soft limit denies as a hard one
        (&["soft=b", "soft2=b"], [true, false, false]), // so do all of them
        (&["soft=c", "minute=c"], [true, false, false]),
        (&["free=k"], [true, true, true]),
        (&["nobody=knows"], [true, true, true]),
    ] {
        let list: Vec<Ask<'_>> = asks.iter().map(|entries| of(entries)).collect();
        let got =
            [(); 3].map(|()| desk.try_reserve(&list, 2, NOW, NOON).expect("there is room").id.is_some());
        assert_eq!(got, want, "{asks:?}");
    }
    // What a hard limit held before all soft ones denied is let go.
    let all = [of("minute=d"), of("soft=d"), of("soft2=d")];
    let got = [(); 2].map(|()| desk.try_reserve(&all, 2, NOW, NOON).expect("there is room").id.is_some());
    assert_eq!((got, desk.left("minute=d", NOON)), ([true, false], 8));
    let entries = [Entry::new("k", "v")];
    let request = Request { domain: "nowhere", descriptors: &[Descriptor::new(&entries)], hits: 3 };
    let mut scratch = Scratch::new();
    let id = block_on(desk.0.reserve(&request, NOW, NOON, &mut scratch)).expect("there is room").id;
    assert_eq!(desk.commit(id.expect("nothing limits it"), Some(9), NOON), Ok((Ending::Committed, 3, 9)));
}

#[test]
fn an_invalid_request_and_a_full_table_take_nothing() {
    let settings = LimiterSettings {
        max_reservations: 4,
        longest_reservation: seconds(100),
        ..LimiterSettings::default()
    };
    let desk = Desk(Limiter::<ModelStore>::new(policy(RULES), ModelStore::default(), settings));
    let reserve =
        |asks: &[Ask<'_>], hits, terms| desk.try_reserve(asks, hits, terms, NOON).map(|got| got.id.is_some());
    let ttl = |ttl| ReserveTerms { ttl, ..NOW };
    let longest = seconds(100);
    for (got, want) in [
        (
            reserve(&[of("minute=k")], 1, ttl(Duration::ZERO)),
            Err(ReserveError::BadTtl { ttl: Duration::ZERO, longest }),
        ),
        (
            reserve(&[of("minute=k")], 1, ttl(seconds(101))),
            Err(ReserveError::BadTtl { ttl: seconds(101), longest }),
        ),
        (reserve(&[], 1, NOW), Err(tollgate_limiter::RequestError::NoDescriptors.into())),
        (reserve(&[of("minute=k")], 1 << 63, NOW), Ok(false)),
        (
            reserve(&[of(&format!("minute={}", "x".repeat(9_000)))], 1, NOW),
            Err(ReserveError::LongKeys { bytes: 9_016, most: 8_192 }),
        ),
        (reserve(&[of("minute=k")], 1, ttl(seconds(10))), Ok(true)),
        (reserve(&[of("minute=k")], 1, NOW), Ok(true)),
        (reserve(&[of("minute=other")], 1, NOW), Ok(true)),
        (reserve(&[of("minute=third")], 1, NOW), Ok(true)),
        (reserve(&[of("minute=k")], 1, NOW), Err(ReserveError::Full { most: 4, most_bytes: 4_096 })),
    ] {
        assert_eq!(got, want);
    }
    assert_eq!(desk.left("minute=k", NOON), 8);
    assert_eq!(
        desk.commit("00000000000000000000000000000007".parse().expect("32 digits"), Some(1 << 63), NOON),
        Err(SettleError::HugeActual { actual: 1 << 63 })
    );
    // One that is over, or denied, or settled, makes room.
    let later = NOON + seconds(10);
    let id = desk.reserve("minute=fourth", 1, NOW, later).id.expect("one is over");
    assert_eq!(
        desk.try_reserve(&[of("minute=k")], 1, NOW, later).err(),
        Some(ReserveError::Full { most: 4, most_bytes: 4_096 })
    );
    assert!(desk.cancel(id, later).is_ok());
    for _ in 0..5 {
        assert!(desk.reserve("minute=fourth", 11, NOW, later).id.is_none(), "denied");
    }
    assert!(desk.reserve("minute=fourth", 1, NOW, later).id.is_some());
    let text = desk.0.metrics().render();
    for line in [
        "tollgate_reservations 4",
        "tollgate_reservations_limit 4",
        "tollgate_reservation_events_total{event=\"made\"} 6",
        "tollgate_reservation_events_total{event=\"cancelled\"} 1",
        "tollgate_reservation_events_total{event=\"expired\"} 1",
        "tollgate_reservation_events_total{event=\"refused\"} 2",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn what_holds_nothing_takes_no_place_and_can_be_settled_all_the_same() {
    let settings = LimiterSettings { max_reservations: 4, ..LimiterSettings::default() };
    let desk = Desk(Limiter::<ModelStore>::new(policy(RULES), ModelStore::default(), settings));
    let entries = [Entry::new("k", "v")];
    let nowhere = Request { domain: "nowhere", descriptors: &[Descriptor::new(&entries)], hits: 3 };
    let mut scratch = Scratch::new();
    for _ in 0..100 {
        let unknown = block_on(desk.0.reserve(&nowhere, NOW, NOON, &mut scratch)).expect("it takes no place");
        let unknown = unknown.id.expect("nothing limits it");
        for (settled, want) in [
            (desk.commit(unknown, None, NOON), (Ending::Committed, 3, 3)),
            (desk.commit(unknown, Some(9), NOON), (Ending::Committed, 3, 9)),
            (desk.cancel(unknown, NOON + seconds(1_000)), (Ending::Cancelled, 3, 0)),
        ] {
            assert_eq!(settled, Ok(want));
        }
        for (asks, hits) in [
            (&[of("free=k")][..], 5),
            (&[of("no=rule"), of("free=k")], 5),
            (&[of("minute=k")], 0),
            (&[of("minute=k").hits(0), of("free=k")], 5),
        ] {
            let got = desk.try_reserve(asks, hits, NOW, NOON).expect("it takes no place");
            let id = got.id.expect("nothing limits it");
            assert_eq!(desk.commit(id, None, NOON), Ok((Ending::Committed, hits, hits)));
        }
    }
    assert_eq!((desk.0.report(NOON).reservations, desk.left("minute=k", NOON)), (0, 10));
    // No counter is remembered, so nothing is charged to one in silence.
    let zero = desk.reserve("minute=k", 0, NOW, NOON).id.expect("0 fit");
    assert_eq!(desk.commit(zero, Some(3), NOON), Err(SettleError::HoldsNothing { actual: 3 }));
    assert_eq!(desk.commit(zero, Some(0), NOON), Ok((Ending::Committed, 0, 0)));
    assert_eq!(desk.cancel(zero, NOON), Ok((Ending::Cancelled, 0, 0)));
    // A shadow rule that has nothing left lets it pass, and holds nothing.
    let shadowed = [(); 3].map(|()| desk.reserve("shadow=k", 2, NOW, NOON).id.expect("it never denies"));
    assert_eq!(desk.0.report(NOON).reservations, 1);
    assert_eq!(desk.commit(shadowed[2], Some(1), NOON), Ok((Ending::Committed, 2, 1)));
    assert!(desk.commit(shadowed[0], Some(1), NOON).is_ok());
    assert_eq!(desk.0.report(NOON).reservations, 0);
}

#[test]
fn one_caller_gets_half_of_the_places_and_one_domain_four_fifths_whatever_it_asks_for() {
    let settings = LimiterSettings { max_reservations: 1_000, ..LimiterSettings::default() };
    let rules = |domain: &str| RULES.replace("domain: d", &format!("domain: {domain}"));
    let files = ["d", "e"].map(|domain| RuleFile { name: domain.into(), text: rules(domain) });
    let both = parse(&files, &Options::default()).expect("rules without fault").policy;
    let desk = Desk(Limiter::<ModelStore>::new(both, ModelStore::default(), settings));
    let fill = |value: &dyn Fn(usize) -> String| {
        let mut made = 0;
        loop {
            // A caller that another descriptor hides is the same caller.
            let many = format!("many={}", value(made));
            let other = format!("no=rule{made}");
            match desk.try_reserve(&[of(&other), of(&many)], 1, NOW, NOON) {
                Ok(got) => assert!(got.id.is_some(), "there are many"),
                Err(error) => return (made, error),
            }
            made += 1;
        }
    };
    let (made, error) = fill(&|_| "k".to_owned());
    assert_eq!(made, 500);
    assert!(
        matches!(error, ReserveError::Share { of: ReservationShare::Caller, open: 500, free: 500, .. }),
        "{error:?}"
    );
    let said = error.to_string();
    assert!(said.starts_with("this domain and first entry has 500 open reservations"), "{said}");
    assert_eq!(desk.left("many=k", NOON), 1_000_000 - 500, "no permit was taken");
    let (made, error) = fill(&|nth| nth.to_string());
    assert_eq!(made, 300);
    assert!(
        matches!(error, ReserveError::Share { of: ReservationShare::Domain, open: 800, free: 200, .. }),
        "{error:?}"
    );
    // Another domain finds its part of the rest, and what is over makes room.
    let entries = [Entry::new("many", "k")];
    let elsewhere = Request { domain: "e", descriptors: &[Descriptor::new(&entries)], hits: 1 };
    let mut scratch = Scratch::new();
    for _ in 0..100 {
        assert!(block_on(desk.0.reserve(&elsewhere, NOW, NOON, &mut scratch)).is_ok());
    }
    let share = block_on(desk.0.reserve(&elsewhere, NOW, NOON, &mut scratch)).err();
    assert!(matches!(share, Some(ReserveError::Share { of: ReservationShare::Caller, open: 100, .. })));
    assert!(desk.try_reserve(&[of("many=k")], 1, NOW, NOON + seconds(60)).is_ok());
    let text = desk.0.metrics().render();
    for line in [
        "tollgate_reservation_events_total{event=\"made\"} 901",
        "tollgate_reservation_events_total{event=\"refused\"} 0",
        "tollgate_reservation_events_total{event=\"over_caller_share\"} 2",
        "tollgate_reservation_events_total{event=\"over_domain_share\"} 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn a_caller_with_long_keys_gets_half_of_the_bytes() {
    let settings = LimiterSettings { max_reservations: 100, ..LimiterSettings::default() };
    let desk = Desk(Limiter::<ModelStore>::new(policy(RULES), ModelStore::default(), settings));
    let long = format!("many={}", "x".repeat(7_000));
    let made = (0..).take_while(|_| desk.try_reserve(&[of(&long)], 1, NOW, NOON).is_ok()).count();
    // Of 100 KiB; the last one begins below the half.
    assert_eq!(made, 7, "of 7.5 kB each");
    assert!(desk.try_reserve(&[of("many=other")], 1, NOW, NOON).is_ok());
}

#[test]
fn without_the_store_each_rule_does_as_it_says_and_what_is_settled_says_that_it_is_degraded() {
    let text = "{domain: d, descriptors: [
        {key: open, rate_limit: {unit: minute, requests_per_unit: 2}},
        {key: shut, rate_limit: {unit: minute, requests_per_unit: 2, on_store_failure: deny}},
        {key: local, rate_limit: {unit: minute, requests_per_unit: 2, on_store_failure: local}}]}";
    let limiter: Limiter<Routed> =
        Limiter::new(policy(text), beside_memory(OutageStore::default()), LimiterSettings::default());
    let desk = Desk(limiter);
    let before = desk.reserve("open=k", 2, NOW, NOON).id.expect("it is up");
    cut(&desk.0, Down::All);
    for (of, want) in [("open=k", [true; 3]), ("shut=k", [false; 3]), ("local=k", [true, true, false])] {
        assert_eq!([(); 3].map(|()| desk.reserve(of, 1, NOW, NOON).id.is_some()), want, "{of}");
    }
    // Held in this node's memory: so is it given back there.
    let local = desk.reserve("local=other", 2, NOW, NOON).id.expect("it fits");
    assert!(desk.reserve("local=other", 1, NOW, NOON).id.is_none());
    let settled = block_on(desk.0.cancel(local, NOON)).expect("it is open");
    assert!(!settled.is_degraded);
    assert!(desk.reserve("local=other", 2, NOW, NOON).id.is_some());
    let settled = block_on(desk.0.cancel(before, NOON)).expect("it is open");
    assert!(settled.is_degraded, "nobody gave it back");
    cut(&desk.0, Down::Nothing);
    assert_eq!(block_on(desk.0.cancel(before, NOON)), Ok(settled), "and that is said again");
    assert_eq!(desk.left("open=k", NOON), 0);
}

#[test]
fn a_reload_between_loses_nothing_of_rules_that_stay() {
    let desk = desk();
    let ids = ["bucket=k", "minute=k", "two=k"].map(|of| desk.reserve(of, 4, NOW, NOON).id.expect("it fits"));
    // Twice the bucket's rate, more a minute, one of two limits gone, and rules in another order.
    let text = "{domain: d, descriptors: [
        {key: two, limits: [{name: long, requests_per_unit: 6, unit: minute}]},
        {key: minute, rate_limit: {unit: minute, requests_per_unit: 20}},
        {key: bucket, rate_limit: {unit: second, requests_per_unit: 20, algorithm: token_bucket}}]}";
    desk.0.replace(policy(text), NOON);
    assert_eq!(["bucket=k", "minute=k", "two=k"].map(|of| desk.left(of, NOON)), [16, 16, 2]);
    for id in ids {
        assert_eq!(desk.commit(id, Some(1), NOON), Ok((Ending::Committed, 4, 1)));
    }
    assert_eq!(["bucket=k", "minute=k", "two=k"].map(|of| desk.left(of, NOON)), [19, 19, 5]);
    // What flows back since then flows at the new rate.
    let id = desk.reserve("bucket=k", 19, NOW, NOON).id.expect("it fits");
    desk.0.replace(policy(&text.replace("requests_per_unit: 20, a", "requests_per_unit: 100, a")), NOON);
    let later = NOON + Duration::from_millis(100);
    let left = desk.left("bucket=k", later);
    assert_eq!(desk.commit(id, Some(0), later), Ok((Ending::Committed, 19, 0)));
    assert_eq!(desk.left("bucket=k", later) - left, 10, "ten have flowed back, and one was used before");
    // A rule that is gone has no counter to give back to.
    let id = desk.reserve("minute=gone", 4, NOW, NOON).id.expect("it fits");
    desk.0.replace(policy("{domain: d, descriptors: [{key: other}]}"), NOON);
    assert_eq!(desk.commit(id, Some(0), NOON), Ok((Ending::Committed, 4, 0)));
}
