//! The common part of all surfaces: sockets, TLS, the accept loop, and bounds for connections.
//!
//! A transport is a [`Surface`]: it serves one connection and knows nothing of sockets. [`Listeners`] binds
//! the sockets, [`accept`] takes connections off one of them, through [`Tls`] where there is TLS, and hands
//! each to the surface. The surface bounds what a peer can make grow with a [`Budget`], and how long it waits
//! with an [`IdleTimer`]; [`Guesses`] slow down those that try secrets. Not here: any protocol (`envoy-rls`,
//! `http-api`, `resp-api`), the buffers of calls (`buffers`), threads and runtimes (the server).

mod accept;
mod budget;
mod clock;
mod connection_stats;
mod drain;
mod guesses;
mod idle;
mod listeners;
mod presence;
mod socket;
mod socket_file;
mod surface;
mod tls;

pub use accept::{AcceptLimits, accept};
pub use budget::{Budget, BudgetShare, OverBudget};
pub use clock::SharedClock;
pub use connection_stats::{ConnectionStats, Count};
pub use drain::{DrainWatch, draining};
pub use guesses::{Guess, Guesses};
pub use idle::{IdleTimer, LazyTimer};
pub use listeners::{Listeners, Sockets, raise_descriptor_limit};
pub use presence::{Presence, ReadAhead};
pub use socket::{Address, Listener, Socket, Stream};
pub use socket_file::SocketFile;
pub use surface::{Peer, Surface};
pub use tls::{Tls, TlsError, TlsFiles};
