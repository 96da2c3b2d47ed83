//! The law of a bucket, A(s,t] ≤ B + r(t − s) for every s < t, in one pass: the most by which the line A −
//! r·t is above its earlier minimum.

/// The least of a line so far, and the most that the line was above it. In any one unit, such as permits
/// times the period.
///
/// # Example
/// ```
/// # use tollgate_exact::Line;
/// let mut line = Line::default();
/// assert_eq!(line.step(0, 3, 0), 3); // three permits at 0
/// assert_eq!(line.step(3 - 2, 4 - 2, 2), 2); // at 2, two are refilled and one more is taken
/// assert_eq!((line.highest(), line.lowest_at()), (3, 0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Above every point of the line before the first step.
    lowest: i128,
    lowest_at: u64,
    highest: i128,
}

impl Default for Line {
    fn default() -> Self {
        Self { lowest: i128::MAX, lowest_at: 0, highest: 0 }
    }
}

impl Line {
    /// The line goes from `before` to `after` at the instant `at`; returns its height above the earlier
    /// minimum.
    #[inline]
    pub fn step(&mut self, before: i128, after: i128, at: u64) -> i128 {
        if before < self.lowest {
            (self.lowest, self.lowest_at) = (before, at);
        }
        let above = after - self.lowest;
        self.highest = self.highest.max(above);
        above
    }

    /// The most that the line ever was above its least before.
    #[must_use]
    pub const fn highest(&self) -> i128 {
        self.highest
    }

    /// Whether the line has no lower point than `now`: earlier points then have no effect any more.
    #[must_use]
    pub const fn is_lowest(&self, now: i128) -> bool {
        now <= self.lowest
    }

    /// The instant at which the line was at its least.
    #[must_use]
    pub const fn lowest_at(&self) -> u64 {
        self.lowest_at
    }
}
