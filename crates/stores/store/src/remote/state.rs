//! Whether a store answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Whether a store answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// No server has answered or failed yet.
    Trying,
    /// Every server that is needed answers.
    Up,
    /// At least one server that is needed does not answer, or must not be used.
    Down {
        /// The instant at which it went down.
        since: Instant,
        /// Result of the last attempt; names the server, never a password.
        why: Arc<str>,
    },
}

impl StoreState {
    /// True when every server that is needed answers.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        matches!(self, Self::Up)
    }

    /// The state as programs read it: `trying`, `up` or `down`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Trying => "trying",
            Self::Up => "up",
            Self::Down { .. } => "down",
        }
    }

    /// Time since the store went down; `None` unless it is down.
    #[must_use]
    pub fn down_for(&self) -> Option<Duration> {
        if let Self::Down { since, .. } = self { Some(since.elapsed()) } else { None }
    }

    /// The reason why the store is down; `None` unless it is.
    #[must_use]
    pub const fn why(&self) -> Option<&Arc<str>> {
        if let Self::Down { why, .. } = self { Some(why) } else { None }
    }
}
