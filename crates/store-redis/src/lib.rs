//! Counters in Redis or Valkey, shared by a fleet: one atomic script a decision, or permits leased ahead of
//! time.

mod ask;
mod call;
mod check;
mod client;
mod config;
mod counting;
#[cfg(test)]
mod direct;
#[cfg(test)]
mod exact_tests;
mod heartbeat;
mod keys;
mod leased;
mod script;
mod slots;
mod stats;
mod store;
mod translate;

pub use check::{Finding, Severity};
pub use config::{HashTag, RedisConfig, StoreTime};
pub use stats::{LeaseStats, RedisStats};
pub use store::RedisStore;
pub use tollgate_redis_link::{
    FLIGHT_EDGES, FlightStats, LinkSettings, Login, Secret, Servers, TlsClientFiles,
};
pub use tollgate_store::remote::{BreakerSettings, ConfigError, ConnStats, HostPort, StoreState};
