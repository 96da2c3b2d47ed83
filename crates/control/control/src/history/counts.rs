//! Decisions by their outcome. Pure.

use tollgate_db::columns;
use tollgate_fleet_proto::RuleCounts;

/// Most decisions of one rule in one report; a node that reports more is not believed.
const MOST: u64 = 1_000_000_000_000;

/// Decisions by their outcome, and hits near a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub admitted: i64,
    pub denied: i64,
    /// Let pass by shadow mode alone.
    pub shadow_denied: i64,
    /// Decisions among these that were made without the store.
    pub degraded: i64,
    /// Hits near the limit.
    pub near: i64,
    /// Denied requests that a limit in shadow would have denied too.
    pub both_denied: i64,
}

// Sums over the rows of a group.
columns! {
    Counts {
        admitted = "SUM(admitted)",
        denied = "SUM(denied)",
        shadow_denied = "SUM(shadow_denied)",
        degraded = "SUM(degraded)",
        near = "SUM(near)",
        both_denied = "SUM(both_denied)",
    }
}

impl Counts {
    /// All decisions, whatever their outcome.
    #[must_use]
    pub const fn offered(&self) -> i64 {
        self.admitted.saturating_add(self.denied).saturating_add(self.shadow_denied)
    }

    /// The denied share in hundredths of a percent; `None` without decisions.
    #[must_use]
    pub fn denied_share(&self) -> Option<i64> {
        share(self.denied, self.offered())
    }

    /// The share decided without the store, in hundredths of a percent; `None` without decisions.
    #[must_use]
    pub fn degraded_share(&self) -> Option<i64> {
        share(self.degraded, self.offered())
    }

    /// Those that a limit in shadow would have denied, if the rule has one and is not in shadow itself.
    #[must_use]
    pub const fn trial_denied(&self) -> i64 {
        self.shadow_denied.saturating_add(self.both_denied)
    }

    pub(super) fn of(counts: &RuleCounts) -> Self {
        let bounded = |count: u64| count.min(MOST) as i64;
        Self {
            admitted: bounded(counts.admitted),
            denied: bounded(counts.denied),
            shadow_denied: bounded(counts.shadow_denied),
            degraded: bounded(counts.degraded),
            near: bounded(counts.near),
            both_denied: bounded(counts.both_denied),
        }
    }

    pub(super) const fn is_zero(&self) -> bool {
        self.offered() == 0 && self.degraded == 0 && self.near == 0 && self.both_denied == 0
    }

    /// Adds `more`, saturating.
    pub fn add(&mut self, more: Self) {
        *self = self.zip(more, i64::saturating_add);
    }

    pub(super) fn zip(self, other: Self, with: impl Fn(i64, i64) -> i64) -> Self {
        Self {
            admitted: with(self.admitted, other.admitted),
            denied: with(self.denied, other.denied),
            shadow_denied: with(self.shadow_denied, other.shadow_denied),
            degraded: with(self.degraded, other.degraded),
            near: with(self.near, other.near),
            both_denied: with(self.both_denied, other.both_denied),
        }
    }

    /// The share of part `index` of `parts` equal ones. All parts together are the whole.
    pub(super) fn part(self, index: i64, parts: i64) -> Self {
        let until = |count: i64, index: i64| {
            // At most the count itself, so it fits.
            (i128::from(count) * i128::from(index) / i128::from(parts)) as i64
        };
        self.zip(self, |count, _| until(count, index + 1) - until(count, index))
    }
}

fn share(part: i64, whole: i64) -> Option<i64> {
    (whole > 0).then(|| (i128::from(part.min(whole)) * 10_000 / i128::from(whole)) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_counts_are_the_whole() {
        for (count, parts) in
            [(0, 1), (1, 1), (1, 60), (59, 60), (61, 60), (1_000_000_007, 7), (i64::MAX, 60)]
        {
            let whole = Counts { admitted: count, near: count / 2, ..Counts::default() };
            let mut sum = Counts::default();
            for index in 0..parts {
                let part = whole.part(index, parts);
                assert!((part.admitted - count / parts).abs() <= 1, "even");
                sum.add(part);
            }
            assert_eq!(sum, whole, "{count} in {parts}");
        }
    }

    #[test]
    fn shares_are_of_all_decisions() {
        let counts =
            Counts { admitted: 60, denied: 20, shadow_denied: 20, degraded: 1, near: 9, both_denied: 5 };
        assert_eq!((counts.denied_share(), counts.degraded_share()), (Some(2_000), Some(100)));
        assert_eq!(counts.trial_denied(), 25);
        assert_eq!(Counts::default().denied_share(), None);
    }
}
