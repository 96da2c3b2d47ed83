//! Counters in Redis or Valkey, shared by a fleet: one atomic script a decision, or permits leased ahead of time.

mod ask;
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
mod keys;
mod lane;
mod leased;
mod link;
mod reply;
mod script;
mod slots;
mod store;
mod topology;
mod translate;
mod trouble;
mod url;
mod watcher;

pub use check::{Finding, Severity};
pub use config::{ConfigError, HashTag, Login, RedisConfig, Secret, Servers, StoreTime, Tls};
pub use figures::{FLIGHT_EDGES, Figures};
pub use store::RedisStore;
pub use tollgate_store::remote::{Breaker, HostPort, StoreState};
