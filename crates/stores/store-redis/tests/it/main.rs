//! The store against real servers: its counts, its connections, and the fate of calls when faults happen.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a failed step of a test must say which, and stats are printed"
)]

mod common;
mod connections;
mod fake;
mod faults;
mod flights;
mod latency;
mod leased_suite;
mod leases;
mod long_keys;
mod one_slot;
mod outages;
mod proxies;
mod scan;
mod scripted;
mod tls;
mod together;
