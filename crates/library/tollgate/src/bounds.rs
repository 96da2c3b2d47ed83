//! Bounds of a quota, for replies to clients.

use std::time::Duration;

use tollgate_core::{Algorithm, CivilUnit, Period, Quota};

/// Bounds of the quota of a limiter, for replies to clients.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tollgate::{Bounds, Quota, RateLimiter};
///
/// let limiter = RateLimiter::direct(Quota::per_minute(60).burst(10))?;
/// let minute = Some(Duration::from_secs(60));
/// assert_eq!(limiter.bounds(), Bounds { limit: 60, burst: 10, window: minute });
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Permits per window; [`u64::MAX`] without a limit.
    pub limit: u64,
    /// The most permits that can be available at once.
    pub burst: u64,
    /// The window; the longest of its kind for a unit of a calendar. `None` for a total, and without a limit.
    pub window: Option<Duration>,
}

impl Bounds {
    pub(crate) fn of(quota: &Quota) -> Self {
        const DAY: u64 = 86_400;
        let window = match (quota.algorithm(), quota.period()) {
            (Algorithm::Total | Algorithm::Unlimited, _) => None,
            (_, Period::Span(span)) => Some(*span),
            (_, Period::Civil { unit, .. }) => Some(Duration::from_secs(match unit {
                CivilUnit::Day => DAY,
                CivilUnit::Week => 7 * DAY,
                CivilUnit::Month => 31 * DAY,
                CivilUnit::Year => 366 * DAY,
            })),
            _ => None,
        };
        Self { limit: quota.limit(), burst: quota.burst(), window }
    }
}
