//! The release binary, started as a user starts it and asked over real sockets.
//!
//! Harness: `tollgate` (the process), `rls` (a gRPC client with its own copy of the messages), `http` (a
//! small HTTP/1.1 client), `arrivals` (an open loop of calls), `calendar` (the current time), `yaml` (a file
//! as a tree), `skip` (the notice of a test that cannot run here). Not here: tests that need no process; they
//! are in the crates.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a failed step of a test must say which; helpers count as no test to clippy"
)]

mod arrivals;
mod calendar;
mod http;
mod resp;
mod rls;
mod skip;
mod tollgate;

mod access_log;
mod addresses;
mod any_bytes;
mod bad_input;
mod bench;
mod caddy;
mod cases;
mod deploy;
mod drain;
mod dropin;
mod envoy;
mod fleet;
mod fleet_costs;
mod fleet_leased;
mod fleet_login;
mod fleet_rates;
mod fleet_uneven;
mod flood;
mod haproxy;
mod nginx;
mod nginx_import;
mod operation;
mod outage;
mod outage_net;
mod proxies;
mod queue;
mod reload;
mod rls_cases;
mod slots;
mod start;
mod surge;
mod tls;
mod together;
mod top;
mod tracing;
mod transports;
mod unread;
