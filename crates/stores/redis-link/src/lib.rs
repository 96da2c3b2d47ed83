//! Connections to Redis and Valkey, shared by many callers: pipelines with deadlines, over one server, the
//! master that Sentinels name, or a Cluster.
//!
//! A [`Client`] is given items, each with the hash slot of its key and a deadline. They wait in the queue of
//! the server that keeps the slot; all items that wait when a pipeline may leave travel in it. A [`Workload`]
//! defines the items, their bytes and the meaning of their replies. It is a type parameter: nothing is boxed
//! or dispatched for it.
//!
//! From the bottom up: `reply` and `command` are the protocol; `connection` and `dial` open a connection;
//! `topology` finds the server that keeps a slot; `flight` is one pipelined batch; `queue`, `pipelined` and
//! `driver` send flights over the connections to one server; `thread_connections` has those of one thread;
//! `client` is the whole, and `watcher` the task beside it that finds out whether servers are up. Not here:
//! the scripts and their counts (`store-redis`).
#![deny(missing_docs)] // it is published

mod client;
mod command;
mod connection;
mod dial;
mod driver;
#[cfg(test)]
mod echo;
mod flight;
mod identify;
mod pace;
mod pipelined;
mod queue;
mod replies;
mod reply;
mod request;
mod script;
mod server_error;
mod settings;
mod shared;
mod slow;
mod stats;
mod thread_connections;
mod topology;
mod url;
mod value;
mod watcher;
mod workload;

pub use client::Client;
pub use command::{array, bulk};
pub use connection::{Connection, Wire};
pub use dial::{Address, Connecting, Dialer, Network};
pub use queue::Traffic;
pub use replies::Replies;
pub use reply::Reply;
pub use request::{Item, Planned, Request, Waiter};
pub use script::Script;
pub use server_error::{Cause, ServerError, code, explain};
pub use settings::{LinkSettings, Login, Secret, Servers};
pub use shared::Shared;
pub use stats::{FLIGHT_EDGES, FlightStats, LinkCounters};
pub use thread_connections::{PerThread, ThreadMap};
pub use tollgate_tls::TlsClientFiles;
pub use topology::{ServerIndex, Topology};
pub use value::Value;
pub use watcher::{Probe, Unfit, watch};
pub use workload::Workload;
