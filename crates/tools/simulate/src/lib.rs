//! The command `simulate`: algorithms side by side on one pattern of arrivals, for learning and choosing; and
//! a fleet that shares a limit, with the code of leases and on a simulated network.
//!
//! Everything comes from options and a seed, so a picture in the docs is a command. Not here: the algorithms
//! (`core`), the simulated world (`lease-sim`), drawing (`charts`).

mod command;
mod fleet;
mod lesson;
mod options;
mod output;
mod runner;
mod texts;

pub use command::{CommandOutcome, Simulate};
