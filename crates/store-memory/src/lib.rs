//! Counters in this process: a keyed table of one-word states, and maps for the wider ones.
//!
//! What it promises: at most 32 bytes a key of one word once there are many, one cache miss and no lock on a decision about a tracked key, growth without
//! a pause, and a cap that no flood of new keys passes ([`MemoryStats`] counts what had to go). How, and where a caller
//! can wait for another after all, is said in the modules `table`, `wide` and `all_or_nothing`; what two keys being one counter would take, in `hash`.
//! Not here: any algorithm (`core`), rules and keys (`policy`, `limiter`). Nothing is shared with other processes or survives this one.

mod all_or_nothing;
mod atomic128;
mod config;
mod hash;
mod states;
mod stats;
mod store;
mod sync;
mod table;
mod wide;

pub use config::{HashKey, MemoryConfig};
pub use stats::MemoryStats;
pub use store::MemoryStore;
