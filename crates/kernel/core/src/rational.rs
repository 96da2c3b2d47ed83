//! Time in units that make a permit's interval a whole number.
//!
//! A rate of L permits per P nanoseconds has the interval T = P/L, which is rarely whole. Counting time in
//! units of 1/`scale` ns with `scale` = L/gcd(L, P) makes T exactly `interval` = P/gcd(L, P) units, so that
//! GCRA needs only whole numbers and never drifts. Units are kept modulo 2^60: what matters is the distance
//! between two instants, and [`Expiry`](crate::Expiry) distinguishes old states from young ones.

use crate::time::NANOS_PER_SECOND;

/// The longest span in units that is counted in 64 bits. Six seconds are shorter, so that an instant known to
/// a few seconds is never mistaken for another.
pub(crate) const MAX_UNITS: u64 = 1 << 60;

/// The longest time that a bucket may take to fill, where its units are more than [`MAX_UNITS`]: thirty years
/// in ns. (Of smaller buckets, those units are at least as many.)
const LONGEST_FILL_NS: u128 = 30 * 365 * 86_400 * NANOS_PER_SECOND as u128;

/// The most units in a nanosecond: six seconds' worth of them stay below [`MAX_UNITS`].
const MAX_SCALE: u64 = 1 << 27;

/// The same for very many permits, where it is enough: a store keeps the digits of such units.
const SCALE_OF_MANY: u64 = 10_000_000;

/// The least units in an interval that is not exact: rounding it up is then less than 1 ppm.
const MIN_ROUNDED_INTERVAL: u64 = 1_000_000;

/// Bits of a [fraction](Units::fraction_of) below a nanosecond: finer than any unit, so that a unit that is
/// written as a fraction is read as itself, and 30 bits are left for the nanoseconds of a second.
const FRACTION_BITS: u32 = 34;

/// The units in which one quota counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Units {
    /// Units in a nanosecond, at least 1.
    scale: Divisor,
    /// Units in the interval of one permit, at least 1.
    interval: Divisor,
    /// Units in a second.
    second: Divisor,
}

impl Units {
    /// Units for `limit` permits per `period_ns`. Up to `capacity` permits' worth of time stays below
    /// [`MAX_UNITS`] if units of that size are exact, or the interval is then rounded up by less than 1 ppm,
    /// so that the rate is never above the requested one. Otherwise, for very many permits, the units are
    /// exact or as fine as possible, also above [`MAX_UNITS`]. `None` for a rate or a span beyond all that.
    pub(crate) fn new(limit: u64, period_ns: u64, capacity: u64) -> Option<Self> {
        let divisor = gcd(limit as u128, period_ns as u128) as u64;
        let scale = limit / divisor;
        let interval = period_ns / divisor;
        let capacity = u128::from(capacity.max(1));
        if u128::from(interval) * capacity <= u128::from(MAX_UNITS) && scale <= MAX_SCALE {
            return Some(Self::of(scale, interval));
        }
        // capacity × interval ≤ MAX_UNITS with interval = scale × period / limit, rounded up.
        let room = (u128::from(MAX_UNITS) / capacity).saturating_sub(1);
        let scale = (room * u128::from(limit) / u128::from(period_ns)).min(u128::from(MAX_SCALE)) as u64;
        let interval = (u128::from(scale) * u128::from(period_ns)).div_ceil(u128::from(limit)) as u64;
        if scale > 0 && interval >= MIN_ROUNDED_INTERVAL {
            return Some(Self::of(scale, interval));
        }
        Self::of_many(limit, period_ns, capacity)
    }

    /// The same for a capacity whose units are more than [`MAX_UNITS`].
    fn of_many(limit: u64, period_ns: u64, capacity: u128) -> Option<Self> {
        if capacity * u128::from(period_ns) / u128::from(limit) > LONGEST_FILL_NS {
            return None;
        }
        let divisor = gcd(limit as u128, period_ns as u128) as u64;
        let scale = limit / divisor;
        let interval = period_ns / divisor;
        if scale <= SCALE_OF_MANY {
            return Some(Self::of(scale, interval));
        }
        let rounded = |scale: u64| {
            let interval = (u128::from(scale) * u128::from(period_ns)).div_ceil(u128::from(limit));
            let interval = u64::try_from(interval).ok().filter(|interval| *interval <= 1 << 61)?;
            (interval >= MIN_ROUNDED_INTERVAL).then(|| Self::of(scale, interval))
        };
        rounded(SCALE_OF_MANY).or_else(|| rounded(MAX_SCALE))
    }

    pub(crate) const fn of(scale: u64, interval: u64) -> Self {
        Self {
            scale: Divisor::new(scale),
            interval: Divisor::new(interval),
            second: Divisor::new(scale * NANOS_PER_SECOND),
        }
    }

    /// Units in a nanosecond.
    pub(crate) const fn scale(&self) -> u64 {
        self.scale.by
    }

    /// Units in the interval of one permit.
    pub(crate) const fn interval(&self) -> u64 {
        self.interval.by
    }

    /// Units in a second.
    pub(crate) const fn per_second(&self) -> u64 {
        self.second.by
    }

    /// Whole seconds in `units`, and the units that are left.
    #[inline]
    pub(crate) const fn seconds_in(&self, units: u64) -> (u64, u64) {
        let seconds = self.second.divide(units);
        (seconds, units - seconds * self.second.by)
    }

    /// `nanos` in units, modulo 2^64.
    #[inline(always)]
    pub(crate) const fn of_nanos(&self, nanos: u64) -> u64 {
        nanos.wrapping_mul(self.scale.by)
    }

    /// `permits` in units, for any number of permits.
    pub(crate) const fn of_any(&self, permits: u64) -> u128 {
        permits as u128 * self.interval.by as u128
    }

    /// Nanoseconds in `units`, rounded up; at most [`u64::MAX`].
    pub(crate) fn nanos_in_any(&self, units: u128) -> u64 {
        match u64::try_from(units) {
            Ok(units) if units <= 2 * MAX_UNITS => self.nanos_in(units),
            _ => u64::try_from(units.div_ceil(u128::from(self.scale.by))).unwrap_or(u64::MAX),
        }
    }

    /// Whole permits in `units`, rounded down; at most [`u64::MAX`].
    pub(crate) fn permits_in_any(&self, units: u128) -> u64 {
        match u64::try_from(units) {
            Ok(units) if units <= 2 * MAX_UNITS => self.permits_in(units),
            _ => u64::try_from(units / u128::from(self.interval.by)).unwrap_or(u64::MAX),
        }
    }

    /// Whole permits in `units`, rounded down.
    #[inline(always)]
    pub(crate) const fn permits_in(&self, units: u64) -> u64 {
        self.interval.divide(units)
    }

    /// Less than 2^30 ns of `units` as a binary fraction, rounded up: nanoseconds, and [`FRACTION_BITS`] bits
    /// below them. The fraction means the same at every rate.
    #[inline(never)]
    pub(crate) const fn fraction_of(&self, units: u64) -> u64 {
        let nanos = self.scale.divide(units);
        let rest = units - nanos * self.scale.by;
        (nanos << FRACTION_BITS) + self.scale.divide((rest << FRACTION_BITS) + (self.scale.by - 1))
    }

    /// A [fraction](Self::fraction_of) in units, rounded down.
    #[inline]
    pub(crate) const fn of_fraction(&self, fraction: u64) -> u64 {
        ((fraction as u128 * self.scale.by as u128) >> FRACTION_BITS) as u64
    }

    /// Nanoseconds in `units`, rounded up.
    #[inline(always)]
    pub(crate) const fn nanos_in(&self, units: u64) -> u64 {
        self.scale.divide(units + (self.scale.by - 1))
    }
}

/// A number to divide by, up to 2^61: a division of less than 2^62 becomes a multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Divisor {
    by: u64,
    /// 2^(63 + shift) / by, rounded up.
    inverse: u64,
    /// The least shift with by ≤ 2^(shift + 1): the rounding of the inverse is then too small to change a
    /// quotient.
    shift: u32,
}

impl Divisor {
    const fn new(by: u64) -> Self {
        let shift = (u64::BITS - (by - 1).leading_zeros()).saturating_sub(1);
        Self { by, inverse: (1_u128 << (63 + shift)).div_ceil(by as u128) as u64, shift }
    }

    #[inline(always)]
    const fn divide(&self, units: u64) -> u64 {
        // inverse × by is above 2^(63 + shift) by less than 2^(shift + 1), so 2 × units × inverse is above
        // 2^(64 + shift) × units / by by less than 2^(64 + shift) / by.
        (((units << 1) as u128 * self.inverse as u128) >> 64) as u64 >> self.shift
    }
}

pub(crate) const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn dividing_by_the_inverse_is_exact(units in 0..1_u64 << 62, by in 1_u64..=1 << 61, shift in 0_u32..62, near in 0_u64..3) {
            let by = (by >> shift).max(1);
            let divisor = Divisor::new(by);
            prop_assert_eq!(divisor.divide(units), units / by);
            // Around a multiple, where a rounding would show.
            let around = ((units / by).saturating_mul(by) + near).saturating_sub(1).min((1 << 62) - 1);
            prop_assert_eq!(divisor.divide(around), around / by);
        }

        #[test]
        fn a_fraction_is_read_as_the_units_that_it_was_written_for(
            scale in 1_u64..=MAX_SCALE, shift in 0_u32..27, within in 0..NANOS_PER_SECOND, rest in 0..MAX_SCALE,
            other in 1_u64..=MAX_SCALE,
        ) {
            let units = Units::of((scale >> shift).max(1), 1);
            let others = Units::of(other, 1);
            let span = within * units.scale() + rest % units.scale();
            let fraction = units.fraction_of(span);
            prop_assert_eq!(units.of_fraction(fraction), span);
            // Another rate reads it to one of its own units, and never as more. (What is written is rounded
            // up by less than 2^-34 ns, a 128th of the smallest unit.)
            let read = u128::from(others.of_fraction(fraction)) * u128::from(units.scale());
            let is = u128::from(span) * u128::from(others.scale());
            prop_assert!(read <= is + u128::from(units.scale()) / 128, "{} and {}", read, is);
            prop_assert!(is < read + u128::from(units.scale()), "{} and {}", read, is);
        }

        #[test]
        fn a_rate_is_exact_to_one_ppm_and_never_too_fast(
            limit in 1_u64..=1_000_000_000,
            period_ns in 1_u64..=(365 * 86_400 * NANOS_PER_SECOND),
            burst in 1_u64..=u64::from(u32::MAX),
        ) {
            prop_assume!(limit <= period_ns); // up to 10^9 a second
            let Some(units) = Units::new(limit, period_ns, burst) else {
                // Only a bucket that takes decades to fill is rejected.
                let fill_ns = u128::from(period_ns) * u128::from(burst) / u128::from(limit);
                prop_assert!(fill_ns > u128::from(30 * 365 * 86_400 * NANOS_PER_SECOND));
                return Ok(());
            };
            // interval / scale is the actual interval in ns; period / limit the intended one.
            let ours = u128::from(units.interval()) * u128::from(limit);
            let asked = u128::from(units.scale()) * u128::from(period_ns);
            prop_assert!(ours >= asked, "too fast");
            prop_assert!((ours - asked) * 1_000_000 <= asked, "{ours} is off {asked} by more than 1 ppm");
        }
    }
}
