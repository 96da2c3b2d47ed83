//! The live terminal view of a running server: which keys are limited, how much, and the state of the server.
//! Also the health check of containers, which needs the same client.
//!
//! A thread reads the server's HTTP API; two readings give rates, which are drawn.
//! Not here: the HTTP API (`http-api`), what is counted (`limiter`).

mod address;
mod client;
mod command;
mod ending;
mod exposition;
mod healthcheck;
mod live;
mod reading;
mod screen;
mod unix;
mod view;

pub use command::Top;
pub use ending::Ending;
pub use healthcheck::Healthcheck;
