//! A limit that follows the ratio of the latency now to that of a long time. Reads no clock.

use super::average::Average;
use super::limit::{AdaptiveLimit, MOST, Range, Sample, SettingError, expect};

/// How many samples the long average counts alike at the beginning.
const WARM_UP: u32 = 10;
/// A long average of more than twice the latency now is out of date, and shrinks by this factor.
const CATCH_UP: f64 = 0.95;

/// Shrinks while calls take longer than they did on average, and always leaves room for a short queue, so
/// that it grows again when they do not.
///
/// With `long` the average latency of 600 samples and `now` that of this one, the next limit is
/// `limit · clamp(tolerance · long / now, 0.5, 1) + queue`, of which a fifth is taken over. It holds while
/// less than half of the limit is in use.
///
/// | setting | default |
/// |---|---|
/// | [`initial`](Self::initial), [`min`](Self::min), [`max`](Self::max) | 20, 20, 200 |
/// | [`smoothing`](Self::smoothing) | 0.2 |
/// | [`queue`](Self::queue) | 4 |
/// | [`tolerance`](Self::tolerance) | 1.5 |
/// | [`long_window`](Self::long_window) | 600 |
/// | [`on_overload`](Self::on_overload) | 1: failures are ignored |
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient2 {
    range: Range,
    smoothing: f64,
    queue: u64,
    tolerance: f64,
    on_overload: f64,
    long: Average,
    long_window: u32,
    limit: f64,
}

impl Default for Gradient2 {
    fn default() -> Self {
        Self {
            range: Range { initial: 20, min: 20, max: 200 },
            smoothing: 0.2,
            queue: 4,
            tolerance: 1.5,
            on_overload: 1.0,
            long: Average::new(600, WARM_UP),
            long_window: 600,
            limit: 20.0,
        }
    }
}

impl Gradient2 {
    /// What it begins with: `min` to `max`.
    #[must_use]
    pub const fn initial(mut self, initial: u64) -> Self {
        self.range.initial = initial;
        self.limit = initial as f64;
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

    /// How much of a new value each sample takes over: above 0, up to 1.
    #[must_use]
    pub const fn smoothing(mut self, smoothing: f64) -> Self {
        self.smoothing = smoothing;
        self
    }

    /// How many calls may wait in a queue behind the service: up to 1,000,000,000.
    #[must_use]
    pub const fn queue(mut self, queue: u64) -> Self {
        self.queue = queue;
        self
    }

    /// By how much latency may grow before the limit shrinks: 1 or more.
    #[must_use]
    pub const fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Samples of the long average; forgets those before. At least 1.
    #[must_use]
    pub const fn long_window(mut self, samples: u32) -> Self {
        self.long_window = samples;
        self.long = Average::new(samples, WARM_UP);
        self
    }

    /// What a failure for overload leaves of the limit: above 0, up to 1. At 1 the failures are ignored.
    #[must_use]
    pub const fn on_overload(mut self, factor: f64) -> Self {
        self.on_overload = factor;
        self
    }
}

impl AdaptiveLimit for Gradient2 {
    fn limit(&self) -> u64 {
        self.limit as u64
    }

    fn update(&mut self, sample: Sample) {
        if sample.is_overload && self.on_overload < 1.0 {
            self.limit = self.range.clamp(self.limit * self.on_overload);
            return;
        }
        if sample.rtt.is_zero() {
            return; // nothing is known of it
        }
        let now = sample.rtt.as_nanos() as f64;
        self.long.add(now);
        let long = self.long.value();
        if long / now > 2.0 {
            self.long.scale(CATCH_UP);
        }
        if (sample.in_flight as f64) < self.limit / 2.0 {
            return;
        }
        let gradient = (self.tolerance * long / now).clamp(0.5, 1.0);
        let next = self.limit * gradient + self.queue as f64;
        self.limit = self.range.clamp(self.limit * (1.0 - self.smoothing) + next * self.smoothing);
    }

    fn check(&self) -> Result<(), SettingError> {
        self.range.check()?;
        let Self { smoothing, tolerance, on_overload, queue, long_window, .. } = *self;
        expect(smoothing > 0.0 && smoothing <= 1.0, "smoothing", smoothing, "above 0, up to 1")?;
        expect(tolerance >= 1.0 && tolerance.is_finite(), "tolerance", tolerance, "1 or more")?;
        expect(on_overload > 0.0 && on_overload <= 1.0, "on_overload", on_overload, "above 0, up to 1")?;
        expect(queue <= MOST, "queue", queue as f64, "up to 1,000,000,000")?;
        expect(long_window > 0, "long_window", f64::from(long_window), "1 or more")
    }
}
