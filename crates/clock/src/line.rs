//! How a counter's span becomes the time of day: a line that never falls. Reads nothing.

/// A clock that is ahead loses one part in so many until it is right again.
const SLOWER_BY: u64 = 16;

/// The time from one look at the wall clock to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The time at the beginning of the line, in ns since the Unix epoch.
    pub(crate) starts_ns: u64,
    /// By how much it was ahead of the wall clock then, in ns.
    pub(crate) ahead_ns: u64,
}

impl Line {
    /// A line that begins at the wall clock's time.
    pub(crate) const fn at_wall(wall_ns: u64) -> Self {
        Self { starts_ns: wall_ns, ahead_ns: 0 }
    }

    /// The time `elapsed_ns` after the line began.
    #[inline]
    pub(crate) fn after(self, elapsed_ns: u64) -> u64 {
        let lost = (elapsed_ns / SLOWER_BY).min(self.ahead_ns);
        self.starts_ns.saturating_add(elapsed_ns - lost)
    }

    /// The line that begins `elapsed_ns` after this one did, when the wall clock showed `wall_ns`: right at once where
    /// this one was behind, and slower until it is right where it was ahead.
    pub(crate) fn next(self, elapsed_ns: u64, wall_ns: u64) -> Self {
        let ours = self.after(elapsed_ns);
        Self { starts_ns: ours.max(wall_ns), ahead_ns: ours.saturating_sub(wall_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const NOON: u64 = 1_700_000_000 * SECOND;

    #[test]
    fn time_passes_as_the_counter_does() {
        assert_eq!(Line::at_wall(NOON).after(0), NOON);
        assert_eq!(Line::at_wall(NOON).after(12_345), NOON + 12_345);
    }

    #[test]
    fn a_wall_clock_that_is_ahead_is_followed_at_once() {
        let line = Line::at_wall(NOON).next(SECOND, NOON + 3 * SECOND);
        assert_eq!(line.after(5), NOON + 3 * SECOND + 5);
    }

    #[test]
    fn a_wall_clock_that_is_behind_is_met_slowly_and_never_by_going_back() {
        let stepped_back = SECOND / 4;
        let mut line = Line::at_wall(NOON);
        let mut latest = line.after(0);
        for turn in 1..=20 {
            let wall = NOON + turn * SECOND - stepped_back;
            let next = line.next(SECOND, wall);
            assert!(line.after(SECOND - 1) <= next.after(0) && next.after(0) >= latest);
            latest = next.after(0);
            line = next;
        }
        assert_eq!(latest, NOON + 20 * SECOND - stepped_back, "right again after sixteen times the step");
    }

    #[test]
    fn no_number_overflows() {
        let line = Line::at_wall(u64::MAX).next(u64::MAX, 0);
        assert_eq!(line.after(u64::MAX), u64::MAX);
    }
}
