//! A quota: how much, over what period, counted how. Checked once when it is made, so that no step can fail.

use std::time::Duration;

use crate::algorithm::fixed_window::FixedWindow;
use crate::algorithm::token_bucket::TokenBucket;
use crate::algorithm::{Algorithm, Align, Refill};
use crate::{Cost, Decision, Shape, State, Timestamp, Wide, Word, WordStep};

/// The span over which a limit counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Period {
    /// A length of time; windows stand on its multiples since the Unix epoch.
    Span(Duration),
    /// A unit of a time zone's calendar: days begin at local midnight, weeks on Monday, months on the first.
    Civil {
        /// Which unit.
        unit: CivilUnit,
        /// IANA name, such as `Asia/Shanghai`.
        time_zone: jiff::tz::TimeZone,
    },
}

/// Units of a civil calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CivilUnit {
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first to the first.
    Month,
    /// From 1 January to 1 January.
    Year,
}

/// Why a quota cannot be made. Nothing was counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// A period of zero.
    #[error("a period of zero has no rate; the shortest is 1 ns")]
    EmptyPeriod,
    /// A period above [`Quota::LONGEST_PERIOD`].
    #[error("a period of {0:?} is too long; the longest is ten years")]
    LongPeriod(Duration),
    /// A limit above [`Quota::LARGEST_LIMIT`].
    #[error("a limit of {0} is too large; the largest is {max}", max = Quota::LARGEST_LIMIT)]
    LargeLimit(u64),
    /// A burst or capacity that admits nothing.
    #[error("{0} 0 admits nothing; the smallest is 1")]
    Empty(&'static str),
    /// A burst that would take too long to fill to be counted exactly.
    #[error("a bucket of {capacity} at this rate takes more than thirty years to fill; make it smaller")]
    SlowBucket {
        /// Burst plus overdraft, or capacity.
        capacity: u64,
    },
    /// An initial fill above the burst.
    #[error("initial {initial} is above the burst of {burst}")]
    InitialAboveBurst {
        /// What was asked for.
        initial: u64,
        /// The most that fits.
        burst: u64,
    },
    /// A window that does not divide into its cells.
    #[error("a window of {window:?} does not divide into {cells} cells of whole nanoseconds")]
    UnevenCells {
        /// The window.
        window: Duration,
        /// The cells asked for.
        cells: u32,
    },
    /// The algorithm has no meaning with this period.
    #[error("{algorithm} does not work with {what}")]
    Unsupported {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// What it does not work with.
        what: &'static str,
    },
}

/// How much, over what period, counted how.
///
/// # Example
/// ```
/// # use tollgate_core::*;
/// # use std::time::Duration;
/// let quota = Quota::token_bucket(10, Duration::from_secs(1))?;
/// let mut state = quota.fresh();
/// let noon = Timestamp::from_unix_seconds(1_700_000_000);
/// let decision = quota.take(&mut state, Cost(4), noon);
/// assert!(decision.is_admitted());
/// assert_eq!(decision.remaining(), 6);
/// # Ok::<(), QuotaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Quota {
    limit: u64,
    period: Period,
    algorithm: Algorithm,
    step: Step,
}

/// The algorithm with its numbers worked out.
#[derive(Clone, Debug)]
enum Step {
    FixedWindow(FixedWindow),
    TokenBucket(TokenBucket),
}

impl Quota {
    /// Ten years of 365 days.
    pub const LONGEST_PERIOD: Duration = Duration::from_secs(10 * 365 * 86_400);
    /// The largest limit and burst: 2^34 - 2, above the 2^32 - 1 of rule files.
    pub const LARGEST_LIMIT: u64 = (1 << 34) - 2;

    /// `limit` permits per `period`, counted by `algorithm`.
    ///
    /// # Errors
    /// [`QuotaError`] says which number is out of its bounds, and the bound.
    pub fn new(limit: u64, period: Period, algorithm: Algorithm) -> Result<Self, QuotaError> {
        if limit > Self::LARGEST_LIMIT {
            return Err(QuotaError::LargeLimit(limit));
        }
        if let Period::Span(span) = period {
            if span.is_zero() {
                return Err(QuotaError::EmptyPeriod);
            }
            if span > Self::LONGEST_PERIOD {
                return Err(QuotaError::LongPeriod(span));
            }
        }
        let step = match &algorithm {
            Algorithm::FixedWindow { align } => Step::FixedWindow(FixedWindow::new(limit, &period, *align)?),
            Algorithm::TokenBucket { burst, initial, overdraft, refill: Refill::Continuous } => {
                let Period::Span(span) = period else {
                    return Err(QuotaError::Unsupported { algorithm: "token_bucket", what: "a time zone" });
                };
                Step::TokenBucket(TokenBucket::new(limit, span, burst.unwrap_or(limit), *initial, *overdraft)?)
            }
            other => {
                return Err(QuotaError::Unsupported { algorithm: other.name(), what: "this build" });
            }
        };
        Ok(Self { limit, period, algorithm, step })
    }

    /// A token bucket of `limit` permits per `span`, full at first, `limit` at once.
    ///
    /// # Errors
    /// As [`Quota::new`].
    pub fn token_bucket(limit: u64, span: Duration) -> Result<Self, QuotaError> {
        let algorithm =
            Algorithm::TokenBucket { burst: None, initial: None, overdraft: 0, refill: Refill::Continuous };
        Self::new(limit, Period::Span(span), algorithm)
    }

    /// `limit` hits per calendar window of `span`, on the grid of the Unix epoch.
    ///
    /// # Errors
    /// As [`Quota::new`].
    pub fn fixed_window(limit: u64, span: Duration) -> Result<Self, QuotaError> {
        Self::new(limit, Period::Span(span), Algorithm::FixedWindow { align: Align::Calendar })
    }

    /// Permits per period.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The period.
    #[must_use]
    pub const fn period(&self) -> &Period {
        &self.period
    }

    /// How it counts.
    #[must_use]
    pub const fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// What a store must keep for a key of this quota.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        match self.step {
            Step::FixedWindow(_) | Step::TokenBucket(_) => Shape::Word,
        }
    }

    /// The state of an unseen key.
    #[must_use]
    pub const fn fresh(&self) -> State {
        match self.shape() {
            Shape::Word => State::Word(Word::FRESH),
            Shape::Wide => State::Wide(Wide { cells: Vec::new(), expires: crate::Expiry::PAST }),
        }
    }

    /// This quota as the successor of `old` from `at` on: states that `old` wrote keep their counts, in permits.
    #[must_use]
    pub fn succeeding(mut self, old: &Self, at: Timestamp) -> Self {
        if let (Step::TokenBucket(new), Step::TokenBucket(old)) = (&mut self.step, &old.step) {
            new.succeed(old, at);
        }
        self
    }

    /// Takes `cost` permits from a one-word state if they fit; else answers when they would.
    ///
    /// Only for quotas whose [`shape`](Quota::shape) is [`Shape::Word`]; any other answers "never fits".
    #[inline]
    pub fn take_word(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        match &self.step {
            Step::TokenBucket(bucket) => bucket.take(word, cost, now),
            Step::FixedWindow(window) => window.take(word, cost, now),
        }
    }

    /// Gives `cost` permits back to a one-word state, never above a full quota.
    pub fn give_back_word(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        match &self.step {
            Step::TokenBucket(bucket) => bucket.give_back(word, cost, now),
            Step::FixedWindow(window) => window.give_back(word, cost, now),
        }
    }

    /// As [`Quota::take_word`], for quotas whose shape is [`Shape::Wide`], in place.
    pub fn take_wide(&self, _state: &mut Wide, _cost: Cost, _now: Timestamp) -> Decision {
        Decision::never(self.limit, 0, 0)
    }

    /// As [`Quota::give_back_word`], for quotas whose shape is [`Shape::Wide`], in place.
    pub fn give_back_wide(&self, _state: &mut Wide, _cost: Cost, _now: Timestamp) -> Decision {
        Decision::never(self.limit, 0, 0)
    }

    /// Takes from a state of either shape, in place.
    pub fn take(&self, state: &mut State, cost: Cost, now: Timestamp) -> Decision {
        match state {
            State::Word(word) => {
                let step = self.take_word(*word, cost, now);
                *word = step.word;
                step.decision
            }
            State::Wide(wide) => self.take_wide(wide, cost, now),
        }
    }

    /// Gives back to a state of either shape, in place.
    pub fn give_back(&self, state: &mut State, cost: Cost, now: Timestamp) -> Decision {
        match state {
            State::Word(word) => {
                let step = self.give_back_word(*word, cost, now);
                *word = step.word;
                step.decision
            }
            State::Wide(wide) => self.give_back_wide(wide, cost, now),
        }
    }
}
