//! The terms that ledger and nodes share about a key: a quota as whole numbers below 2^53. Not here: any
//! state.

use std::time::Duration;

use tollgate_core::{Algorithm, Align, CivilUnit, Cost, LeakyForm, Period, Quota, Refill, Timestamp};
use tollgate_mistakes::Mistakes;

use crate::Mistake;

/// The most units of a full bucket. Debts are kept below twice that, so that every sum stays below 2^53.
const MAX_FULL: u64 = 1 << 51;
/// The deepest debt that is written in units. The part of a bucket's debt beyond it is written as time.
pub(crate) const MAX_TAKEN: u64 = 1 << 52;
/// No debt ends later: as in core, January 2072, in microseconds since the Unix epoch.
pub(crate) const LATEST_US: u64 = 3_221_225_471_000_000;
/// As in core: rounding an interval up to a whole number of units is then less than 1 ppm.
const MIN_ROUNDED_INTERVAL: u64 = 1_000_000;
const MAX_SCALE: u64 = 1 << 27;
const DAY_US: u64 = 86_400_000_000;

/// The spans that all nodes and the ledger of a fleet agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A lease may be spent for this long after its request was sent; the ledger waits for one to two of them
    /// before it writes a lease off as spent whose node sends nothing.
    pub tau: Duration,
    /// Span of the demand, and of the refill, that one lease covers. At most half of `tau`.
    pub horizon: Duration,
    /// Leases of a fixed window end this long before the window.
    pub skew: Duration,
    /// The most by which any two clocks may differ in speed, in millionths.
    pub drift_ppm: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            tau: Duration::from_millis(500),
            horizon: Duration::from_millis(100),
            skew: Duration::from_millis(5),
            drift_ppm: 2_500, // two clocks that are both wrong by 1 in 1000, and a margin
        }
    }
}

/// A quota as the ledger counts it. Made once per quota, on the node; the script gets its numbers as
/// arguments.
///
/// A *unit* is the time that brings 1/`interval` permits back: a bucket's permit is `interval` units, and
/// `per_us` units come back every microsecond. A window's permit is one unit, and nothing comes back before
/// its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Permits per period, as decisions report it.
    pub(crate) limit: u64,
    /// Most permits at once.
    pub(crate) burst: u64,
    pub(crate) interval: u64,
    /// Units that come back in a microsecond; 0 for a window.
    pub(crate) per_us: u64,
    /// The most units that may be promised ahead of the refill: those that come back in half of tau; 0 for a
    /// window.
    max_promised: u64,
    /// Permits of the refill in one horizon, shared out among the nodes.
    pub(crate) ration: u64,
    pub(crate) tau_us: u64,
    pub(crate) horizon_us: u64,
    pub(crate) skew_us: u64,
    pub(crate) drift_ppm: u32,
    windows: Option<Windows>,
    mistakes: Mistakes<Mistake>,
}

/// Length and alignment of the windows of a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Windows {
    /// No window is longer, in microseconds.
    longest_us: u64,
    /// Windows begin with a key's first hit; else on a calendar, and the caller says where they end.
    first_hit: bool,
}

impl Terms {
    /// The terms of a quota, with the default [`Timing`]. `None`: a quota that cannot be leased and stays
    /// central: another algorithm, an `initial` or an `overdraft`, a refill by the period, a limit of 0, or
    /// numbers that a double cannot hold.
    ///
    /// # Example
    /// ```
    /// # use tollgate_lease::Terms;
    /// # use tollgate_core::Quota;
    /// # use std::time::Duration;
    /// let second = Duration::from_secs(1);
    /// assert!(Terms::of(&Quota::token_bucket(2_000, second)?).is_some());
    /// assert!(Terms::of(&Quota::unlimited()).is_none());
    /// # Ok::<(), tollgate_core::QuotaError>(())
    /// ```
    #[must_use]
    pub fn of(quota: &Quota) -> Option<Self> {
        Self::with(quota, Timing::default())
    }

    /// As [`Terms::of`], with other spans; a horizon above half of `tau` is cut to that.
    #[must_use]
    pub fn with(quota: &Quota, timing: Timing) -> Option<Self> {
        let limit = quota.limit();
        if limit == 0 {
            return None;
        }
        let (burst, windows) = burst_and_windows(quota)?;
        let tau_us = micros(timing.tau).max(2);
        let horizon_us = micros(timing.horizon).clamp(1, tau_us / 2);
        let (interval, scale) = match (windows, quota.period()) {
            (Some(_), _) => (1, 0),
            (None, Period::Span(span)) => units(limit, u64::try_from(span.as_nanos()).ok()?, burst)?,
            (None, _) => return None,
        };
        let per_us = scale * 1_000;
        let full = burst.checked_mul(interval).filter(|full| *full <= MAX_FULL)?;
        let ration = match windows {
            None => per_us.saturating_mul(horizon_us).min(full / 2) / interval,
            Some(Windows { longest_us, .. }) => {
                (u128::from(limit) * u128::from(horizon_us) / u128::from(longest_us)) as u64
            }
        };
        Some(Self {
            limit,
            burst,
            interval,
            per_us,
            max_promised: per_us.saturating_mul(tau_us / 2).min(full / 2),
            ration,
            tau_us,
            horizon_us,
            skew_us: micros(timing.skew),
            drift_ppm: timing.drift_ppm,
            windows,
            mistakes: Mistakes::none(),
        })
    }

    /// The same terms with a deliberate mistake in keeping them, for tests that show that the mistake would
    /// be found.
    #[must_use]
    pub fn making(self, mistakes: impl Into<Mistakes<Mistake>>) -> Self {
        Self { mistakes: mistakes.into(), ..self }
    }

    /// Whether to make this mistake: never, in a product.
    #[inline]
    pub(crate) fn has(&self, mistake: Mistake) -> bool {
        self.mistakes.has(mistake)
    }

    /// Units in one permit: a script gets it as `interval`, and keeps it with the state to know its units.
    #[inline]
    #[must_use]
    pub const fn interval(&self) -> u64 {
        self.interval
    }

    /// Units that come back in a microsecond; 0 of a window.
    #[inline]
    #[must_use]
    pub const fn per_us(&self) -> u64 {
        self.per_us
    }

    /// Most permits at once.
    #[inline]
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// The content of a full bucket, in units: the deepest debt after an admission.
    #[inline]
    #[must_use]
    pub const fn full(&self) -> u64 {
        self.burst * self.interval
    }

    /// The most units that may be promised beyond a full debt; 0 for a window.
    #[must_use]
    pub const fn max_promised(&self) -> u64 {
        self.max_promised
    }

    /// Permits that come back in one horizon: the least that a lease holds is this, shared out among the
    /// nodes that lease.
    #[must_use]
    pub const fn ration(&self) -> u64 {
        self.ration
    }

    /// Length of an epoch, in microseconds: if no message of a node comes for one to two epochs, its lease is
    /// written off.
    #[must_use]
    pub const fn tau_us(&self) -> u64 {
        self.tau_us
    }

    /// True of a fixed window, false of a bucket.
    #[inline]
    #[must_use]
    pub const fn is_window(&self) -> bool {
        self.windows.is_some()
    }

    /// The longest window in microseconds; 0 for a bucket. A window whose end is further away than that is
    /// not begun.
    #[must_use]
    pub const fn longest_us(&self) -> u64 {
        match self.windows {
            Some(windows) => windows.longest_us,
            None => 0,
        }
    }

    /// True for a fixed window that begins with a key's first hit: the ledger sets its end; else the caller
    /// names it.
    #[must_use]
    pub const fn begins_with_first_hit(&self) -> bool {
        matches!(self.windows, Some(Windows { first_hit: true, .. }))
    }

    /// End of the window that contains `now`, in microseconds since the Unix epoch: the value for
    /// [`LedgerCall::window_ends_us`](crate::LedgerCall::window_ends_us). 0 for a bucket and for windows that
    /// begin with a first hit. `quota` is the one that the terms are of.
    #[must_use]
    pub fn window_ends_us(&self, quota: &Quota, now: Timestamp) -> u64 {
        match self.windows {
            Some(Windows { first_hit: false, .. }) => {
                let one = quota.charge(&mut quota.fresh(), Cost::ONE, now);
                (now + one.reset_after()).as_nanos() / 1_000
            }
            _ => 0,
        }
    }

    /// `permits` in units, at most the deepest debt.
    #[inline]
    pub(crate) const fn units(&self, permits: u64) -> u64 {
        let units = permits.saturating_mul(self.interval);
        if units < MAX_TAKEN { units } else { MAX_TAKEN }
    }

    /// The time in which `permits` come back, in microseconds, rounded up. Computed in doubles: off by less
    /// than one.
    pub(crate) fn span_us(&self, permits: u64) -> u64 {
        (permits as f64 * (self.interval as f64 / self.per_us as f64)).ceil() as u64
    }

    /// Whole permits that come back in `span_us`, rounded down, as doubles do it.
    pub(crate) fn permits_in_us(&self, span_us: u64) -> u64 {
        (span_us as f64 / (self.interval as f64 / self.per_us as f64)).floor() as u64
    }

    /// Whole permits that are available while `taken` is owed.
    #[inline]
    pub(crate) const fn room(&self, taken: u64) -> u64 {
        self.full().saturating_sub(taken) / self.interval
    }

    /// Permits that each of `active` nodes is promised at a time, where none is available: its part of the
    /// refill of half of tau; two where the burst has room for them, so that not every permit costs a call;
    /// and at least one.
    pub(crate) fn turn(&self, active: u64) -> u64 {
        let part = self.max_promised.div_ceil(self.interval * active);
        part.max((self.burst / (2 * active)).min(2)).max(1)
    }

    #[inline]
    pub(crate) const fn horizon_ns(&self) -> u64 {
        self.horizon_us * 1_000
    }

    /// At least this many microseconds of the ledger's clock, on a clock that may be faster.
    pub(crate) fn stretched(&self, span_us: u64) -> Duration {
        let nanos = u128::from(span_us) * u128::from(1_000_000 + self.drift_ppm) / 1_000;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).saturating_add(1))
    }

    /// The microseconds that have passed at least on the ledger's clock, measured by a clock that may be
    /// faster.
    pub(crate) fn shrunk_us(&self, elapsed_ns: u64) -> u64 {
        (u128::from(elapsed_ns) * 1_000 / u128::from(1_000_000 + self.drift_ppm)) as u64
    }
}

/// `None`: a quota that cannot be leased.
fn burst_and_windows(quota: &Quota) -> Option<(u64, Option<Windows>)> {
    let limit = quota.limit();
    match quota.algorithm() {
        Algorithm::TokenBucket { burst, initial, overdraft: 0, refill: Refill::Continuous } => {
            let burst = burst.unwrap_or(limit);
            (initial.unwrap_or(burst) == burst).then_some((burst, None))
        }
        Algorithm::LeakyBucket { capacity, form: LeakyForm::Meter } => {
            Some((capacity.unwrap_or(limit), None))
        }
        Algorithm::FixedWindow { align } => {
            let longest_us = longest_us(quota.period())?;
            Some((limit, Some(Windows { longest_us, first_hit: *align == Align::FirstHit })))
        }
        _ => None,
    }
}

/// Units in the interval of a permit, and in a nanosecond: exact where a double can hold it; else the
/// interval is rounded up by less than 1 ppm, so that the rate is never above the quota's.
fn units(limit: u64, period_ns: u64, burst: u64) -> Option<(u64, u64)> {
    let divisor = gcd(limit, period_ns);
    let scale = limit / divisor;
    let interval = period_ns / divisor;
    if scale <= MAX_SCALE && interval.checked_mul(burst).is_some_and(|full| full <= MAX_FULL) {
        return Some((interval, scale));
    }
    let room = u128::from(MAX_FULL / burst).saturating_sub(1);
    let scale = (room * u128::from(limit) / u128::from(period_ns)).min(u128::from(MAX_SCALE)) as u64;
    let interval = (u128::from(scale) * u128::from(period_ns)).div_ceil(u128::from(limit)) as u64;
    (scale > 0 && interval >= MIN_ROUNDED_INTERVAL).then_some((interval, scale))
}

/// `None`: windows that do not end on a microsecond.
fn longest_us(period: &Period) -> Option<u64> {
    match period {
        Period::Span(span) => {
            (span.as_nanos() % 1_000 == 0 && span.as_micros() < u128::from(MAX_FULL)).then(|| micros(*span))
        }
        // An hour more, for the day on which clocks are set.
        Period::Civil { unit, .. } => {
            let days = match unit {
                CivilUnit::Day => 1,
                CivilUnit::Week => 7,
                CivilUnit::Month => 31,
                CivilUnit::Year => 366,
            };
            Some(days * DAY_US + DAY_US / 24)
        }
        _ => None,
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX).min(MAX_FULL)
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
