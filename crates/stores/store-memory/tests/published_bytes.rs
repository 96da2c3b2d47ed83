//! The bytes that a key of each algorithm adds to an empty store, compared with the tables of
//! `docs/choosing.md`.
#![cfg(not(loom))]
#![allow(clippy::expect_used, reason = "a test without its page or its quota has failed")]

use std::time::Duration;

use tollgate_core::{Algorithm, Cost, Period, Quota, Refill, Timestamp};
use tollgate_store::{Counter, Key};
use tollgate_store_memory::{HashKey, MemoryConfig, MemoryStore};

const KEYS: u64 = 1_000;
/// As in those tables: 100 per hour, and all of them taken.
const LIMIT: u64 = 100;
const WINDOW: Duration = Duration::from_secs(3_600);

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/choosing.md"))
        .expect("the page")
}

/// Row 40 of the acceptance page.
#[test]
fn each_number_of_cells_costs_the_bytes_per_key_that_are_published() {
    let cells = [1, 2, 5, 10, 20, 60].map(Algorithm::sliding_window);
    let others = [Algorithm::SlidingWindowCounter, Algorithm::SlidingWindowLog { log_denied: false }];
    let page = page();
    let mut published = 0;
    for algorithm in cells.into_iter().chain(others) {
        let name = match algorithm {
            Algorithm::SlidingWindow { cells, .. } => format!("| `sliding_window`, cells: {cells} | "),
            ref other => format!("| `{}` | ", other.name()),
        };
        let measured = bytes_per_key(algorithm);
        let rows = page.lines().filter_map(|line| line.strip_prefix(&name)?.split(' ').next());
        // Where the table that compares algorithms has words, these have figures.
        for figure in rows.filter_map(|figure| figure.replace(',', "").parse::<f64>().ok()) {
            published += 1;
            assert_eq!(figure, measured, "{name}");
        }
    }
    assert_eq!(published, 16, "two tables of eight rows");
}

#[test]
fn algorithms_of_several_words_cost_about_the_bytes_per_key_that_are_published() {
    let burst = None;
    let initial = None;
    let overdraft = 0;
    let page = page();
    for (name, algorithm) in [
        (
            "| `token_bucket`, `refill: interval` | ",
            Algorithm::TokenBucket { burst, initial, overdraft, refill: Refill::Interval },
        ),
        ("| `sliding_window_counter` | inflow", Algorithm::SlidingWindowCounter),
        ("| `warm_up` | ", Algorithm::WarmUp { warm_up: Duration::from_secs(10), cold_factor: 3 }),
    ] {
        let row = page.lines().find(|line| line.starts_with(name)).expect("a row");
        let about = row.rsplit("| about ").next().and_then(|cell| cell.split(' ').next());
        let about: f64 = about.and_then(|figure| figure.parse().ok()).expect("a figure");
        let measured = bytes_per_key(algorithm);
        assert!((measured - about).abs() < 5.0, "{name}: about {about} is published, {measured} measured");
    }
}

/// The bytes that a key with a full state adds, as the store counts them against its cap.
fn bytes_per_key(algorithm: Algorithm) -> f64 {
    let store = MemoryStore::new(MemoryConfig { hash_key: HashKey::Fixed(1), ..MemoryConfig::default() });
    let empty = store.stats().bytes;
    let quota = Quota::new(LIMIT, Period::Span(WINDOW), algorithm).expect("a quota");
    let begin = Timestamp::from_unix_seconds(1_440_000_000);
    for take in 0..LIMIT {
        let now = begin + WINDOW * take as u32 / LIMIT as u32;
        for client in 0..KEYS {
            let key = format!("client:{client:013}");
            let _ = store.take_one(Counter::new(Key(key.as_bytes()), &quota), Cost::ONE, now);
        }
    }
    let stats = store.stats();
    assert_eq!((stats.tracked_keys, stats.evictions), (KEYS, 0));
    (stats.bytes - empty) as f64 / KEYS as f64
}
