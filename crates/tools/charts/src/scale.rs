//! Ticks at round numbers, and numbers as people read them.

use crate::chart::{Range, Unit};

/// Round numbers within the range, about as many as are wanted. For seconds, the steps are round durations.
pub(crate) fn ticks(range: Range, about: usize, unit: Unit) -> Vec<f64> {
    let span = range.high - range.low;
    let rough = span / about.max(1) as f64;
    if !(rough.is_finite() && rough > 0.0) {
        return vec![range.low];
    }
    let step = step(rough, unit);
    let first = (range.low / step).ceil() as i64;
    let ticks = (first..).map(|nth| nth as f64 * step);
    ticks.take_while(|tick| *tick <= range.high + step * 1e-6).take(50).collect()
}

fn step(rough: f64, unit: Unit) -> f64 {
    const DURATIONS: [f64; 12] =
        [2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1_800.0, 3_600.0, 21_600.0, 86_400.0, 604_800.0];
    if unit == Unit::Seconds && rough > 1.0 {
        return DURATIONS.into_iter().find(|step| *step >= rough).unwrap_or_else(|| decimal(rough));
    }
    decimal(rough)
}

fn decimal(rough: f64) -> f64 {
    let power = 10.0_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

/// A number as people read it: `1.5 k`, `20 ms`, `5 min`.
///
/// # Example
/// ```
/// # use tollgate_charts::{Unit, label};
/// assert_eq!(label(1_500.0, Unit::Number), "1.5 k");
/// assert_eq!(label(0.02, Unit::Seconds), "20 ms");
/// assert_eq!(label(5_400.0, Unit::Seconds), "1.5 h");
/// ```
#[must_use]
pub fn label(value: f64, unit: Unit) -> String {
    /// Smallest value of this size, its divisor, and its name.
    type Size = (f64, f64, &'static str);
    const NUMBERS: [Size; 4] = [(1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e3, 1e3, " k"), (0.0, 1.0, "")];
    const SECONDS: [Size; 7] = [
        (172_800.0, 86_400.0, " d"),
        (3_600.0, 3_600.0, " h"),
        (60.0, 60.0, " min"),
        (1.0, 1.0, " s"),
        (1e-3, 1e-3, " ms"),
        (1e-6, 1e-6, " µs"),
        (0.0, 1.0, " s"),
    ];
    let sizes: &[Size] = match unit {
        Unit::Number => &NUMBERS,
        Unit::Seconds => &SECONDS,
    };
    let size = value.abs() * 1.000_001;
    let found = sizes.iter().find(|(from, ..)| size >= *from).copied();
    let (_, divisor, name) = found.unwrap_or((0.0, 1.0, ""));
    format!("{}{name}", short(value / divisor))
}

/// Three digits at most, without zeros at the end.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    if !text.contains('.') {
        return text;
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_range() {
        let of = |high, unit| ticks(Range { low: 0.0, high }, 5, unit);
        assert_eq!(of(1.0, Unit::Number), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(of(97.0, Unit::Number), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(of(86_400.0, Unit::Seconds), [0.0, 21_600.0, 43_200.0, 64_800.0, 86_400.0]);
        assert_eq!(of(180.0, Unit::Seconds), [0.0, 60.0, 120.0, 180.0]);
        assert_eq!(of(f64::INFINITY, Unit::Number), [0.0]);
        assert_eq!(ticks(Range { low: -4.0, high: 4.0 }, 4, Unit::Number), [-4.0, -2.0, 0.0, 2.0, 4.0]);
    }

    #[test]
    fn numbers_are_short() {
        for (value, want) in [
            (0.0, "0"),
            (-0.001, "0"),
            (999.0, "999"),
            (1_000.0, "1 k"),
            (1_234_567.0, "1.23 M"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(label(value, Unit::Number), want);
        }
        for (value, want) in [(0.0, "0 s"), (90.0, "1.5 min"), (259_200.0, "3 d"), (86_400.0, "24 h")] {
            assert_eq!(label(value, Unit::Seconds), want);
        }
    }
}
