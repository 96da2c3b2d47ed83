//! Additive increase, multiplicative decrease. Reads no clock.

use std::time::Duration;

use super::limit::{AdaptiveLimit, Bounded, Sample, SettingError, expect, setters};

/// Increases by one after each successful call while at least half of the limit was in use; decreases to nine
/// tenths, rounded down, after a call that failed for overload or took longer than a timeout.
///
/// | setting | default |
/// |---|---|
/// | [`initial`](Self::initial), [`min`](Self::min), [`max`](Self::max) | 20, 20, 200 |
/// | [`backoff`](Self::backoff) | 0.9 |
/// | [`timeout`](Self::timeout) | 5 s |
#[derive(Clone, Debug, PartialEq)]
pub struct Aimd {
    bounded: Bounded,
    backoff: f64,
    timeout: Duration,
}

impl Default for Aimd {
    fn default() -> Self {
        Self { bounded: Bounded::new(20, 20, 200), backoff: 0.9, timeout: Duration::from_secs(5) }
    }
}

impl Aimd {
    setters!(initial, min, max);

    /// Sets the factor by which a failure lowers the limit: above 0, below 1.
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
        self.bounded.now()
    }

    fn update(&mut self, sample: Sample) {
        let limit = if sample.is_overload || sample.rtt > self.timeout {
            (self.bounded.limit * self.backoff).floor()
        } else if sample.in_flight.saturating_mul(2) >= self.limit() {
            self.bounded.limit + 1.0
        } else {
            return;
        };
        self.bounded.approach(limit, 1.0);
    }

    fn check(&self) -> Result<(), SettingError> {
        self.bounded.check()?;
        expect(self.backoff > 0.0 && self.backoff < 1.0, "backoff", self.backoff, "above 0 and below 1")
    }
}
