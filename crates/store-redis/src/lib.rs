//! Counters in Redis or Valkey, shared by a fleet: one atomic script a decision, or permits leased ahead of time.

mod check;
mod config;
mod figures;
mod state;
mod store;
mod url;

pub use check::{Finding, Severity};
pub use config::{
    Breaker, ConfigError, HashTag, HostPort, Login, RedisConfig, Secret, Servers, StoreTime, Tls,
};
pub use figures::{FLIGHT_EDGES, Figures};
pub use state::StoreState;
pub use store::RedisStore;
