//! Window counters in memcached, shared by a fleet.
//!
//! memcached runs no scripts, so only two algorithms are counted here, those that its own commands do in one
//! step: `fixed_window` by `incr`, which returns the new count, and `sliding_window_counter` by `gets` and
//! `cas`. `core` computes every answer from the previous state, as in any store. All other algorithms are
//! rejected ([`supports`]). Time is the node's clock.
//!
//! Read `transaction.rs` first: all requests for one key at a time, as commands and replies without any I/O.
//! `connection_queue.rs` drives transactions over a connection; `value.rs` has the stored values;
//! `charge_together.rs` takes from several keys, all or nothing. Not here: evictions, which memcached does
//! not report: give it the memory that the counters need.

mod charge_together;
mod client;
mod config;
mod connection;
mod connection_queue;
mod guarded;
mod item_name;
mod protocol;
mod rendezvous;
mod request;
mod stats;
mod store;
mod transaction;
mod value;

pub use config::MemcacheConfig;
pub use stats::MemcacheStats;
pub use store::{MemcacheStore, supports};
pub use tollgate_store::remote::{BreakerSettings, ConfigError, HostPort, StoreState};
