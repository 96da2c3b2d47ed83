//! The pace at which permits come back, as far as it is known without the state of their counter.

use std::time::Duration;

use tollgate_core::{Algorithm, LeakyForm, Period, Quota, Refill, Timestamp, nanos};

/// The pace at which permits of a quota come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// One by one: `permits` in `nanos`.
    Steady { permits: u64, nanos: u64 },
    /// At most `permits` within any `nanos`, or within windows of that length.
    Windows { permits: u64, nanos: u64 },
    /// The store has to be asked.
    Unknown,
}

impl Pace {
    pub(crate) fn of(quota: &Quota) -> Self {
        let (permits, Period::Span(period)) = (quota.limit(), quota.period()) else { return Self::Unknown };
        let nanos = nanos(*period);
        match quota.algorithm() {
            _ if permits == 0 || nanos == 0 => Self::Unknown,
            Algorithm::TokenBucket { overdraft: 0, refill: Refill::Continuous, .. }
            | Algorithm::LeakyBucket { form: LeakyForm::Meter, .. } => Self::Steady { permits, nanos },
            Algorithm::FixedWindow { .. }
            | Algorithm::SlidingWindow { .. }
            | Algorithm::SlidingWindowLog { .. } => Self::Windows { permits, nanos },
            _ => Self::Unknown,
        }
    }

    /// Whether permits come back one by one, so that they can be promised.
    pub(crate) const fn is_steady(self) -> bool {
        matches!(self, Self::Steady { .. })
    }

    /// Time by which the turns of later requests move forward if `permits` that come one by one are given up,
    /// in nanoseconds, rounded down.
    pub(crate) fn freed_ns(self, permits: u64) -> u64 {
        match self {
            Self::Steady { permits: each, nanos } => {
                let ns = u128::from(permits) * u128::from(nanos) / u128::from(each);
                u64::try_from(ns).unwrap_or(u64::MAX)
            }
            _ => 0,
        }
    }

    /// Time until `permits` that come one by one are there, in nanoseconds, rounded up; 0 where they do not
    /// come one by one.
    pub(crate) fn steady_ns(self, permits: u64) -> u64 {
        match self {
            Self::Steady { permits: each, nanos } => {
                let ns = (u128::from(permits) * u128::from(nanos)).div_ceil(u128::from(each));
                u64::try_from(ns).unwrap_or(u64::MAX)
            }
            _ => 0,
        }
    }

    /// The turn of a request if `permits` are wanted of a line with this base, its own included.
    pub(crate) fn after(self, base: Timestamp, permits: u64) -> Timestamp {
        base + Duration::from_nanos(self.steady_ns(permits).max(self.windows_ns(permits)))
    }

    /// Shortest time from the first turn of a line to the turn of a request, in nanoseconds, if `permits` are
    /// wanted from that turn on, its own included.
    pub(crate) fn windows_ns(self, permits: u64) -> u64 {
        match self {
            Self::Windows { permits: each, nanos } => {
                (permits.saturating_sub(1) / each).saturating_mul(nanos)
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_come_one_by_one_or_by_the_window_or_as_the_store_says() {
        let second = Duration::from_secs(1);
        let bucket = Pace::of(&Quota::token_bucket(3, second).expect("a quota"));
        assert_eq!(bucket.steady_ns(1), 333_333_334);
        assert_eq!((bucket.steady_ns(3), bucket.windows_ns(3)), (1_000_000_000, 0));
        assert_eq!((bucket.freed_ns(1), bucket.freed_ns(3)), (333_333_333, 1_000_000_000));
        let window = Pace::of(&Quota::fixed_window(3, second).expect("a quota"));
        for (permits, seconds) in [(0, 0), (1, 0), (3, 0), (4, 1), (6, 1), (7, 2)] {
            assert_eq!(window.windows_ns(permits), seconds * 1_000_000_000, "{permits}");
        }
        assert_eq!((window.steady_ns(3), window.freed_ns(3)), (0, 0));
        assert!(bucket.is_steady() && !window.is_steady());
        for quota in [Quota::fixed_window(0, second), Ok(Quota::unlimited())] {
            assert_eq!(Pace::of(&quota.expect("a quota")), Pace::Unknown);
        }
    }
}
