//! How a counter's ticks become the time of day: a line that never falls. Reads nothing.

use tollgate_core::NANOS_PER_SECOND;

/// A clock that is ahead loses at most one part in so many until it is right again.
const SLOWER_BY: u64 = 16;

/// How fast time passes: nanoseconds in 2^32 ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) u64);

impl Rate {
    /// Ticks within which a line at this rate must be followed by the next: a second of them. For so many
    /// nothing overflows in [`Line::after`].
    pub(crate) fn ticks_a_line(self) -> u64 {
        (NANOS_PER_SECOND << 32) / self.0.max(1)
    }

    fn nanos_in(self, ticks: u64) -> u64 {
        u64::try_from((u128::from(ticks) * u128::from(self.0)) >> 32).unwrap_or(u64::MAX)
    }

    /// The rate at which a clock that is `ahead_ns` too late loses that within a second, or a sixteenth of
    /// the second.
    fn losing(self, ahead_ns: u64) -> Self {
        let lost = u128::from(self.0) * u128::from(ahead_ns.min(NANOS_PER_SECOND / SLOWER_BY));
        Self(self.0 - lost.div_ceil(u128::from(NANOS_PER_SECOND)) as u64)
    }
}

/// The time from one look at the wall clock to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The time at the beginning of the line, in ns since the Unix epoch.
    pub(crate) starts_ns: u64,
    /// Slower than the counter says while the clock is ahead of the wall's.
    pub(crate) rate: Rate,
}

impl Line {
    /// The last second that a line may begin in: the end of time is a second later.
    const LATEST: u64 = u64::MAX - 2 * NANOS_PER_SECOND;

    /// A line that begins at the wall clock's time.
    pub(crate) const fn at_wall(wall_ns: u64, rate: Rate) -> Self {
        Self { starts_ns: if wall_ns < Self::LATEST { wall_ns } else { Self::LATEST }, rate }
    }

    /// The time so many ticks after the line began; for up to [`Rate::ticks_a_line`].
    #[inline]
    pub(crate) fn after(self, ticks: u64) -> u64 {
        self.starts_ns.wrapping_add(ticks.wrapping_mul(self.rate.0) >> 32)
    }

    /// The line that begins so many ticks after this one did, when the wall clock showed `wall_ns`: right at
    /// once where this one was behind, and slower where it was ahead. `rate` is what the counter says.
    pub(crate) fn next(self, ticks: u64, wall_ns: u64, rate: Rate) -> Self {
        let within = ticks.min(rate.ticks_a_line());
        let ours = self.after(within).saturating_add(rate.nanos_in(ticks - within));
        if ours <= wall_ns {
            return Self::at_wall(wall_ns, rate);
        }
        Self::at_wall(ours, rate.losing(ours - wall_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = NANOS_PER_SECOND;
    const NOON: u64 = 1_700_000_000 * SECOND;
    /// A tick a nanosecond.
    const EVEN: Rate = Rate(1 << 32);

    #[test]
    fn time_passes_as_the_counter_does() {
        assert_eq!(Line::at_wall(NOON, EVEN).after(0), NOON);
        assert_eq!(Line::at_wall(NOON, EVEN).after(12_345), NOON + 12_345);
        // 3 GHz and 24 MHz, at the end of a line.
        for (ns_in_3_ticks, rate) in [(1, Rate((1 << 32) / 3)), (125, Rate((125 << 32) / 3))] {
            let ticks = rate.ticks_a_line();
            let exact = ticks * ns_in_3_ticks / 3;
            let shown = Line::at_wall(NOON, rate).after(ticks) - NOON;
            assert!(shown.abs_diff(exact) <= 2 && shown.abs_diff(SECOND) <= 42, "{shown} for {exact}");
        }
    }

    #[test]
    fn a_wall_clock_that_is_ahead_is_followed_at_once() {
        let line = Line::at_wall(NOON, EVEN).next(SECOND, NOON + 3 * SECOND, EVEN);
        assert_eq!(line.after(5), NOON + 3 * SECOND + 5);
    }

    #[test]
    fn a_wall_clock_that_is_behind_is_met_slowly_and_never_by_going_back() {
        let stepped_back = SECOND / 4;
        let mut line = Line::at_wall(NOON, EVEN);
        let mut latest = line.after(0);
        for turn in 1..=20 {
            let wall = NOON + turn * SECOND - stepped_back;
            let next = line.next(SECOND, wall, EVEN);
            assert!(line.after(SECOND - 1) <= next.after(0) && next.after(0) >= latest);
            let slowest = line.after(0) + SECOND - SECOND / SLOWER_BY - 1;
            assert!(next.after(0) >= slowest, "by more than a sixteenth");
            latest = next.after(0);
            line = next;
        }
        assert_eq!(latest, NOON + 20 * SECOND - stepped_back, "right again after sixteen times the step");
    }

    #[test]
    fn a_line_that_nobody_looked_at_for_an_hour_is_slower_for_its_second_only() {
        let line = Line { starts_ns: NOON, rate: EVEN.losing(SECOND) };
        let next = line.next(3_600 * SECOND, NOON, EVEN);
        assert_eq!(next.after(0), NOON + 3_600 * SECOND - SECOND / SLOWER_BY);
    }

    #[test]
    fn no_number_overflows() {
        for rate in [Rate(1), EVEN, Rate(u64::MAX)] {
            let line = Line::at_wall(u64::MAX, rate).next(u64::MAX, 0, rate).next(0, u64::MAX, rate);
            assert!(line.after(rate.ticks_a_line()) >= Line::LATEST);
        }
    }
}
