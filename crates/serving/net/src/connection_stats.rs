//! Counts of a listener's connections. Requests are counted elsewhere.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one listener, or of several that share them; each only grows. Read them at any time, from any
/// thread.
#[derive(Debug, Default)]
pub struct ConnectionStats {
    /// Connections accepted, also those closed at once.
    pub accepted: Count,
    /// Connections closed at once because there were too many.
    pub rejected: Count,
    /// Connections that had a place and have ended, also those that never got through TLS.
    pub closed: Count,
    /// Connections that ended in the TLS handshake: no TLS spoken, none in time, or a certificate not
    /// accepted.
    pub tls_failed: Count,
}

impl ConnectionStats {
    /// Connections that have a place now.
    #[must_use]
    pub fn open(&self) -> u64 {
        let ended = self.rejected.get() + self.closed.get();
        self.accepted.get().saturating_sub(ended)
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// The number now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
