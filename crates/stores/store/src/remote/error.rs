//! The errors of a remote store's settings, and of calls to it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::{StoreError, StoreName};

/// The reason why settings cannot work. Never shows a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A URL that cannot be read.
    #[error("store URL: {what}")]
    Url {
        /// The problem, and the remedy.
        what: String,
    },
    /// A setting's value.
    #[error("store: {what}")]
    Setting {
        /// The problem, and the remedy.
        what: String,
    },
    /// A certificate or key that cannot be used.
    #[error("store TLS: {what}")]
    Tls {
        /// The problem, and the file that has it.
        what: String,
    },
}

impl ConfigError {
    /// A URL that cannot be read.
    #[must_use]
    pub fn url(what: impl Into<String>) -> Self {
        Self::Url { what: what.into() }
    }

    /// A setting's value that cannot work.
    #[must_use]
    pub fn setting(what: impl Into<String>) -> Self {
        Self::Setting { what: what.into() }
    }
}

/// The reason why a call has no answer, and its outcome; a [`StoreError`] without the store's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It failed before anything was sent, or its effect was ruled out: nothing was changed.
    NotSent {
        /// The kind of error for the caller.
        kind: io::ErrorKind,
        /// The step that failed; names the server, never a password.
        why: Arc<str>,
    },
    /// It was sent and not answered in time: something may have been changed.
    Silent {
        /// Time that the caller waited.
        waited: Duration,
    },
    /// The server rejected it: nothing was changed.
    Rejected(Arc<str>),
    /// The store cannot count this: nothing was changed.
    Unsupported {
        /// Name of the algorithm.
        algorithm: &'static str,
    },
}

impl Failure {
    /// A failure before anything was sent.
    #[must_use]
    pub fn not_sent(kind: io::ErrorKind, why: impl Into<Arc<str>>) -> Self {
        Self::NotSent { kind, why: why.into() }
    }

    /// The error that a caller of the store gets.
    #[must_use]
    pub fn into_error(self, store: &StoreName) -> StoreError {
        let store = store.clone();
        match self {
            Self::NotSent { kind, why } => {
                StoreError::Unreachable { store, source: io::Error::new(kind, String::from(&*why)) }
            }
            Self::Silent { waited } => StoreError::Silent { store, waited },
            Self::Rejected(reason) => StoreError::Failed { store, reason: String::from(&*reason) },
            Self::Unsupported { algorithm } => StoreError::Unsupported { store, algorithm },
        }
    }
}

/// The same error for another take that shared the call.
#[must_use]
pub fn duplicate(error: &StoreError) -> StoreError {
    match error {
        StoreError::Unreachable { store, source } => StoreError::Unreachable {
            store: store.clone(),
            source: io::Error::new(source.kind(), source.to_string()),
        },
        StoreError::Silent { store, waited } => StoreError::Silent { store: store.clone(), waited: *waited },
        StoreError::Failed { store, reason } => {
            StoreError::Failed { store: store.clone(), reason: reason.clone() }
        }
        StoreError::Unsupported { store, algorithm } => {
            StoreError::Unsupported { store: store.clone(), algorithm }
        }
    }
}
