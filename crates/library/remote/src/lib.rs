//! The limits of a Tollgate service, from a Rust program: the calls of the library, with counters that all
//! clients of the service share.
//!
//! ```no_run
//! use std::time::Duration;
//! use tollgate_remote::{OnFailure, Quota, Service};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = Service::at("http://127.0.0.1:8080")?;
//! let per_key = service.limiter("shop", "api_key").on_failure(OnFailure::Local(Quota::per_second(10)))?;
//!
//! let answer = per_key.check("k1").await?;
//! if answer.is_admitted {
//!     // do it
//! }
//! per_key.acquire("k1", 1, Duration::from_secs(2)).await?; // waits for up to two seconds
//! # Ok(())
//! # }
//! ```
//!
//! # Where the service is
//!
//! | address | interface | |
//! |---|---|---|
//! | `grpc://`, `grpcs://` | `--grpc` | each question is a call; all calls share one connection |
//! | `http://`, `https://` | `--http` | what comes meanwhile travels in the next request, up to 1,000 |
//!
//! Either way, the more callers there are, the less each costs. `grpcs` and `https` are encrypted:
//! [`Service::with_tls`] takes authorities to trust, and a certificate for a service that asks for one.
//!
//! # What became of the permits
//!
//! Every call ends within the [deadline](Service::deadline), and [`acquire`](RemoteRateLimiter::acquire)
//! within its timeout. An [error](RemoteError) says whether permits may have been taken, so that the caller
//! knows whether a retry may count twice; [`OnFailure`] decides instead of an error. A service that returns
//! is found by the next call.
//!
//! # Leases
//!
//! [`Service::with_leases`] takes permits ahead, where the rule says `sharing: leased`, and hands them out
//! without asking. Never more is admitted than without leases. `docs/remote.md` has the guarantees and the
//! price.
#![deny(missing_docs)] // it is published

mod answer;
mod connect;
mod error;
mod grpc;
mod http;
mod lease;
mod leasing;
mod limiter;
mod question;
mod service;

pub use answer::{Answer, DecidedBy};
pub use error::{AddressError, Permits, RemoteError};
pub use limiter::{AcquireError, OnFailure, RemoteRateLimiter};
pub use service::Service;
pub use tollgate::{Quota, QuotaError};
pub use tollgate_tls::{TlsClientFiles as TlsFiles, TlsError};
