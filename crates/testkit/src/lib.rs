//! Helpers of tests, one module each.
//!
//! - [`table`]: a test as a story in rows.
//! - [`vectors`]: the numbers of other libraries' own tests, run against our core.
//! - `certificates` (feature of that name): authorities and certificates that exist for one test.
//! - [`redis_cell`]: the arithmetic of `CL.THROTTLE`, to hold ours to.
//! - `redis` (feature of that name): real processes of Redis, Sentinel, Cluster and memcached, and a proxy
//!   that spoils connections.
//! - `yaml` (feature of that name): YAML files as trees of JSON values.

#[cfg(feature = "certificates")]
pub mod certificates;
#[cfg(feature = "redis")]
pub mod redis;
pub mod redis_cell;
pub mod table;
pub mod vectors;
#[cfg(feature = "yaml")]
pub mod yaml;
