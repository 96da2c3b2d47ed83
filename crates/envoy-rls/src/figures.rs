//! What a listener counts of itself. Decisions are counted by the limiter.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one listener, each growing only; read them at any time from any thread.
#[derive(Debug, Default)]
pub struct Figures {
    /// Connections accepted, also those closed at once.
    pub accepted: Count,
    /// Connections closed at once because there were too many.
    pub refused: Count,
    /// Connections that were served and have ended.
    pub closed: Count,
}

impl Figures {
    /// Connections being served now.
    #[must_use]
    pub fn open(&self) -> u64 {
        let ended = self.refused.get() + self.closed.get();
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
