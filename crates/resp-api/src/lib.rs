//! The Redis protocol: `CL.THROTTLE`, `THROTTLE`, `TOLLGATE.THROTTLE` and `TOLLGATE.CHECK` for any Redis client.
//!
//! Not here: sockets and TLS (`net`), deciding (`limiter`).

mod api;
mod check;
mod connection;
mod desk;
mod figures;
mod info;
mod parse;
mod reply;
mod session;
mod settings;
mod table;
mod throttle;

pub use api::RespApi;
pub use figures::Figures;
pub use settings::{Password, RespSettings};
