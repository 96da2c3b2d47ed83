//! Counters in this process: a keyed table of one-word states, maps for the wider ones, and a single state
//! without a key ([`StateCell`]).
//!
//! Guarantees: at most 34 bytes per key of one word from a million keys on, one cache miss and no lock per
//! decision on a tracked key, growth without a pause, and a cap that no flood of new keys exceeds
//! ([`MemoryStats`] counts the evictions). The modules `table`, `wide` and `all_or_nothing` explain these,
//! and where a caller may still wait for another; `hash` derives the probability that two keys share a
//! counter. Not here: any algorithm (`core`), rules and keys (`policy`, `limiter`). Nothing is shared with
//! other processes or survives this one.
#![deny(missing_docs)] // it is published

mod all_or_nothing;
mod atomic128;
mod cell;
mod config;
mod hash;
mod states;
mod stats;
mod store;
mod sync;
mod table;
mod wide;

pub use cell::StateCell;
pub use config::{HashKey, MemoryConfig};
pub use stats::MemoryStats;
pub use store::MemoryStore;
