//! A limit: how many hits per period, counted by which algorithm. Checked when it is made.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Algorithm, CivilUnit, Period, Quota, QuotaError};
use tollgate_human_text::show_duration;

use crate::key_text::tail;

/// One limit of a rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limit {
    /// Its name, which replies contain; empty if it has none.
    pub name: String,
    /// The quota that a store counts by.
    pub quota: Quota,
    /// Hits per period.
    pub requests_per_unit: u64,
    /// Hits per period that the quota admits beyond these, as soft excess; 0 for a hard limit.
    pub excess: u64,
    /// Permits that each hit takes; at least 1.
    pub cost: u64,
    /// It counts and never denies, beside limits that do.
    pub shadow: bool,
    /// Hits are reported after they were used, so they are always counted in full.
    pub post_paid: bool,
    /// The bucket that it shares with other limits of its domain, if it has none of its own.
    pub bucket: Option<String>,
    /// The unit, if the period is exactly one unit; `None` for any other period, such as ten seconds.
    pub unit: Option<Unit>,
    /// Length of the period; of the unit, if a time zone makes it vary; zero for a total, which has none.
    pub period: Duration,
    /// Last part of the counter's key.
    pub(crate) key_tail: Arc<str>,
}

/// Why a limit cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The numbers make no quota.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// The counter key needs the name of the time zone.
    #[error("the time zone has no IANA name; use one such as Asia/Shanghai or UTC")]
    UnnamedTimeZone,
    /// A kind of [`Period`] that has no place in counter keys yet.
    #[error("this kind of period cannot be used for a limit")]
    UnknownPeriod,
    /// An excess of an algorithm that has no number per window.
    #[error(
        "{0} has no excess, only windows and totals have; let burst or capacity say how much more may pass"
    )]
    ExcessOfBucket(&'static str),
    /// An excess that is larger than the limit.
    #[error(
        "an excess of {excess} is above the limit of {limit}; write a number from 1 to the limit, or up to 100 %"
    )]
    LargeExcess {
        /// The excess as given, in permits.
        excess: u64,
        /// The limit, in permits per window.
        limit: u64,
    },
    /// A cost of 0, or one that never fits.
    #[error("a cost of {cost} never fits; write 1 to {most}")]
    Cost {
        /// The cost as given, in permits.
        cost: u64,
        /// The most permits that can ever be taken at once.
        most: u64,
    },
    /// [`Algorithm::Unlimited`] counts nothing.
    #[error("unlimited is not a limit; use RuleSpec::unlimited")]
    Unlimited,
}

impl Limit {
    /// `requests_per_unit` hits per `period`, counted by `algorithm`. 0 admits nothing.
    ///
    /// `period` is a [`Unit`], or a [`Period`] for any other length and for the calendar of a time zone. It
    /// is ignored for [`Algorithm::Total`], which never refills.
    ///
    /// # Errors
    /// [`LimitError`] names the number that is out of range.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_core::{Algorithm, Period, QuotaError};
    /// # use tollgate_policy::*;
    /// let period = Period::Span(Duration::from_secs(10));
    /// let limit = Limit::new(5, period.clone(), Algorithm::SlidingWindowCounter)?;
    /// assert_eq!(limit.to_string(), "5 per 10s, sliding_window_counter");
    /// let uneven = Limit::new(5, period, Algorithm::sliding_window(7));
    /// let error = uneven.expect_err("10 s do not divide into 7");
    /// assert!(matches!(error, LimitError::Quota(QuotaError::UnevenCells { cells: 7, .. })));
    /// # Ok::<(), LimitError>(())
    /// ```
    pub fn new(
        requests_per_unit: u64,
        period: impl Into<Period>,
        algorithm: Algorithm,
    ) -> Result<Self, LimitError> {
        if matches!(algorithm, Algorithm::Unlimited) {
            return Err(LimitError::Unlimited);
        }
        let length = match algorithm {
            Algorithm::Total => Length::IRRELEVANT,
            _ => Length::of(&period.into())?,
        };
        let key_tail = tail(&algorithm, &length.text, requests_per_unit == 0).into();
        let quota = Quota::new(requests_per_unit, length.period, algorithm)?;
        let unit = length.unit;
        let period = length.span;
        Ok(Self {
            name: String::new(),
            quota,
            requests_per_unit,
            excess: 0,
            cost: 1,
            shadow: false,
            post_paid: false,
            bucket: None,
            unit,
            period,
            key_tail,
        })
    }

    /// The same limit as a soft one: `excess` further hits per period are admitted and marked, and no more.
    ///
    /// # Errors
    /// [`LimitError::ExcessOfBucket`] unless it is a window or a total; [`LimitError::LargeExcess`] for more
    /// than the limit itself.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let limit = Limit::per(100, Unit::Minute)?.with_excess(10)?;
    /// assert_eq!((limit.requests_per_unit, limit.quota.limit()), (100, 110));
    /// assert_eq!(limit.to_string(), "100 per minute, fixed_window, excess 10");
    /// assert!(Limit::per(100, Unit::Minute)?.with_excess(101).is_err());
    /// # Ok::<(), LimitError>(())
    /// ```
    pub fn with_excess(mut self, excess: u64) -> Result<Self, LimitError> {
        let algorithm = self.quota.algorithm();
        if algorithm.is_bucket() {
            return Err(LimitError::ExcessOfBucket(algorithm.name()));
        }
        if excess > self.requests_per_unit {
            return Err(LimitError::LargeExcess { excess, limit: self.requests_per_unit });
        }
        let most = self.requests_per_unit.saturating_add(excess);
        self.quota = Quota::new(most, self.quota.period().clone(), algorithm.clone())?;
        self.excess = excess;
        Ok(self)
    }

    /// The same limit, of which each hit takes `cost` permits.
    ///
    /// # Errors
    /// [`LimitError::Cost`] for 0, and for more permits than can ever be there: the burst and the overdraft.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::Algorithm;
    /// # use tollgate_policy::*;
    /// let limit = Limit::per(100, Unit::Second)?.with_cost(20)?; // five a second
    /// assert_eq!(limit.to_string(), "100 per second, fixed_window, cost 20");
    /// assert!(Limit::per(100, Unit::Second)?.with_cost(101).is_err());
    /// # Ok::<(), LimitError>(())
    /// ```
    pub fn with_cost(mut self, cost: u64) -> Result<Self, LimitError> {
        let overdraft = match self.quota.algorithm() {
            Algorithm::TokenBucket { overdraft, .. } => *overdraft,
            _ => 0,
        };
        let most = self.quota.burst().saturating_add(overdraft);
        if cost == 0 || (cost > 1 && cost > most) {
            return Err(LimitError::Cost { cost, most });
        }
        self.cost = cost;
        Ok(self)
    }

    /// The same limit as one that counts and never denies: a candidate beside the limits that do.
    #[must_use]
    pub const fn in_shadow(mut self) -> Self {
        self.shadow = true;
        self
    }

    /// The same limit, whose hits are reported after they were used: tokens of an answer, or bytes.
    ///
    /// Hits are counted in full, whatever is left, and missing permits become a debt. A request is denied if
    /// nothing was left before it. So is a check with 0 hits, which counts nothing. The limits of a request
    /// that are charged together do not include it.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let limit = Limit::per(1_000, Unit::Hour)?.post_paid();
    /// assert_eq!(limit.to_string(), "1000 per hour, fixed_window, post_paid");
    /// # Ok::<(), LimitError>(())
    /// ```
    #[must_use]
    pub const fn post_paid(mut self) -> Self {
        self.post_paid = true;
        self
    }

    /// The same limit, with one counter for all limits of its domain that name this bucket. They may differ
    /// in cost and overdraft only.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let class = |value: &str, cost| -> Result<DescriptorSpec, LimitError> {
    ///     let limit = Limit::per(100, Unit::Second)?.with_cost(cost)?.in_bucket("backend");
    ///     Ok(DescriptorSpec::new("call").value(ValueSpec::text(value)).rule(RuleSpec::new(limit)))
    /// };
    /// let shop = DomainSpec::new("shop").descriptor(class("search", 1)?).descriptor(class("book", 5)?);
    /// let policy = PolicyBuilder::new().domain(shop).build()?;
    /// for value in ["search", "book"] {
    ///     let entries = [Entry::new("call", value)];
    ///     let rule = policy.domain("shop").and_then(|shop| shop.find(&entries)).expect("a rule");
    ///     let mut key = Vec::new();
    ///     rule.write_key(0, "shop", &entries, &mut key);
    ///     assert_eq!(key, b"shop|second$backend");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn in_bucket(mut self, name: impl Into<String>) -> Self {
        self.bucket = Some(name.into());
        self
    }

    /// The most permits that can remain: the burst or the capacity of a bucket, otherwise the hits per
    /// period. An excess is not part of it.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.quota.burst().saturating_sub(self.excess)
    }

    /// A fixed window: `requests_per_unit` hits per `unit`.
    ///
    /// # Errors
    /// More than [`Quota::LARGEST_LIMIT`] hits.
    pub fn per(requests_per_unit: u64, unit: Unit) -> Result<Self, LimitError> {
        Self::new(requests_per_unit, unit, Algorithm::FixedWindow { align: Default::default() })
    }

    /// The same limit for another class of priority; the limit itself if it has no classes, or not this one.
    pub(crate) fn of_class(&self, class: usize) -> Self {
        let mut limit = self.clone();
        if let Algorithm::PriorityBuckets { burst, weights, .. } = self.quota.algorithm() {
            let algorithm = Algorithm::PriorityBuckets { burst: *burst, weights: weights.clone(), class };
            if let Ok(quota) = Quota::new(self.quota.limit(), self.quota.period().clone(), algorithm) {
                limit.quota = quota;
            }
        }
        limit
    }

    /// The same limit under a name. Each of several limits of one rule needs one: its counter is kept under
    /// it.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// End of its counter keys, after the last `|`: the unit or algorithm, and the limit's name if it is one
    /// of several.
    #[must_use]
    pub fn key_tail(&self) -> &str {
        &self.key_tail
    }
}

/// Units of time. Months have 30 days and years 365, unless a time zone is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// 1 s.
    Second,
    /// 60 s.
    Minute,
    /// 3,600 s.
    Hour,
    /// 86,400 s.
    Day,
    /// 7 days, beginning on a Thursday, as 1 January 1970 was one.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl Unit {
    /// Every unit, the shortest first.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// Seconds in one unit.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 604_800,
            Self::Month => 2_592_000,
            Self::Year => 31_536_000,
        }
    }

    /// The name in rule files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

impl From<Unit> for Period {
    fn from(unit: Unit) -> Self {
        Self::Span(Duration::from_secs(unit.seconds()))
    }
}

impl From<CivilUnit> for Unit {
    fn from(unit: CivilUnit) -> Self {
        match unit {
            CivilUnit::Day => Self::Day,
            CivilUnit::Week => Self::Week,
            CivilUnit::Month => Self::Month,
            CivilUnit::Year => Self::Year,
        }
    }
}

/// Length of a period, in the forms that a limit needs.
struct Length {
    period: Period,
    span: Duration,
    unit: Option<Unit>,
    /// Text that only this length has, such as `minute`, `10s` or `day:Asia/Shanghai`.
    text: String,
}

impl Length {
    const IRRELEVANT: Self = Self {
        period: Period::Span(Duration::from_secs(1)),
        span: Duration::ZERO,
        unit: None,
        text: String::new(),
    };

    fn of(period: &Period) -> Result<Self, LimitError> {
        match period {
            Period::Civil { unit, time_zone } => {
                let name = time_zone.iana_name().ok_or(LimitError::UnnamedTimeZone)?;
                let unit = Unit::from(*unit);
                let text = format!("{}:{name}", unit.name());
                let span = Duration::from_secs(unit.seconds());
                Ok(Self { period: period.clone(), span, unit: Some(unit), text })
            }
            Period::Span(span) => {
                let unit = Unit::ALL.into_iter().find(|unit| Duration::from_secs(unit.seconds()) == *span);
                let text = unit.map_or_else(|| show_duration(*span), |unit| unit.name().to_owned());
                Ok(Self { period: period.clone(), span: *span, unit, text })
            }
            _ => Err(LimitError::UnknownPeriod),
        }
    }
}

/// A limit that came with the request instead of from the rules: `requests_per_unit` hits per calendar window
/// of `unit`.
///
/// Its counter key is that of a configured fixed window of the same unit for the same entries, so that the
/// two share a count.
#[derive(Clone, Debug)]
pub struct Override {
    /// The limit that applies in place of the rule's.
    pub limit: Limit,
    pub(crate) unit: Unit,
}

impl Override {
    /// A limit of `requests_per_unit` hits per calendar window of `unit`; zero denies everything.
    ///
    /// # Errors
    /// Never today: any number of hits per unit is a valid limit.
    pub fn new(requests_per_unit: u32, unit: Unit) -> Result<Self, QuotaError> {
        let period = Duration::from_secs(unit.seconds());
        Ok(Self {
            unit,
            limit: Limit {
                name: String::new(),
                quota: Quota::fixed_window(u64::from(requests_per_unit), period)?,
                requests_per_unit: u64::from(requests_per_unit),
                excess: 0,
                cost: 1,
                shadow: false,
                post_paid: false,
                bucket: None,
                unit: Some(unit),
                period,
                key_tail: Arc::default(), // its key ends in the unit's name
            },
        })
    }
}
