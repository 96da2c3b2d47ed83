//! The machine's clock: the time of day, read from the processor's counter.
//!
//! Once a second whoever asks first looks at the wall clock and begins a new [`Line`] there, so that the machine's
//! corrections are picked up; everyone else pays one reading of the counter and four loads.
//!
//! Lines are handed over under a sequence number that is odd while one is written. A reader that saw it change begins
//! anew, so no reading of an old line is later than the beginning of the next: time does not go back from one thread to
//! another either (but for the few ns by which a processor may reorder the counter's reading).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::UNIX_EPOCH;

use tollgate_core::{Clock, NANOS_PER_SECOND, Timestamp};

use crate::line::Line;

/// The machine's clock. Never goes back; clones show the same time.
///
/// Follows the wall clock within a second where that is ahead; where it was set back, slows down by a sixteenth until
/// the two agree again.
///
/// # Example
/// ```
/// # use tollgate_clock::SystemClock;
/// # use tollgate_core::Clock;
/// let clock = SystemClock::new();
/// let before = clock.now();
/// assert!(clock.clone().now() >= before);
/// assert!(before.unix_seconds() > 1_700_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    line: Arc<SharedLine>,
}

/// A [`Line`] that many read and one at a time replaces.
#[derive(Debug)]
struct SharedLine {
    /// Odd while the rest is written.
    sequence: AtomicU64,
    /// The counter when the line began.
    counter: AtomicU64,
    starts_ns: AtomicU64,
    ahead_ns: AtomicU64,
}

impl SystemClock {
    /// A clock that begins at the wall clock's time. The first one of a process takes up to 200 ms to measure how fast
    /// the counter runs.
    #[must_use]
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        let line = Line::at_wall(wall_ns());
        let line = SharedLine {
            sequence: AtomicU64::new(0),
            counter: AtomicU64::new(counter.raw()),
            starts_ns: AtomicU64::new(line.starts_ns),
            ahead_ns: AtomicU64::new(line.ahead_ns),
        };
        Self { counter, line: Arc::new(line) }
    }

    /// Begins a new line at the wall clock's time, unless someone else is at it.
    #[cold]
    fn look_at_the_wall(&self, sequence: u64) {
        let wall_ns = wall_ns();
        let shared = &*self.line;
        if shared
            .sequence
            .compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        fence(Ordering::Release);
        let counter = self.counter.raw();
        let elapsed_ns = self.counter.delta_as_nanos(shared.counter.load(Ordering::Relaxed), counter);
        let next = shared.load().next(elapsed_ns, wall_ns);
        shared.counter.store(counter, Ordering::Relaxed);
        shared.starts_ns.store(next.starts_ns, Ordering::Relaxed);
        shared.ahead_ns.store(next.ahead_ns, Ordering::Relaxed);
        shared.sequence.store(sequence + 2, Ordering::Release);
    }
}

impl SharedLine {
    #[inline]
    fn load(&self) -> Line {
        Line {
            starts_ns: self.starts_ns.load(Ordering::Relaxed),
            ahead_ns: self.ahead_ns.load(Ordering::Relaxed),
        }
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let shared = &*self.line;
        loop {
            let sequence = shared.sequence.load(Ordering::Acquire);
            let (line, began) = (shared.load(), shared.counter.load(Ordering::Relaxed));
            let counter = self.counter.raw();
            let elapsed_ns = self.counter.delta_as_nanos(began, counter);
            fence(Ordering::Acquire);
            if sequence % 2 == 1 || shared.sequence.load(Ordering::Relaxed) != sequence {
                std::hint::spin_loop();
                continue;
            }
            // A counter before the line's beginning was set back (a machine that was moved): time must not stand still.
            if elapsed_ns >= NANOS_PER_SECOND || counter < began {
                self.look_at_the_wall(sequence);
                continue;
            }
            return Timestamp::from_nanos(line.after(elapsed_ns));
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

/// The wall clock, in ns since the Unix epoch; 0 before it.
#[expect(clippy::disallowed_methods, reason = "this is the clock that everyone else is handed")]
fn wall_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back_within_a_thread_or_from_one_to_another() {
        let clock = SystemClock::new();
        let latest = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..200_000 {
                        let seen = latest.load(Ordering::Acquire);
                        let now = clock.now().as_nanos();
                        // The counters of two processors may differ by a little.
                        assert!(now + 1_000 >= seen, "{now} after {seen}");
                        latest.fetch_max(now, Ordering::AcqRel);
                        if turn % 1_000 == 0 {
                            clock.look_at_the_wall(clock.line.sequence.load(Ordering::Relaxed) & !1);
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn the_time_is_that_of_the_wall() {
        let clock = SystemClock::new();
        let before = wall_ns();
        let now = clock.now().as_nanos();
        // Only that both mean the same thing, however long a test machine may pause.
        assert!(now.abs_diff(before) < 3_600 * NANOS_PER_SECOND);
    }
}
