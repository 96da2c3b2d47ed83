//! Permits held for a while: taken now, or promised for a later instant, as a [`Decision`].
//!
//! What [`Quota::promise_word`](crate::Quota::promise_word) promises, told in the words of a take: admitted with a
//! [`delay`](Decision::delay) that is at most as long as the caller is willing to wait, or denied with the wait until the same
//! question would be admitted. Only buckets and queues promise; what any other algorithm has is there now or not.
//! Not here: giving back and charging what was not foreseen ([`Quota::give_back`], [`Quota::charge`]).

use std::time::Duration;

use crate::{
    Algorithm, Cost, Decision, Period, Quota, Refill, RetryAfter, State, Timestamp, Wide, Word, WordStep,
};

impl Quota {
    /// Takes `cost` permits of a one-word state for now or for an instant that is at most `max_wait` away, the first at which
    /// they are there: the [`delay`](Decision::delay) says how long that is. Else takes nothing and answers when it would.
    ///
    /// What [`Quota::take_word`] would admit without a delay is held without one.
    pub fn reserve_word(&self, word: Word, cost: Cost, max_wait: Duration, now: Timestamp) -> WordStep {
        let step = self.take_word(word, cost, now);
        let taken = step.decision;
        if taken.is_admitted() && taken.delay() <= max_wait {
            return step;
        }
        let ahead = self.promise_word(word, cost, max_wait, now);
        let wait = ahead.act_at.since(now);
        if ahead.granted {
            let after = self.take_word(ahead.word, Cost::PEEK, now).decision;
            let decision =
                Decision::admit(taken.limit, after.remaining, after.reset_ns).with_delay(nanos(wait));
            return WordStep { word: ahead.word, decision };
        }
        let until_near = nanos(wait.saturating_sub(max_wait));
        let is_ever = ahead.act_at.as_nanos() != u64::MAX;
        let before = self.take_word(word, Cost::PEEK, now).decision;
        let refused = |retry_ns| Decision::deny(taken.limit, before.remaining, retry_ns, before.reset_ns);
        let decision = match (taken.retry_after(), self.promise()) {
            (RetryAfter::Never, _) => taken,
            (RetryAfter::Now, _) => refused(until_near),
            // A bucket grants what is there as well as what will be near enough; a queue must have room, and its end be near.
            (RetryAfter::After(until_room), Ahead::Bucket) if is_ever => {
                refused(nanos(until_room).min(until_near))
            }
            (RetryAfter::After(until_room), Ahead::Queue) if is_ever => {
                refused(nanos(until_room).max(until_near))
            }
            (RetryAfter::After(until_room), _) => refused(nanos(until_room)),
        };
        WordStep { word: self.start_refill_word(word, now), decision }
    }

    /// As [`Quota::reserve_word`], for a state of either shape, in place.
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
        match state {
            State::Word(word) => {
                let step = self.reserve_word(*word, cost, max_wait, now);
                *word = step.word;
                step.decision
            }
            State::Wide(wide) => self.reserve_wide(wide, cost, now),
        }
    }

    /// As [`Quota::reserve_word`], for quotas whose shape is [`Shape::Wide`](crate::Shape::Wide), in place. None of them can promise what is
    /// not there yet, so that there is nothing to wait for.
    pub fn reserve_wide(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let before = state.clone();
        let decision = self.take_wide(state, cost, now);
        if !decision.is_admitted() {
            *state = before; // a log may have kept the refusal
            if self.starts_partial() {
                let _ = self.take_wide(state, Cost(u64::MAX), now);
            }
        }
        decision
    }

    /// What is left of a refusal that is to change nothing: a bucket that does not start full begins to fill at the first wish,
    /// whatever becomes of that, or it would never fill.
    pub fn start_refill(&self, state: &mut State, now: Timestamp) {
        if self.starts_partial() {
            let _never = self.take(state, Cost(u64::MAX), now);
        }
    }

    /// As [`Quota::start_refill`], for a one-word state.
    fn start_refill_word(&self, word: Word, now: Timestamp) -> Word {
        if self.starts_partial() { self.take_word(word, Cost(u64::MAX), now).word } else { word }
    }

    /// A bucket that does not start full.
    #[must_use]
    pub const fn starts_partial(&self) -> bool {
        matches!(self.algorithm(), Algorithm::TokenBucket { initial: Some(_), .. })
    }
}

impl Quota {
    /// How many of `unused` permits may be given back at `now`, of those that were taken at `taken_at` with the answer `said`,
    /// without ever admitting more than if they had never been taken: less than all of them when some have flowed back, or left
    /// their window, by themselves meanwhile.
    ///
    /// For a bucket: after `said` it was full again at the end of [`reset_after`](Decision::reset_after), had nobody else come; what of that
    /// time is left is still owed for certain. In a window, permits count until it is over.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let quota = Quota::token_bucket(10, Duration::from_secs(1))?;
    /// let (noon, mut state) = (Timestamp::from_unix_seconds(1_700_000_000), quota.fresh());
    /// let said = quota.take(&mut state, Cost(8), noon);
    /// assert_eq!(quota.refundable(Cost(8), &said, noon, noon), Cost(8));
    /// let later = noon + Duration::from_millis(300);
    /// assert_eq!(quota.refundable(Cost(8), &said, noon, later), Cost(5)); // three have flowed back
    /// # Ok::<(), QuotaError>(())
    /// ```
    #[must_use]
    pub fn refundable(&self, unused: Cost, said: &Decision, taken_at: Timestamp, now: Timestamp) -> Cost {
        let left_ns = said.reset_ns.saturating_sub(nanos(now.since(taken_at)));
        let Period::Span(span) = self.period() else {
            return if left_ns > 0 { unused } else { Cost::PEEK };
        };
        let (span_ns, limit) = (u128::from(nanos(*span)).max(1), u128::from(self.limit()));
        let whole_periods = u128::from(left_ns) / span_ns;
        let permits = match self.algorithm() {
            Algorithm::Total | Algorithm::Unlimited => u128::MAX,
            _ if limit == 0 => u128::MAX, // nothing flows back by itself
            Algorithm::TokenBucket { refill: Refill::Continuous, .. } | Algorithm::LeakyBucket { .. } => {
                // It may have another rate by now; the faster of both may have flowed since.
                let (then, elapsed_ns) = (u128::from(said.limit), nanos(now.since(taken_at)));
                let flowed = u128::from(elapsed_ns) * then.max(limit);
                (u128::from(said.reset_ns) * then).saturating_sub(flowed) / span_ns
            }
            // The last period's worth comes at its end, and may be a single permit.
            Algorithm::TokenBucket { refill: Refill::Interval, .. } => {
                match u128::from(left_ns).div_ceil(span_ns) {
                    0 => 0,
                    periods => (periods - 1) * limit + 1,
                }
            }
            // Once its window is the one before, it weighs less than it did.
            Algorithm::SlidingWindowCounter => {
                let window = |at: Timestamp| u128::from(at.as_nanos()) / span_ns;
                if window(taken_at) == window(now) && whole_periods > 0 { u128::MAX } else { 0 }
            }
            Algorithm::FixedWindow { .. }
            | Algorithm::SlidingWindow { .. }
            | Algorithm::SlidingWindowLog { .. } => {
                if left_ns > 0 {
                    u128::MAX
                } else {
                    0
                }
            }
        };
        Cost(unused.permits().min(u64::try_from(permits).unwrap_or(u64::MAX)))
    }
}

/// What a quota can promise ahead of time.
pub(crate) enum Ahead {
    /// Permits that will have flowed back.
    Bucket,
    /// A place.
    Queue,
    Nothing,
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
