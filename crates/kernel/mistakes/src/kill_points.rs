//! Steps of a process, counted, so that a test can end it at each of them.

#[cfg(feature = "armed")]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The steps of some work of this process. Kept in a static.
#[derive(Debug)]
pub struct KillPoints {
    #[cfg(feature = "armed")]
    passed: AtomicU64,
    /// The step at which the process ends.
    #[cfg(feature = "armed")]
    last: AtomicU64,
}

impl KillPoints {
    /// None of them ends the process.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "for statics only")]
    pub const fn new() -> Self {
        Self {
            #[cfg(feature = "armed")]
            passed: AtomicU64::new(0),
            #[cfg(feature = "armed")]
            last: AtomicU64::new(u64::MAX),
        }
    }

    /// Ends this process, as a kill does, at the `step`-th step from now, from 1.
    #[cfg(feature = "armed")]
    pub fn kill_at(&self, step: u64) {
        self.passed.store(0, Relaxed);
        self.last.store(step, Relaxed);
    }

    /// A step. Nothing, without the feature `armed`.
    #[inline]
    pub fn pass(&self) {
        #[cfg(feature = "armed")]
        if self.passed.fetch_add(1, Relaxed) + 1 == self.last.load(Relaxed) {
            std::process::abort();
        }
    }
}
