//! Envoy's rate limit service over gRPC: `ShouldRateLimit`, health and reflection, on HTTP/2 driven directly.
//!
//! [`serve`] accepts connections and [`serve_connection`] serves one; both speak for a
//! [`RateLimitService`], which asks a [`Limiter`](tollgate_limiter::Limiter). [`json`] is the same call for an HTTP surface.
//! Not here: rules, counters, runtimes, sockets' options, TLS.

mod body;
mod clocks;
mod connection;
mod figures;
mod head;
mod health;
pub mod json;
mod limits;
mod listener;
mod outgoing;
pub mod proto;
mod reflection;
mod reply;
mod service;
mod status;
mod wire;

pub use connection::{ConnectionError, serve_connection};
pub use figures::{Count, Figures};
pub use limits::Limits;
pub use listener::serve;
pub use reply::{HeaderNames, ReplyOptions};
pub use service::RateLimitService;
pub use status::{Code, Status};
