//! Additive increase, multiplicative decrease. Reads no clock.

use std::time::Duration;

use super::limit::{AdaptiveLimit, Range, Sample, SettingError, expect};

/// One more after each call that went well while at least half of the limit was in use; nine tenths, rounded
/// down, after one that failed for overload or took longer than a timeout.
///
/// | setting | default |
/// |---|---|
/// | [`initial`](Self::initial), [`min`](Self::min), [`max`](Self::max) | 20, 20, 200 |
/// | [`backoff`](Self::backoff) | 0.9 |
/// | [`timeout`](Self::timeout) | 5 s |
#[derive(Clone, Debug, PartialEq)]
pub struct Aimd {
    range: Range,
    backoff: f64,
    timeout: Duration,
    limit: u64,
}

impl Default for Aimd {
    fn default() -> Self {
        let range = Range { initial: 20, min: 20, max: 200 };
        Self { range, backoff: 0.9, timeout: Duration::from_secs(5), limit: 20 }
    }
}

impl Aimd {
    /// What it begins with: `min` to `max`.
    #[must_use]
    pub const fn initial(mut self, initial: u64) -> Self {
        self.range.initial = initial;
        self.limit = initial;
        self
    }

    /// The least that it falls to: 1 to `max`.
    #[must_use]
    pub const fn min(mut self, min: u64) -> Self {
        self.range.min = min;
        self
    }

    /// The most that it grows to: up to 1,000,000,000.
    #[must_use]
    pub const fn max(mut self, max: u64) -> Self {
        self.range.max = max;
        self
    }

    /// What a failure leaves of the limit: above 0, below 1.
    #[must_use]
    pub const fn backoff(mut self, backoff: f64) -> Self {
        self.backoff = backoff;
        self
    }

    /// A call that takes longer counts as a failure.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl AdaptiveLimit for Aimd {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn update(&mut self, sample: Sample) {
        let limit = if sample.is_overload || sample.rtt > self.timeout {
            (self.limit as f64 * self.backoff).floor()
        } else if sample.in_flight.saturating_mul(2) >= self.limit {
            self.limit as f64 + 1.0
        } else {
            return;
        };
        self.limit = self.range.clamp(limit) as u64;
    }

    fn check(&self) -> Result<(), SettingError> {
        self.range.check()?;
        expect(self.backoff > 0.0 && self.backoff < 1.0, "backoff", self.backoff, "above 0 and below 1")
    }
}
