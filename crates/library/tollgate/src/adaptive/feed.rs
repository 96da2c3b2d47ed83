//! The way from the calls of a limiter to its limit: samples, windows, and the slots that follow the limit.

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
        if self.learn(call, now) {
            self.put_in_force();
        }
    }

    /// True if the limit has changed.
    fn learn(&self, call: Sample, now: Timestamp) -> bool {
        let mut learned = self.learned.lock();
        let Some(sample) = learned.window.add(call, now) else { return false };
        learned.limit.update(sample);
        let limit = learned.now();
        self.limit.swap(limit, SeqCst) != limit
    }

    /// Puts the last learned limit in force, also if another call has learned it meanwhile. (Not under the
    /// lock: waiters are woken here, and may call again.)
    fn put_in_force(&self) {
        self.slots.set_limit_to(|| self.limit.load(SeqCst));
    }
}

impl<C> fmt::Debug for Feed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("limit", &self.limit).field("slots", &self.slots).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_core::ManualClock;

    use super::*;
    use crate::adaptive::Aimd;

    /// Two callers that have learned, and come to put it in force in either order.
    #[test]
    fn what_was_learned_last_is_in_force_whoever_puts_it_there() {
        let window = Window::default().span(Duration::ZERO).min_samples(1);
        let limit = Box::new(Aimd::default().initial(100));
        let feed = Feed::new(limit, window, ManualClock::default()).expect("settings");
        let call = |is_overload| Sample { rtt: Duration::from_millis(1), in_flight: 100, is_overload };
        let now = Timestamp::ZERO;
        assert!(feed.learn(call(false), now)); // the first caller learns 101
        assert_eq!(feed.slots.limit(), 100, "and waits for a processor");
        assert!(feed.learn(call(true), now)); // the second one 90
        feed.put_in_force();
        assert_eq!(feed.slots.limit(), 90);
        feed.put_in_force();
        assert_eq!(feed.slots.limit(), 90, "the first comes late, and undoes nothing");
    }
}
