//! A clock of one process that nothing sets: the processor's counter since the clock was made.

use std::sync::OnceLock;

use tollgate_core::{Clock, Timestamp};

use crate::segment::TickRate;
use crate::system::wall_ns;

/// The time of day at which the first clock of this process was made, and the time that has passed since by
/// the processor's counter. Never goes back, and follows no correction of the wall clock. All clocks of a
/// process show the same time.
///
/// The default of limiters in one process, whose quotas need spans only. Windows on a calendar end late or
/// early by the corrections of the wall clock since the start; [`SystemClock`](crate::SystemClock) follows
/// it.
///
/// # Example
/// ```
/// # use tollgate_clock::MonotonicClock;
/// # use tollgate_core::Clock;
/// let clock = MonotonicClock::new();
/// let before = clock.now();
/// assert!(clock.now() >= before);
/// assert!(before.unix_seconds() > 1_700_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct MonotonicClock {
    counter: quanta::Clock,
    /// Time runs at the counter's own rate.
    rate: TickRate,
    /// The counter's reading when the first clock was made.
    began: u64,
    /// The wall clock then, in ns since the Unix epoch.
    starts_ns: u64,
}

impl MonotonicClock {
    /// A clock. The first one of a process takes up to 200 ms to measure how fast the counter runs.
    #[must_use]
    pub fn new() -> Self {
        static FIRST: OnceLock<MonotonicClock> = OnceLock::new();
        FIRST
            .get_or_init(|| {
                let counter = quanta::Clock::new();
                let rate = TickRate(counter.delta_as_nanos(0, 1 << 32));
                // Half of all time is left for the future.
                Self { began: counter.raw(), starts_ns: wall_ns().min(u64::MAX / 2), counter, rate }
            })
            .clone()
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Timestamp {
        // The counters of two processors may differ by a little: time is never before the beginning.
        let ticks = self.counter.raw().saturating_sub(self.began);
        let since_ns = (u128::from(ticks) * u128::from(self.rate.0)) >> 32;
        Timestamp::from_nanos(self.starts_ns.wrapping_add(since_ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clocks_of_a_process_show_the_same_time_and_it_passes() {
        let first = MonotonicClock::new();
        let second = MonotonicClock::default();
        let mut before = first.now();
        for turn in 0..100_000 {
            let now = if turn % 2 == 0 { second.now() } else { first.now() };
            // The counters of two processors may differ by a little.
            assert!(now.as_nanos() + 10_000 >= before.as_nanos(), "{now:?} after {before:?}");
            before = now;
        }
        assert!(before > Timestamp::from_nanos(first.starts_ns));
        assert!(before.as_nanos().abs_diff(wall_ns()) < 3_600_000_000_000, "the time of day");
    }
}
