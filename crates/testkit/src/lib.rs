//! Helpers of tests, one module each.
//!
//! - [`table`]: a test as a story in rows.
//! - [`vectors`]: the numbers of other libraries' own tests, run against our core.

pub mod table;
pub mod vectors;
