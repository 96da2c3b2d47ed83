//! The bytes of a key, counted and resident. A program of its own, so that no other test's memory is counted.
#![cfg(not(loom))]

use std::time::Duration;

use tollgate_core::{Cost, Quota, Timestamp};
use tollgate_store::{Counter, Key};
use tollgate_store_memory::{HashKey, MemoryConfig, MemoryStore};

const KEYS: u64 = 1_000_000;
/// A slot is a third of a cache line: less than this cannot hold a key.
const LEAST: f64 = 64.0 / 3.0;
/// docs/choosing.md: 29.9 bytes per key, and 3.9 that are an empty store's.
const MOST: f64 = 34.0;

/// Row 128 of the acceptance page.
#[test]
fn a_million_keys_cost_the_bytes_per_key_that_are_published() {
    let store = MemoryStore::new(MemoryConfig { hash_key: HashKey::Fixed(1), ..MemoryConfig::default() });
    let quota = Quota::token_bucket(100, Duration::from_secs(3_600)).expect("a quota");
    let now = Timestamp::from_unix_seconds(1_700_000_000);
    let before = resident_bytes();
    for number in 0..KEYS {
        let key = format!("client:{number:013}");
        assert!(store.take_one(Counter::new(Key(key.as_bytes()), &quota), Cost::ONE, now).is_admitted());
    }
    let resident = resident_bytes().saturating_sub(before) as f64 / KEYS as f64;
    let stats = store.stats();
    assert_eq!((stats.tracked_keys, stats.evictions), (KEYS, 0));
    let counted = stats.bytes as f64 / KEYS as f64;
    assert!((LEAST..=MOST).contains(&counted), "{counted:.1} bytes per key are counted");
    // Counted and not resident: places of the map of a table of 1 GiB that no chunk has needed yet.
    if cfg!(target_os = "linux") {
        assert!((LEAST..=counted + 2.0).contains(&resident), "{resident:.1} bytes per key are resident");
    }
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4_096
}
