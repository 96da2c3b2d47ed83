//! A quota: a number of permits per period, and the algorithm. Checked once when it is made, so that no step
//! can fail.
//!
//! A state belongs to the algorithm that wrote it. Reading it by a quota of another algorithm is safe, but
//! its counts mean nothing there: name the algorithm in the key.

mod inherit;
mod new;
mod share;

use alloc::vec::Vec;
use core::time::Duration;

use crate::algorithm::Algorithm;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::QuotaError;
use crate::period::Period;
use crate::state::{Expiry, Shape, State, Wide, Word, WordStep};
use crate::step::{Step, WideAlgorithm, WideKind, WordAlgorithm};
use crate::time::Timestamp;

/// A number of permits per period, and the algorithm that counts them.
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

impl Quota {
    /// Permits per period; [`u64::MAX`] where there is no limit.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The most permits that can be available at once: the burst or the capacity of a bucket, a class's own
    /// burst, otherwise the limit. The remaining permits are never more. For `warm_up` and `smooth_bursty`,
    /// the permits that a key stores, at least 1.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        if let Step::Wide(WideAlgorithm(WideKind::PriorityBuckets(class))) = &self.step {
            return class.burst();
        }
        match self.algorithm {
            Algorithm::TokenBucket { burst: Some(burst), .. } => burst,
            Algorithm::LeakyBucket { capacity: Some(capacity), .. } => capacity,
            _ => match &self.step {
                Step::Wide(step) => step.stores(self.limit),
                Step::Word(_) => self.limit,
            },
        }
    }

    /// Span in which the limit's permits come back, or unit of a calendar.
    #[must_use]
    pub const fn period(&self) -> &Period {
        &self.period
    }

    /// The counting method, with its parameters.
    #[must_use]
    pub const fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// The algorithm with its computed numbers, by the shape of its state.
    #[must_use]
    pub const fn step(&self) -> &Step {
        &self.step
    }

    /// True when both count alike, so that takes by one may be counted as takes by the other: their numbers
    /// are the same, and so are the earlier rates that they remember ([`Quota::migrated_from`]).
    #[must_use]
    pub fn is_equivalent_to(&self, other: &Self) -> bool {
        let has_its_history = match (&self.step, &other.step) {
            (Step::Word(a), Step::Word(b)) => a.has_history_of(b),
            _ => true,
        };
        has_its_history
            && self.limit == other.limit
            && self.period == other.period
            && self.algorithm == other.algorithm
    }

    /// This quota as the successor of `old` from `at` on: states that `old` wrote keep their counts, in
    /// permits.
    #[must_use]
    pub fn migrated_from(mut self, old: &Self, at: Timestamp) -> Self {
        if let (Step::Word(new), Step::Word(old)) = (&mut self.step, &old.step) {
            new.migrate_from(old, at);
        }
        self
    }

    /// Declares that a successor of `other`, which counts the same keys, succeeds this quota too: takes that
    /// the change has overtaken read the successor's states. [`Quota::migrated_from`] does so for the one
    /// quota that it is given.
    pub fn share_successors_of(&self, other: &Self) {
        if let (Step::Word(this), Step::Word(other)) = (&self.step, &other.step) {
            this.share_successors_of(other);
        }
    }

    /// This quota as one of many that may count the same key, of any rates: a state is the instant at which
    /// its key is full again, which carries over to any rate of the next caller, as in redis-cell. (A rule's
    /// successor keeps the permits instead: [`Quota::migrated_from`].)
    ///
    /// Only a bucket with continuous refill that starts full can do so; any other quota stays as it is, and
    /// [`Quota::keeps_instants`] is false.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let second = Duration::from_secs(1);
    /// let slow = Quota::token_bucket(1, second)?.keeping_instants();
    /// let fast = Quota::token_bucket(10, second)?.keeping_instants();
    /// let (noon, mut state) = (Timestamp::from_unix_seconds(1_700_000_000), slow.fresh());
    /// assert!(slow.take(&mut state, Cost(1), noon).is_admitted());
    /// // Full again a second from noon: at ten a second that is an empty bucket.
    /// assert_eq!(fast.take(&mut state, Cost::PEEK, noon).remaining(), 0);
    /// assert_eq!(fast.take(&mut state, Cost(4), noon + second / 2).remaining(), 1);
    /// # Ok::<(), QuotaError>(())
    /// ```
    #[must_use]
    pub fn keeping_instants(mut self) -> Self {
        if let Step::Word(step) = &mut self.step {
            step.keep_instants();
        }
        self
    }

    /// True for a quota that is [`keeping_instants`](Quota::keeping_instants).
    #[must_use]
    pub const fn keeps_instants(&self) -> bool {
        match &self.step {
            Step::Word(step) => step.keeps_instants(),
            Step::Wide(_) => false,
        }
    }

    /// This quota as one of several that count the same keys and differ in nothing but their overdraft, which
    /// is at most `overdraft`: the classes of a bucket. All of them are made with the same number, and
    /// [migrated](Quota::migrated_from) from each other only then, so that each reads the states of the
    /// others.
    ///
    /// Without it, a state is in units that depend on the quota's own overdraft. Quotas other than a token
    /// bucket with continuous refill stay as they are: their states do not depend on it.
    ///
    /// # Errors
    /// [`QuotaError::SlowBucket`]: with so large an overdraft it takes too long to fill.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let class = |overdraft| {
    ///     let algorithm = Algorithm::TokenBucket {
    ///         burst: Some(10), initial: None, overdraft, refill: Refill::Continuous,
    ///     };
    ///     Quota::new(10, Period::Span(Duration::from_secs(1)), algorithm)?.with_room_for_overdraft(5)
    /// };
    /// let (search, book) = (class(0)?, class(5)?);
    /// let (noon, mut state) = (Timestamp::from_unix_seconds(1_700_000_000), search.fresh());
    /// assert!(search.take(&mut state, Cost(8), noon).is_admitted());
    /// assert!(book.take(&mut state, Cost(7), noon).is_admitted()); // 2 are left, 5 come in advance
    /// let denied = search.take(&mut state, Cost(1), noon);
    /// assert_eq!(denied.retry_after(), RetryAfter::After(Duration::from_millis(600)));
    /// # Ok::<(), QuotaError>(())
    /// ```
    pub fn with_room_for_overdraft(mut self, overdraft: u64) -> Result<Self, QuotaError> {
        if overdraft > Self::LARGEST_LIMIT {
            return Err(QuotaError::LargeLimit(overdraft));
        }
        if let (Step::Word(step), Period::Span(period)) = (&mut self.step, &self.period) {
            step.make_room_for_overdraft(*period, overdraft)?;
        }
        Ok(self)
    }

    /// The shape of the state that a store must keep per key.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        match self.step {
            Step::Word(_) => Shape::Word,
            Step::Wide(_) => Shape::Wide,
        }
    }

    /// The state of an unseen key.
    #[must_use]
    pub const fn fresh(&self) -> State {
        match self.step {
            Step::Word(_) => State::Word(Word::FRESH),
            Step::Wide(_) => State::Wide(Wide { cells: Vec::new(), expires: Expiry::PAST }),
        }
    }

    /// True where an unseen key does not start full: a bucket whose rule sets the initial permits, and
    /// `smooth_bursty`.
    #[must_use]
    pub const fn starts_partial(&self) -> bool {
        matches!(
            self.algorithm,
            Algorithm::TokenBucket { initial: Some(_), .. } | Algorithm::SmoothBursty { .. }
        )
    }
}

/// Steps on a state of either shape, in place. A state of the other shape was written by another algorithm
/// and counts nothing: it is replaced by a [fresh](Quota::fresh) one.
impl Quota {
    /// Takes `cost` permits if they fit; otherwise takes none and returns the wait until they would.
    pub fn take(&self, state: &mut State, cost: Cost, now: Timestamp) -> Decision {
        self.step_on(state, |it, word| it.take(word, cost, now), |it, wide| it.take(wide, cost, now))
    }

    /// Takes as many of `cost` permits as are available, which may be 0; returns their number, and the
    /// decision on them.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let quota = Quota::token_bucket(10, Duration::from_secs(1))?;
    /// let (noon, mut state) = (Timestamp::from_unix_seconds(1_700_000_000), quota.fresh());
    /// assert_eq!(quota.take_at_most(&mut state, Cost(7), noon).0, Cost(7));
    /// assert_eq!(quota.take_at_most(&mut state, Cost(7), noon).0, Cost(3));
    /// assert_eq!(quota.take_at_most(&mut state, Cost(7), noon).0, Cost(0));
    /// # Ok::<(), QuotaError>(())
    /// ```
    pub fn take_at_most(&self, state: &mut State, cost: Cost, now: Timestamp) -> (Cost, Decision) {
        let there = self.take(state, Cost::PEEK, now).remaining();
        let taken = Cost(cost.permits().min(there));
        if taken.is_peek() && !cost.is_peek() {
            self.start_refill(state, now);
        }
        (taken, self.take(state, taken, now))
    }

    /// Gives `cost` permits back, never above a full quota.
    pub fn give_back(&self, state: &mut State, cost: Cost, now: Timestamp) -> Decision {
        self.step_on(
            state,
            |it, word| it.give_back(word, cost, now),
            |it, wide| it.give_back(wide, cost, now),
        )
    }

    /// Counts `cost` permits that are used already, in full, even if they were not available. The shortfall
    /// is [owed](Decision::owed): later permits repay it before anything else is admitted. Always admits,
    /// with the permits that are left then.
    ///
    /// A key counts or owes at most [`MAX_COUNT`](crate::MAX_COUNT) permits, and a quarter of that for
    /// windows of cells and for logs. Debts end at [`Expiry::LATEST`]. Charges beyond these bounds are
    /// forgotten.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let quota = Quota::token_bucket(10, Duration::from_secs(1))?;
    /// let (noon, mut state) = (Timestamp::from_unix_seconds(1_700_000_000), quota.fresh());
    /// let charged = quota.charge(&mut state, Cost(25), noon);
    /// assert_eq!((charged.remaining(), charged.owed()), (0, 15));
    /// assert_eq!(charged.left_after(), RetryAfter::After(Duration::from_millis(1_600)));
    /// # Ok::<(), QuotaError>(())
    /// ```
    pub fn charge(&self, state: &mut State, cost: Cost, now: Timestamp) -> Decision {
        self.step_on(state, |it, word| it.charge(word, cost, now), |it, wide| it.charge(wide, cost, now))
    }

    /// The step of a payment afterwards: asks with a cost of 0 before the work, and reports the cost once it
    /// is known.
    ///
    /// A cost of 0 is admitted if at least one permit is left, and takes nothing. Any other cost is counted
    /// in full, as [`charge`](Self::charge) does; it too is denied if nothing was left before, so that a
    /// caller that never asks is limited as well. A denial says when a permit is left again, and begins to
    /// fill a key that starts empty.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let quota = Quota::token_bucket(1_000, Duration::from_secs(3_600))?;
    /// let (noon, mut state) = (Timestamp::from_unix_seconds(1_700_000_000), quota.fresh());
    /// for _ in 0..2 {
    ///     assert!(quota.pay(&mut state, Cost(0), noon).is_admitted());
    ///     assert!(quota.pay(&mut state, Cost(900), noon).is_admitted());
    /// }
    /// let denied = quota.pay(&mut state, Cost(0), noon); // 800 are owed
    /// assert_eq!((denied.is_admitted(), denied.owed()), (false, 800));
    /// assert_eq!(denied.retry_after(), RetryAfter::After(Duration::from_millis(801 * 3_600)));
    /// # Ok::<(), QuotaError>(())
    /// ```
    pub fn pay(&self, state: &mut State, cost: Cost, now: Timestamp) -> Decision {
        self.step_on(state, |it, word| it.pay(word, cost, now), |it, wide| it.pay(wide, cost, now))
    }

    /// Takes `cost` permits for now, or reserves them for the first instant at which they are available if
    /// that is at most `max_wait` away: the [`delay`](Decision::delay) is the time until then. Otherwise
    /// denies, with the wait until the same reservation would be granted.
    ///
    /// A cost that [`Quota::take`] would admit without a delay is reserved without a wait. Only buckets,
    /// queues, `warm_up` and `smooth_bursty` promise permits that are not available yet.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let quota = Quota::token_bucket(10, Duration::from_secs(1))?;
    /// let (noon, mut state) = (Timestamp::from_unix_seconds(1_700_000_000), quota.fresh());
    /// assert_eq!(quota.reserve(&mut state, Cost(10), Duration::ZERO, noon).delay(), Duration::ZERO);
    /// let ahead = quota.reserve(&mut state, Cost(2), Duration::from_secs(1), noon);
    /// assert!(ahead.is_admitted() && ahead.delay() == Duration::from_millis(200));
    /// let too_far = quota.reserve(&mut state, Cost(10), Duration::from_secs(1), noon);
    /// assert_eq!(too_far.retry_after(), RetryAfter::After(Duration::from_millis(200)));
    /// # Ok::<(), QuotaError>(())
    /// ```
    pub fn reserve(&self, state: &mut State, cost: Cost, max_wait: Duration, now: Timestamp) -> Decision {
        self.step_on(
            state,
            |it, word| it.reserve(word, cost, max_wait, now),
            |it, wide| it.reserve(wide, cost, max_wait, now),
        )
    }

    /// The wait until `cost` permits may be used that were [reserved](Quota::reserve) and are owed in
    /// `state`, if `behind` permits were reserved after them; `None` where the algorithm reserves nothing
    /// ahead of time.
    ///
    /// Shorter than the reservation said if an earlier one was given back since.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let (second, ms) = (Duration::from_secs(1), Duration::from_millis);
    /// let quota = Quota::token_bucket(10, second)?;
    /// let (noon, mut state) = (Timestamp::from_unix_seconds(1_700_000_000), quota.fresh());
    /// for (cost, delay) in [(10, 0), (2, 200), (3, 500), (1, 600)] {
    ///     assert_eq!(quota.reserve(&mut state, Cost(cost), second, noon).delay(), ms(delay));
    /// }
    /// assert_eq!(quota.wait_of_reserved(&state, Cost(3), Cost(1), noon), Some(ms(500)));
    /// let _ = quota.give_back(&mut state, Cost(2), noon); // the first of the three gives up its place
    /// assert_eq!(quota.wait_of_reserved(&state, Cost(3), Cost(1), noon), Some(ms(300)));
    /// # Ok::<(), QuotaError>(())
    /// ```
    #[must_use]
    pub fn wait_of_reserved(
        &self,
        state: &State,
        cost: Cost,
        behind: Cost,
        now: Timestamp,
    ) -> Option<Duration> {
        match &self.step {
            Step::Word(step) => step.wait_of_promised(state.word(), cost, behind, now),
            Step::Wide(step) => match state {
                State::Wide(wide) => step.wait_of_reserved(wide, cost, behind, now),
                State::Word(_) => step.wait_of_reserved(&Wide::default(), cost, behind, now),
            },
        }
    }

    /// The only change that a denial makes: a bucket that does not start full begins to fill with the first
    /// request, admitted or not; otherwise it would never fill.
    pub fn start_refill(&self, state: &mut State, now: Timestamp) {
        match &self.step {
            Step::Word(step) => *state = State::Word(step.start_refill(state.word(), now)),
            Step::Wide(step) => {
                let mut wide = state.take_wide();
                step.start_refill(&mut wide, now);
                *state = State::Wide(wide);
            }
        }
    }

    /// The one place where a quota meets a state of either shape.
    fn step_on(
        &self,
        state: &mut State,
        on_word: impl FnOnce(&WordAlgorithm, Word) -> WordStep,
        on_wide: impl FnOnce(&WideAlgorithm, &mut Wide) -> Decision,
    ) -> Decision {
        match &self.step {
            Step::Word(step) => {
                let WordStep { word, decision } = on_word(step, state.word());
                *state = State::Word(word);
                decision
            }
            Step::Wide(step) => {
                let mut wide = state.take_wide();
                let decision = on_wide(step, &mut wide);
                *state = State::Wide(wide);
                decision
            }
        }
    }
}
