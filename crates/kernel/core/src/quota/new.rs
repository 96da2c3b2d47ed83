//! The constructors of a quota: every number is checked here, once.

use core::time::Duration;

use super::Quota;
use crate::algorithm::fixed_window::FixedWindow;
use crate::algorithm::interval_bucket::IntervalBucket;
use crate::algorithm::leaky_queue::LeakyQueue;
use crate::algorithm::priority_buckets::PriorityBuckets;
use crate::algorithm::sliding_window::SlidingWindow;
use crate::algorithm::sliding_window_counter::SlidingWindowCounter;
use crate::algorithm::sliding_window_log::SlidingWindowLog;
use crate::algorithm::token_bucket::TokenBucket;
use crate::algorithm::total::Total;
use crate::algorithm::warm_up::WarmUp;
use crate::algorithm::{Algorithm, Align, LeakyForm, Refill};
use crate::bounds::{LARGEST_LIMIT, LARGEST_LOG, LONGEST_PERIOD};
use crate::error::QuotaError;
use crate::period::Period;
use crate::step::{Step, WideAlgorithm, WideKind, WordAlgorithm, WordKind};
use crate::time::nanos;

impl Quota {
    /// Ten years of 365 days.
    pub const LONGEST_PERIOD: Duration = LONGEST_PERIOD;
    /// The largest limit and burst: 2^53 - 2.
    pub const LARGEST_LIMIT: u64 = LARGEST_LIMIT;

    /// `limit` permits per `period`, counted by `algorithm`.
    ///
    /// A limit of 0 admits nothing; with a `burst`, a token bucket admits that burst once.
    ///
    /// # Errors
    /// [`QuotaError`] names the number that is out of its bounds, and the bound.
    pub fn new(limit: u64, period: Period, algorithm: Algorithm) -> Result<Self, QuotaError> {
        if matches!(algorithm, Algorithm::Unlimited) {
            return Ok(Self { period, ..Self::unlimited() });
        }
        within_bounds(limit)?;
        if let Period::Span(span) = period {
            if span.is_zero() {
                return Err(QuotaError::EmptyPeriod);
            }
            if span > Self::LONGEST_PERIOD {
                return Err(QuotaError::LongPeriod(span));
            }
        }
        let step = step(limit, &period, &algorithm)?;
        Ok(Self { limit, period, algorithm, step })
    }

    /// A token bucket of `limit` permits per `span`, full at first, `limit` at once.
    ///
    /// # Errors
    /// The errors of [`Quota::new`].
    pub fn token_bucket(limit: u64, span: Duration) -> Result<Self, QuotaError> {
        let algorithm =
            Algorithm::TokenBucket { burst: None, initial: None, overdraft: 0, refill: Refill::Continuous };
        Self::new(limit, Period::Span(span), algorithm)
    }

    /// `limit` hits per calendar window of `span`, on the grid of the Unix epoch.
    ///
    /// # Errors
    /// The errors of [`Quota::new`].
    pub fn fixed_window(limit: u64, span: Duration) -> Result<Self, QuotaError> {
        Self::new(limit, Period::Span(span), Algorithm::FixedWindow { align: Align::Calendar })
    }

    /// No limit: everything passes, nothing is counted.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// let quota = Quota::unlimited();
    /// assert!(quota.take(&mut quota.fresh(), Cost(u64::MAX), Timestamp::ZERO).is_admitted());
    /// ```
    #[must_use]
    pub const fn unlimited() -> Self {
        Self {
            limit: u64::MAX,
            period: Period::Span(Duration::from_secs(1)),
            algorithm: Algorithm::Unlimited,
            step: Step::Word(WordAlgorithm(WordKind::Unlimited)),
        }
    }
}

/// The algorithm with its computed numbers; the limit and the period are within their bounds.
fn step(limit: u64, period: &Period, algorithm: &Algorithm) -> Result<Step, QuotaError> {
    let span = || span_of(period, algorithm);
    let word = |kind| Step::Word(WordAlgorithm(kind));
    let wide = |kind| Step::Wide(WideAlgorithm(kind));
    Ok(match algorithm {
        Algorithm::FixedWindow { align } => {
            word(WordKind::FixedWindow(FixedWindow::new(limit, period, *align)?))
        }
        Algorithm::SlidingWindow { cells, leaving } => {
            wide(WideKind::SlidingWindow(SlidingWindow::new(limit, span()?, *cells, *leaving)?))
        }
        Algorithm::SlidingWindowCounter => {
            let window_ns = nanos(span()?);
            wide(WideKind::SlidingWindowCounter(SlidingWindowCounter { limit, window_ns }))
        }
        Algorithm::SlidingWindowLog { log_denied } => {
            if limit > LARGEST_LOG {
                return Err(QuotaError::LargeLog(limit));
            }
            let window_ns = nanos(span()?);
            let log_denied = *log_denied;
            wide(WideKind::SlidingWindowLog(SlidingWindowLog { limit, window_ns, log_denied }))
        }
        Algorithm::TokenBucket { burst, initial, overdraft, refill } => {
            let burst = at_least_one("burst", *burst, limit)?;
            let initial = initial.unwrap_or(burst);
            if initial > burst {
                return Err(QuotaError::InitialAboveBurst { initial, burst });
            }
            within_bounds(*overdraft)?;
            match refill {
                _ if limit == 0 => word(WordKind::Total(Total::new(0, initial))),
                Refill::Continuous => {
                    let bucket = TokenBucket::new(limit, span()?, burst, initial, *overdraft)?;
                    word(WordKind::TokenBucket(bucket))
                }
                Refill::Interval => {
                    let period_ns = nanos(span()?);
                    let overdraft = *overdraft;
                    let bucket = IntervalBucket { limit, period_ns, burst, initial, overdraft };
                    wide(WideKind::IntervalBucket(bucket))
                }
            }
        }
        Algorithm::LeakyBucket { capacity, form } => {
            let capacity = at_least_one("capacity", *capacity, limit)?;
            if limit == 0 {
                // Nothing ever leaks out, so nothing is admitted.
                return Ok(word(WordKind::Total(Total::new(0, 0))));
            }
            let bucket = TokenBucket::new(limit, span()?, capacity, capacity, 0)?;
            match form {
                LeakyForm::Meter => word(WordKind::TokenBucket(bucket)),
                LeakyForm::Queue { delay_after } => {
                    word(WordKind::LeakyQueue(LeakyQueue::new(bucket, *delay_after)))
                }
            }
        }
        // No permit ever comes, so nothing is admitted.
        Algorithm::WarmUp { .. } | Algorithm::SmoothBursty { .. } if limit == 0 => {
            word(WordKind::Total(Total::new(0, 0)))
        }
        Algorithm::WarmUp { warm_up, cold_factor } => {
            wide(WideKind::WarmUp(WarmUp::new(limit, span()?, *warm_up, *cold_factor)?))
        }
        Algorithm::SmoothBursty { burst } => {
            let burst = burst.map(|burst| at_least_one("burst", Some(burst), limit)).transpose()?;
            wide(WideKind::WarmUp(WarmUp::bursty(limit, span()?, burst)?))
        }
        Algorithm::PriorityBuckets { burst, weights, class } => {
            let burst = at_least_one("burst", *burst, limit)?;
            if limit == 0 {
                return Ok(word(WordKind::Total(Total::new(0, 0)))); // no class gets anything
            }
            let buckets = PriorityBuckets::new(limit, nanos(span()?), burst, weights, *class)?;
            wide(WideKind::PriorityBuckets(buckets))
        }
        Algorithm::Total => word(WordKind::Total(Total::new(limit, limit))),
        Algorithm::Unlimited => word(WordKind::Unlimited),
    })
}

fn span_of(period: &Period, algorithm: &Algorithm) -> Result<Duration, QuotaError> {
    match period {
        Period::Span(span) => Ok(*span),
        Period::Civil { .. } => Err(QuotaError::Unsupported {
            algorithm: algorithm.name(),
            what: "the units of a calendar; fixed_window does",
        }),
    }
}

const fn within_bounds(permits: u64) -> Result<(), QuotaError> {
    if permits > LARGEST_LIMIT { Err(QuotaError::LargeLimit(permits)) } else { Ok(()) }
}

/// `given`, or the limit if that is `None`; may be 0.
fn at_least_one(name: &'static str, given: Option<u64>, limit: u64) -> Result<u64, QuotaError> {
    if given == Some(0) {
        return Err(QuotaError::Empty(name));
    }
    let permits = given.unwrap_or(limit);
    within_bounds(permits).map(|()| permits)
}
