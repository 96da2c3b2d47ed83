//! The quota of a limiter: a value that is written in one line, and checked when a limiter is made of it.
//!
//! Not here: the arithmetic (`core`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tollgate_core::{Algorithm, Align, LeakyForm, Period, QuotaError, Refill};
use tollgate_human_text::{NotARate, clip, parse_rate, rate_meant_by, show_duration};

/// Number of permits that a limiter admits, per period and at once.
///
/// [`per_second`](Quota::per_second) and its siblings are token buckets: permits come back one by one, at a
/// steady rate, and up to the burst may be taken at once. The burst is the limit unless
/// [`burst`](Quota::burst) says otherwise. A text such as `100/s` or `5/minute burst 20` means the same.
///
/// The numbers are checked when a limiter is made, so that a quota is written without a `?` for each.
///
/// # Example
/// ```
/// use tollgate::Quota;
///
/// let written = Quota::per_second(100).burst(200);
/// assert_eq!("100/s burst 200".parse(), Ok(written));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    limit: u64,
    period: Period,
    algorithm: Algorithm,
    /// The first setting that the algorithm does not support.
    fault: Option<QuotaError>,
}

const SECOND: Duration = Duration::from_secs(1);

impl Quota {
    /// A token bucket of `limit` permits per second. A limit of 0 admits nothing.
    #[must_use]
    pub const fn per_second(limit: u64) -> Self {
        Self::token_bucket(limit, SECOND)
    }

    /// A token bucket of `limit` permits per minute.
    #[must_use]
    pub const fn per_minute(limit: u64) -> Self {
        Self::token_bucket(limit, Duration::from_secs(60))
    }

    /// A token bucket of `limit` permits per hour.
    #[must_use]
    pub const fn per_hour(limit: u64) -> Self {
        Self::token_bucket(limit, Duration::from_secs(3_600))
    }

    /// A token bucket of `limit` permits per day of 24 hours.
    #[must_use]
    pub const fn per_day(limit: u64) -> Self {
        Self::token_bucket(limit, Duration::from_secs(86_400))
    }

    /// A token bucket of `limit` permits per `period`: at most the burst and the limit in any period.
    #[must_use]
    pub const fn token_bucket(limit: u64, period: Duration) -> Self {
        let algorithm =
            Algorithm::TokenBucket { burst: None, initial: None, overdraft: 0, refill: Refill::Continuous };
        Self::new(limit, Period::Span(period), algorithm)
    }

    /// A token bucket of one permit per `interval`. An interval of zero is an error when a limiter is made of
    /// it; [`unlimited`](Quota::unlimited) is no limit.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Quota;
    ///
    /// let quota = Quota::every(Duration::from_millis(100)).burst(10);
    /// assert_eq!("1/100ms burst 10".parse(), Ok(quota));
    /// ```
    #[must_use]
    pub const fn every(interval: Duration) -> Self {
        Self::token_bucket(1, interval)
    }

    /// A leaky bucket that paces: a take that must come later is admitted with a
    /// [`delay`](crate::Decision::delay), so that the output is steady. [`burst`](Quota::burst) sets the
    /// number of permits that it holds.
    #[must_use]
    pub const fn leaky_queue(limit: u64, period: Duration) -> Self {
        let algorithm = Algorithm::LeakyBucket { capacity: None, form: LeakyForm::Queue { delay_after: 0 } };
        Self::new(limit, Period::Span(period), algorithm)
    }

    /// `limit` permits per `period`, reached after a warm-up: a limiter that was not used for a while is
    /// cold, and passes permits three times slower at first ([`cold_factor`](Quota::cold_factor) says
    /// otherwise). A steady load makes it warm within `warm_up`, and no load cold again. Permits pass one by
    /// one; a take of many passes as soon as one would, and the next one waits for it, as in Guava.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{ManualClock, Quota, RateLimiter};
    ///
    /// let (second, clock) = (Duration::from_secs(1), ManualClock::default());
    /// let limiter = RateLimiter::direct_with_clock(Quota::warm_up(2, second, 4 * second), clock.clone())?;
    /// let mut waits = Vec::new();
    /// for _ in 0..6 {
    ///     assert!(limiter.check().is_ok());
    ///     let wait = limiter.check().expect_err("one by one").retry_after().expect("a while");
    ///     waits.push(wait.as_millis());
    ///     clock.advance(wait);
    /// }
    /// assert_eq!(waits, [1_375, 1_125, 875, 625, 500, 500]);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn warm_up(limit: u64, period: Duration, warm_up: Duration) -> Self {
        Self::new(limit, Period::Span(period), Algorithm::WarmUp { warm_up, cold_factor: 3 })
    }

    /// `limit` permits per `period`, of which a second's worth, or [`burst`](Quota::burst), is kept while the
    /// limiter is not used. A take of any number passes as soon as those before it are paid for, and the next
    /// one waits for it, as in Guava. It begins with nothing kept.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{ManualClock, Quota, RateLimiter};
    ///
    /// let (second, clock) = (Duration::from_secs(1), ManualClock::default());
    /// let limiter = RateLimiter::direct_with_clock(Quota::smooth_bursty(5, second), clock.clone())?;
    /// assert!(limiter.check_n(10).is_ok());
    /// let wait = limiter.check().expect_err("ten are to be paid for").retry_after();
    /// assert_eq!(wait, Some(2 * second));
    /// clock.advance(10 * second);
    /// assert!(limiter.check_n(5).is_ok() && limiter.check().is_ok() && limiter.check().is_err());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn smooth_bursty(limit: u64, period: Duration) -> Self {
        Self::new(limit, Period::Span(period), Algorithm::SmoothBursty { burst: None })
    }

    /// `limit` permits per window of `period`; windows begin at the multiples of the period since the Unix
    /// epoch. Denied takes count too.
    #[must_use]
    pub const fn fixed_window(limit: u64, period: Duration) -> Self {
        Self::new(limit, Period::Span(period), Algorithm::FixedWindow { align: Align::Calendar })
    }

    /// Never more than `limit` permits in any `period`, counted in ten cells.
    #[must_use]
    pub const fn sliding_window(limit: u64, period: Duration) -> Self {
        Self::new(limit, Period::Span(period), Algorithm::sliding_window(10))
    }

    /// `limit` permits in all, which never come back by themselves.
    #[must_use]
    pub const fn total(limit: u64) -> Self {
        Self::new(limit, Period::Span(SECOND), Algorithm::Total)
    }

    /// No limit: everything is admitted, nothing is counted.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self::new(u64::MAX, Period::Span(SECOND), Algorithm::Unlimited)
    }

    /// `limit` permits per `period`, counted by any algorithm with any parameters.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Algorithm, Period, Quota, RateLimiter};
    ///
    /// let minute = Period::Span(Duration::from_secs(60));
    /// let limiter = RateLimiter::direct(Quota::new(5, minute, Algorithm::SlidingWindowCounter))?;
    /// assert!(limiter.check_n(5).is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn new(limit: u64, period: Period, algorithm: Algorithm) -> Self {
        Self { limit, period, algorithm, fault: None }
    }

    /// The same bucket with this capacity, the most that may be taken at once: the burst of a token bucket,
    /// the permits that a leaky bucket holds, or those that a smooth bursty limiter keeps.
    #[must_use]
    pub fn burst(mut self, permits: u64) -> Self {
        match &mut self.algorithm {
            Algorithm::TokenBucket { burst, .. } | Algorithm::PriorityBuckets { burst, .. } => {
                *burst = Some(permits);
            }
            Algorithm::LeakyBucket { capacity, .. } => *capacity = Some(permits),
            Algorithm::SmoothBursty { burst } => *burst = Some(permits),
            Algorithm::WarmUp { .. } => return self.without("a burst; its permits pass one by one"),
            _ => return self.without("a burst; its limit is the most at once"),
        }
        self
    }

    /// The same token bucket, which has `permits` at first instead of its whole burst.
    #[must_use]
    pub fn initial(mut self, permits: u64) -> Self {
        let Algorithm::TokenBucket { initial, .. } = &mut self.algorithm else {
            return self.without("an initial fill; token_bucket does");
        };
        *initial = Some(permits);
        self
    }

    /// The same warm-up, which begins `times` times slower than its limit: from 1, which is not at all, to
    /// 1,000.
    #[must_use]
    pub fn cold_factor(mut self, times: u32) -> Self {
        let Algorithm::WarmUp { cold_factor, .. } = &mut self.algorithm else {
            return self.without("a cold factor; warm_up does");
        };
        *cold_factor = times;
        self
    }

    fn without(mut self, what: &'static str) -> Self {
        let algorithm = self.algorithm.name();
        self.fault.get_or_insert(QuotaError::Unsupported { algorithm, what });
        self
    }

    /// Numbers that are the same for equal quotas, and seldom for different ones.
    pub(crate) const fn numbers(&self) -> [u64; 2] {
        let burst = match self.algorithm {
            Algorithm::TokenBucket { burst: Some(burst), .. } => burst,
            _ => 0,
        };
        [self.limit, burst]
    }

    /// The quota in the form that its arithmetic reads.
    pub(crate) fn checked(&self) -> Result<tollgate_core::Quota, QuotaError> {
        match &self.fault {
            Some(fault) => Err(fault.clone()),
            None => tollgate_core::Quota::new(self.limit, self.period.clone(), self.algorithm.clone()),
        }
    }
}

/// A text that is not a quota.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseQuotaError {
    /// The text is not a rate.
    #[error("invalid rate \"{text}\": {hint}")]
    NotARate {
        /// The text, shortened.
        text: String,
        /// Text to write in its place.
        hint: String,
    },
    /// A number is out of its bounds.
    #[error("invalid rate \"{text}\"")]
    OutOfBounds {
        /// The text, shortened.
        text: String,
        /// The number, and its bounds.
        source: QuotaError,
    },
}

/// `NUMBER/PERIOD`, and ` burst NUMBER` after it; the period is a unit (`s`, `minute`, `hours`, …) or a
/// length (`300/3h`). The same texts are rates in rule files, where one without a burst is a fixed window;
/// here it is always a token bucket.
impl FromStr for Quota {
    type Err = ParseQuotaError;

    fn from_str(text: &str) -> Result<Self, ParseQuotaError> {
        let rate = parse_rate(text).map_err(|fault| {
            let hint = match (fault, rate_meant_by(text)) {
                (NotARate::Number, _) => {
                    format!("the largest number is {}", tollgate_core::Quota::LARGEST_LIMIT)
                }
                (NotARate::Burst, _) => {
                    format!("the largest burst is {}", tollgate_core::Quota::LARGEST_LIMIT)
                }
                (NotARate::Form, Some(meant)) => format!("write {meant}"),
                (NotARate::Form, None) => {
                    "expected something like 100/s, 5/minute burst 20 or 300/3h".to_owned()
                }
            };
            ParseQuotaError::NotARate { text: clip(text), hint }
        })?;
        let quota = Self::token_bucket(rate.permits, rate.per.length());
        let quota = rate.burst.into_iter().fold(quota, Self::burst);
        match quota.checked() {
            Ok(_) => Ok(quota),
            Err(source) => Err(ParseQuotaError::OutOfBounds { text: clip(text), source }),
        }
    }
}

/// A quota in a message: `100 per 1s, token_bucket, burst 200`.
pub(crate) struct Described<'a>(pub(crate) &'a tollgate_core::Quota);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quota = self.0;
        match quota.period() {
            Period::Span(span) => write!(f, "{} per {}", quota.limit(), show_duration(*span))?,
            Period::Civil { unit, .. } => write!(f, "{} per {unit:?}", quota.limit())?,
            _ => write!(f, "{}", quota.limit())?,
        }
        write!(f, ", {}, burst {}", quota.algorithm().name(), quota.burst())
    }
}
