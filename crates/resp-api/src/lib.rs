//! The Redis protocol: `CL.THROTTLE`, `THROTTLE`, `TOLLGATE.THROTTLE` and `TOLLGATE.CHECK` for any Redis client.
//!
//! Not here: sockets and TLS (`net`), deciding (`limiter`).

mod api;
mod figures;
mod settings;

pub use api::RespApi;
pub use figures::Figures;
pub use settings::{Password, RespSettings};
