//! Nodes, a store and the network between them in one process and on made-up clocks, from one seed. Machines,
//! messages and callers are simulated; the code of leases is the one that serves.
//!
//! A [`Plan`] says what happens, a [`World`] runs it, and every law of leases is checked as it runs. Tests
//! draw plans from seeds; the command `tollgate simulate` makes them from options. Not here: the charts.

#![allow(clippy::expect_used, reason = "a plan that cannot be run is a mistake of the code that made it")]

mod checker;
mod plan;
mod rng;
mod served;
mod world;

pub use checker::Broken;
pub use plan::{Costs, Gaps, MS, Phase, Plan, PlanKind, Sharing, Trouble};
pub use rng::Rng;
pub use served::{Host, Moment, Recording, Served};
pub use world::{RunOutcome, World};
