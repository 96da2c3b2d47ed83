//! What every adaptive limit is: samples in, a limit out.

use std::fmt;
use std::time::Duration;

/// The most that a limit may be set to.
pub(super) const MOST: u64 = 1_000_000_000;

/// What one call, or a window of calls, has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How long it took; zero if that is not known.
    pub rtt: Duration,
    /// How many were in flight when it began, itself included.
    pub in_flight: u64,
    /// It failed because there was too much to do: it was shed, or timed out.
    pub is_overload: bool,
}

/// A limit that changes with what calls show. Implement it for one of your own.
pub trait AdaptiveLimit: fmt::Debug + Send + 'static {
    /// How many may be in flight now; at least 1, or nothing would be measured any more.
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
    /// Its name.
    pub setting: &'static str,
    /// What it was set to.
    pub value: f64,
    /// What it may be.
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

/// The bounds of a limit and what it begins with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) initial: u64,
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Range {
    pub(super) fn check(self) -> Result<(), SettingError> {
        let Self { initial, min, max } = self;
        expect((1..=MOST).contains(&max), "max", max as f64, "1 to 1,000,000,000")?;
        expect((1..=max).contains(&min), "min", min as f64, "1 to max")?;
        expect((min..=max).contains(&initial), "initial", initial as f64, "min to max")
    }

    pub(super) fn clamp(self, limit: f64) -> f64 {
        // Not `f64::clamp`, which panics before the settings are checked; a NaN becomes the minimum.
        limit.max(self.min as f64).min(self.max as f64)
    }
}
