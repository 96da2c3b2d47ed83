//! Limits that are learned: their arithmetic, what a service of known capacity teaches them, and their
//! limiter.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

mod arithmetic;
mod limiter;
mod partitions;
mod service;
mod window;

use std::time::Duration;

use tollgate::adaptive::Sample;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A call that went well.
fn call(rtt: Duration, in_flight: u64) -> Sample {
    Sample { rtt, in_flight, is_overload: false }
}

/// A call that was shed.
fn shed(in_flight: u64) -> Sample {
    Sample { rtt: Duration::ZERO, in_flight, is_overload: true }
}
