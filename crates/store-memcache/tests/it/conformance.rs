//! The parts of the suite that memcached's commands can carry: all of it, for two algorithms.

use tollgate_store::suite::{Options, run};
use tollgate_testkit::redis::Memcached;

use crate::helpers::{Nodes, config, store};

/// What memcached's commands cannot count.
pub(crate) const UNSUPPORTED: &[&str] = &[
    "token_bucket",
    "leaky_bucket",
    "sliding_window",
    "sliding_window_log",
    "total",
    "unlimited",
    "concurrency",
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
    let made = std::sync::Mutex::new(Vec::new());
    let make = || {
        let store = store(config(&memcached.url()));
        made.lock().expect("nobody panics").push(store.clone());
        store
    };
    let options =
        Options { cases: 1, threads: 64, takes: 50, unsupported: UNSUPPORTED, ..Options::default() };
    run(&Nodes::new(1), make, &options);
    let made = made.into_inner().expect("nobody panics");
    let merged: u64 = made.iter().map(|store| store.figures().merged).sum();
    assert!(merged > 1_000, "callers of one key share commands: {merged} did");
}

#[test]
fn it_does_with_64_callers_of_eight_nodes_at_once() {
    let Some(memcached) = Memcached::start() else { return };
    let made = std::sync::Mutex::new(Vec::new());
    let make = || {
        let store = store(config(&memcached.url()));
        made.lock().expect("nobody panics").push(store.clone());
        store
    };
    let options =
        Options { cases: 1, threads: 64, takes: 50, unsupported: UNSUPPORTED, ..Options::default() };
    run(&Nodes::new(8), make, &options);
    let made = made.into_inner().expect("nobody panics");
    let lost: u64 = made.iter().map(|store| store.figures().lost_races).sum();
    assert!(lost > 0, "nodes write the same items at the same time");
    assert_eq!(made.iter().map(|store| store.figures().left_counted).sum::<u64>(), 0);
}
