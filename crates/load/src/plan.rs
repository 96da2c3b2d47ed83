//! What is to be done, in types: whom to ask, what, how fast, how long.
//!
//! Not here: the command line that makes a plan ([`bench`](crate::bench)).

use std::path::PathBuf;
use std::time::Duration;

use crate::{Distribution, Target};

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whom to ask.
    pub target: Target,
    /// What to ask.
    pub ask: Ask,
    /// Connections, at least 1.
    pub connections: usize,
    /// Requests under way on each connection at most, at least 1.
    pub in_flight: usize,
    /// Requests a second on a fixed schedule (open loop); as fast as the answers come (closed loop) where `None`.
    pub rate: Option<u64>,
    /// When it ends.
    pub end: End,
    /// Load before the measurement, not counted.
    pub warm_up: Duration,
    /// How many keys `{key}` takes turns with.
    pub keys: u64,
    /// How often each is drawn.
    pub distribution: Distribution,
    /// Where the random numbers begin.
    pub seed: u64,
    /// Threads that make the load, at least 1.
    pub threads: usize,
    /// Cores that the threads keep to, in turn; wherever the kernel likes where empty.
    pub cores: Vec<usize>,
    /// How long to wait for an answer once nothing comes any more.
    pub patience: Duration,
    /// Certificates (PEM) that vouch for a TLS target.
    pub ca: Option<PathBuf>,
    /// Sent as `AUTH` or as a bearer token. Never printed.
    pub token: Option<String>,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After so many counted requests.
    Requests(u64),
    /// After so long.
    After(Duration),
}

/// What every request says. `{key}` in any text becomes the key drawn for the request: 20 bytes, `key:` and 16 digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A descriptor under a domain's rules.
    Check {
        /// The domain.
        domain: String,
        /// Keys and values of the descriptor.
        entries: Vec<(String, String)>,
        /// Permits asked for.
        hits: u64,
    },
    /// These words as one command (RESP only).
    Command(Vec<String>),
    /// This JSON as the body of a POST (HTTP only).
    Body(String),
    /// A GET without a body (HTTP only).
    Get,
}
