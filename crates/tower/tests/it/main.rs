//! The layers, as their users call them.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

mod attribute;
mod client;
mod concurrency;
mod concurrency_tonic;
mod queue;
mod server;
