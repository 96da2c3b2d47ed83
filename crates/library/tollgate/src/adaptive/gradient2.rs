//! A limit that follows the ratio of the long-term latency to the present one. Reads no clock.

use super::average::Average;
use super::limit::{AdaptiveLimit, Bounded, MOST, Sample, SettingError, expect, expect_share, setters};

/// Number of first samples that the long average counts alike.
const WARM_UP: u32 = 10;
/// A long average of more than twice the latency now is out of date, and shrinks by this factor.
const CATCH_UP: f64 = 0.95;

/// The whole part of the square root of `limit`, and at least 4: a queue that grows with the limit.
#[must_use]
pub fn root_of(limit: u64) -> u64 {
    limit.isqrt().max(4)
}

/// Number of calls that may wait behind the service.
#[derive(Clone, Copy, Debug, PartialEq)]
enum QueueSize {
    Of(u64),
    Root,
}

impl QueueSize {
    fn at(self, limit: u64) -> u64 {
        match self {
            Self::Of(queue) => queue,
            Self::Root => root_of(limit),
        }
    }
}

/// Shrinks while calls take longer than they did on average, and always leaves room for a short queue, so
/// that the limit grows again when they do not.
///
/// With `long` the average latency of 600 samples and `now` the latency of this sample, the limit moves a
/// fifth of the way to `limit · clamp(tolerance · long / now, 0.5, 1) + queue`. It holds while less than half
/// of the limit is in use.
///
/// | setting | default |
/// |---|---|
/// | [`initial`](Self::initial), [`min`](Self::min), [`max`](Self::max) | 20, 20, 200 |
/// | [`smoothing`](Self::smoothing) | 0.2 |
/// | [`queue`](Self::queue), [`queue_by_root`](Self::queue_by_root) | 4 |
/// | [`tolerance`](Self::tolerance) | 1.5 |
/// | [`long_window`](Self::long_window) | 600 |
/// | [`on_overload`](Self::on_overload) | 1: failures are ignored |
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient2 {
    bounded: Bounded,
    smoothing: f64,
    queue: QueueSize,
    tolerance: f64,
    on_overload: f64,
    long: Average,
    long_window: u32,
}

impl Default for Gradient2 {
    fn default() -> Self {
        Self {
            bounded: Bounded::new(20, 20, 200),
            smoothing: 0.2,
            queue: QueueSize::Of(4),
            tolerance: 1.5,
            on_overload: 1.0,
            long: Average::new(600, WARM_UP),
            long_window: 600,
        }
    }
}

impl Gradient2 {
    setters!(initial, min, max, smoothing);

    /// Sets the number of calls that may wait in a queue behind the service: up to 1,000,000,000.
    #[must_use]
    pub const fn queue(mut self, queue: u64) -> Self {
        self.queue = QueueSize::Of(queue);
        self
    }

    /// As many calls may wait in a queue behind the service as the [root](root_of) of the limit.
    #[must_use]
    pub const fn queue_by_root(mut self) -> Self {
        self.queue = QueueSize::Root;
        self
    }

    /// Sets the factor by which latency may grow before the limit shrinks: 1 or more.
    #[must_use]
    pub const fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Sets the number of samples of the long average; forgets earlier ones. At least 1.
    #[must_use]
    pub const fn long_window(mut self, samples: u32) -> Self {
        self.long_window = samples;
        self.long = Average::new(samples, WARM_UP);
        self
    }

    /// Sets the factor by which a failure for overload lowers the limit: above 0, up to 1. At 1 the failures
    /// are ignored.
    #[must_use]
    pub const fn on_overload(mut self, factor: f64) -> Self {
        self.on_overload = factor;
        self
    }
}

impl AdaptiveLimit for Gradient2 {
    fn limit(&self) -> u64 {
        self.bounded.now()
    }

    fn update(&mut self, sample: Sample) {
        if sample.is_overload && self.on_overload < 1.0 {
            self.bounded.approach(self.bounded.limit * self.on_overload, 1.0);
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
        if (sample.in_flight as f64) < self.bounded.limit / 2.0 {
            return;
        }
        let gradient = (self.tolerance * long / now).clamp(0.5, 1.0);
        let next = self.bounded.limit * gradient + self.queue.at(self.limit()) as f64;
        let next = self.bounded.limit * (1.0 - self.smoothing) + next * self.smoothing;
        self.bounded.approach(next, 1.0);
    }

    fn check(&self) -> Result<(), SettingError> {
        self.bounded.check()?;
        let Self { tolerance, long_window, .. } = *self;
        let queue = self.queue.at(1);
        expect_share("smoothing", self.smoothing)?;
        expect(tolerance >= 1.0 && tolerance.is_finite(), "tolerance", tolerance, "1 or more")?;
        expect_share("on_overload", self.on_overload)?;
        expect(queue <= MOST, "queue", queue as f64, "up to 1,000,000,000")?;
        expect(long_window > 0, "long_window", f64::from(long_window), "1 or more")
    }
}
