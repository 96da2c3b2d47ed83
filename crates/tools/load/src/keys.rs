//! The key of each request: numbers below a bound, drawn uniformly or by Zipf's law, from a seed.
//!
//! Not here: how a number is written into a request ([`request`](crate::request)).

use std::str::FromStr;

/// Distribution of requests over keys.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Distribution {
    /// Every key equally often.
    #[default]
    Uniform,
    /// The key of rank k in proportion to k to the power of minus this exponent (above 0).
    Zipf(f64),
}

/// Not a distribution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no distribution: write uniform, or zipf:0.99 with an exponent above 0 and up to 10")]
pub struct BadDistribution(String);

impl FromStr for Distribution {
    type Err = BadDistribution;

    fn from_str(given: &str) -> Result<Self, BadDistribution> {
        let exponent = match given {
            "uniform" => return Ok(Self::Uniform),
            "zipf" => "0.99",
            _ => given.strip_prefix("zipf:").unwrap_or(""),
        };
        match exponent.parse() {
            Ok(exponent) if exponent > 0.0 && exponent <= 10.0 => Ok(Self::Zipf(exponent)),
            _ => Err(BadDistribution(given.to_owned())),
        }
    }
}

impl std::fmt::Display for Distribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uniform => write!(f, "uniform"),
            Self::Zipf(exponent) => write!(f, "zipf:{exponent}"),
        }
    }
}

/// A stream of key numbers. The same seed gives the same stream.
///
/// # Example
/// ```
/// # use tollgate_load::{Distribution, Keys};
/// let mut keys = Keys::new(10, Distribution::Zipf(0.99), 7);
/// assert!(keys.draw() < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Keys {
    state: u64,
    count: u64,
    zipf: Option<Zipf>,
}

impl Keys {
    /// Numbers below `count`; a `count` of 0 is one of 1.
    #[must_use]
    pub fn new(count: u64, distribution: Distribution, seed: u64) -> Self {
        let count = count.max(1);
        let zipf = match distribution {
            Distribution::Uniform => None,
            Distribution::Zipf(exponent) => Some(Zipf::new(count, exponent)),
        };
        Self { state: seed, count, zipf }
    }

    /// The next number. With Zipf's law 0 is the most frequent, then 1, and so on.
    pub fn draw(&mut self) -> u64 {
        let Some(zipf) = self.zipf else {
            // The high half of a product is below `count`, and even to one part in 2^64 / count.
            return ((u128::from(self.bits()) * u128::from(self.count)) >> 64) as u64;
        };
        loop {
            let unit = (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64);
            if let Some(rank) = zipf.rank(unit) {
                return rank - 1;
            }
        }
    }

    /// 64 random bits: a counter with odd step, mixed (splitmix64).
    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }
}

/// Zipf's law, exactly and without a table, by rejection (Hörmann and Derflinger, 1996).
///
/// A point is drawn under the continuous curve x^-s between a half and count + a half, by inverting its
/// integral, and rounded to a rank. Bars of width 1 about each rank cover the curve, so a rank is accepted
/// when the point falls into its bar; the curve's part above a bar is what gets rejected, which is rare.
#[derive(Clone, Copy, Debug)]
struct Zipf {
    exponent: f64,
    count: f64,
    /// Bounds of the integral between which points are drawn.
    from: f64,
    to: f64,
    /// Points at most this far below their rank are in its bar, whatever the rank.
    near: f64,
}

impl Zipf {
    fn new(count: u64, exponent: f64) -> Self {
        let mut zipf = Self { exponent, count: count as f64, from: 0.0, to: 0.0, near: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(zipf.count + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.height(2.0));
        zipf
    }

    /// The rank for a number from 0 up to 1; `None` when another has to be drawn.
    fn rank(&self, unit: f64) -> Option<u64> {
        let area = self.to + unit * (self.from - self.to);
        let x = self.inverse(area);
        let rank = x.round().clamp(1.0, self.count);
        let is_in_bar = rank - x <= self.near || area >= self.integral(rank + 0.5) - self.height(rank);
        is_in_bar.then_some(rank as u64)
    }

    fn height(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the height from 1 to `x`. Written with `exp_m1` so that exponents near 1, and 1
    /// itself, are exact.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = 1.0 - self.exponent;
        if (power * log).abs() < 1e-12 { log } else { (power * log).exp_m1() / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        let scaled = (area * power).max(-1.0);
        if scaled.abs() < 1e-12 { area.exp() } else { (scaled.ln_1p() / power).exp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-squared of what was drawn against what theory expects.
    fn chi_squared(counts: &[u64], weights: &[f64]) -> f64 {
        let drawn = counts.iter().sum::<u64>() as f64;
        let weight = weights.iter().sum::<f64>();
        let term = |(&count, &weight_of): (&u64, &f64)| {
            let expected = drawn * weight_of / weight;
            (count as f64 - expected).powi(2) / expected
        };
        counts.iter().zip(weights).map(term).sum()
    }

    #[test]
    fn keys_are_drawn_as_often_as_theory_says() {
        for distribution in [
            Distribution::Uniform,
            Distribution::Zipf(0.5),
            Distribution::Zipf(0.99),
            Distribution::Zipf(1.0),
            Distribution::Zipf(2.5),
        ] {
            for count in [1_usize, 2, 3, 100] {
                let mut keys = Keys::new(count as u64, distribution, 42);
                let mut counts = vec![0; count];
                (0..200_000).for_each(|_| counts[keys.draw() as usize] += 1);
                let exponent = if let Distribution::Zipf(exponent) = distribution { exponent } else { 0.0 };
                let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect();
                // 99.9 % of fair draws stay below 148 with 99 degrees of freedom; the seed is fixed.
                let found = chi_squared(&counts, &weights);
                assert!(found < 148.0, "{distribution} of {count}: {found}");
            }
        }
    }

    #[test]
    fn the_head_of_ten_million_keys_has_its_share() {
        let count = 10_000_000_u64;
        let exponent = 0.99;
        let mut keys = Keys::new(count, Distribution::Zipf(exponent), 1);
        let draws = 1_000_000;
        let head = (0..draws).filter(|_| keys.draw() < 100).count() as f64 / f64::from(draws);
        let sum = |ranks: std::ops::RangeInclusive<u64>| {
            ranks.map(|rank| (rank as f64).powf(-exponent)).sum::<f64>()
        };
        let want = sum(1..=100) / sum(1..=count);
        assert!((head - want).abs() < 0.002, "{head} instead of {want}");
    }

    #[test]
    fn one_seed_gives_one_stream_and_another_another() {
        let draw = |seed| {
            let mut keys = Keys::new(1 << 40, Distribution::Uniform, seed);
            [keys.draw(), keys.draw(), keys.draw()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn distributions_are_read_as_they_are_written() {
        for (given, want) in [
            ("uniform", Some(Distribution::Uniform)),
            ("zipf", Some(Distribution::Zipf(0.99))),
            ("zipf:1.2", Some(Distribution::Zipf(1.2))),
            ("zipf:0", None),
            ("zipf:nan", None),
            ("zipf:-1", None),
            ("normal", None),
        ] {
            assert_eq!(given.parse().ok(), want, "{given}");
        }
    }
}
