//! The live terminal view of a running server: which keys are limited, how much, and the state of the server.
//!
//! A thread reads the server's HTTP API; two readings give rates, which are drawn.
//! Not here: the HTTP API (`http-api`), what is counted (`limiter`).

mod client;
mod command;
mod exposition;
mod live;
mod reading;
mod screen;
mod view;

pub use command::{Ending, Top};
