//! The steps of transactions that write, counted, so that a test can end the process at each of them.
//!
//! Only with the feature `kill-points`, which no release has: without it, a step is nothing.

#[cfg(feature = "kill-points")]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[cfg(feature = "kill-points")]
static PASSED: AtomicU64 = AtomicU64::new(0);
#[cfg(feature = "kill-points")]
static LAST: AtomicU64 = AtomicU64::new(u64::MAX);

/// Ends this process, as a kill does, at the `step`-th step from now, from 1.
#[cfg(feature = "kill-points")]
pub fn kill_at_step(step: u64) {
    PASSED.store(0, Relaxed);
    LAST.store(step, Relaxed);
}

/// A step: before and after each statement that writes, before and after the commit.
#[inline]
pub(crate) fn pass() {
    #[cfg(feature = "kill-points")]
    if PASSED.fetch_add(1, Relaxed) + 1 == LAST.load(Relaxed) {
        std::process::abort();
    }
}
