//! Time as the algorithms see it: an argument, never a reading.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds in a second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// An instant: nanoseconds since the Unix epoch, good until the year 2554.
///
/// # Example
/// ```
/// # use tollgate_core::Timestamp;
/// # use std::time::Duration;
/// let noon = Timestamp::from_unix_seconds(1_700_000_000);
/// assert_eq!((noon + Duration::from_millis(5)).since(noon), Duration::from_millis(5));
/// assert_eq!(noon.since(noon + Duration::from_secs(1)), Duration::ZERO); // never negative
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const ZERO: Self = Self(0);

    /// The instant `nanos` nanoseconds after the Unix epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant `seconds` seconds after the Unix epoch, saturating.
    #[must_use]
    pub const fn from_unix_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(NANOS_PER_SECOND))
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub const fn unix_seconds(self) -> u64 {
        self.0 / NANOS_PER_SECOND
    }

    /// Time since `earlier`; zero when `earlier` is in fact later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<std::time::Duration> for Timestamp {
    type Output = Self;

    /// Saturates at the year 2554.
    fn add(self, span: std::time::Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Tells the time. Only the binary and the façade make clocks; the rest is handed one, or better a [`Timestamp`].
pub trait Clock: Send + Sync {
    /// The time now; never earlier than an answer given before.
    fn now(&self) -> Timestamp;
}

/// Stands still until told to move; clones show the same time. Public: our users test with it too.
///
/// # Example
/// ```
/// # use tollgate_core::{Clock, ManualClock, Timestamp};
/// # use std::time::Duration;
/// let clock = ManualClock::at(Timestamp::from_unix_seconds(60));
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now(), Timestamp::from_unix_seconds(61));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.0)))
    }

    /// Moves forward by `span`.
    pub fn advance(&self, span: std::time::Duration) {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::AcqRel);
    }

    /// Shows `now` from here on, even when that is a step back.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::Release);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Acquire))
    }
}
