//! The parts of the suite that memcached's commands can carry: all of it, for two algorithms.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate_core::{Cost, Decision};
use tollgate_store::suite::{Executor as _, Options, run};
use tollgate_store::{Charge, Counter, Key, Store as _};
use tollgate_testkit::redis::Memcached;

use crate::helpers::{NOON, Nodes, config, hourly, store};

/// Algorithms that memcached's commands cannot count.
pub(crate) const UNSUPPORTED: &[&str] = &[
    "token_bucket",
    "leaky_bucket",
    "sliding_window",
    "sliding_window_log",
    "total",
    "unlimited",
    "concurrency",
    "warm_up",
    "priority_buckets",
    "smooth_bursty",
];

#[test]
fn it_answers_as_the_model_does() {
    let Some(memcached) = Memcached::start() else { return };
    let make = || store(config(&memcached.url()));
    run(&Nodes::new(1), make, &Options { unsupported: UNSUPPORTED, ..Options::default() });
}

#[test]
fn it_does_with_64_callers_of_one_node_at_once() {
    let Some(memcached) = Memcached::start() else { return };
    let made = parking_lot::Mutex::new(Vec::new());
    let make = || {
        let store = store(config(&memcached.url()));
        made.lock().push(store.clone());
        store
    };
    let options =
        Options { cases: 1, threads: 64, takes: 50, unsupported: UNSUPPORTED, ..Options::default() };
    run(&Nodes::new(1), make, &options);
    let made = made.into_inner();
    let merged: u64 = made.iter().map(|store| store.stats().conn.merged).sum();
    assert!(merged > 1_000, "callers of one key share commands: {merged} did");
}

#[test]
fn it_does_with_64_callers_of_eight_nodes_at_once() {
    let Some(memcached) = Memcached::start() else { return };
    let made = parking_lot::Mutex::new(Vec::new());
    let make = || {
        let store = store(config(&memcached.url()));
        made.lock().push(store.clone());
        store
    };
    let options =
        Options { cases: 1, threads: 64, takes: 50, unsupported: UNSUPPORTED, ..Options::default() };
    run(&Nodes::new(8), make, &options);
    let made = made.into_inner();
    let lost: u64 = made.iter().map(|store| store.stats().lost_races).sum();
    assert!(lost > 0, "nodes write the same items at the same time");
    assert_eq!(made.iter().map(|store| store.stats().left_counted).sum::<u64>(), 0);
}

/// A caller that looks and finds enough, and then loses the race for one key, gives all back that it took
/// from another.
#[test]
fn a_batch_that_loses_a_race_gives_back_every_take_of_a_key() {
    const NODES: usize = 6;
    let Some(memcached) = Memcached::start() else { return };
    let store = store(config(&memcached.url()));
    let nodes = Nodes::new(NODES);
    let wide = hourly(1_000);
    let narrow = hourly(7);
    for round in 0..60 {
        let keys = [format!("wide{round}"), format!("narrow{round}")];
        let on =
            |key: usize, quota| Counter::new(Key(keys[key].as_bytes()), quota).take(Cost(2 - key as u64));
        let batch = [on(0, &wide), on(1, &narrow), on(0, &wide)];
        let admitted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..NODES {
                scope.spawn(|| {
                    for _ in 0..3 {
                        let mut verdicts = Vec::new();
                        nodes.block_on(store.take(&batch, Charge::Together, NOON, &mut verdicts));
                        let all = verdicts.iter().all(|it| it.as_ref().is_ok_and(Decision::is_admitted));
                        admitted.fetch_add(u64::from(all), Relaxed);
                    }
                });
            }
        });
        let seen = nodes
            .block_on(store.inspect(Counter::new(Key(keys[0].as_bytes()), &wide), NOON))
            .expect("an answer");
        let taken = 1_000 - seen.decision.remaining();
        assert_eq!(taken, 4 * admitted.into_inner(), "round {round}: two takes of two permits each");
    }
}
