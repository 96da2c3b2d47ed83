//! The conversion of a counter's ticks to the time of day: line segments that never fall. Reads no clock.

use tollgate_core::NANOS_PER_SECOND;

/// A clock that is ahead is slowed down by at most this part until it is right again.
const SLOWER_BY: u64 = 16;

/// The speed of time: nanoseconds per 2^32 ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TickRate(pub(crate) u64);

impl TickRate {
    /// Ticks within which a segment at this rate must be followed by the next: a second of them. Up to that
    /// many, nothing overflows in [`Segment::after`].
    pub(crate) fn ticks_per_segment(self) -> u64 {
        (NANOS_PER_SECOND << 32) / self.0.max(1)
    }

    fn nanos_in(self, ticks: u64) -> u64 {
        u64::try_from((u128::from(ticks) * u128::from(self.0)) >> 32).unwrap_or(u64::MAX)
    }

    /// The rate at which a clock that is `ahead_ns` ahead loses that within a second, or a sixteenth of the
    /// second.
    fn slowed_by(self, ahead_ns: u64) -> Self {
        let lost = u128::from(self.0) * u128::from(ahead_ns.min(NANOS_PER_SECOND / SLOWER_BY));
        Self(self.0 - lost.div_ceil(u128::from(NANOS_PER_SECOND)) as u64)
    }
}

/// The time from one reading of the wall clock to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The time at the beginning of the segment, in ns since the Unix epoch.
    pub(crate) starts_ns: u64,
    /// True while the clock is ahead of the wall clock, and so runs slower than the counter.
    pub(crate) rate: TickRate,
}

impl Segment {
    /// The last second in which a segment may begin: the end of time is a second later.
    const LATEST: u64 = u64::MAX - 2 * NANOS_PER_SECOND;

    /// A segment that begins at the wall clock's time.
    pub(crate) const fn at_wall(wall_ns: u64, rate: TickRate) -> Self {
        Self { starts_ns: if wall_ns < Self::LATEST { wall_ns } else { Self::LATEST }, rate }
    }

    /// The time `ticks` after the segment began; for up to [`TickRate::ticks_per_segment`].
    #[inline]
    pub(crate) fn after(self, ticks: u64) -> u64 {
        self.starts_ns.wrapping_add(ticks.wrapping_mul(self.rate.0) >> 32)
    }

    /// The segment that begins `ticks` after this one did, when the wall clock showed `wall_ns`: right at
    /// once where this one was behind, and slower where it was ahead. `rate` is the counter's own.
    pub(crate) fn next(self, ticks: u64, wall_ns: u64, rate: TickRate) -> Self {
        let within = ticks.min(rate.ticks_per_segment());
        let ours = self.after(within).saturating_add(rate.nanos_in(ticks - within));
        if ours <= wall_ns {
            return Self::at_wall(wall_ns, rate);
        }
        Self::at_wall(ours, rate.slowed_by(ours - wall_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = NANOS_PER_SECOND;
    const NOON: u64 = 1_700_000_000 * SECOND;
    /// One tick per nanosecond.
    const EVEN: TickRate = TickRate(1 << 32);

    #[test]
    fn time_passes_as_the_counter_does() {
        assert_eq!(Segment::at_wall(NOON, EVEN).after(0), NOON);
        assert_eq!(Segment::at_wall(NOON, EVEN).after(12_345), NOON + 12_345);
        // Counters of 3 GHz and 24 MHz, at the end of a segment.
        for (ns_in_3_ticks, rate) in [(1, TickRate((1 << 32) / 3)), (125, TickRate((125 << 32) / 3))] {
            let ticks = rate.ticks_per_segment();
            let exact = ticks * ns_in_3_ticks / 3;
            let shown = Segment::at_wall(NOON, rate).after(ticks) - NOON;
            assert!(shown.abs_diff(exact) <= 2 && shown.abs_diff(SECOND) <= 42, "{shown} for {exact}");
        }
    }

    #[test]
    fn a_wall_clock_that_is_ahead_is_followed_at_once() {
        let segment = Segment::at_wall(NOON, EVEN).next(SECOND, NOON + 3 * SECOND, EVEN);
        assert_eq!(segment.after(5), NOON + 3 * SECOND + 5);
    }

    #[test]
    fn a_wall_clock_that_is_behind_is_met_slowly_and_never_by_going_back() {
        let stepped_back = SECOND / 4;
        let mut segment = Segment::at_wall(NOON, EVEN);
        let mut latest = segment.after(0);
        for turn in 1..=20 {
            let wall = NOON + turn * SECOND - stepped_back;
            let next = segment.next(SECOND, wall, EVEN);
            assert!(segment.after(SECOND - 1) <= next.after(0) && next.after(0) >= latest);
            let slowest = segment.after(0) + SECOND - SECOND / SLOWER_BY - 1;
            assert!(next.after(0) >= slowest, "by more than a sixteenth");
            latest = next.after(0);
            segment = next;
        }
        assert_eq!(latest, NOON + 20 * SECOND - stepped_back, "right again after sixteen times the step");
    }

    #[test]
    fn a_segment_without_a_successor_for_an_hour_is_slower_for_its_second_only() {
        let segment = Segment { starts_ns: NOON, rate: EVEN.slowed_by(SECOND) };
        let next = segment.next(3_600 * SECOND, NOON, EVEN);
        assert_eq!(next.after(0), NOON + 3_600 * SECOND - SECOND / SLOWER_BY);
    }

    #[test]
    fn no_number_overflows() {
        for rate in [TickRate(1), EVEN, TickRate(u64::MAX)] {
            let segment = Segment::at_wall(u64::MAX, rate).next(u64::MAX, 0, rate).next(0, u64::MAX, rate);
            assert!(segment.after(rate.ticks_per_segment()) >= Segment::LATEST);
        }
    }
}
