//! The trait of every adaptive limit: samples in, a limit out.

use std::fmt;
use std::time::Duration;

/// The most that a limit may be set to.
pub(super) const MOST: u64 = 1_000_000_000;

/// Observation of one call, or of a window of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Latency; zero if it is not known.
    pub rtt: Duration,
    /// Calls in flight when it began, itself included.
    pub in_flight: u64,
    /// The call failed because of overload: it was shed, or timed out.
    pub is_overload: bool,
}

/// A limit that adapts to the calls. Implement it for a limit of your own.
pub trait AdaptiveLimit: fmt::Debug + Send + 'static {
    /// Number of calls that may be in flight now; at least 1, or nothing would be measured any more.
    fn limit(&self) -> u64;

    /// Learns from `sample`.
    fn update(&mut self, sample: Sample);

    /// Whether its settings make sense; called once, before the first sample.
    ///
    /// # Errors
    /// [`SettingError`] names the setting, its value, and its bounds.
    fn check(&self) -> Result<(), SettingError> {
        Ok(())
    }
}

/// A setting that is out of its bounds.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("invalid {setting} {value}: expected {expected}")]
pub struct SettingError {
    /// Name of the setting, as its method.
    pub setting: &'static str,
    /// The value that it was set to.
    pub value: f64,
    /// The values that are valid, in words.
    pub expected: &'static str,
}

/// An error unless `is_valid`.
pub(super) fn expect(
    is_valid: bool,
    setting: &'static str,
    value: f64,
    expected: &'static str,
) -> Result<(), SettingError> {
    if is_valid { Ok(()) } else { Err(SettingError { setting, value, expected }) }
}

/// A limit between its bounds, and its initial value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounded {
    pub(super) initial: u64,
    pub(super) min: u64,
    pub(super) max: u64,
    /// The limit now, with its fraction.
    pub(super) limit: f64,
}

impl Bounded {
    pub(super) const fn new(initial: u64, min: u64, max: u64) -> Self {
        Self { initial, min, max, limit: initial as f64 }
    }

    pub(super) const fn now(self) -> u64 {
        self.limit as u64
    }

    pub(super) fn check(self) -> Result<(), SettingError> {
        let Self { initial, min, max, .. } = self;
        expect((1..=MOST).contains(&max), "max", max as f64, "1 to 1,000,000,000")?;
        expect((1..=max).contains(&min), "min", min as f64, "1 to max")?;
        expect((min..=max).contains(&initial), "initial", initial as f64, "min to max")
    }

    /// Takes over `share` of `limit`, after limiting it to the bounds.
    pub(super) fn approach(&mut self, limit: f64, share: f64) {
        // Not `f64::clamp`, which panics before the settings are checked; a NaN becomes the minimum.
        let limit = limit.max(self.min as f64).min(self.max as f64);
        self.limit = (1.0 - share) * self.limit + share * limit;
    }
}

/// The setters that several limits have; their bounds are in a field `bounded`.
macro_rules! setters {
    ($($setter:ident),+) => {
        $(setters! { @ $setter })+
    };
    (@ initial) => {
        /// Sets the limit at the beginning, within its bounds.
        #[must_use]
        pub const fn initial(mut self, initial: u64) -> Self {
            self.bounded.initial = initial;
            self.bounded.limit = initial as f64;
            self
        }
    };
    (@ min) => {
        /// Sets the lowest value of the limit: 1 to `max`.
        #[must_use]
        pub const fn min(mut self, min: u64) -> Self {
            self.bounded.min = min;
            self
        }
    };
    (@ max) => {
        /// Sets the highest value of the limit: up to 1,000,000,000.
        #[must_use]
        pub const fn max(mut self, max: u64) -> Self {
            self.bounded.max = max;
            self
        }
    };
    (@ smoothing) => {
        /// Sets the share of a new value that each sample takes over: above 0, up to 1.
        #[must_use]
        pub const fn smoothing(mut self, smoothing: f64) -> Self {
            self.smoothing = smoothing;
            self
        }
    };
}
pub(super) use setters;

/// An error unless `value` is a share: above 0, and up to 1 for the whole.
pub(super) fn expect_share(setting: &'static str, value: f64) -> Result<(), SettingError> {
    expect(value > 0.0 && value <= 1.0, setting, value, "above 0, up to 1")
}
