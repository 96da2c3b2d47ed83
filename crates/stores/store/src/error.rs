//! Errors that say what became of the permits.

use std::sync::Arc;
use std::time::Duration;

/// The name of a store in messages and metrics, such as `memory` or `redis at 127.0.0.1:6379`. Never holds a
/// password.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreName(Arc<str>);

impl StoreName {
    /// Makes a name; the caller has removed any password.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name, as messages show it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for StoreName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reason why a store gave no decision. Every kind says what became of the permits.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Failed before anything was sent: no permit was taken. A retry is safe.
    #[error("store {store} is unreachable; no permit was taken")]
    Unreachable {
        /// The store that was asked.
        store: StoreName,
        /// The network's error.
        source: std::io::Error,
    },
    /// No answer in time: the permits may or may not have been taken.
    #[error("store {store} did not answer within {waited:?}; the permits may or may not have been taken")]
    Silent {
        /// The store that was asked.
        store: StoreName,
        /// Time that the caller waited.
        waited: Duration,
    },
    /// The store answered with an error: no permit was taken.
    #[error("store {store} answered with an error: {reason}; no permit was taken")]
    Failed {
        /// The store that was asked.
        store: StoreName,
        /// The store's message.
        reason: String,
    },
    /// The quota is of a kind that this store cannot count atomically: no permit was taken.
    #[error("store {store} cannot count {algorithm} atomically; no permit was taken")]
    Unsupported {
        /// The store that was asked.
        store: StoreName,
        /// Name of the algorithm.
        algorithm: &'static str,
    },
}
