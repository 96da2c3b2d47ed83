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
//! Calls go over the HTTP API of the service ([`Service::at`] its `--http` address). Calls that come while
//! the service is being asked travel together in the next request, up to 1,000 of them: the more callers
//! there are, the less each costs.
//!
//! # What became of the permits
//!
//! Every call ends within the [deadline](Service::deadline). An [error](RemoteError) says whether permits
//! may have been taken, so that the caller knows whether a retry may count twice; [`OnFailure`] decides
//! instead of an error.
//!
//! Not here: TLS to the service (run it beside the program, or on a trusted network), and permits that are
//! leased ahead of time.

mod answer;
mod batch;
mod error;
mod limiter;
mod service;

pub use answer::{Answer, DecidedBy};
pub use error::{AddressError, Permits, RemoteError};
pub use limiter::{AcquireError, OnFailure, RemoteRateLimiter};
pub use service::Service;
pub use tollgate::{Quota, QuotaError};
