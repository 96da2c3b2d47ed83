//! The one place that reads the clock of the machine.
//!
//! Not here: the [`Clock`](tollgate_core::Clock) trait and the clock of tests, which are in `core`.
#![deny(missing_docs)] // it is published

mod monotonic;
mod segment;
mod system;

pub use monotonic::MonotonicClock;
pub use system::SystemClock;
