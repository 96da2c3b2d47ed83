//! The memory store is held to the suite of all stores: compared with the reference model on random
//! histories.
#![cfg(not(loom))]

use tollgate_store::suite::{Options, Parked, run};
use tollgate_store_memory::{HashKey, MemoryConfig, MemoryStore};

#[test]
fn the_memory_store_answers_as_the_model_does() {
    run(&Parked, MemoryStore::default, &Options::default());
}

#[test]
fn so_does_one_that_is_small_but_large_enough() {
    let config = MemoryConfig { max_bytes: 1 << 20, hash_key: HashKey::Fixed(1), ..MemoryConfig::default() };
    run(&Parked, || MemoryStore::new(config.clone()), &Options::default());
}
