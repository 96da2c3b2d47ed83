//! Helpers that tests of the control plane, of the console and of fleets share.
//!
//! - [`ControlPlane`]: a database in a temporary folder, a clock that the test moves, and nodes that connect,
//!   acknowledge and report.
//! - [`people`]: users with a role, and a password.
//! - [`rules`]: limits, rule files, change sets and rollout plans in a line each, and how an app gets them.
//! - [`LimitingNode`]: decides by the documents that a control plane publishes.
//! - [`Interruptions`]: something that happens before a certain transaction of a control plane.
//! - [`kills`]: a test that another one runs as a process and kills.
//! - `console` (feature of that name): the console on a port, and a client without a browser.
//! - `processes` (feature of that name): `tollgate control` and `tollgate serve` as processes.
//!
//! Not here: stores, certificates and proxies (`tollgate-testkit`), and the simulated fleet
//! (`tollgate-fleet-sim`).
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a failed step of a test must say which; these helpers count as no test to clippy"
)]

#[cfg(feature = "console")]
pub mod console;
mod control_plane;
mod interruptions;
pub mod kills;
mod limiting_node;
mod nodes;
pub mod people;
#[cfg(feature = "processes")]
pub mod processes;
pub mod rules;

pub use control_plane::{ControlPlane, NOW_MS, open, open_with};
pub use interruptions::Interruptions;
pub use limiting_node::{Decided, LimitingNode};
pub use nodes::{held, live_node};

/// Runs a future to its end, on a runtime of this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}
