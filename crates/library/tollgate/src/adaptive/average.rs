//! An exponential average that begins as a plain mean. Reads no clock.

/// The plain mean of the first values, then an exponential average in which the newest value has the weight
/// 2 / (window + 1).
///
/// # Example
/// ```
/// use tollgate::adaptive::Average;
///
/// let mut average = Average::new(100, 10);
/// (10..20).for_each(|value| average.add(f64::from(value)));
/// assert_eq!(average.value(), 14.5);
/// average.add(100.0);
/// assert!((average.value() - 16.2).abs() < 0.1);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Average {
    window: u32,
    warm_up: u32,
    seen: u32,
    /// Sum of the first values, up to `warm_up` of them.
    sum: f64,
    value: f64,
}

impl Average {
    /// An average over about `window` values, of which the first `warm_up` count alike.
    #[must_use]
    pub const fn new(window: u32, warm_up: u32) -> Self {
        Self { window, warm_up, seen: 0, sum: 0.0, value: 0.0 }
    }

    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        if self.seen < self.warm_up.max(1) {
            self.seen += 1;
            self.sum += value;
            self.value = self.sum / f64::from(self.seen);
        } else {
            self.value += (value - self.value) * 2.0 / (f64::from(self.window) + 1.0);
        }
    }

    /// Multiplies the average by `factor`; among the first values only until the next one.
    pub fn scale(&mut self, factor: f64) {
        self.value *= factor;
    }

    /// The average; 0 before the first value.
    #[must_use]
    pub const fn value(&self) -> f64 {
        self.value
    }
}
