//! The command `tollgate`: its settings, its commands, how a server starts and ends.
//!
//! This is where the parts meet: the one clock is created here, and policy, limiter, store and surfaces are
//! wired. Not here: any rule, any counter, any protocol.

mod acceptor;
mod any_store;
mod banner;
mod certificates;
pub mod cli;
mod command;
#[cfg(feature = "control")]
mod control;
mod counted;
#[cfg_attr(not(feature = "control"), path = "no_embedded.rs")]
mod embedded;
mod ending;
mod example;
mod family;
#[cfg(feature = "control")]
mod folder_lock;
mod node;
#[cfg_attr(not(feature = "control"), path = "no_node_control.rs")]
mod node_control;
mod observe;
mod server;
pub mod settings;
mod shell;
mod signals;
mod start;
mod surface;
mod surfaces;
mod worker;
