//! What stores behind a network have in common: where a server is, when to stop asking it, whether it answers, and work that must not
//! be left half-way (feature `remote`).
//!
//! Not here: any connection; each store speaks its own protocol.

mod finish;

pub use finish::{Finisher, OwnBatch};

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Host and port of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Name or address; an IPv6 address without its brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl HostPort {
    /// A host and a port.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port }
    }

    /// Reads `host`, `host:port`, `[::1]` or `[::1]:port`.
    ///
    /// # Errors
    /// [`NoHost`] says what is wrong with it and does not repeat it: it may be the rest of a password.
    ///
    /// # Example
    /// ```
    /// # use tollgate_store::remote::{HostPort, NoHost};
    /// assert_eq!(HostPort::read("[::1]:7", 6379)?, HostPort::new("::1", 7));
    /// assert_eq!(HostPort::read("redis.internal", 6379)?.port, 6379);
    /// assert_eq!(HostPort::read("::1", 6379), Err(NoHost::Port));
    /// # Ok::<(), NoHost>(())
    /// ```
    pub fn read(text: &str, default_port: u16) -> Result<Self, NoHost> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((host, "")) => (host, None),
                Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or(NoHost::Brackets)?)),
                None => return Err(NoHost::Brackets),
            },
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port.map(str::parse) {
            None => default_port,
            Some(Ok(port)) if port != 0 => port,
            Some(_) => return Err(NoHost::Port),
        };
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(NoHost::Missing);
        }
        Ok(Self::new(host, port))
    }
}

/// Why a text names no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoHost {
    /// Brackets that do not enclose an address.
    #[error("after `[` there must be `]`, and then only `:port`")]
    Brackets,
    /// No host, or one with spaces in it.
    #[error("a host is missing")]
    Missing,
    /// A port that is none.
    #[error("what stands after a host's `:` is no port from 1 to 65535 (an IPv6 address goes in brackets)")]
    Port,
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// How long to wait for an answer so that a call ends at `deadline`, or 1 ms after it at the latest: timers of tokio ring at whole
/// milliseconds, and so does the wait of the system below them: up to 2 ms late, together. At least 1 ms.
///
/// # Example
/// ```
/// use std::time::Duration;
/// assert_eq!(tollgate_store::remote::patience(Duration::from_millis(10)), Duration::from_millis(9));
/// ```
#[must_use]
pub fn patience(deadline: Duration) -> Duration {
    const TICK: Duration = Duration::from_millis(1);
    deadline.saturating_sub(TICK).max(TICK)
}

/// A pause of between half and all of `longest`, by chance, before a server is tried again: so that nodes do not come all at once.
///
/// # Example
/// ```
/// use std::time::Duration;
/// let pause = tollgate_store::remote::jittered(Duration::from_millis(400));
/// assert!(pause >= Duration::from_millis(200) && pause <= Duration::from_millis(400));
/// ```
#[must_use]
pub fn jittered(longest: Duration) -> Duration {
    let chance = RandomState::new().build_hasher().finish() % 1024; // each state has keys of its own
    longest / 2 + longest / 2048 * chance as u32
}

/// When to stop asking a server that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// Failures in a row that open it: broken connections and answers that did not come in time.
    pub failures: u32,
    /// Longest pause between two probes while it is open; the first are shorter, and each is shortened by chance.
    pub longest_pause: Duration,
}

impl Default for Breaker {
    /// 3 failures; 400 ms.
    fn default() -> Self {
        Self { failures: 3, longest_pause: Duration::from_millis(400) }
    }
}

/// Whether a store answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreState {
    /// Nothing has been heard of it yet.
    Trying,
    /// Every server that is needed answers.
    Up,
    /// At least one server that is needed does not answer, or may not be used.
    Down {
        /// Since when.
        since: Instant,
        /// What was the matter when it was last tried; names the server, never a password.
        why: Arc<str>,
    },
}

impl StoreState {
    /// True when every server that is needed answers.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        matches!(self, Self::Up)
    }
}
