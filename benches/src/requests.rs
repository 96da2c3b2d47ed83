//! The keys that a run asks for: 20-byte strings, drawn uniformly or by Zipf's law, the same for every
//! contender.
//!
//! Written out before the clock starts and read in order, so that a pass measures the decision and not the
//! dice.

use std::fmt::Write as _;

/// The distribution of requests over keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Spread {
    /// Every key alike.
    Uniform,
    /// The k-th key in proportion to 1/k^0.99.
    Zipf,
}

/// One pass worth of keys, kept so that their memory is used again.
pub(crate) struct Requests {
    keys: Vec<String>,
    dice: Dice,
    zipf: Option<Zipf>,
    population: u64,
}

impl Requests {
    /// `count` requests over `population` keys. Each thread has its own `seed`.
    pub(crate) fn new(count: usize, population: u64, spread: Spread, seed: u64) -> Self {
        let zipf = (spread == Spread::Zipf).then(|| Zipf::new(population, 0.99));
        let mut requests = Self { keys: vec![String::new(); count], dice: Dice::new(seed), zipf, population };
        requests.draw();
        requests
    }

    /// Draws the next pass.
    pub(crate) fn draw(&mut self) {
        for text in &mut self.keys {
            let id = match &self.zipf {
                Some(zipf) => zipf.rank(self.dice.fraction()),
                None => self.dice.below(self.population),
            };
            write_key(text, id);
        }
    }

    pub(crate) fn keys(&self) -> &[String] {
        &self.keys
    }
}

/// Writes the name of the `id`-th key into `text`: 20 bytes.
pub(crate) fn write_key(text: &mut String, id: u64) {
    text.clear();
    // Writing to a string cannot fail.
    let _ = write!(text, "user:{id:015}");
}

/// SplitMix64: small, and the same on every machine.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 to just below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// In [0, 1).
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Ranks by Zipf's law in constant time a draw (Gray et al., "Quickly generating billion-record synthetic
/// databases").
struct Zipf {
    population: f64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    fn new(population: u64, theta: f64) -> Self {
        let zeta_to = |n: u64| (1..=n).map(|k| (k as f64).powf(-theta)).sum::<f64>();
        let zeta = zeta_to(population);
        let n = population as f64;
        let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - zeta_to(2) / zeta);
        Self { population: n, theta, alpha: 1.0 / (1.0 - theta), zeta, eta }
    }

    fn rank(&self, fraction: f64) -> u64 {
        let scaled = fraction * self.zeta;
        if scaled < 1.0 {
            0
        } else if scaled < 1.0 + 0.5_f64.powf(self.theta) {
            1
        } else {
            let rank = self.population * (self.eta * fraction - self.eta + 1.0).powf(self.alpha);
            (rank as u64).min(self.population as u64 - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_20_bytes_and_within_the_population() {
        for spread in [Spread::Uniform, Spread::Zipf] {
            let requests = Requests::new(1_000, 10, spread, 1);
            for key in requests.keys() {
                assert_eq!(key.len(), 20);
                assert!(key.as_str() < "user:000000000000010", "{key}");
            }
        }
    }

    #[test]
    fn zipf_asks_for_the_first_key_as_often_as_the_law_says() {
        let requests = Requests::new(200_000, 1_000, Spread::Zipf, 7);
        let first = requests.keys().iter().filter(|key| key.ends_with(":000000000000000")).count();
        // 1 / sum of k^-0.99 up to 1,000 is 0.1294.
        assert!((25_000..27_000).contains(&first), "{first} of 200,000");
    }
}
