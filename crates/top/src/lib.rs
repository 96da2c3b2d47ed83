//! The live terminal view of a running server: who is limited, how much, and how the server is.
//!
//! A thread of its own asks the server's HTTP API; two readings make rates; a view of them is drawn.
//! Not here: the HTTP API (`http-api`), what is counted (`limiter`).

mod client;
mod command;
mod exposition;
mod live;
mod reading;
mod screen;
mod view;

pub use command::{Ending, Top};
