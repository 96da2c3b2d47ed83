//! The four resolutions, and which row of each a report belongs to. Pure.

use super::counts::Counts;

/// Most rows of one resolution that one report of one rule goes to.
const MOST_PARTS: i64 = 60;

/// The time that one row covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resolution {
    /// Kept for an hour.
    TenSeconds,
    /// Kept for a day.
    Minute,
    /// Kept for 14 days.
    TenMinutes,
    /// Kept for 400 days.
    Hour,
}

impl Resolution {
    /// The finest first.
    pub const ALL: [Self; 4] = [Self::TenSeconds, Self::Minute, Self::TenMinutes, Self::Hour];

    /// The time that a row covers.
    #[must_use]
    pub const fn ms(self) -> i64 {
        match self {
            Self::TenSeconds => 10_000,
            Self::Minute => 60_000,
            Self::TenMinutes => 600_000,
            Self::Hour => 3_600_000,
        }
    }

    /// Time for which rows are kept.
    #[must_use]
    pub const fn kept_ms(self) -> i64 {
        const HOUR: i64 = 3_600_000;
        match self {
            Self::TenSeconds => HOUR,
            Self::Minute => 24 * HOUR,
            Self::TenMinutes => 14 * 24 * HOUR,
            Self::Hour => 400 * 24 * HOUR,
        }
    }

    /// The beginning of the row that covers `at_ms`.
    #[must_use]
    pub const fn row_of(self, at_ms: i64) -> i64 {
        at_ms.div_euclid(self.ms()) * self.ms()
    }

    /// Adds `counts`, which came evenly within the `span_ms` before `end_ms`, to rows. A span that is shorter
    /// than a row goes whole to the row of its middle.
    pub(super) fn spread(self, end_ms: i64, span_ms: i64, counts: Counts, mut add: impl FnMut(i64, Counts)) {
        let parts = (span_ms / self.ms()).clamp(1, MOST_PARTS);
        for index in 0..parts {
            let middle = end_ms - span_ms + (2 * index + 1) * span_ms / (2 * parts);
            let part = counts.part(index, parts);
            if !part.is_zero() {
                add(self.row_of(middle.max(0)), part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: Resolution, end_ms: i64, span_ms: i64, admitted: i64) -> Vec<(i64, i64)> {
        let mut rows = Vec::new();
        let counts = Counts { admitted, ..Counts::default() };
        of.spread(end_ms, span_ms, counts, |at, part| rows.push((at, part.admitted)));
        rows
    }

    #[test]
    fn a_report_goes_to_the_row_of_its_middle_and_a_long_one_to_several() {
        let ten = Resolution::TenSeconds;
        assert_eq!(rows(ten, 15_000, 5_000, 7), [(10_000, 7)]);
        assert_eq!(rows(ten, 12_000, 5_000, 7), [(0, 7)], "most of it came before");
        assert_eq!(rows(ten, 30_000, 30_000, 10), [(0, 3), (10_000, 3), (20_000, 4)]);
        assert_eq!(rows(Resolution::Minute, 61_000, 5_000, 4), [(0, 4)]);
        let week = rows(ten, 700_000_000, 604_800_000, 1_000);
        assert_eq!((week.len(), week.iter().map(|it| it.1).sum::<i64>()), (60, 1_000));
        assert_eq!(rows(ten, 1_000, 60_000, 6).iter().map(|it| it.1).sum::<i64>(), 6, "before the epoch");
    }
}
