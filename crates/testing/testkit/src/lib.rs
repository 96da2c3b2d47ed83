//! Helpers of tests, one module each.
//!
//! - [`table`]: a test as a story in rows.
//! - [`vectors`]: the numbers of other libraries' own tests, run against our library
//!   (a default feature, since it builds the library).
//! - `certificates` (feature of that name): authorities and certificates that exist for one test.
//! - [`claims`]: the tests that pages name, compared with the logs of a run.
//! - `grpc` (feature of that name): calls of Envoy's rate limit service on connections by hand.
//! - [`redis_cell`]: the arithmetic of `CL.THROTTLE`, to hold ours to.
//! - `seeds` (feature of that name): the seeds of simulations, within a budget of time.
//! - `redis` (feature of that name): real processes of Redis, Sentinel, Cluster and memcached, and a proxy
//!   that spoils connections.
//! - `yaml` (feature of that name): YAML files as trees of JSON values.

#[cfg(feature = "certificates")]
pub mod certificates;
pub mod claims;
#[cfg(feature = "grpc")]
pub mod grpc;
#[cfg(feature = "redis")]
pub mod redis;
pub mod redis_cell;
#[cfg(feature = "seeds")]
pub mod seeds;
pub mod table;
#[cfg(feature = "vectors")]
pub mod vectors;
#[cfg(feature = "yaml")]
pub mod yaml;
