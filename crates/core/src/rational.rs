//! Time in units that make a permit's interval a whole number.
//!
//! A rate of L permits per P nanoseconds has the interval T = P/L, which is rarely whole. Counting time in units of
//! 1/`scale` ns with `scale` = L/gcd(L, P) makes T exactly `interval` = P/gcd(L, P) units, so that GCRA needs only whole
//! numbers and never drifts. Units are kept modulo 2^62: what matters is the distance between two instants, and
//! [`Expiry`](crate::Expiry) tells an old state from a young one.

/// The longest distance that may have to be told apart, in units: half of the modulus, less a margin for clock steps.
pub(crate) const MAX_UNITS: u64 = 1 << 60;

/// How one quota counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Units {
    /// Units in a nanosecond, at least 1.
    pub(crate) scale: u64,
    /// Units in the interval of one permit, at least 1.
    pub(crate) interval: u64,
    /// floor(2^64 / interval), for dividing by a multiplication (0 stands for 2^64, when the interval is 1).
    interval_inverse: u64,
}

impl Units {
    /// Units for `limit` permits per `period_ns`, where up to `capacity` permits' worth of time must stay below
    /// [`MAX_UNITS`]. Exact where that fits; else the nearest ratio with the largest scale that fits, which is off by
    /// less than 2^-21 (0.5 ppm) for capacities up to 2^39. `None` when the capacity does not fit even in whole nanoseconds.
    pub(crate) fn new(limit: u64, period_ns: u64, capacity: u64) -> Option<Self> {
        let divisor = gcd(limit, period_ns);
        let (scale, interval) = (limit / divisor, period_ns / divisor);
        if u128::from(interval) * u128::from(capacity.max(1)) <= u128::from(MAX_UNITS)
            && scale <= u64::from(u32::MAX)
        {
            return Some(Self::from_parts(scale, interval));
        }
        // capacity × interval ≤ MAX_UNITS with interval = scale × period / limit.
        let room = u128::from(MAX_UNITS) / u128::from(capacity.max(1));
        let scale = (room * u128::from(limit) / u128::from(period_ns)).min(u128::from(u32::MAX)) as u64;
        if scale == 0 {
            return None;
        }
        let exact = u128::from(scale) * u128::from(period_ns);
        let interval = (exact + u128::from(limit) / 2) / u128::from(limit);
        (interval > 0).then(|| Self::from_parts(scale, interval as u64))
    }

    fn from_parts(scale: u64, interval: u64) -> Self {
        let interval_inverse = ((1_u128 << 64) / u128::from(interval)) as u64;
        Self { scale, interval, interval_inverse }
    }

    /// `nanos` in units, modulo 2^64.
    #[inline]
    pub(crate) const fn of_nanos(self, nanos: u64) -> u64 {
        nanos.wrapping_mul(self.scale)
    }

    /// `permits` in units, saturating above [`MAX_UNITS`].
    #[inline]
    pub(crate) const fn of_permits(self, permits: u64) -> u64 {
        match permits.checked_mul(self.interval) {
            Some(units) if units <= MAX_UNITS => units,
            _ => MAX_UNITS + 1,
        }
    }

    /// Whole permits in `units`, rounded down.
    #[inline]
    pub(crate) const fn to_permits(self, units: u64) -> u64 {
        if self.interval == 1 {
            return units;
        }
        // The inverse is too small by less than 1, so the estimate is short by at most one.
        let estimate = ((units as u128 * self.interval_inverse as u128) >> 64) as u64;
        if units - estimate * self.interval >= self.interval { estimate + 1 } else { estimate }
    }

    /// Nanoseconds in `units`, rounded up.
    #[inline]
    pub(crate) const fn to_nanos(self, units: u64) -> u64 {
        if self.scale == 1 { units } else { units.div_ceil(self.scale) }
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
