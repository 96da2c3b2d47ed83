//! A limit by the length of the queue that latency shows. Reads no clock.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use super::limit::{AdaptiveLimit, Bounded, MOST, Sample, SettingError, expect, expect_share, setters};

/// The whole part of the decimal logarithm of `limit`, and at least 1: the unit in which [`Vegas`] changes.
#[must_use]
pub fn log10_of(limit: u64) -> u64 {
    limit.checked_ilog10().map_or(1, |digits| u64::from(digits.max(1)))
}

/// Way in which [`Vegas`] lowers its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Decrease {
    /// By the [logarithm](log10_of) of the limit.
    Log,
    /// To this fraction of the limit: above 0, below 1.
    To(f64),
}

/// Estimates how many calls wait behind the service, as `limit · (1 - shortest / latency)`, and holds that
/// queue short but not empty.
///
/// With `lg` the [logarithm](log10_of) of the limit: with up to `lg` calls waiting it adds `6 lg`; with fewer
/// than `alpha` it adds `lg`; with more than `beta` it subtracts `lg`, as after a failure for overload. It
/// changes nothing while less than half of the limit is in use. A new shortest latency is only noted. So is
/// one sample in about 30 times the limit: so the shortest latency is measured again and again, at times that
/// differ between the nodes of a fleet.
///
/// | setting | default |
/// |---|---|
/// | [`initial`](Self::initial), [`max`](Self::max) | 20, 1,000 |
/// | [`alpha`](Self::alpha), [`beta`](Self::beta) | `3 lg`, `6 lg` |
/// | [`decrease`](Self::decrease) | by `lg` |
/// | [`smoothing`](Self::smoothing) | 1 |
/// | [`probe_every`](Self::probe_every) | 30 |
///
/// A failure for overload always lowers the limit, and its latency is never taken for the shortest: calls
/// that are shed are fast.
#[derive(Clone, Debug, PartialEq)]
pub struct Vegas {
    bounded: Bounded,
    alpha: Option<u64>,
    beta: Option<u64>,
    decrease: Decrease,
    smoothing: f64,
    probe_every: u32,
    seed: u64,
    /// A number in 0.5 ..= 1, drawn anew after each probe.
    jitter: f64,
    since_probe: u64,
    shortest: Duration,
}

impl Default for Vegas {
    fn default() -> Self {
        Self {
            bounded: Bounded::new(20, 1, 1_000),
            alpha: None,
            beta: None,
            decrease: Decrease::Log,
            smoothing: 1.0,
            probe_every: 30,
            seed: 0,
            jitter: 0.0,
            since_probe: 0,
            shortest: Duration::ZERO,
        }
        .seed(RandomState::new().hash_one(0_u64))
    }
}

impl Vegas {
    setters!(initial, max, smoothing);

    /// A queue shorter than this lets the limit grow; 3 times the logarithm of the limit if nothing is set.
    #[must_use]
    pub const fn alpha(mut self, waiting: u64) -> Self {
        self.alpha = Some(waiting);
        self
    }

    /// A queue longer than this lowers the limit, and an empty one raises it by as much; 6 times the
    /// logarithm of the limit if nothing is set. Up to 1,000,000,000.
    #[must_use]
    pub const fn beta(mut self, waiting: u64) -> Self {
        self.beta = Some(waiting);
        self
    }

    /// Sets the way in which the limit is lowered.
    #[must_use]
    pub const fn decrease(mut self, decrease: Decrease) -> Self {
        self.decrease = decrease;
        self
    }

    /// Sets the interval of probes, which measure the shortest latency anew, as a multiple of the limit: a
    /// probe comes after half to all of that number of samples. 0: never.
    #[must_use]
    pub const fn probe_every(mut self, limits: u32) -> Self {
        self.probe_every = limits;
        self
    }

    /// Makes the times of probes repeatable; random if nothing is set.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self.draw();
        self
    }

    /// The next jitter (splitmix64).
    fn draw(&mut self) {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = (mixed ^ (mixed >> 31)) >> 11; // 53 bits
        self.jitter = 0.5 + mixed as f64 / (1_u64 << 53) as f64 / 2.0;
    }

    fn is_probe_due(&self) -> bool {
        let every = f64::from(self.probe_every) * self.jitter * self.bounded.limit;
        self.probe_every > 0 && self.since_probe as f64 >= every
    }

    fn lowered(&self) -> f64 {
        match self.decrease {
            Decrease::Log => self.bounded.limit - log10_of(self.limit()) as f64,
            Decrease::To(part) => self.bounded.limit * part,
        }
    }

    /// The limit that the estimated queue suggests; `None` where the limit is right.
    fn by_queue(&self, rtt: Duration) -> Option<f64> {
        let share = self.shortest.as_nanos() as f64 / rtt.as_nanos() as f64;
        let queue = (self.bounded.limit * (1.0 - share)).ceil();
        let log = log10_of(self.limit());
        let alpha = self.alpha.unwrap_or(3 * log) as f64;
        let beta = self.beta.unwrap_or(6 * log) as f64;
        let log = log as f64;
        if queue <= log {
            Some(self.bounded.limit + beta)
        } else if queue < alpha {
            Some(self.bounded.limit + log)
        } else if queue > beta {
            Some(self.lowered())
        } else {
            None
        }
    }
}

impl AdaptiveLimit for Vegas {
    fn limit(&self) -> u64 {
        self.bounded.now()
    }

    fn update(&mut self, sample: Sample) {
        self.since_probe = self.since_probe.saturating_add(1);
        let next = if sample.is_overload {
            Some(self.lowered())
        } else if sample.rtt.is_zero() {
            return; // nothing is known of it
        } else if self.is_probe_due() {
            self.draw();
            self.since_probe = 0;
            self.shortest = sample.rtt;
            return;
        } else if self.shortest.is_zero() || sample.rtt < self.shortest {
            self.shortest = sample.rtt;
            return;
        } else if (sample.in_flight as f64) * 2.0 < self.bounded.limit {
            return;
        } else {
            self.by_queue(sample.rtt)
        };
        let Some(next) = next else { return };
        self.bounded.approach(next, self.smoothing);
    }

    fn check(&self) -> Result<(), SettingError> {
        self.bounded.check()?;
        expect_share("smoothing", self.smoothing)?;
        let beta = self.beta.unwrap_or_default();
        expect(beta <= MOST, "beta", beta as f64, "up to 1,000,000,000")?;
        if let Decrease::To(part) = self.decrease {
            expect(part > 0.0 && part < 1.0, "decrease", part, "above 0 and below 1")?;
        }
        Ok(())
    }
}
