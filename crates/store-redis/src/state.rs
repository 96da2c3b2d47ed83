//! What is known of the servers' health, for readiness, metrics and one log line a change.

use std::sync::Arc;

use tokio::time::Instant;

/// Whether the store answers.
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
