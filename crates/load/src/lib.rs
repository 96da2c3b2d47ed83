//! A load generator for every surface, with percentiles from the intended send time.
//!
//! Not here: which servers are compared (`benches`).

mod bench;
mod keys;
mod plan;
mod target;

pub use bench::{Bench, Outcome};
pub use keys::{BadDistribution, Distribution, Keys};
pub use plan::{Ask, End, Plan};
pub use target::{BadTarget, Protocol, Target};
