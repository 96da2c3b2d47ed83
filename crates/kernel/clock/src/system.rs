//! The machine's clock: the time of day, read from the processor's counter.
//!
//! Once a second the first caller reads the wall clock and begins a new [`Segment`] there, so that the
//! machine's corrections are followed; every other call costs one reading of the counter and four loads.
//!
//! Segments are replaced under a sequence number that is odd while one is written. A reader that sees it
//! change begins anew, so no reading of an old segment is later than the beginning of the next: time does not
//! go back from one thread to another either (except by the few ns by which a processor may reorder the
//! counter's reading).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::UNIX_EPOCH;

use tollgate_core::{Clock, Timestamp};

use crate::segment::{Segment, TickRate};

/// The machine's clock. Never goes back; clones show the same time.
///
/// Follows the wall clock within a second when that is ahead; when it was set back, slows down by up to a
/// sixteenth until the two agree again.
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
    /// As fast as the counter runs.
    rate: TickRate,
    /// A segment is valid for this many ticks.
    ticks_per_segment: u64,
    segment: Arc<SharedSegment>,
}

/// A [`Segment`] with many readers and one writer at a time.
#[derive(Debug)]
struct SharedSegment {
    /// Odd while the other fields are written.
    sequence: AtomicU64,
    /// The counter when the segment began.
    counter: AtomicU64,
    starts_ns: AtomicU64,
    rate: AtomicU64,
}

impl SystemClock {
    /// A clock that begins at the wall clock's time. The first one of a process takes up to 200 ms to measure
    /// how fast the counter runs.
    #[must_use]
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        let rate = TickRate(counter.delta_as_nanos(0, 1 << 32));
        let segment = Segment::at_wall(wall_ns(), rate);
        let segment = SharedSegment {
            sequence: AtomicU64::new(0),
            counter: AtomicU64::new(counter.raw()),
            starts_ns: AtomicU64::new(segment.starts_ns),
            rate: AtomicU64::new(segment.rate.0),
        };
        Self { counter, rate, ticks_per_segment: rate.ticks_per_segment(), segment: Arc::new(segment) }
    }

    /// Begins a new segment at the wall clock's time, unless another thread is doing so.
    #[cold]
    #[inline(never)]
    fn follow_the_wall_clock(&self, sequence: u64) {
        let wall_ns = wall_ns();
        let shared = &*self.segment;
        if shared
            .sequence
            .compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        fence(Ordering::Release);
        let counter = self.counter.raw();
        // A counter that reads earlier than the segment's beginning was set back (a machine that was moved):
        // time must not stop.
        let ticks = counter.saturating_sub(shared.counter.load(Ordering::Relaxed));
        let next = shared.load().next(ticks, wall_ns, self.rate);
        shared.counter.store(counter, Ordering::Relaxed);
        shared.starts_ns.store(next.starts_ns, Ordering::Relaxed);
        shared.rate.store(next.rate.0, Ordering::Relaxed);
        shared.sequence.store(sequence + 2, Ordering::Release);
    }
}

impl SharedSegment {
    #[inline]
    fn load(&self) -> Segment {
        Segment {
            starts_ns: self.starts_ns.load(Ordering::Relaxed),
            rate: TickRate(self.rate.load(Ordering::Relaxed)),
        }
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let shared = &*self.segment;
        loop {
            let sequence = shared.sequence.load(Ordering::Acquire);
            let segment = shared.load();
            let began = shared.counter.load(Ordering::Relaxed);
            // Also too many for a segment: ticks since a beginning that is later than now.
            let ticks = self.counter.raw().wrapping_sub(began);
            fence(Ordering::Acquire);
            let is_whole = shared.sequence.load(Ordering::Relaxed) == sequence & !1;
            if is_whole && ticks < self.ticks_per_segment {
                return Timestamp::from_nanos(segment.after(ticks));
            }
            if is_whole {
                self.follow_the_wall_clock(sequence);
            } else {
                std::hint::spin_loop();
            }
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
pub(crate) fn wall_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tollgate_core::NANOS_PER_SECOND;

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
                        // The counters of two processors may differ by a little: 1.4 µs were seen on a
                        // virtual machine.
                        assert!(now + 10_000 >= seen, "{now} after {seen}");
                        latest.fetch_max(now, Ordering::AcqRel);
                        if turn % 1_000 == 0 {
                            clock.follow_the_wall_clock(clock.segment.sequence.load(Ordering::Relaxed) & !1);
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
        // Checks only that both show the same time, however long a test machine may pause.
        assert!(now.abs_diff(before) < 3_600 * NANOS_PER_SECOND);
    }
}
