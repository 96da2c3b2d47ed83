//! The rate in a bucket's number: the interval of one permit in ns, in a few decimal digits.
//!
//! Not here: the instant behind these digits, which the [step](../../../src/lua/bucket.lua) reads and writes.

use crate::translate::arguments::Packed;

const NANOS_PER_MS: u64 = 1_000_000;
/// Lifetime of the key of a bucket that does not start full, after it is full: 30 days.
const KEPT_MS: u64 = 30 * 86_400_000;
/// Digits of an instant within a ms, in whole ns.
const WHOLE: u32 = 6;
/// The most digits of an exact instant. Rates with more units in a ns are counted in whole ns.
const MOST: u32 = 13;
/// Digits of the interval, of a number in whole ns: of 16 digits in all, so that a script holds it in one of
/// its own numbers.
const OF_WHOLE: u32 = 8;
/// Digits for the interval and the instant together, of any other number. It has 19.
const SHARED: u32 = 16;
/// The least exponent of an interval: 2^-27 ns is the shortest.
const LEAST: i32 = -9;

/// The form in which one rate writes its states.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    scale: u64,
    interval: u64,
    starts_partial: bool,
    /// The form that only this rate writes; `None`: whole ns too.
    own: Option<Code>,
    /// The form in whole ns. The interval is rounded up, and the instant is counted by it: never faster than
    /// the rate.
    whole: Code,
}

impl Form {
    pub(super) fn new(scale: u64, interval: u64, starts_partial: bool) -> Self {
        let whole = Code::new(scale, interval, WHOLE, true);
        let digits = WHOLE + digits_below(scale);
        let own = if digits == WHOLE && whole.is(scale, interval) {
            Some(whole)
        } else {
            // Rounded down: a reader never takes a debt for less.
            (digits <= MOST).then(|| Code::new(scale, interval, digits.max(WHOLE + 1), false))
        };
        Self { scale, interval, starts_partial, own, whole }
    }

    /// Units in a ms.
    pub(super) const fn per_ms(&self) -> u64 {
        self.scale * NANOS_PER_MS
    }

    /// Writes the arguments that the step gets of it. `owed`: by an unseen key. `keeps_instants`: whatever
    /// rate has written the key, its instant carries over.
    pub(super) fn pack(&self, packed: &mut Packed, owed: u128, keeps_instants: bool) {
        let (interval, step) = if keeps_instants {
            (0.0, 1.0 / self.scale as f64)
        } else {
            // A step of 1: whole ns are exact.
            let is_exact = self.own == Some(self.whole);
            (self.interval as f64, if is_exact { 1.0 } else { self.whole.step(self.interval) })
        };
        packed.number(interval).number(step).count(self.whole.mark());
        packed.limbs(owed, self.per_ms());
        match self.own {
            Some(own) => {
                let head = own.head();
                packed.0.extend([1_000, 100, 10, 1].map(|place| b'0' + (head / place % 10) as u8));
                packed.count(own.mark()).count(self.scale).count(10_u64.pow(own.digits - WHOLE))
            }
            None => {
                packed.0.extend([0; 4]);
                packed.count(0).count(self.scale).count(0)
            }
        };
        packed.count(if self.starts_partial { KEPT_MS } else { 0 });
    }
}

/// Digits that count up to `scale`.
const fn digits_below(scale: u64) -> u32 {
    if scale == 1 { 0 } else { (scale - 1).ilog10() + 1 }
}

/// An interval as digits: `mantissa · 10^(exponent + 1 - digits)` ns. The mantissa's first digit is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Code {
    exponent: i32,
    mantissa: u64,
    /// Digits of the instant that follows.
    digits: u32,
}

impl Code {
    /// The interval of `interval / scale` ns, before an instant with this many digits.
    fn new(scale: u64, interval: u64, digits: u32, up: bool) -> Self {
        let scale = u128::from(scale);
        let interval = u128::from(interval);
        let top = 10_u128.pow(places(digits));
        let power = |of: i32| 10_u128.pow(of.unsigned_abs());
        // Within one of the right one: numbers of i and s digits have a quotient of i - s or i - s + 1.
        let mut exponent = (interval.ilog10() as i32 - scale.ilog10() as i32).max(LEAST);
        if interval * power(exponent.min(0)) < scale * power(exponent.max(0)) {
            exponent -= 1;
        }
        let shift = places(digits) as i32 - 1 - exponent;
        let over = interval * power(shift.max(0));
        let under = scale * power(shift.min(0));
        let mantissa = if up { over.div_ceil(under) } else { over / under };
        if mantissa == top {
            return Self { exponent: exponent + 1, mantissa: (top / 10) as u64, digits };
        }
        Self { exponent, mantissa: mantissa as u64, digits }
    }

    const fn places(&self) -> u32 {
        places(self.digits)
    }

    const fn shift(&self) -> i32 {
        self.places() as i32 - 1 - self.exponent
    }

    /// True when nothing was rounded.
    fn is(&self, scale: u64, interval: u64) -> bool {
        let power = |of: i32| 10_u128.pow(of.unsigned_abs());
        let coded = u128::from(self.mantissa) * u128::from(scale) * power(self.shift().min(0));
        coded == u128::from(interval) * power(self.shift().max(0))
    }

    /// The ns of this interval per unit, for an interval of this many units.
    fn step(&self, interval: u64) -> f64 {
        self.mantissa as f64 / 10_f64.powi(self.shift()) / interval as f64
    }

    /// The first four digits: exponent, and two of the mantissa.
    const fn head(&self) -> u64 {
        self.exponent_digits() * 100 + self.mantissa / 10_u64.pow(self.places() - 2)
    }

    /// 10 and more, so that a number does not begin with 0.
    const fn exponent_digits(&self) -> u64 {
        (10 + self.exponent - LEAST) as u64
    }

    /// All digits with an instant of 0; or, where that is more than a script's number holds, those behind the
    /// head: the number of digits of the instant, less 5, and the rest of the mantissa. (Its first digit is
    /// not 0, so these are a number too.)
    const fn mark(&self) -> u64 {
        if self.digits == WHOLE {
            return (self.exponent_digits() * 10_u64.pow(OF_WHOLE) + self.mantissa) * 10_u64.pow(WHOLE);
        }
        let rest = self.mantissa % 10_u64.pow(self.places() - 2);
        (self.digits as u64 - 5) * 100_000_000_000_000 + rest * 10_u64.pow(self.digits)
    }
}

/// Digits of the interval before an instant with this many digits.
const fn places(digits: u32) -> u32 {
    if digits == WHOLE { OF_WHOLE } else { SHARED - digits }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Law: the digits give the interval to one part in as many as their mantissa has, rounded to the
        /// right side.
        #[test]
        fn an_interval_is_told_to_its_digits(
            scale in 1_u64..1 << 27, small in 0_u32..27, interval in 1_u64..1 << 60, short in 0_u32..60, digits in 6_u32..=13,
        ) {
            let scale = (scale >> small).max(1);
            let interval = (interval >> short).max(1);
            for up in [false, true] {
                let code = Code::new(scale, interval, digits, up);
                let places = places(digits);
                prop_assert!((10_u64.pow(places - 1)..10_u64.pow(places)).contains(&code.mantissa), "{code:?}");
                prop_assert!((LEAST..=18).contains(&code.exponent), "{code:?}");
                let power = |of: i32| 10_u128.pow(of.unsigned_abs());
                let shift = code.shift();
                let mantissa = u128::from(code.mantissa);
                let is = u128::from(interval) * power(shift.max(0));
                let of = u128::from(scale) * power(shift.min(0));
                let (low, high) = if up { ((mantissa - 1) * of, mantissa * of) } else { (mantissa * of, (mantissa + 1) * of) };
                let is_within = if up { low < is && is <= high } else { low <= is && is < high };
                prop_assert!(is_within, "{code:?} of {interval}/{scale}");
                prop_assert_eq!(code.is(scale, interval), mantissa * of == is);
            }
        }

        /// Law: a number has 16 digits, or 19, and then 15 behind the head, for any instant.
        #[test]
        fn every_number_has_sixteen_or_nineteen_digits(
            scale in 1_u64..1 << 27, small in 0_u32..27, interval in 1_u64..1 << 60, short in 0_u32..60,
        ) {
            let form = Form::new((scale >> small).max(1), (interval >> short).max(1), false);
            for code in form.own.into_iter().chain([form.whole]) {
                prop_assert!((1_000..4_000).contains(&code.head()), "{code:?}");
                for instant in [0, 10_u64.pow(code.digits) - 1] {
                    let number = code.mark() + instant;
                    if code.digits == WHOLE {
                        prop_assert_eq!(number.to_string().len(), 16);
                        prop_assert!(number < 1 << 53);
                        prop_assert_eq!(number / 1_000_000_000_000, code.head());
                    } else {
                        let number = format!("{}{number}", code.head());
                        prop_assert_eq!(number.len(), 19);
                        prop_assert!(number.parse::<i64>().is_ok(), "{number}");
                    }
                }
            }
            if let Some(own) = form.own {
                prop_assert!(10_u64.pow(own.digits - WHOLE) >= form.scale, "{own:?}");
            } else {
                prop_assert!(form.scale > 10_000_000);
            }
        }

        /// Law: two rates that write the same digits differ by less than a step of the digits.
        #[test]
        fn rates_of_the_same_digits_are_as_good_as_one(
            scale in 1_u64..10_000_000, interval in 1_u64..1 << 50, other in 1_u64..10_000_000, nearly in 0_u64..2_000,
        ) {
            // A rate that is near: nearly the same number of units in a ns, and nearly the same interval.
            let near = (u128::from(interval) * u128::from(other) / u128::from(scale)) as u64;
            prop_assume!(near < 1 << 58);
            let near = near.saturating_add(nearly).max(1);
            let [a, b] = [(scale, interval), (other, near)].map(|(scale, interval)| Form::new(scale, interval, false));
            let (Some(a_own), Some(b_own)) = (a.own, b.own) else { return Ok(()) };
            if a_own == b_own {
                let [long, long_other] = [(interval, other), (near, scale)].map(|(a, b)| u128::from(a) * u128::from(b));
                let apart = long.abs_diff(long_other) * 10_u128.pow(a_own.places() - 1);
                prop_assert!(apart <= long.max(long_other), "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn known_rates_are_told_so() {
        let second = 1_000_000_000;
        for (scale, interval, head, mark) in [
            (1, second, 2810, 2_810_000_000_000_000_u64),      // 1 a second
            (1, second / 10, 2710, 2_710_000_000_000_000),     // 10
            (1, 86_400 * second, 3286, 3_286_400_000_000_000), // 1 a day
            (3, second, 2733, 233_333_330_000_000),            // 3 a second: 333,333,333 ns and a third
            (999_983, 86_400 * second, 2686, 740_000_000_000_000), // 999,983 a day: 86.4 ms
            (1_000_003, second, 2199, 890_000_000_000_000),    // 999.997 ns
            (1, 12_345_678_901, 2912, 234_567_890_000_000),    // of more digits than whole ns have
        ] {
            let own = Form::new(scale, interval, false).own.expect("exact");
            assert_eq!((own.head(), own.mark()), (head, mark), "{interval}/{scale}: {own:?}");
        }
        assert!(Form::new(12_345_677, second, false).own.is_none(), "in whole ns");
    }
}
