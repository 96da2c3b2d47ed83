//! The layers, as their users call them.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

mod attribute;
mod axum;
mod client;
mod concurrency;
mod concurrency_tonic;
mod missing_key;
mod post_paid;
mod queue;
mod server;
