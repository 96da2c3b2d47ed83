//! Data and messages of a release are read by the next one: counters in Redis, the state folder of a node,
//! the database of a control plane, and the messages of both to each other.
//!
//! `kept/` contains files written by each release that may share a store or a control plane with this one.
//! These files are never changed: a test that fails here says that an upgrade would lose counts or rules.
//! `CONTRIBUTING.md` says how they are made for a release. `TOLLGATE_PREDECESSOR_BIN` names the binary of the
//! previous release; with it both binaries also run beside each other (`beside.rs`).
#![allow(clippy::expect_used, clippy::print_stdout, reason = "the helpers of a test are a test")]

mod counters;
mod kept;

#[cfg(feature = "control")]
mod beside;
#[cfg(feature = "control")]
mod fleet;
#[cfg(feature = "control")]
mod peers;
#[cfg(feature = "control")]
mod recorder;
