//! Helpers of tests, one module each.
//!
//! - [`table`]: a test as a story in rows.
//! - [`vectors`]: the numbers of other libraries' own tests, run against our core.
//! - `certificates` (feature of that name): authorities and certificates that exist for one test.

#[cfg(feature = "certificates")]
pub mod certificates;
pub mod table;
pub mod vectors;
