//! Why a remote store cannot be set up, and why a call to it failed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::{StoreError, StoreName};

/// Why settings cannot work. Never shows a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A URL that cannot be read.
    #[error("store URL: {what}")]
    Url {
        /// What is wrong, and what to write instead.
        what: String,
    },
    /// A setting's value.
    #[error("store: {what}")]
    Setting {
        /// What is wrong, and what to write instead.
        what: String,
    },
    /// A certificate or key that cannot be used.
    #[error("store TLS: {what}")]
    Tls {
        /// What is wrong, and in which file.
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

/// Why a call has no answer, and what became of it; a [`StoreError`] without the store's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It failed before anything was sent, or its effect was ruled out: nothing was changed.
    NotSent {
        /// What kind of error the caller gets.
        kind: io::ErrorKind,
        /// What failed; names the server, never a password.
        why: Arc<str>,
    },
    /// It was sent and not answered in time: something may have been changed.
    Silent {
        /// How long the caller waited.
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
    /// Nothing was sent.
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
