//! Limiters whose takes pay for the previous ones, as in Guava: a rate that warms up, and one that bursts.
//!
//! A key has an instant from which on it is *free*, and permits that it stores while it is free and unused. A
//! take of any cost passes once the key is free; its price moves the instant, so that the next take pays by
//! waiting. Stored permits are spent first.
//!
//! - Warm-up: a full store is a cold key. With the interval s of a permit, the warm-up W and the cold factor
//!   c, permits above W/2s cost more, up to c·s for the first: a steady load warms up within W. A fresh key
//!   is cold.
//! - Bursty: stored permits cost nothing. A fresh key has none; they come with the first take.
//!
//! The store is counted as the time that it lacks of being full, which shrinks as fast as time passes: W for
//! an empty store of a warm-up. Both numbers are in units that make s and the span of a stored permit whole.
//! The surcharge for a cold key is a whole-number function of the store: its difference before and after a
//! take. So the prices of any split add up to that of one take, nothing drifts, and permits are given back
//! for exactly their price.
//!
//! A key that is free lacks at most a whole store. While it is not free, permits beyond the stored ones count
//! as lacking too: so a refund knows which permits came from the store.
//!
//! The cells: a tag, units in a nanosecond, units of a whole store, the instant from which on the key is free
//! as nanoseconds and units, the missing units of its store, saturating.

use core::time::Duration;

use crate::bounds::{LARGEST_COLD_FACTOR, LONGEST_WARM_UP, MAX_COUNT};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::QuotaError;
use crate::inherit::Inherit;
use crate::rational::gcd;
use crate::state::{Expiry, Wide};
use crate::time::{NANOS_PER_SECOND, Timestamp, nanos};

/// First cell of every state of these algorithms: of a warm-up, and of a bursty limiter.
pub(crate) const WARM_UP_TAG: u64 = 5;
pub(crate) const BURSTY_TAG: u64 = 6;

/// The most units ahead of now at which a take may make a key free. (A charge may do so until
/// [`Expiry::LATEST`].)
pub(crate) const MOST_OWED: u64 = 1 << 60;
/// The largest store, in units: its square times a cold factor is less than 2^128.
const MOST_STORED: u64 = 1 << 56;
/// The most units in a nanosecond.
const MOST_SCALE: u64 = 1 << 27;
/// The least units in an interval that is not exact: rounding is then less than 1 ppm.
const MIN_ROUNDED_INTERVAL: u128 = 1_000_000;

/// The price of a stored permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    /// Its interval, and more while the store is above its threshold.
    Warming { cold_factor: u32 },
    /// No time at all.
    Free,
}

#[derive(Clone, Debug)]
pub(crate) struct WarmUp {
    limit: u64,
    stored: Stored,
    /// Units in a nanosecond.
    scale: u64,
    /// Units of a permit.
    interval: u64,
    /// Units until one more permit is stored.
    refill: u64,
    /// Units of a whole store.
    full: u64,
    /// A take above this number of permits never passes.
    most: u64,
}

/// A key at an instant.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// The key is free from this instant on, in units since the Unix epoch; not before now.
    free: u128,
    /// Units by which the store is short of full.
    missing: u128,
}

impl WarmUp {
    /// A rate that warms up; `limit` is at least 1.
    pub(crate) fn new(
        limit: u64,
        period: Duration,
        warm_up: Duration,
        cold_factor: u32,
    ) -> Result<Self, QuotaError> {
        if warm_up.is_zero() || warm_up > LONGEST_WARM_UP {
            return Err(QuotaError::WarmUp(warm_up));
        }
        if cold_factor == 0 || cold_factor > LARGEST_COLD_FACTOR {
            return Err(QuotaError::ColdFactor(cold_factor));
        }
        let period_ns = u128::from(nanos(period));
        let warm_up_ns = nanos(warm_up);
        let cold = u128::from(cold_factor);
        // The span of a stored permit is 2(1 + c)/(5 + c) intervals.
        let permits = (5 + cold) * u128::from(limit);
        let span = 2 * (1 + cold) * period_ns;
        let exact = lcm(denominator(period_ns, limit.into()), denominator(span, permits));
        let scale = exact.min((MOST_STORED / warm_up_ns).min(MOST_SCALE).into());
        let interval = (scale * period_ns).div_ceil(limit.into());
        let refill = (scale * span).div_ceil(permits);
        let full = scale * u128::from(warm_up_ns);
        let is_countable = scale == exact || interval >= MIN_ROUNDED_INTERVAL;
        let cannot_count = QuotaError::UncountableWarmUp { limit, period, warm_up };
        let stored = Stored::Warming { cold_factor };
        Self::of(limit, stored, [scale, interval, refill, full])
            .filter(|quota| is_countable && quota.most > 0)
            .ok_or(cannot_count)
    }

    /// A rate that keeps up to `burst` permits while it is unused, or a second's worth; `limit` is at least
    /// 1.
    pub(crate) fn bursty(limit: u64, period: Duration, burst: Option<u64>) -> Result<Self, QuotaError> {
        let period_ns = u128::from(nanos(period));
        let exact = denominator(period_ns, limit.into());
        let scale = exact.min(MOST_SCALE.into());
        let interval = (scale * period_ns).div_ceil(limit.into());
        let full = match burst {
            Some(burst) => u128::from(burst) * interval,
            None => scale * u128::from(NANOS_PER_SECOND),
        };
        let is_countable = scale == exact || interval >= MIN_ROUNDED_INTERVAL;
        let slow = QuotaError::SlowBucket { capacity: burst.unwrap_or(1) };
        let cannot_count = if is_countable { slow } else { QuotaError::FastRate { limit, period } };
        Self::of(limit, Stored::Free, [scale, interval, interval, full])
            .filter(|quota| is_countable && quota.full <= MOST_OWED && quota.most > 0)
            .ok_or(cannot_count)
    }

    fn of(limit: u64, stored: Stored, numbers: [u128; 4]) -> Option<Self> {
        let [scale, interval, refill, full] = numbers.map(|number| u64::try_from(number).ok());
        let mut of =
            Self { limit, stored, scale: scale?, interval: interval?, refill: refill?, full: full?, most: 0 };
        of.most =
            u64::try_from(of.coldness(0)).ok().and_then(|cold| MOST_OWED.checked_sub(cold))? / of.interval;
        Some(of)
    }

    /// Whole permits that it stores.
    pub(crate) const fn burst(&self) -> u64 {
        let burst = self.full / self.refill;
        if burst > 0 { burst } else { 1 }
    }

    pub(crate) const fn tag(&self) -> u64 {
        match self.stored {
            Stored::Warming { .. } => WARM_UP_TAG,
            Stored::Free => BURSTY_TAG,
        }
    }

    pub(crate) const fn scale(&self) -> u64 {
        self.scale
    }

    pub(crate) const fn interval(&self) -> u64 {
        self.interval
    }

    pub(crate) const fn refill(&self) -> u64 {
        self.refill
    }

    pub(crate) const fn full(&self) -> u64 {
        self.full
    }

    pub(crate) const fn most(&self) -> u64 {
        self.most
    }

    pub(crate) const fn cold_factor(&self) -> Option<u32> {
        match self.stored {
            Stored::Warming { cold_factor } => Some(cold_factor),
            Stored::Free => None,
        }
    }

    /// A state that another rate wrote, as of `now` and in units of this rate.
    pub(crate) fn carried(&self, state: &Wide, now: Timestamp) -> Wide {
        let mut after = Wide::default();
        self.write(&mut after, self.level(state, now));
        after
    }

    pub(crate) fn take(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        self.reserve(state, cost, Duration::ZERO, now)
    }

    /// Takes as soon as the key is free, if that is within `max_wait`.
    pub(crate) fn reserve(
        &self,
        state: &mut Wide,
        cost: Cost,
        max_wait: Duration,
        now: Timestamp,
    ) -> Decision {
        let level = self.level(state, now);
        let owed = level.free - self.units(now);
        let (remaining, reset_ns) = self.left(level, now);
        if cost.permits() > self.most {
            self.remember_start(state, cost, now);
            return Decision::never(self.limit, remaining, reset_ns);
        }
        let after = self.taken(level, cost.permits());
        let beyond = (after.free - self.units(now)).saturating_sub(MOST_OWED.into());
        let wait_ns = self.nanos(owed);
        let too_long_ns = wait_ns.saturating_sub(nanos(max_wait)).max(self.nanos(beyond));
        if too_long_ns > 0 {
            return Decision::deny(self.limit, remaining, too_long_ns, reset_ns);
        }
        self.admit(state, if cost.is_peek() { None } else { Some(after) }, level, now).with_delay(wait_ns)
    }

    pub(crate) fn charge(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let before = self.level(state, now);
        let mut after = before;
        if !cost.is_peek() {
            after = self.taken(before, cost.permits().min(MAX_COUNT));
            after.free = after.free.min(self.units(Expiry::LATEST).max(before.free));
            self.write(state, after);
        }
        let (remaining, reset_ns) = self.left(after, now);
        let unpaid = after.free - self.units(now);
        let owed = u64::try_from(unpaid.div_ceil(self.interval.into())).unwrap_or(u64::MAX);
        Decision::used(self.limit, remaining, owed, self.nanos(unpaid), reset_ns)
    }

    pub(crate) fn give_back(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let level = self.level(state, now);
        let is_paid = level.free == self.units(now) && self.stored != Stored::Free;
        let back = if is_paid { 0 } else { cost.permits() };
        let after = self.as_of(self.given_back(level, back), now);
        self.admit(state, Some(after).filter(|_| back > 0), level, now)
    }

    /// The wait until permits may be used that were reserved with the last `behind` ones, in ns.
    pub(crate) fn wait_of_reserved_ns(&self, state: &Wide, reserved: u64, now: Timestamp) -> u64 {
        let before = self.given_back(self.level(state, now), reserved);
        self.nanos(before.free.saturating_sub(self.units(now)))
    }

    /// A bursty key begins to store with its first take, even one that never passes.
    pub(crate) fn remember_start(&self, state: &mut Wide, cost: Cost, now: Timestamp) {
        if state.cells.is_empty() && self.stored == Stored::Free && !cost.is_peek() {
            self.write(state, self.level(state, now));
        }
    }

    /// The state at `at` of a key that `old` counted: its debt stays, in time.
    pub(crate) fn inherit(&self, state: &Wide, old: &Self, how: Inherit, at: Timestamp) -> Wide {
        let level = old.level(state, at);
        let was_missing = level.missing.min(old.full.into());
        let old_full = u128::from(old.full);
        let (refill, old_refill) = (u128::from(self.refill), u128::from(old.refill));
        let full = u128::from(self.full);
        let missing = match how {
            Inherit::Taken | Inherit::Proportional => (was_missing * full).div_ceil(old_full.max(1)),
            // Both are in permits, times the refill of both.
            _ => how.missing(was_missing * refill, old_full * refill, full * old_refill).div_ceil(old_refill),
        };
        let missing = missing.min(full);
        let free = self.units_of(old.nanos(level.free));
        let mut after = Wide::default();
        self.write(&mut after, self.as_of(Level { free, missing }, at));
        after
    }

    /// The state of a key that was not limited until `at`: warm, or with a full store of free permits.
    pub(crate) fn after_no_limit(&self, at: Timestamp) -> Wide {
        let missing = if self.stored == Stored::Free { 0 } else { self.full };
        let mut state = Wide::default();
        self.write(&mut state, Level { free: self.units(at), missing: missing.into() });
        state
    }

    fn admit(&self, state: &mut Wide, after: Option<Level>, before: Level, now: Timestamp) -> Decision {
        if let Some(after) = after {
            self.write(state, after);
        }
        let (remaining, reset_ns) = self.left(after.unwrap_or(before), now);
        Decision::admit(self.limit, remaining, reset_ns)
    }

    /// Permits that pass one by one at `now`, and the time until there are as many as there can be.
    fn left(&self, level: Level, now: Timestamp) -> (u64, u64) {
        let owed = level.free - self.units(now);
        let missing = level.missing.min(self.full.into());
        let (remaining, reset) = match self.stored {
            // Each has its price.
            Stored::Warming { .. } => (1, owed),
            Stored::Free => {
                let stored = (u128::from(self.full) - missing) / u128::from(self.refill);
                (u64::try_from(stored).unwrap_or(u64::MAX).max(1), owed + missing)
            }
        };
        (if owed == 0 { remaining } else { 0 }, self.nanos(reset))
    }

    fn taken(&self, level: Level, permits: u64) -> Level {
        let permits = u128::from(permits);
        let missing = level.missing + permits * u128::from(self.refill);
        Level { free: level.free + self.price(permits, level.missing, missing), missing }
    }

    /// The key as if its last `permits` had not been taken. It may be free before now then.
    fn given_back(&self, level: Level, permits: u64) -> Level {
        let permits = u128::from(permits).min(level.missing / u128::from(self.refill));
        let missing = level.missing - permits * u128::from(self.refill);
        Level { free: level.free.saturating_sub(self.price(permits, missing, level.missing)), missing }
    }

    /// The price of permits that take the store from `before` missing units to `after`.
    fn price(&self, permits: u128, before: u128, after: u128) -> u128 {
        match self.stored {
            Stored::Warming { .. } => {
                permits * u128::from(self.interval) + self.coldness(before) - self.coldness(after)
            }
            Stored::Free => after.saturating_sub(self.full.into()) - before.saturating_sub(self.full.into()),
        }
    }

    /// The surcharge of all permits above the threshold, rounded down, in units.
    ///
    /// With z units above the threshold, that is (c - 1)(5 + c)²z² / 16(1 + c)W. A whole store has 4W / (5 +
    /// c) above it.
    fn coldness(&self, missing: u128) -> u128 {
        let Stored::Warming { cold_factor } = self.stored else { return 0 };
        let full = u128::from(self.full);
        let cold = u128::from(cold_factor);
        let above = (4 * full).saturating_sub((5 + cold).saturating_mul(missing));
        (cold - 1) * (above * above / 16) / ((1 + cold) * full)
    }

    /// The key at `now`.
    fn level(&self, state: &Wide, now: Timestamp) -> Level {
        let [_, scale, full, free_ns, rest, missing] = state.cells[..] else {
            let missing = if self.stored == Stored::Free { self.full } else { 0 };
            return Level { free: self.units(now), missing: missing.into() };
        };
        if (scale, full) == (self.scale, self.full) {
            let free = self.units_of(free_ns) + u128::from(rest);
            return self.as_of(Level { free, missing: missing.into() }, now);
        }
        // Another rate or warm-up wrote it: the same share of the store is missing, and as much time is owed.
        let other = Self { scale: scale.max(1), full, ..self.clone() };
        let free = other.units_of(free_ns) + u128::from(rest);
        let level = other.as_of(Level { free, missing: missing.into() }, now);
        let missing = (level.missing * u128::from(self.full)).div_ceil(u128::from(full).max(1));
        self.as_of(Level { free: self.units_of(other.nanos(level.free)), missing }, now)
    }

    /// Stores permits for the time in which the key was free.
    fn as_of(&self, level: Level, now: Timestamp) -> Level {
        let now = self.units(now);
        match now.checked_sub(level.free) {
            Some(unused) => {
                Level { free: now, missing: level.missing.min(self.full.into()).saturating_sub(unused) }
            }
            None => level,
        }
    }

    fn write(&self, state: &mut Wide, level: Level) {
        let free_ns = u64::try_from(level.free / u128::from(self.scale)).unwrap_or(u64::MAX);
        let rest = (level.free % u128::from(self.scale)) as u64;
        let missing = u64::try_from(level.missing).unwrap_or(u64::MAX);
        state.cells.clear();
        state.cells.extend([self.tag(), self.scale, self.full, free_ns, rest, missing]);
        let full_at_ns = self.nanos(level.free + level.missing.min(self.full.into()));
        let expires = Expiry::at(Timestamp::from_nanos(full_at_ns));
        state.expires = if self.stored == Stored::Free { expires.sticky() } else { expires };
    }

    const fn units(&self, instant: Timestamp) -> u128 {
        self.units_of(instant.as_nanos())
    }

    const fn units_of(&self, nanos: u64) -> u128 {
        nanos as u128 * self.scale as u128
    }

    /// Nanoseconds in `units`, rounded up.
    fn nanos(&self, units: u128) -> u64 {
        u64::try_from(units.div_ceil(self.scale.into())).unwrap_or(u64::MAX)
    }
}

/// Denominator of the fraction in its lowest terms.
const fn denominator(numerator: u128, denominator: u128) -> u128 {
    denominator / gcd(numerator, denominator)
}

const fn lcm(a: u128, b: u128) -> u128 {
    a / gcd(a, b) * b
}
