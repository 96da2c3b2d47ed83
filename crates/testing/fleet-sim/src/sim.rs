//! A control plane and nodes in a simulated world: everything that happens follows from a seed.
//!
//! In the first part anything may fail: streams break, nodes and the control plane are killed at any action,
//! rules are bad, crash the parser or the node, and the database is restored from an old copy. In the second
//! part nothing fails, and everything must come right. The laws are checked all along (`laws`).

mod content;
mod control;
mod laws;
mod network;
mod node;
mod rolling;
mod rollouts;
mod world;

pub use rolling::RolloutMistake;
pub use world::{Finding, Mistake, Report, simulate};
