//! The layers, as their users call them.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

mod attribute;
mod client;
mod queue;
mod server;
