//! Time as the algorithms see it: an argument, never a reading.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// Nanoseconds in a second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// `span` in nanoseconds; [`u64::MAX`] (584 years) where it is longer.
///
/// # Example
/// ```
/// # use std::time::Duration;
/// assert_eq!(tollgate_core::nanos(Duration::from_millis(5)), 5_000_000);
/// assert_eq!(tollgate_core::nanos(Duration::MAX), u64::MAX);
/// ```
#[must_use]
pub const fn nanos(span: Duration) -> u64 {
    let nanos = span.as_nanos();
    if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }
}

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

    /// The last instant that a timestamp can hold: stands for never.
    pub const NEVER: Self = Self(u64::MAX);

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
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl core::ops::Add<Duration> for Timestamp {
    type Output = Self;

    /// Saturates at the year 2554.
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

/// A source of the time. Only the binary and the façade make clocks; other code receives one, or better a
/// [`Timestamp`].
pub trait Clock: Send + Sync {
    /// The time now; never earlier than an answer given before.
    fn now(&self) -> Timestamp;
}

/// A clock that stops until it is moved; clones show the same time. Public: our users test with it too.
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
    pub fn advance(&self, span: Duration) {
        self.0.fetch_add(nanos(span), Ordering::AcqRel);
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
