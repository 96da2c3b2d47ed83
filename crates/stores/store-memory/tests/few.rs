//! A few callers on a few keys: small enough for tools that watch every access (`./test miri`, `./test tsan`).
#![cfg(not(loom))]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate_core::{Algorithm, Cost, Period, Quota, Timestamp};
use tollgate_store::{Charge, Counter, Key, Take, Verdicts};
use tollgate_store_memory::{HashKey, MemoryConfig, MemoryStore};

const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_few_callers_on_a_few_keys_spend_each_permit_once_one_by_one_in_batches_and_together() {
    const LIMIT: u64 = 20;
    const KEYS: [&str; 3] = ["ann", "bob", "a key that is longer than others"];
    let config = MemoryConfig { max_bytes: 1 << 18, hash_key: HashKey::Fixed(1), ..MemoryConfig::default() };
    for algorithm in [Algorithm::sliding_window(2), Algorithm::Total] {
        let store = MemoryStore::new(config.clone());
        let admitted = AtomicU64::new(0);
        let quota = Quota::new(LIMIT, Period::Span(HOUR), algorithm).expect("a quota");
        std::thread::scope(|threads| {
            for thread in 0..3 {
                let store = &store;
                let quota = &quota;
                let admitted = &admitted;
                threads.spawn(move || {
                    let batch: Vec<Take<'_>> = KEYS
                        .iter()
                        .map(|key| Counter::new(Key(key.as_bytes()), quota).take(Cost::ONE))
                        .collect();
                    let mut verdicts = Verdicts::new();
                    for _ in 0..12 {
                        verdicts.clear();
                        match thread {
                            0 => batch.iter().for_each(|take| {
                                verdicts.push(Ok(store.take_one(take.counter, take.cost, NOON)));
                            }),
                            1 => store.take_now(&batch, Charge::Each, NOON, &mut verdicts),
                            _ => store.take_now(&batch, Charge::Together, NOON, &mut verdicts),
                        }
                        let is_charged = thread < 2 || verdicts.iter().flatten().all(|it| it.is_admitted());
                        let passed = verdicts.iter().flatten().filter(|it| is_charged && it.is_admitted());
                        admitted.fetch_add(passed.count() as u64, Relaxed);
                    }
                });
            }
        });
        // Some permits that a batch gave back may be left.
        let counter = |key: &'static str| Counter::new(Key(key.as_bytes()), &quota);
        let left: u64 =
            KEYS.map(|key| store.inspect_now(counter(key), NOON).decision.remaining()).iter().sum();
        assert_eq!(admitted.load(Relaxed) + left, LIMIT * KEYS.len() as u64);
        assert!(left < LIMIT, "{left} are left");
    }
}

#[test]
fn a_few_new_keys_from_two_callers_are_each_counted_once_while_the_table_grows() {
    const KEYS: u64 = if cfg!(miri) { 300 } else { 3_000 };
    let config = MemoryConfig { max_bytes: 1 << 20, hash_key: HashKey::Fixed(1), ..MemoryConfig::default() };
    let store = MemoryStore::new(config);
    let quota = Quota::token_bucket(1, HOUR).expect("a quota");
    let admitted = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                for number in 0..KEYS {
                    let key = format!("client:{number}");
                    let decision = store.take_one(Counter::new(Key(key.as_bytes()), &quota), Cost::ONE, NOON);
                    admitted.fetch_add(u64::from(decision.is_admitted()), Relaxed);
                }
            });
        }
    });
    assert_eq!((admitted.load(Relaxed), store.stats().tracked_keys), (KEYS, KEYS));
}
