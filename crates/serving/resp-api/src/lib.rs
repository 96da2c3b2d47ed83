//! The Redis protocol: `CL.THROTTLE`, `THROTTLE`, `TOLLGATE.THROTTLE` and `TOLLGATE.CHECK` for any Redis
//! client.
//!
//! A command takes one way: `connection` reads bytes, `parse` finds the arguments, `command` names them, and
//! then either `batch` decides it together with others (`throttle`, `check`) or `standard` answers it at
//! once. Not here: sockets and TLS (`net`), deciding (`limiter`).

mod api;
mod arguments;
mod batch;
mod buffers;
mod check;
mod command;
mod connection;
mod context;
mod degraded;
mod parse;
mod pending;
mod reply;
mod session;
mod settings;
mod slots;
mod standard;
mod stats;
mod throttle;
mod time_unit;
mod turn;
mod undecided;

pub use api::RespApi;
pub use settings::{Password, RespSettings};
pub use stats::Stats;
