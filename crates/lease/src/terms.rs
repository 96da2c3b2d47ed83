//! What ledger and nodes agree on about a key: a quota as whole numbers below 2^53. Not here: any state.

use std::time::Duration;

use tollgate_core::{Algorithm, Align, CivilUnit, Decision, LeakyForm, Period, Quota, Refill, Timestamp};

#[cfg(feature = "faults")]
use crate::Fault;
use crate::Reply;

/// The most that a full bucket may be, in units. Debts are kept below twice that, so that every sum stays below 2^53.
const MOST: u64 = 1 << 51;
/// The deepest debt that is written: charges beyond it are forgotten.
pub(super) const DEEPEST: u64 = 1 << 52;
/// As in core: rounding an interval up to a whole number of units is then less than 1 ppm.
const MIN_ROUNDED_INTERVAL: u64 = 1_000_000;
const MAX_SCALE: u64 = 1 << 27;
const DAY_US: u64 = 86_400_000_000;

/// The spans that all nodes and the ledger of a fleet agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A lease may be spent for this long after its request was sent; the ledger waits for one to two of them before it writes
    /// a silent lease off as spent.
    pub tau: Duration,
    /// How much demand, and how much of the refill, one lease covers. At most half of `tau`.
    pub horizon: Duration,
    /// Leases of a fixed window end this long before the window.
    pub skew: Duration,
    /// By how much any two clocks may differ in speed, in millionths.
    pub drift_ppm: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            tau: Duration::from_millis(500),
            horizon: Duration::from_millis(100),
            skew: Duration::from_millis(5),
            drift_ppm: 2_500, // two clocks that are both wrong by 1 in 1000, and some more
        }
    }
}

/// A quota as the ledger counts it. Made once a quota, on the node; the script gets its numbers as arguments.
///
/// A *unit* is the time that brings 1/`interval` permits back: a bucket's permit is `interval` units, and `per_us` units come back
/// every microsecond. A window's permit is one unit and nothing comes back before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Permits a period, as decisions tell it.
    pub(super) limit: u64,
    /// Most at once, in permits.
    pub(super) burst: u64,
    pub(super) interval: u64,
    /// Units that come back in a microsecond; 0 of a window.
    pub(super) per_us: u64,
    /// How far ahead of its refill permits may be promised, in units: what comes back in half of tau; 0 of a window.
    pub(super) ahead: u64,
    /// Permits of the refill in one horizon, shared out among the nodes.
    pub(super) ration: u64,
    pub(super) tau_us: u64,
    pub(super) horizon_us: u64,
    pub(super) skew_us: u64,
    pub(super) drift_ppm: u32,
    pub(super) windows: Option<Windows>,
    #[cfg(feature = "faults")]
    pub(super) fault: Option<Fault>,
}

/// How the windows of a fixed window lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    /// No window is longer, in microseconds.
    pub(super) longest_us: u64,
    /// Windows begin with a key's first hit; else on a calendar, and the caller says where they end.
    pub(super) first_hit: bool,
}

impl Terms {
    /// The terms of a quota, with the default [`Timing`]. `None`: a quota that cannot be leased and stays central: another
    /// algorithm, an `initial` or an `overdraft`, a refill by the period, a limit of 0, or numbers that a double cannot hold.
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

    /// As [`Terms::of`], with spans of your own; a horizon above half of `tau` is cut to that.
    #[must_use]
    pub fn with(quota: &Quota, timing: Timing) -> Option<Self> {
        let limit = quota.limit();
        if limit == 0 {
            return None;
        }
        let (burst, windows) = match quota.algorithm() {
            Algorithm::TokenBucket { burst, initial, overdraft: 0, refill: Refill::Continuous } => {
                let burst = burst.unwrap_or(limit);
                (initial.unwrap_or(burst) == burst).then_some((burst, None))?
            }
            Algorithm::LeakyBucket { capacity, form: LeakyForm::Meter } => (capacity.unwrap_or(limit), None),
            Algorithm::FixedWindow { align } => {
                let longest_us = longest_us(quota.period())?;
                (limit, Some(Windows { longest_us, first_hit: *align == Align::FirstHit }))
            }
            _ => return None,
        };
        let tau_us = micros(timing.tau).max(2);
        let horizon_us = micros(timing.horizon).clamp(1, tau_us / 2);
        let (interval, scale) = match (windows, quota.period()) {
            (Some(_), _) => (1, 0),
            (None, Period::Span(span)) => units(limit, u64::try_from(span.as_nanos()).ok()?, burst)?,
            (None, _) => return None,
        };
        let per_us = scale * 1_000;
        let full = burst.checked_mul(interval).filter(|full| *full <= MOST)?;
        let ahead = per_us.saturating_mul(tau_us / 2).min(full / 2);
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
            ahead,
            ration,
            tau_us,
            horizon_us,
            skew_us: micros(timing.skew),
            drift_ppm: timing.drift_ppm,
            windows,
            #[cfg(feature = "faults")]
            fault: None,
        })
    }

    /// The same terms, kept wrongly. For tests that show that a fault would be found.
    #[cfg(feature = "faults")]
    #[must_use]
    pub const fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Units in one permit: what a script gets as `interval`, and keeps with the state to know its units by.
    #[must_use]
    pub const fn interval(&self) -> u64 {
        self.interval
    }

    /// Units that come back in a microsecond; 0 of a window.
    #[must_use]
    pub const fn per_us(&self) -> u64 {
        self.per_us
    }

    /// Most permits at once.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// What a full bucket holds, in units: the most that may be owed after an admission.
    #[must_use]
    pub const fn full(&self) -> u64 {
        self.burst * self.interval
    }

    /// How far beyond a full debt permits may be promised, in units; 0 of a window.
    #[must_use]
    pub const fn ahead(&self) -> u64 {
        self.ahead
    }

    /// Permits that come back in one horizon: the least that a lease holds is this, shared out among the nodes that lease.
    #[must_use]
    pub const fn ration(&self) -> u64 {
        self.ration
    }

    /// Length of an epoch, in microseconds: a lease that is not heard of for one to two epochs is written off.
    #[must_use]
    pub const fn tau_us(&self) -> u64 {
        self.tau_us
    }

    /// The longest window in microseconds; 0 of a bucket. A window whose end is further away than that is not begun.
    #[must_use]
    pub const fn longest_us(&self) -> u64 {
        match self.windows {
            Some(windows) => windows.longest_us,
            None => 0,
        }
    }

    /// True for a fixed window that begins with a key's first hit: the ledger sets its end; else the caller names it.
    #[must_use]
    pub const fn begins_with_first_hit(&self) -> bool {
        matches!(self.windows, Some(Windows { first_hit: true, .. }))
    }

    /// End of the window that `now` lies in, in microseconds since the Unix epoch: what goes into [`Call::window_ends_us`](super::Call::window_ends_us).
    /// 0 of a bucket and of windows that begin with a first hit. `quota` is the one that the terms are of.
    #[must_use]
    pub fn window_ends_us(&self, quota: &Quota, now: Timestamp) -> u64 {
        match self.windows {
            Some(Windows { first_hit: false, .. }) => {
                let one =
                    quota.charge_word(tollgate_core::Word::FRESH, tollgate_core::Cost::ONE, now).decision;
                (now + one.reset_after()).as_nanos() / 1_000
            }
            _ => 0,
        }
    }

    /// What a central operation answers that its caller asked for alone: a take, a peek, a charge or a return of `cost` permits.
    pub fn decision(&self, reply: &Reply, cost: u64) -> Decision {
        self.decision_of(reply, cost, 0, 1)
    }

    /// The same of takes that were [tried](super::Op::Try): a denial tells how things would stand, had it been counted.
    pub fn decision_of_try(&self, reply: &Reply, cost: u64, nth: u64) -> Decision {
        let is_counted = self.windows.is_some() && nth >= reply.admitted;
        let hits = if is_counted { self.units(cost) } else { 0 };
        let taken = (reply.taken + hits).min(DEEPEST);
        self.decision_of(&Reply { taken, ..*reply }, cost, nth, reply.admitted)
    }

    /// What the `nth` of `times` merged takes answers, counted from 0 in order of arrival: as if they had come one after another.
    pub fn decision_of(&self, reply: &Reply, cost: u64, nth: u64, times: u64) -> Decision {
        let is_admitted = nth < reply.admitted;
        #[cfg(feature = "faults")]
        let is_admitted = is_admitted || self.has(Fault::DealsTwice) && nth < 2 * reply.admitted;
        // Those after it had not taken yet.
        let later = if self.windows.is_some() { times } else { reply.admitted }.saturating_sub(nth + 1);
        let then =
            Reply { taken: reply.taken.saturating_sub(self.units(cost.saturating_mul(later))), ..*reply };
        let (left, reset_ns) = (self.room(then.taken), self.reset_ns(&then));
        if is_admitted {
            Decision::admit(self.limit, left, reset_ns)
        } else if cost > self.burst {
            Decision::never(self.limit, left, reset_ns)
        } else {
            Decision::deny(self.limit, left, self.wait_us(&then, cost).saturating_mul(1_000), reset_ns)
        }
    }

    /// Microseconds until the ledger could grant `cost` permits, if nobody else asks and the leases that are out lapse.
    pub(super) fn wait_us(&self, reply: &Reply, cost: u64) -> u64 {
        let room = (self.burst.saturating_sub(cost)).saturating_mul(self.interval);
        if self.windows.is_some() {
            return reply.ends_us.saturating_sub(reply.now_us);
        }
        // The debt falls to what is out, then stands until an epoch ends and what was not heard of is written off.
        let falls = |from: u64, to: u64| from.saturating_sub(to).div_ceil(self.per_us);
        let (mut taken, mut at, mut out) = (reply.taken, 0, reply.out + reply.out_before);
        for (ends, next) in [(reply.ends_us, reply.out), (reply.ends_us.saturating_add(self.tau_us), 0)] {
            let floor = out * self.interval;
            if floor <= room {
                break;
            }
            let ends = ends.saturating_sub(reply.now_us);
            taken = taken.saturating_sub((ends - at.min(ends)).saturating_mul(self.per_us)).max(floor);
            (at, out) = (ends, next);
        }
        at + falls(taken, room)
    }

    /// Nanoseconds until all is there again, if nobody asks for more.
    fn reset_ns(&self, reply: &Reply) -> u64 {
        if reply.taken == 0 {
            return 0;
        }
        let us = if self.windows.is_some() {
            reply.ends_us.saturating_sub(reply.now_us)
        } else {
            self.wait_us(reply, self.burst)
        };
        us.saturating_mul(1_000)
    }

    /// `permits` in units, at most the deepest debt.
    pub(super) const fn units(&self, permits: u64) -> u64 {
        let units = permits.saturating_mul(self.interval);
        if units < DEEPEST { units } else { DEEPEST }
    }

    /// Whole permits that are there while `taken` is owed.
    pub(super) const fn room(&self, taken: u64) -> u64 {
        self.full().saturating_sub(taken) / self.interval
    }

    /// Permits that one of so many nodes is promised at a time, where nothing is there: its part of what comes back in half of tau; two
    /// where the burst has room for them, so that not every permit costs a call; and at least one.
    pub(super) fn turn(&self, active: u64) -> u64 {
        let part = self.ahead.div_ceil(self.interval * active);
        part.max((self.burst / (2 * active)).min(2)).max(1)
    }

    /// What is owed `elapsed_us` after a reply, if nobody took anything and nothing that is out was settled.
    pub(super) fn taken_after(&self, reply: &Reply, elapsed_us: u64) -> u64 {
        if self.windows.is_some() {
            return reply.taken;
        }
        let back = elapsed_us.min(reply.taken / self.per_us + 1) * self.per_us;
        let floor = self.units(reply.out + reply.out_before).min(reply.taken);
        reply.taken.saturating_sub(back).max(floor)
    }

    pub(super) const fn horizon_ns(&self) -> u64 {
        self.horizon_us * 1_000
    }

    /// So many microseconds of the ledger's clock, on a clock that may be faster.
    pub(super) fn stretched(&self, span_us: u64) -> Duration {
        let nanos = u128::from(span_us) * u128::from(1_000_000 + self.drift_ppm) / 1_000;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).saturating_add(1))
    }

    /// How many microseconds of the ledger's clock have passed at least, on a clock that may be faster.
    pub(super) fn shrunk_us(&self, elapsed_ns: u64) -> u64 {
        (u128::from(elapsed_ns) * 1_000 / u128::from(1_000_000 + self.drift_ppm)) as u64
    }

    #[cfg(feature = "faults")]
    pub(super) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// Units in the interval of a permit, and in a nanosecond: exact where a double can hold it; else the interval is rounded up by
/// less than 1 ppm, so that the rate is never above what was asked for.
fn units(limit: u64, period_ns: u64, burst: u64) -> Option<(u64, u64)> {
    let divisor = gcd(limit, period_ns);
    let (scale, interval) = (limit / divisor, period_ns / divisor);
    if scale <= MAX_SCALE && interval.checked_mul(burst).is_some_and(|full| full <= MOST) {
        return Some((interval, scale));
    }
    let room = u128::from(MOST / burst).saturating_sub(1);
    let scale = (room * u128::from(limit) / u128::from(period_ns)).min(u128::from(MAX_SCALE)) as u64;
    let interval = (u128::from(scale) * u128::from(period_ns)).div_ceil(u128::from(limit)) as u64;
    (scale > 0 && interval >= MIN_ROUNDED_INTERVAL).then_some((interval, scale))
}

/// `None`: windows that do not end on a microsecond.
fn longest_us(period: &Period) -> Option<u64> {
    match period {
        Period::Span(span) => {
            (span.as_nanos() % 1_000 == 0 && span.as_micros() < u128::from(MOST)).then(|| micros(*span))
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
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX).min(MOST)
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
