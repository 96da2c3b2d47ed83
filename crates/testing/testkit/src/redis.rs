//! Real stores for one test: processes on free ports, in folders of their own, ended by their id when
//! dropped.
//!
//! - [`Redis`]: one server, with [`Options`]: memory, passwords, ACL users, TLS, a file of what was written,
//!   replica of another.
//! - [`Sentinel`]: a master, its replica and who watches them.
//! - [`Cluster`]: three masters that share the slots; slots move while the test runs.
//! - [`Memcached`]: the other kind of store.
//! - [`Proxy`]: stands between a client and a store and spoils what passes: late, silent, cut, not accepted.
//! - [`Distance`]: a long way between a client and a store, some of whose answers come late.
//! - [`RedisConnection`]: just enough of a client to send a server commands.
//!
//! The server is `redis-server`, or what the variable `TOLLGATE_TEST_REDIS_SERVER` names, `valkey-server` for
//! one. Where a program is missing, `start` prints a line that begins with `SKIPPED ` and returns `None`:
//!
//! ```
//! use tollgate_testkit::redis::{Options, Redis};
//! let Some(redis) = Redis::start(&Options::new()) else { return };
//! assert_eq!(redis.command(&["SET", "key", "1"]).text(), "OK");
//! assert_eq!(redis.command(&["INCRBY", "key", "41"]).int(), 42);
//! ```
//!
//! Not here: the store under test, and a server of Tollgate.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a failed step of a test must say which, and a test that cannot run must say so"
)]

mod client;
mod cluster;
mod distance;
mod memcached;
mod options;
mod process;
mod proxy;
mod sentinel;
mod server;
#[cfg(test)]
mod tests;

pub use client::{RedisConnection, RedisReply};
pub use cluster::Cluster;
pub use distance::Distance;
pub use memcached::Memcached;
pub use options::Options;
pub use process::{free_port, poll};
pub use proxy::{NetworkFault, Proxy};
pub use sentinel::Sentinel;
pub use server::{Redis, installed, program};
