//! Sockets, TLS and the accept loop that every surface shares.
//!
//! A transport is a [`Surface`]: it serves one connection and knows nothing of sockets. [`Listeners`] binds the sockets,
//! [`accept`] takes connections off one of them, through [`Tls`] where there is TLS, and hands each to the surface.
//! Not here: any protocol (`envoy-rls`, `http-api`, `resp-api`), threads and runtimes (the server).

mod accept;
mod figures;
mod listeners;
mod surface;
mod tls;

pub use accept::{AcceptLimits, accept};
pub use figures::{Count, Figures};
pub use listeners::{Listeners, Sockets, raise_descriptor_limit};
pub use surface::{Surface, draining};
pub use tls::{Tls, TlsError, TlsFiles};
