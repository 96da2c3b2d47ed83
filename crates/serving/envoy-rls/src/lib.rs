//! Envoy's rate limit service over gRPC: `ShouldRateLimit`, health and reflection, on HTTP/2 driven directly,
//! and our services for holders of slots and for programs that want exact times.
//!
//! [`RateLimitService`] is a [`Surface`](tollgate_net::Surface): `tollgate_net::accept` brings it
//! connections, plain or encrypted, and it asks a [`Limiter`](tollgate_limiter::Limiter). [`json`] is the
//! same call for an HTTP surface. Not here: rules, counters, runtimes, sockets, TLS.

mod body;
mod connection;
mod handshake;
mod head;
mod health;
pub mod json;
mod keep_alive;
mod limits;
mod lingering;
mod outgoing;
pub mod proto;
mod reflection;
mod reply;
mod service;
mod shared;
mod status;
mod undecided;
mod unsent;
mod wire;

pub use limits::Limits;
pub use reply::{HeaderNames, ReplyOptions};
pub use service::RateLimitService;
pub use shared::Shared;
pub use status::{Code, Status};
