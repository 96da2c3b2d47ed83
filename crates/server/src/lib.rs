//! The command `tollgate`: what can be set, what the commands do, how a server starts and ends.
//!
//! This is where the parts meet: the one clock is made here, and policy, limiter, store and transports are wired.
//! Not here: any rule, any counter, any protocol.

mod certificates;
pub mod cli;
pub mod command;
pub mod counters;
pub mod example;
pub mod node;
pub mod observe;
pub mod screen;
pub mod server;
pub mod settings;
mod signals;
mod surfaces;
pub mod telemetry;
mod worker;
