//! The arithmetic of redis-cell's `CL.THROTTLE`, as its public description has it, and histories that hold
//! ours to it, wherever it counts.
//!
//! A key keeps one instant, at which it is full again (its theoretical arrival time, TAT), and nothing about
//! the rate that wrote it. A request computes with the rate that it brings: the emission interval is the time
//! in which one permit comes back, the delay variation tolerance is what the burst and one more take. It fits
//! when max(TAT, now) + quantity · interval lies at most the tolerance after now, and then that is the TAT.
//!
//! Not here: how redis-cell rounds the seconds of its replies.

use std::time::Duration;

use tollgate_core::{Algorithm, Decision, Period, Quota, QuotaError, Refill, RetryAfter};

/// Parts of a nanosecond: every interval of [`history`] is a whole number of them.
const PARTS: i128 = 27_720;

/// The rate that a request brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRate {
    /// Permits at once, less one.
    pub max_burst: u64,
    /// Permits that come back in a period.
    pub count: u64,
    /// The period in seconds.
    pub period_s: u64,
}

impl CellRate {
    /// The quota that counts as redis-cell does at this rate.
    ///
    /// # Errors
    /// When the bucket would take too long to fill.
    pub fn quota(self) -> Result<Quota, QuotaError> {
        let burst = Some(self.max_burst + 1);
        let refill = Refill::Continuous;
        let algorithm = Algorithm::TokenBucket { burst, initial: None, overdraft: 0, refill };
        let period = Period::Span(Duration::from_secs(self.period_s));
        Ok(Quota::new(self.count, period, algorithm)?.keeping_instants())
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellAnswer {
    /// The request passes.
    pub admitted: bool,
    /// Permits that are left.
    pub remaining: u64,
    /// Time until the same request passes, rounded up to a ns; `None` if it passes now, or never does.
    pub retry_after: Option<Duration>,
    /// Time until the key is full, rounded up to a ns.
    pub reset_after: Duration,
}

impl From<&Decision> for CellAnswer {
    fn from(decision: &Decision) -> Self {
        Self {
            admitted: decision.is_admitted(),
            remaining: decision.remaining(),
            retry_after: match decision.retry_after() {
                RetryAfter::After(wait) => Some(wait),
                _ => None,
            },
            reset_after: decision.reset_after(),
        }
    }
}

/// A key of redis-cell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    /// In parts of a ns since the caller's epoch.
    tat: i128,
}

impl Cell {
    /// One request at `now_ns`.
    pub fn throttle(&mut self, rate: CellRate, quantity: u64, now_ns: u64) -> CellAnswer {
        let now = i128::from(now_ns) * PARTS;
        let interval = i128::from(rate.period_s) * 1_000_000_000 * PARTS / i128::from(rate.count);
        let increment = interval * i128::from(quantity);
        let tolerance = interval * (i128::from(rate.max_burst) + 1);
        let tat = self.tat.max(now);
        let new_tat = tat + increment;
        let is_limited = new_tat - tolerance > now;
        if !is_limited {
            self.tat = new_tat;
        }
        let ttl = self.tat.max(now) - now;
        let is_ever = increment <= tolerance;
        CellAnswer {
            admitted: !is_limited,
            remaining: whole((tolerance - ttl).max(0) / interval),
            retry_after: (is_limited && is_ever).then(|| up(new_tat - tolerance - now)),
            reset_after: up(ttl),
        }
    }

    /// The key as it would be with a TAT that is `later` later.
    #[must_use]
    pub fn delayed(self, later: Duration) -> Self {
        Self { tat: self.tat + later.as_nanos() as i128 * PARTS }
    }
}

fn whole(number: i128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Parts of a ns, as a duration that is not shorter.
fn up(parts: i128) -> Duration {
    Duration::from_nanos(whole((parts + PARTS - 1) / PARTS))
}

/// One request of a history.
#[derive(Clone, Copy, Debug)]
pub struct CellStep {
    /// Time since the request before it.
    pub gap: Duration,
    /// Rate that the request brings.
    pub rate: CellRate,
    /// Permits that the request takes.
    pub quantity: u64,
}

/// A history of 60 requests for one key, whose rate changes every few of them: burst, count and period. With
/// `is_whole` every interval is a whole number of ns, as redis-cell counts.
#[must_use]
pub fn history(seed: u64, is_whole: bool) -> Vec<CellStep> {
    const WHOLE: [(u64, u64); 10] = [
        (1, 1),
        (10, 1),
        (1_000, 1),
        (30, 60),
        (60, 60),
        (5, 60),
        (1, 60),
        (100, 3_600),
        (128, 86_400),
        (1, 86_400),
    ];
    const FRACTIONS: [(u64, u64); 8] =
        [(3, 1), (7, 1), (9, 1), (11, 60), (7, 3_600), (1_100, 1), (2_200_000, 1), (3, 86_400)];
    let mut random = Random(seed);
    let mut rate = CellRate { max_burst: 3, count: 1, period_s: 1 };
    let mut steps = Vec::new();
    for nth in 0..60 {
        if nth == 0 || random.below(4) == 0 {
            let one_of_all = random.below((WHOLE.len() + FRACTIONS.len()) as u64) as usize;
            let pair = match FRACTIONS.get(one_of_all) {
                Some(pair) if !is_whole => *pair,
                // Seldom, since after it the key owes years.
                _ if one_of_all == 17 && seed.is_multiple_of(4) => (1, 31_536_000),
                _ => WHOLE[one_of_all % WHOLE.len()],
            };
            // One number or all of them.
            match random.below(3) {
                0 => rate.max_burst = random.below(12),
                1 => (rate.count, rate.period_s) = pair,
                _ => (rate.max_burst, rate.count, rate.period_s) = (random.below(12), pair.0, pair.1),
            }
        }
        let interval_ns = rate.period_s * 1_000_000_000 / rate.count;
        // At most a week, or a history of slow rates would take decades.
        let longest_ns = (interval_ns * (rate.max_burst + 2)).min(604_800_000_000_000);
        let gap_ns = match random.below(8) {
            0 | 1 => 0,
            2 => 1,
            3 => interval_ns.min(longest_ns),
            4 => interval_ns.min(longest_ns) - 1,
            5 | 6 => random.below(interval_ns.min(longest_ns)),
            _ => random.below(longest_ns),
        };
        let quantity = match random.below(8) {
            0 => 0,
            1..=4 => 1,
            5 => 2,
            6 => random.below(6),
            _ => random.below(14),
        };
        steps.push(CellStep { gap: Duration::from_nanos(gap_ns), rate, quantity });
    }
    steps
}

/// Holds `take`, which is given the number of each request, the request and its time in ns from `now_ns` on,
/// to redis-cell by one history of whole intervals: each answer is the same.
///
/// # Panics
/// When one is not.
pub fn answers_alike(seed: u64, mut now_ns: u64, mut take: impl FnMut(usize, &CellStep, u64) -> CellAnswer) {
    let mut cell = Cell::default();
    for (nth, step) in history(seed, true).iter().enumerate() {
        now_ns += step.gap.as_nanos() as u64;
        let got = take(nth, step, now_ns);
        let want = cell.throttle(step.rate, step.quantity, now_ns);
        assert_eq!(got, want, "seed {seed}, request {nth}: {step:?}");
    }
}

/// As [`answers_alike`], by a history of any intervals: a rate whose interval is no whole number of ns reads
/// another's instant to one of its own units, and never as an earlier one. So each change of the rate makes
/// the key less than one ns later, and never earlier.
///
/// # Panics
/// When it is not so.
pub fn is_less_than_one_ns_late_for_each_change(
    seed: u64,
    mut now_ns: u64,
    mut take: impl FnMut(usize, &CellStep, u64) -> CellAnswer,
) {
    let mut cell = Cell::default();
    let mut last = None;
    let mut late = Duration::ZERO;
    for (nth, step) in history(seed, false).iter().enumerate() {
        let CellStep { gap, rate, quantity } = *step;
        if last.is_some_and(|last: CellRate| (last.count, last.period_s) != (rate.count, rate.period_s)) {
            late += Duration::from_nanos(1);
        }
        last = Some(rate);
        now_ns += gap.as_nanos() as u64;
        let got = take(nth, step, now_ns);
        let mut most = cell;
        let mut least = cell.delayed(late);
        let says = [&mut most, &mut least].map(|cell| cell.throttle(rate, quantity, now_ns));
        let is_between = got.admitted <= says[0].admitted && got.admitted >= says[1].admitted;
        assert!(is_between, "seed {seed}, request {nth}: {step:?}: {got:?}, not {says:?}");
        if got.admitted {
            cell = most;
        }
        let reset = { cell }.throttle(rate, 0, now_ns).reset_after;
        let is_near = (reset..=reset + late).contains(&got.reset_after);
        assert!(is_near, "seed {seed}, request {nth}: {step:?}: {got:?}, not {reset:?}");
    }
}

/// SplitMix64, a small generator that is the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of redis-cell's description: 30 in 60 s, 15 more at once.
    #[test]
    fn the_model_answers_as_redis_cell_is_described() {
        let rate = CellRate { max_burst: 15, count: 30, period_s: 60 };
        let mut cell = Cell::default();
        let first = cell.throttle(rate, 1, 0);
        let two = Duration::from_secs(2);
        let want = CellAnswer { admitted: true, remaining: 15, retry_after: None, reset_after: two };
        assert_eq!(first, want);
        assert_eq!(cell.throttle(rate, 15, 0).remaining, 0);
        let denied = cell.throttle(rate, 1, 0);
        assert_eq!((denied.admitted, denied.retry_after, denied.reset_after), (false, Some(two), two * 16));
        assert_eq!(cell.throttle(rate, 17, 0).retry_after, None, "it never passes");
        // Another rate reads the same instant: 32 s from now are 320 permits of ten a second.
        let fast = CellRate { count: 10, period_s: 1, ..rate };
        assert!(!cell.throttle(fast, 0, 0).admitted);
        assert_eq!(cell.throttle(fast, 1, 31_000_000_000).remaining, 5);
    }
}
