//! The common parts of stores behind a network (feature `remote`): addresses, the breaker, health, counters
//! of their work, errors, and work that must run to its end.
//!
//! Not here: any connection; each store speaks its own protocol.

mod address;
mod breaker;
mod error;
mod finish;
mod health;
mod state;
mod stats;
mod timing;

pub use address::{AddressError, HostPort};
pub use breaker::{Breaker, BreakerSettings, Failed};
pub use error::{ConfigError, Failure, duplicate};
pub use finish::{Finisher, OwnBatch};
pub use health::{Health, Reporter};
pub use state::StoreState;
pub use stats::{ConnCounters, ConnStats, Stat};
pub use timing::{jittered, patience};
