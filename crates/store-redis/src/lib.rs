//! Counters in Redis or Valkey, shared by a fleet: one atomic script a decision, or permits leased ahead of time.

// Until `store.rs` runs calls, parts of the seam have no user.
#[allow(dead_code, reason = "the seam is used by what is being built on it")]
mod ask;
#[allow(dead_code, reason = "as above")]
mod call;
mod check;
mod config;
mod connection;
#[cfg(test)]
mod direct;
#[cfg(test)]
mod exact_tests;
mod figures;
mod flight;
mod health;
mod hub;
#[allow(dead_code, reason = "as above")]
mod keys;
mod lane;
pub mod lease;
mod leased;
mod link;
mod reply;
#[allow(dead_code, reason = "as above")]
mod script;
mod state;
mod store;
#[allow(dead_code, reason = "as above")]
mod translate;
mod topology;
mod trouble;
mod url;
mod watcher;

pub use check::{Finding, Severity};
pub use config::{
    Breaker, ConfigError, HashTag, HostPort, Login, RedisConfig, Secret, Servers, StoreTime, Tls,
};
pub use figures::{FLIGHT_EDGES, Figures};
pub use state::StoreState;
pub use store::RedisStore;
