//! Window counters in memcached, shared by a fleet.
//!
//! memcached runs no scripts, so only what its own commands do in one step is counted here: `fixed_window` by `incr`, which tells the
//! count after it, and `sliding_window_counter` by `gets` and `cas`. Every answer is worked out by `core` from the state before, as in
//! any store. All other algorithms are refused ([`supports`]). Time is the node's clock.
//!
//! Read `work.rs` first: what is asked of one key, as a machine of commands and replies that does no I/O. `lane.rs` drives it over a
//! connection; `value.rs` is what stands in memcached; `together.rs` takes from several keys, all or nothing.
//! Not here: evictions, which memcached tells nobody about: give it the memory that the counters need.

mod ask;
mod config;
mod figures;
mod health;
mod item;
mod lane;
mod protocol;
mod spread;
mod store;
mod together;
mod value;
mod work;

pub use config::{ConfigError, MemcacheConfig};
pub use figures::Figures;
pub use store::{MemcacheStore, supports};
pub use tollgate_store::remote::{Breaker, HostPort, StoreState};
