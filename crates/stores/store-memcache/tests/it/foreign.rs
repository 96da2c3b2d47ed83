//! Items under our names that are not ours, items that are gone, and servers that do not keep one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tollgate_core::{Algorithm, Align, Cost, Period, Quota};
use tollgate_store::suite::Executor;
use tollgate_store::{Charge, Counter, Key, Store, StoreError};
use tollgate_testkit::redis::Memcached;

use crate::helpers::{NOON, Nodes, config, hourly, store, take};

/// Sends `text` and reads up to the line `last`.
#[expect(clippy::expect_used, reason = "a helper that fails must say why, as a test does")]
fn tell(memcached: &Memcached, text: &str, last: &str) -> String {
    let mut stream = TcpStream::connect(memcached.address()).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(300))).expect("a time");
    stream.write_all(text.as_bytes()).expect("it listens");
    let mut told = String::new();
    while !told.ends_with(&format!("{last}\r\n")) {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("it answers");
        told.push(char::from(byte[0]));
    }
    told
}

#[test]
fn a_foreign_value_is_rejected_by_its_name_and_left_as_it_is() {
    let Some(memcached) = Memcached::start() else { return };
    let nodes = Nodes::new(1);
    let second = Period::Span(Duration::from_secs(1));
    let quotas = [
        hourly(5),
        Quota::new(5, second.clone(), Algorithm::FixedWindow { align: Align::FirstHit }).expect("a quota"),
        Quota::new(5, second, Algorithm::SlidingWindowCounter).expect("a quota"),
    ];
    for (value, quota) in ["hello", "17", "", "9223372036000000000"]
        .into_iter()
        .flat_map(|value| quotas.iter().map(move |it| (value, it)))
    {
        let config = config(&memcached.url());
        let item = format!("{}theirs", config.prefix);
        tell(&memcached, &format!("set {item} 5 0 {}\r\n{value}\r\n", value.len()), "STORED");
        let store = store(config);
        let counter = Counter::new(Key(b"theirs"), quota);
        nodes.block_on(async {
            let errors = [
                take(&store, "theirs", quota).await.map(drop),
                store.give_back(counter, Cost::ONE, NOON).await.map(drop),
                store.charge(counter, Cost(1 << 30), NOON).await.map(drop),
                store.inspect(counter, NOON).await.map(drop),
                store.reset(counter, NOON).await.map(drop),
            ];
            for (at, outcome) in errors.into_iter().enumerate() {
                let error = outcome.expect_err("it is not ours");
                let named = matches!(&error, StoreError::Failed { reason, .. } if reason.contains(&item));
                assert!(named, "{value:?}, call {at}: {error}");
            }
        });
        let left = tell(&memcached, &format!("get {item}\r\n"), "END");
        assert_eq!(
            left.trim_end(),
            format!("VALUE {item} 5 {}\r\n{value}\r\nEND", value.len()),
            "it was changed"
        );
    }
}

#[test]
fn what_memcached_has_forgotten_begins_afresh() {
    let Some(memcached) = Memcached::start() else { return };
    let nodes = Nodes::new(1);
    let quota = hourly(2);
    let config = config(&memcached.url());
    let item = format!("{}ann", config.prefix);
    let store = store(config);
    nodes.block_on(async {
        for remaining in [1, 0] {
            assert_eq!(take(&store, "ann", &quota).await.expect("an answer").remaining(), remaining);
        }
        assert!(!take(&store, "ann", &quota).await.expect("an answer").is_admitted());
        // The key is gone as after an eviction.
        assert_eq!(memcached.command(&format!("delete {item}")), "DELETED");
        assert_eq!(take(&store, "ann", &quota).await.expect("an answer").remaining(), 1);
    });
}

#[test]
fn a_window_that_has_ended_is_replaced_at_once() {
    let Some(memcached) = Memcached::start() else { return };
    let nodes = Nodes::new(1);
    let store = store(config(&memcached.url()));
    for align in [Align::Calendar, Align::FirstHit] {
        let minute = Period::Span(Duration::from_secs(60));
        let quota = Quota::new(1, minute, Algorithm::FixedWindow { align }).expect("a quota");
        let key = format!("{align:?}");
        for hours in 0..5 {
            let now = NOON + Duration::from_secs(hours * 3600);
            let takes = [Counter::new(Key(key.as_bytes()), &quota).take(Cost::ONE); 2];
            let mut verdicts = Vec::new();
            nodes.block_on(store.take(&takes, Charge::Each, now, &mut verdicts));
            let admitted: Vec<_> = verdicts.iter().flatten().map(|decision| decision.is_admitted()).collect();
            assert_eq!(admitted, [true, false], "{key}, hour {hours}");
        }
    }
}

#[test]
fn items_live_a_minute_longer_than_their_windows() {
    let Some(memcached) = Memcached::start() else { return };
    let nodes = Nodes::new(1);
    let config = config(&memcached.url());
    let item = |key: &str| format!("{}{key}", config.prefix);
    let hour = item("hour");
    let month = item("month");
    let store = store(config.clone());
    let in_30_days = Quota::fixed_window(1, Duration::from_secs(86_400 * 365)).expect("a quota");
    nodes.block_on(async {
        let _ = take(&store, "hour", &hourly(1)).await.expect("an answer");
        // 1,700,000,000 is 800 s before a full hour.
        let meta = memcached.command(&format!("mg {hour} t"));
        let left: u32 = meta.rsplit_once('t').and_then(|(_, left)| left.parse().ok()).expect(&meta);
        assert!((2_780..=2_860).contains(&left) || (700..=860).contains(&left), "{meta}");
        // Far ahead of the server's clock, so that the instant lies before 2038 and in its future.
        let mut verdicts = Vec::new();
        let now = tollgate_core::Timestamp::from_unix_seconds(2_000_000_000);
        let takes = [Counter::new(Key(b"month"), &in_30_days).take(Cost::ONE)];
        store.take(&takes, Charge::Each, now, &mut verdicts).await;
        let meta = memcached.command(&format!("mg {month} t"));
        let left: u64 = meta.rsplit_once('t').and_then(|(_, left)| left.parse().ok()).expect(&meta);
        assert!(left > 86_400 * 30, "it is sent as an instant: {meta}");
    });
}

#[test]
fn what_it_cannot_count_is_rejected_and_nothing_sent() {
    // Nobody listens there.
    let store = store(config("memcache://127.0.0.1:1"));
    let bucket = Quota::token_bucket(5, Duration::from_secs(1)).expect("a quota");
    Nodes::new(1).block_on(async {
        let takes = [Counter::new(Key(b"a"), &bucket).take(Cost::ONE); 2];
        for charge in [Charge::Each, Charge::Together] {
            let mut verdicts = Vec::new();
            store.take(&takes, charge, NOON, &mut verdicts).await;
            let refused = |it: &Result<_, _>| {
                matches!(it, Err(StoreError::Unsupported { algorithm: "token_bucket", .. }))
            };
            assert!(verdicts.len() == 2 && verdicts.iter().all(refused), "{verdicts:?}");
        }
        let free = take(&store, "a", &Quota::unlimited()).await;
        assert!(free.is_ok_and(|decision| decision.is_admitted()), "what has no limit needs no store");
    });
    assert_eq!(store.stats().conn.connects, 0);
    assert_eq!(store.stats().conn.requests, 0);
}
