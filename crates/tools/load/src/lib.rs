//! A load generator for every surface, with percentiles from the intended send time.
//!
//! Not here: which servers are compared (`benches`).

mod alarm;
mod bench;
mod codec;
mod error;
mod keys;
mod lane;
mod pace;
mod plan;
mod report;
mod request;
mod run;
mod tally;
mod target;
mod wire;

pub use bench::{Bench, RunOutcome};
pub use error::RunError;
pub use keys::{BadDistribution, Distribution, Keys};
pub use plan::{Ask, End, Plan};
pub use report::{ErrorKind, Percentiles, Report};
pub use run::Progress;
pub use target::{BadTarget, Protocol, Target, TargetAddress};

/// Helpers of several modules' tests.
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_core::Timestamp;

    use crate::{Ask, Distribution, End, Plan};

    pub(crate) fn plan_for(target: &str, ask: Ask) -> Plan {
        Plan {
            target: target.parse().expect("a target"),
            ask,
            connections: 1,
            in_flight: 1,
            rate: None,
            end: End::Requests(1),
            warm_up: Duration::ZERO,
            keys: 100,
            distribution: Distribution::Uniform,
            seed: 1,
            threads: 1,
            cores: Vec::new(),
            patience: Duration::from_secs(5),
            ca: None,
            identity: None,
            token: None,
        }
    }

    pub(crate) fn check() -> Ask {
        Ask::Check { domain: "d".to_owned(), entries: vec![("k".to_owned(), "{key}".to_owned())], hits: 1 }
    }

    pub(crate) fn at_ms(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }
}
