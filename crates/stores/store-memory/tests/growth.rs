//! Growth, the cap, and many callers at once.
#![cfg(not(loom))]

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::{Algorithm, Align, Clock as _, Cost, ManualClock, Period, Quota, Timestamp};
use tollgate_store::{Charge, Counter, Key, Origin, Take, Verdicts};
use tollgate_store_memory::{HashKey, MemoryConfig, MemoryStore};

const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);
const HOUR: Duration = Duration::from_secs(3600);

fn store(max_bytes: u64) -> MemoryStore {
    MemoryStore::new(MemoryConfig { max_bytes, request_share: 0.0, hash_key: HashKey::Fixed(3) })
}

fn name(number: u64) -> String {
    format!("client:{number:013}")
}

fn remaining(store: &MemoryStore, number: u64, quota: &Quota) -> u64 {
    store.inspect_now(Counter::new(Key(name(number).as_bytes()), quota), NOON).decision.remaining()
}

#[test]
fn no_key_is_lost_or_counted_twice_while_the_table_grows_from_nothing() {
    const KEYS: u64 = 150_000;
    let store = store(1 << 30);
    let quota = Quota::token_bucket(10, HOUR).expect("a quota");
    for number in 0..KEYS {
        let cost = Cost(1 + number % 3);
        assert!(store.take_one(Counter::new(Key(name(number).as_bytes()), &quota), cost, NOON).is_admitted());
        let earlier = number / 2; // somewhere in what has been moved, is about to be, or both
        let want = 10 - (1 + earlier % 3);
        assert_eq!(remaining(&store, earlier, &quota), want, "key {earlier} after {number} others");
    }
    let wrong =
        (0..KEYS).filter(|&number| remaining(&store, number, &quota) != 10 - (1 + number % 3)).count();
    assert_eq!(wrong, 0);
    let stats = store.stats();
    assert_eq!((stats.tracked_keys, stats.evictions), (KEYS, 0));
}

#[test]
fn four_callers_bring_the_same_new_keys_and_each_key_admits_exactly_its_limit() {
    const KEYS: u64 = 50_000;
    for quota in [Quota::token_bucket(3, HOUR), Quota::fixed_window(3, HOUR)] {
        let store = store(1 << 30);
        let quota = quota.expect("a quota");
        let admitted = AtomicU64::new(0);
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let store = &store;
                let quota = &quota;
                let admitted = &admitted;
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let mut verdicts = Verdicts::new();
                    for first in (0..KEYS).step_by(10) {
                        let names: Vec<String> = (first..first + 10).map(name).collect();
                        let batch: Vec<Take<'_>> = (names.iter())
                            .map(|name| Counter::new(Key(name.as_bytes()), quota).take(Cost::ONE))
                            .collect();
                        for _ in 0..2 {
                            verdicts.clear();
                            if thread % 2 == 0 {
                                store.take_now(&batch, Charge::Each, NOON, &mut verdicts);
                            } else {
                                let one = |take: &Take<'_>| store.take_one(take.counter, take.cost, NOON);
                                verdicts.extend(batch.iter().map(|take| Ok(one(take))));
                            }
                            let passed = verdicts.iter().flatten().filter(|verdict| verdict.is_admitted());
                            admitted.fetch_add(passed.count() as u64, Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(admitted.load(Relaxed), 3 * KEYS, "{:?}", quota.algorithm());
        assert_eq!(store.stats().tracked_keys, KEYS);
    }
}

/// Row 8: a hundred per window, of a second and of a minute, while time passes and four callers ask for
/// more. A decision is of the window at whose end the quota is full again.
#[test]
fn a_hundred_a_window_admit_exactly_a_hundred_in_each_as_windows_roll_under_four_callers() {
    const LIMIT: u64 = 100;
    const ASKED_IN_A_STEP: u64 = 400;
    let first_hit =
        |span| Quota::new(LIMIT, Period::Span(span), Algorithm::FixedWindow { align: Align::FirstHit });
    for span in [Duration::from_secs(1), Duration::from_secs(60)] {
        for quota in [Quota::fixed_window(LIMIT, span), first_hit(span)] {
            let store = store(1 << 20);
            let quota = quota.expect("a quota");
            let clock = ManualClock::at(NOON);
            let asked = AtomicU64::new(0);
            let admitted = Mutex::new(BTreeMap::new());
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let mut own = BTreeMap::new();
                        loop {
                            let nth = asked.fetch_add(1, Relaxed);
                            if nth >= 80 * ASKED_IN_A_STEP {
                                break;
                            }
                            if nth > 0 && nth.is_multiple_of(ASKED_IN_A_STEP) {
                                clock.advance(span / 4);
                            }
                            let now = clock.now();
                            let decision = store.take_one(Counter::new(Key(b"hot"), &quota), Cost::ONE, now);
                            if decision.is_admitted() {
                                *own.entry(now + decision.reset_after()).or_insert(0) += 1;
                            }
                        }
                        for (ends, count) in own {
                            *admitted.lock().entry(ends).or_insert(0) += count;
                        }
                    });
                }
            });
            let admitted = admitted.into_inner();
            let wrong: Vec<_> = admitted.iter().filter(|(_, count)| **count != LIMIT).collect();
            assert!(wrong.is_empty(), "{:?} over {span:?}: {wrong:?}", quota.algorithm());
            assert!((20..=21).contains(&admitted.len()), "{} windows over {span:?}", admitted.len());
        }
    }
}

#[test]
fn callers_on_one_hot_key_admit_exactly_the_limit_while_others_flood_the_table() {
    const LIMIT: u64 = 10_000;
    let hot = Quota::token_bucket(LIMIT, 1000 * HOUR).expect("a quota"); // long: the last to be dropped
    let flood = Quota::token_bucket(100, Duration::from_secs(1)).expect("a quota");
    let store = store(2 << 20);
    let admitted = AtomicU64::new(0);
    let _charged = store.take_one(Counter::new(Key(b"hot"), &hot), Cost::ONE, NOON);
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let store = &store;
            let hot = &hot;
            let flood = &flood;
            let admitted = &admitted;
            scope.spawn(move || {
                for _ in 0..LIMIT {
                    let passed =
                        store.take_one(Counter::new(Key(b"hot"), hot), Cost::ONE, NOON).is_admitted();
                    admitted.fetch_add(u64::from(passed), Relaxed);
                }
            });
            scope.spawn(move || {
                for number in 0..100_000 {
                    let key = name(number + thread * 1_000_000);
                    let _charged = store.take_one(Counter::new(Key(key.as_bytes()), flood), Cost::ONE, NOON);
                }
            });
        }
    });
    assert_eq!(admitted.load(Relaxed), LIMIT - 1);
    assert!(store.stats().evictions > 0);
}

/// Law I15: keys in debt outlive a flood of nearly full ones.
#[test]
fn tracked_keys_never_exceed_the_cap_and_what_is_nearest_to_full_goes_first() {
    const MAX_BYTES: u64 = 4 << 20;
    let store = store(MAX_BYTES);
    let short = Quota::token_bucket(100, Duration::from_secs(10)).expect("a quota");
    let long = Quota::token_bucket(100, HOUR).expect("a quota");
    for number in 0..2_000 {
        assert!(
            store.take_one(Counter::new(Key(name(number).as_bytes()), &long), Cost(50), NOON).is_admitted()
        );
    }
    for number in 1_000_000..1_500_000 {
        assert!(
            store.take_one(Counter::new(Key(name(number).as_bytes()), &short), Cost::ONE, NOON).is_admitted()
        );
    }
    let stats = store.stats();
    assert!(stats.bytes <= MAX_BYTES, "{stats:?}");
    assert!(stats.tracked_keys <= MAX_BYTES / 21, "{stats:?}");
    assert!(stats.evictions > 300_000, "{stats:?}");
    let kept = (0..2_000).filter(|&number| remaining(&store, number, &long) == 50).count();
    assert_eq!(kept, 2_000, "those in debt for half an hour outlive a flood of nearly full ones");
}

/// Counters of rules and those whose quotas came with the request: a flood of either leaves all of the other,
/// even if the flood is full last and the others are spent and nearly full again.
#[test]
fn a_flood_of_keys_with_their_own_rates_drops_no_counter_of_a_rule_and_the_other_way_round() {
    const MAX_BYTES: u64 = 4 << 20;
    const KEPT: u64 = 2_000;
    let minute = Quota::token_bucket(2, Duration::from_secs(60)).expect("a quota");
    let year = Quota::token_bucket(1, 24 * 365 * HOUR).expect("a quota");
    for (flooding, staying, part, share) in
        [(Origin::Request, Origin::Rule, 0.25, 0.25), (Origin::Rule, Origin::Request, 0.75, 0.25)]
    {
        let config = MemoryConfig { max_bytes: MAX_BYTES, request_share: share, hash_key: HashKey::Fixed(3) };
        let store = MemoryStore::new(config);
        for number in 0..KEPT {
            let key = name(number);
            let counter = Counter::new(Key(key.as_bytes()), &minute).from_origin(staying);
            assert!(store.take_one(counter, Cost(2), NOON).is_admitted());
        }
        let before = store.stats_of(staying);
        for number in 1_000_000..1_300_000 {
            let key = name(number);
            let counter = Counter::new(Key(key.as_bytes()), &year).from_origin(flooding);
            assert!(store.take_one(counter, Cost::ONE, NOON).is_admitted());
        }
        let flood = store.stats_of(flooding);
        let after = store.stats_of(staying);
        assert_eq!(after, before, "while {flooding:?} floods");
        assert!(flood.evictions > 150_000, "{flood:?}");
        assert!(flood.bytes as f64 <= MAX_BYTES as f64 * part, "{flood:?}");
        assert!(
            flood.tracked_keys as f64 * 25.0 >= MAX_BYTES as f64 * part * 0.7,
            "it has its part: {flood:?}"
        );
        let spent = (0..KEPT).filter(|&number| {
            let key = name(number);
            let counter = Counter::new(Key(key.as_bytes()), &minute).from_origin(staying);
            !store.take_one(counter, Cost::ONE, NOON).is_admitted()
        });
        assert_eq!(spent.count() as u64, KEPT, "{staying:?} are spent as before");
    }
}

#[test]
fn a_flood_of_wide_states_of_requests_drops_no_wide_state_of_a_rule() {
    let config = MemoryConfig { max_bytes: 4 << 20, request_share: 0.25, hash_key: HashKey::Fixed(3) };
    let store = MemoryStore::new(config);
    let quota = |limit, span| {
        Quota::new(limit, Period::Span(span), Algorithm::SlidingWindowCounter).expect("a quota")
    };
    let minute = quota(2, Duration::from_secs(60));
    let year = quota(1, 24 * 365 * HOUR);
    let ann = Counter::new(Key(b"ann"), &minute);
    assert!(store.take_one(ann, Cost(2), NOON).is_admitted());
    for number in 0..20_000 {
        let key = name(number);
        let counter = Counter::new(Key(key.as_bytes()), &year).from_origin(Origin::Request);
        assert!(store.take_one(counter, Cost::ONE, NOON).is_admitted());
    }
    let flood = store.stats_of(Origin::Request);
    assert!(flood.evictions > 0 && flood.bytes <= 1 << 20, "{flood:?}");
    assert!(!store.take_one(ann, Cost::ONE, NOON).is_admitted());
}

#[test]
fn places_of_expired_states_are_used_again_so_a_stream_of_short_lived_keys_fills_no_memory() {
    let store = store(64 << 20);
    let quota = Quota::fixed_window(5, Duration::from_secs(1)).expect("a quota");
    for second in 0..60_u64 {
        let now = Timestamp::from_unix_seconds(1_700_000_000 + 2 * second);
        for number in 0..20_000 {
            let key = name(second << 32 | number);
            assert!(store.take_one(Counter::new(Key(key.as_bytes()), &quota), Cost::ONE, now).is_admitted());
        }
    }
    let stats = store.stats();
    assert_eq!(stats.evictions, 0);
    assert!(stats.tracked_keys < 80_000, "{stats:?}");
}

#[test]
fn a_peek_on_an_unseen_key_and_a_denial_that_changes_nothing_keep_nothing() {
    let store = store(1 << 20);
    let quota = Quota::token_bucket(3, HOUR).expect("a quota");
    assert!(store.take_one(Counter::new(Key(b"peek"), &quota), Cost::PEEK, NOON).is_admitted());
    assert!(!store.take_one(Counter::new(Key(b"too much"), &quota), Cost(4), NOON).is_admitted());
    assert_eq!(store.stats().tracked_keys, 0);
}

#[test]
fn a_key_that_comes_several_times_in_a_batch_sees_itself_in_order() {
    let store = store(1 << 20);
    let quota = Quota::token_bucket(3, HOUR).expect("a quota");
    let take = Counter::new(Key(b"same"), &quota).take(Cost::ONE);
    let mut verdicts = Verdicts::new();
    store.take_now(&[take; 40], Charge::Each, NOON, &mut verdicts);
    let admitted: Vec<bool> = verdicts.iter().flatten().map(|verdict| verdict.is_admitted()).collect();
    assert_eq!(admitted, (0..40).map(|place| place < 3).collect::<Vec<_>>());
}

#[test]
fn a_forgotten_key_starts_afresh() {
    let store = store(1 << 20);
    let quota = Quota::token_bucket(3, HOUR).expect("a quota");
    let counter = Counter::new(Key(b"key"), &quota);
    let _charged = store.take_one(counter, Cost(3), NOON);
    assert!(store.reset_now(counter, NOON));
    assert!(!store.reset_now(counter, NOON));
    assert_eq!(store.stats().tracked_keys, 0);
    assert_eq!(store.take_one(counter, Cost::ONE, NOON).remaining(), 2);
}
