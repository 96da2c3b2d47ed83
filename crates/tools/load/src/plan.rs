//! A run in types: target, requests, rate and duration.
//!
//! Not here: the command line that makes a plan ([`bench`](crate::bench)).

use std::path::PathBuf;
use std::time::Duration;

use crate::{Distribution, Target};

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub target: Target,
    pub ask: Ask,
    /// Connections, at least 1.
    pub connections: usize,
    /// Maximum in-flight requests per connection, at least 1.
    pub in_flight: usize,
    /// Requests per second on a fixed schedule (open loop); if `None`, each reply is followed by the next
    /// request (closed loop).
    pub rate: Option<u64>,
    /// When it ends.
    pub end: End,
    /// Load before the measurement, not counted.
    pub warm_up: Duration,
    /// Number of keys that `{key}` is drawn from.
    pub keys: u64,
    pub distribution: Distribution,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Threads that send the requests, at least 1.
    pub threads: usize,
    /// Cores that the threads are pinned to, in turn; if empty, the kernel chooses.
    pub cores: Vec<usize>,
    /// Longest wait for a reply after the last one.
    pub patience: Duration,
    /// Certificates (PEM) that a TLS target's is verified with.
    pub ca: Option<PathBuf>,
    /// Certificate and private key (PEM) that are shown to a TLS target, if it requires them.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Sent as `AUTH` or as a bearer token. Never printed.
    pub token: Option<String>,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After this number of measured requests.
    Requests(u64),
    /// After this time.
    After(Duration),
}

/// Contents of every request. `{key}` in any text is replaced by the key drawn for the request: 20 bytes,
/// `key:` and 16 digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A descriptor under a domain's rules.
    Check {
        domain: String,
        /// Keys and values of the descriptor.
        entries: Vec<(String, String)>,
        /// Permits per request.
        hits: u64,
    },
    /// These words as one command (RESP only).
    Command(Vec<String>),
    /// This JSON as the body of a POST (HTTP only).
    Body(String),
    /// A GET without a body (HTTP only).
    Get,
}
