//! A quota: how much, over what period, counted how. Checked once when it is made, so that no step can fail.
//!
//! A state belongs to the algorithm that wrote it. Reading it by a quota of another algorithm is safe, but what was
//! counted means nothing there: name the algorithm in the key.

mod build;
mod error;
mod period;
mod share;

use std::time::Duration;

pub use self::error::QuotaError;
pub use self::period::{CivilUnit, Period};
use crate::algorithm::fixed_window::FixedWindow;
use crate::algorithm::interval_bucket::IntervalBucket;
use crate::algorithm::leaky_queue::LeakyQueue;
use crate::algorithm::sliding_window::SlidingWindow;
use crate::algorithm::sliding_window_counter::SlidingWindowCounter;
use crate::algorithm::sliding_window_log::SlidingWindowLog;
use crate::algorithm::token_bucket::TokenBucket;
use crate::algorithm::total::{Total, reserve_now};
use crate::algorithm::{
    Algorithm, interval_bucket, sliding_window, sliding_window_counter, sliding_window_log,
};
use crate::reserve::Ahead;
use crate::{Cost, Decision, Expiry, FastStep, Promise, Shape, State, Timestamp, Wide, Word, WordStep};

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
    pub(crate) limit: u64,
    period: Period,
    algorithm: Algorithm,
    sharing: Sharing,
    pub(crate) step: Step,
}

/// Where a quota's counters live when several nodes run. The arithmetic is the same; a store that only one node uses need not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// In the store: every decision asks it.
    #[default]
    Exact,
    /// In the store, which hands out permits ahead of time.
    Leased,
    /// In this node's memory, even when a store is configured.
    Local,
}

/// The algorithm with its numbers worked out.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    TokenBucket(TokenBucket),
    FixedWindow(FixedWindow),
    LeakyQueue(LeakyQueue),
    Total(Total),
    Unlimited,
    IntervalBucket(IntervalBucket),
    SlidingWindow(SlidingWindow),
    SlidingWindowCounter(SlidingWindowCounter),
    SlidingWindowLog(SlidingWindowLog),
}

impl Quota {
    /// Permits per period; [`u64::MAX`] where there is no limit.
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

    /// The same quota, with its counters kept as `sharing` says.
    #[must_use]
    pub const fn shared(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    /// Where its counters live when several nodes run; [`Sharing::Exact`] unless [`Quota::shared`] said otherwise.
    #[must_use]
    pub const fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// True when both count alike, so that takes by one may stand for takes by the other: the same numbers, and the same rates
    /// remembered ([`Quota::migrated_from`]).
    #[must_use]
    pub fn is_equivalent_to(&self, other: &Self) -> bool {
        let past = match (&self.step, &other.step) {
            (Step::TokenBucket(a), Step::TokenBucket(b)) => a.has_the_past_of(b),
            (Step::LeakyQueue(a), Step::LeakyQueue(b)) => a.bucket().has_the_past_of(b.bucket()),
            _ => true,
        };
        past && self.limit == other.limit && self.period == other.period && self.algorithm == other.algorithm
    }

    /// What a store must keep for a key of this quota.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        match self.step {
            Step::TokenBucket(_)
            | Step::FixedWindow(_)
            | Step::LeakyQueue(_)
            | Step::Total(_)
            | Step::Unlimited => Shape::Word,
            Step::IntervalBucket(_)
            | Step::SlidingWindow(_)
            | Step::SlidingWindowCounter(_)
            | Step::SlidingWindowLog(_) => Shape::Wide,
        }
    }

    /// The state of an unseen key.
    #[must_use]
    pub const fn fresh(&self) -> State {
        match self.shape() {
            Shape::Word => State::Word(Word::FRESH),
            Shape::Wide => State::Wide(Wide { cells: Vec::new(), expires: Expiry::PAST }),
        }
    }

    /// This quota as the successor of `old` from `at` on: states that `old` wrote keep their counts, in permits.
    #[must_use]
    pub fn migrated_from(mut self, old: &Self, at: Timestamp) -> Self {
        match (&mut self.step, &old.step) {
            (Step::TokenBucket(new), Step::TokenBucket(old)) => new.succeed(old, at),
            (Step::LeakyQueue(new), Step::LeakyQueue(old)) => new.succeed(old, at),
            _ => {} // the states of the others hold permits and instants, whatever the rate
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
            _ => self.take_rare_word(word, cost, now),
        }
    }

    /// As [`Quota::take_word`] in the usual case: a token bucket or a fixed window, and a state that is not odd. Nothing but
    /// arithmetic and no call, so that a store can have it in line. `None`: ask [`Quota::take_word`].
    #[inline(always)]
    #[must_use]
    pub fn take_fast_word(&self, word: Word, cost: Cost, now: Timestamp) -> Option<FastStep> {
        match &self.step {
            Step::TokenBucket(bucket) => bucket.take_usual(word, cost, now),
            Step::FixedWindow(window) => window.take_usual(word, cost, now),
            _ => None,
        }
    }

    #[inline(never)]
    fn take_rare_word(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        match &self.step {
            Step::LeakyQueue(queue) => queue.take(word, cost, now),
            Step::Total(total) => total.take(word, cost, now),
            Step::Unlimited => WordStep { word, decision: Self::no_limit() },
            _ => WordStep { word, decision: self.misused() },
        }
    }

    /// Gives `cost` permits back to a one-word state, never above a full quota.
    pub fn give_back_word(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        match &self.step {
            Step::TokenBucket(bucket) => bucket.give_back(word, cost, now),
            Step::FixedWindow(window) => window.give_back(word, cost, now),
            Step::LeakyQueue(queue) => queue.give_back(word, cost, now),
            Step::Total(total) => total.give_back(word, cost),
            Step::Unlimited => WordStep { word, decision: Self::no_limit() },
            _ => WordStep { word, decision: self.misused() },
        }
    }

    /// Takes `cost` permits from a one-word state whether they fit or not: what was used turned out to be more than what
    /// was asked for. Later permits repay the debt before anything else is granted.
    pub fn charge_word(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        match &self.step {
            Step::TokenBucket(bucket) => bucket.charge(word, cost, now),
            Step::FixedWindow(window) => window.charge(word, cost, now),
            Step::LeakyQueue(queue) => queue.charge(word, cost, now),
            Step::Total(total) => total.charge(word, cost),
            Step::Unlimited => WordStep { word, decision: Self::no_limit() },
            _ => WordStep { word, decision: self.misused() },
        }
    }

    /// Reserves `cost` permits of a one-word state for the first instant at which they are there, if that is at most
    /// `max_wait` away. Permits of a token bucket may be reserved ahead of time, those of a queue in its order; any other
    /// quota grants what it has now. Never granted above the burst; without a limit, always.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let quota = Quota::token_bucket(10, Duration::from_secs(1))?;
    /// let noon = Timestamp::from_unix_seconds(1_700_000_000);
    /// let first = quota.promise_word(Word::FRESH, Cost(10), Duration::ZERO, noon);
    /// assert!(first.granted && first.act_at == noon);
    /// let second = quota.promise_word(first.word, Cost(1), Duration::from_secs(1), noon);
    /// assert!(second.granted && second.act_at == noon + Duration::from_millis(100));
    /// # Ok::<(), QuotaError>(())
    /// ```
    pub fn promise_word(&self, word: Word, cost: Cost, max_wait: Duration, now: Timestamp) -> Promise {
        let max_wait_ns = u64::try_from(max_wait.as_nanos()).unwrap_or(u64::MAX);
        match &self.step {
            Step::TokenBucket(bucket) => bucket.reserve(word, cost, max_wait_ns, now),
            Step::LeakyQueue(queue) => queue.reserve(word, cost, max_wait_ns, now),
            _ => reserve_now(self.take_word(word, cost, now), word, cost, now),
        }
    }

    /// As [`Quota::take_word`], for quotas whose shape is [`Shape::Wide`], in place.
    pub fn take_wide(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        match &self.step {
            Step::IntervalBucket(bucket) => bucket.take(own(state, interval_bucket::TAG), cost, now),
            Step::SlidingWindow(window) => window.take(own(state, sliding_window::TAG), cost, now),
            Step::SlidingWindowCounter(counter) => {
                counter.take(own(state, sliding_window_counter::TAG), cost, now)
            }
            Step::SlidingWindowLog(log) => log.take(own(state, sliding_window_log::TAG), cost, now),
            _ => self.misused(),
        }
    }

    /// As [`Quota::give_back_word`], for quotas whose shape is [`Shape::Wide`], in place.
    pub fn give_back_wide(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        match &self.step {
            Step::IntervalBucket(bucket) => bucket.give_back(own(state, interval_bucket::TAG), cost, now),
            Step::SlidingWindow(window) => window.give_back(own(state, sliding_window::TAG), cost, now),
            Step::SlidingWindowCounter(counter) => {
                counter.give_back(own(state, sliding_window_counter::TAG), cost, now)
            }
            Step::SlidingWindowLog(log) => log.give_back(own(state, sliding_window_log::TAG), cost, now),
            _ => self.misused(),
        }
    }

    /// As [`Quota::charge_word`], for quotas whose shape is [`Shape::Wide`], in place.
    pub fn charge_wide(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        match &self.step {
            Step::IntervalBucket(bucket) => bucket.charge(own(state, interval_bucket::TAG), cost, now),
            Step::SlidingWindow(window) => window.charge(own(state, sliding_window::TAG), cost, now),
            Step::SlidingWindowCounter(counter) => {
                counter.charge(own(state, sliding_window_counter::TAG), cost, now)
            }
            Step::SlidingWindowLog(log) => log.charge(own(state, sliding_window_log::TAG), cost, now),
            _ => self.misused(),
        }
    }

    /// Takes from a state of either shape, in place.
    pub fn take(&self, state: &mut State, cost: Cost, now: Timestamp) -> Decision {
        match state {
            State::Word(word) => settle(word, self.take_word(*word, cost, now)),
            State::Wide(wide) => self.take_wide(wide, cost, now),
        }
    }

    /// Gives back to a state of either shape, in place.
    pub fn give_back(&self, state: &mut State, cost: Cost, now: Timestamp) -> Decision {
        match state {
            State::Word(word) => settle(word, self.give_back_word(*word, cost, now)),
            State::Wide(wide) => self.give_back_wide(wide, cost, now),
        }
    }

    /// Charges a state of either shape, in place; see [`Quota::charge_word`].
    pub fn charge(&self, state: &mut State, cost: Cost, now: Timestamp) -> Decision {
        match state {
            State::Word(word) => settle(word, self.charge_word(*word, cost, now)),
            State::Wide(wide) => self.charge_wide(wide, cost, now),
        }
    }

    /// What it can promise ahead of time.
    pub(crate) const fn promise(&self) -> Ahead {
        match self.step {
            Step::TokenBucket(_) => Ahead::Bucket,
            Step::LeakyQueue(_) => Ahead::Queue,
            _ => Ahead::Nothing,
        }
    }

    const fn no_limit() -> Decision {
        Decision::admit(u64::MAX, u64::MAX, 0)
    }

    /// A state of the wrong shape: denied, so that the mistake is seen.
    const fn misused(&self) -> Decision {
        Decision::never(self.limit, 0, 0)
    }
}

/// The state, emptied if another algorithm has written it.
fn own(state: &mut Wide, tag: u64) -> &mut Wide {
    if state.cells.first().is_some_and(|&written| written != tag) {
        *state = Wide::default();
    }
    state
}

fn settle(word: &mut Word, step: WordStep) -> Decision {
    *word = step.word;
    step.decision
}
