//! What the calls of a limiter teach its limit.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use parking_lot::Mutex;
use tollgate_core::{Clock, Timestamp};

use super::limit::{AdaptiveLimit, MOST, Sample, SettingError};
use super::window::Window;
use crate::concurrency::ConcurrencyLimiter;

/// The limit with the window before it, the clock, and the slots that follow the limit.
pub(super) struct Feed<C> {
    learned: Mutex<Learned>,
    /// The limit that was learned last.
    limit: AtomicU64,
    pub(super) slots: ConcurrencyLimiter,
    pub(super) clock: C,
}

struct Learned {
    limit: Box<dyn AdaptiveLimit>,
    window: Window,
}

impl Learned {
    fn now(&self) -> u64 {
        self.limit.limit().clamp(1, MOST)
    }
}

impl<C: Clock> Feed<C> {
    pub(super) fn new(limit: Box<dyn AdaptiveLimit>, window: Window, clock: C) -> Result<Self, SettingError> {
        limit.check()?;
        window.check()?;
        let learned = Learned { limit, window };
        let now = learned.now();
        let slots = ConcurrencyLimiter::direct(now);
        Ok(Self { learned: Mutex::new(learned), limit: AtomicU64::new(now), slots, clock })
    }

    /// Learns from a call that ended at `now`.
    pub(super) fn add(&self, call: Sample, now: Timestamp) {
        let mut learned = self.learned.lock();
        let Some(sample) = learned.window.add(call, now) else { return };
        learned.limit.update(sample);
        let limit = learned.now();
        if self.limit.swap(limit, SeqCst) == limit {
            return;
        }
        drop(learned);
        // Not under the lock: those that wait are woken here, and may come back. Where two arrive here at a
        // time, the second sets what is newest by then.
        self.slots.set_limit_to(|| self.limit.load(SeqCst));
    }
}

impl<C> fmt::Debug for Feed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("limit", &self.limit).field("slots", &self.slots).finish_non_exhaustive()
    }
}
