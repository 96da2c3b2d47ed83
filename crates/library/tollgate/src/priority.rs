//! Limiters with classes of priority.

use std::fmt;
use std::sync::Arc;

use tollgate_clock::MonotonicClock;
use tollgate_core::{Algorithm, Clock, Cost, Decision, QuotaError, Refill, State, Timestamp};
use tollgate_store_memory::StateCell;

use crate::bounds::Bounds;
use crate::denied::{Admitted, Denied};
use crate::direct::RateLimiter;
use crate::quota::Quota;
use crate::states::States;

pub(crate) mod keyed;

/// Limits one thing whose callers have priorities: each class has a part of the rate and of the burst by its
/// weight, and may borrow the permits that the others leave idle.
///
/// A class is a number, counted from 0 in the order of the weights. Its burst is its part of the whole one,
/// rounded so that all of them sum to it, and at least 1. It is never denied while it stays within its own
/// part, whatever the others do. Permits for a full class flow on to the other classes, by weight, so that a
/// single busy class gets the whole rate. All classes together never exceed the quota. Clones share their
/// permits.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tollgate::{ManualClock, PriorityLimiter, Quota};
///
/// const PAYING: usize = 0;
/// const CRAWLERS: usize = 1;
/// let clock = ManualClock::default();
/// let limiter = PriorityLimiter::with_clock(Quota::per_second(10), &[9, 1], clock.clone())?;
///
/// assert!(limiter.check(CRAWLERS).is_ok());
/// assert!(limiter.check(CRAWLERS).is_err()); // its burst is 1 of 10
/// assert!(limiter.check_n(PAYING, 9).is_ok()); // and theirs is untouched
///
/// clock.advance(Duration::from_millis(100)); // one permit, by weight
/// assert!(limiter.check(CRAWLERS).is_err());
/// clock.advance(Duration::from_secs(10)); // now the others are full, and lend what flows to them
/// assert!(limiter.check(CRAWLERS).is_ok());
/// clock.advance(Duration::from_millis(100));
/// assert!(limiter.check(CRAWLERS).is_ok());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub struct PriorityLimiter<C = MonotonicClock> {
    shared: Arc<PriorityEngine<StateCell, C>>,
}

struct PriorityEngine<S, C> {
    states: S,
    classes: Vec<tollgate_core::Quota>,
    clock: C,
}

impl<C> Clone for PriorityLimiter<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C> fmt::Debug for PriorityLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriorityLimiter").field("classes", &self.shared.classes.len()).finish_non_exhaustive()
    }
}

impl RateLimiter {
    /// A limiter with a class of priority for each of `weights`, which are from 1 to 1,000; at most 16.
    ///
    /// # Errors
    /// [`QuotaError`]: the quota is not a token bucket that starts full, has fewer permits at once than there
    /// are classes, or another number is out of its bounds.
    ///
    /// # Example
    /// ```
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::by_priority(Quota::per_second(100).burst(200), &[6, 3, 1])?;
    /// let bursts = (0..3).map(|class| limiter.peek(class).remaining());
    /// assert_eq!(bursts.collect::<Vec<_>>(), [120, 60, 20]);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn by_priority(quota: Quota, weights: &[u32]) -> Result<PriorityLimiter, QuotaError> {
        PriorityLimiter::with_clock(quota, weights, MonotonicClock::new())
    }
}

impl<C: Clock> PriorityLimiter<C> {
    /// As [`RateLimiter::by_priority`], on the time of `clock`.
    ///
    /// # Errors
    /// As there.
    pub fn with_clock(quota: Quota, weights: &[u32], clock: C) -> Result<Self, QuotaError> {
        Ok(Self { shared: Arc::new(PriorityEngine::new(quota, weights, StateCell::new(), clock)?) })
    }

    /// The time by the limiter's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.shared.classes.len()
    }

    /// Bounds of `class`: its own burst, and the rate of all, which it has while the others are idle. `None`
    /// if there is no such class.
    #[must_use]
    pub fn bounds(&self, class: usize) -> Option<Bounds> {
        self.shared.bounds(class)
    }

    /// Takes one permit of `class` if it has one.
    ///
    /// # Errors
    /// [`Denied`] says when its next permit is there; never, if there is no such class. Nothing was taken.
    pub fn check(&self, class: usize) -> Result<Admitted, Denied> {
        self.check_n(class, 1)
    }

    /// Takes `n` permits of `class` if it has all of them. 0 takes nothing, and shows the permits left.
    ///
    /// # Errors
    /// [`Denied`] says when they are there; never, for more than the burst of the class or if there is no
    /// such class. Nothing was taken.
    pub fn check_n(&self, class: usize, n: u64) -> Result<Admitted, Denied> {
        Denied::unless_admitted(self.shared.decide(b"", class, n))
    }

    /// Permits of `class` left, and when more come; takes nothing.
    pub fn peek(&self, class: usize) -> Decision {
        self.shared.decide(b"", class, 0)
    }

    /// Gives back `n` permits of `class` that were taken and not used, never above its burst.
    pub fn give_back(&self, class: usize, n: u64) {
        self.shared.give_back(b"", class, n);
    }
}

impl<S: States, C: Clock> PriorityEngine<S, C> {
    fn new(quota: Quota, weights: &[u32], states: S, clock: C) -> Result<Self, QuotaError> {
        let quota = quota.checked()?;
        let Algorithm::TokenBucket { burst, initial: None, overdraft: 0, refill: Refill::Continuous } =
            *quota.algorithm()
        else {
            let what =
                "classes of priority; token_bucket does, with continuous refill and nothing but a burst";
            return Err(QuotaError::Unsupported { algorithm: quota.algorithm().name(), what });
        };
        let weights: Arc<[u32]> = weights.into();
        let class = |class| {
            let algorithm = Algorithm::PriorityBuckets { burst, weights: weights.clone(), class };
            tollgate_core::Quota::new(quota.limit(), quota.period().clone(), algorithm)
        };
        // A limiter without classes is an error, too.
        let classes = (0..weights.len().max(1)).map(class).collect::<Result<_, _>>()?;
        Ok(Self { states, classes, clock })
    }

    fn bounds(&self, class: usize) -> Option<Bounds> {
        self.classes.get(class).map(Bounds::of)
    }

    fn decide(&self, key: &[u8], class: usize, n: u64) -> Decision {
        match self.classes.get(class) {
            Some(quota) => self.states.take(key, quota, Cost(n), self.clock.now()),
            None => Decision::never(0, 0, 0),
        }
    }

    fn give_back(&self, key: &[u8], class: usize, n: u64) {
        if let Some(quota) = self.classes.get(class) {
            let now = self.clock.now();
            let give_back = |state: &mut State| quota.give_back(state, Cost(n), now);
            let _left = self.states.update(key, quota, now, give_back);
        }
    }
}
