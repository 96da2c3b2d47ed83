//! A bucket whose state is one number of 64 bits: for a limiter that keeps a single state.
//!
//! A [`Word`] of a bucket holds its instant modulo 2^60 units, and needs its expiry besides. Here the instant
//! at which the key is full again is counted in units since the bucket was made, so that 64 bits hold all of
//! it, and a processor swaps them in half the time. That is good for one rate, for takes that fit into the
//! bucket, and until the number is used up (years at most rates); for anything else, the state is converted
//! to the word that it stands for.

use super::{MAX_DEBT, ScaledCost, TokenBucket};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::quota::Quota;
use crate::state::{Expiry, Word};
use crate::step::{Step, WordAlgorithm, WordKind};
use crate::time::Timestamp;

/// A token bucket with a state of 64 bits. 0 is the state of an unseen key.
///
/// # Example
/// ```
/// # use tollgate_core::*;
/// # use std::time::Duration;
/// let quota = Quota::token_bucket(10, Duration::from_secs(1))?;
/// let noon = Timestamp::from_unix_seconds(1_700_000_000);
/// let Some(bucket) = ShortBucket::of(&quota, noon) else { panic!("it is a bucket that starts full") };
/// let Some(step) = bucket.take(0, Cost(4), noon) else { panic!("it fits into the bucket") };
/// assert_eq!(bucket.decision(step).remaining(), 6);
/// let mut state = quota.fresh();
/// assert_eq!(quota.take(&mut state, Cost(4), noon), bucket.decision(step));
/// assert_eq!(State::Word(bucket.word(step.write.unwrap_or(0))), state);
/// # Ok::<(), QuotaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShortBucket {
    bucket: TokenBucket,
    /// The instant from which states count.
    begins_ns: u64,
    /// The time for which states are valid, from then on.
    lasts_ns: u64,
}

/// The result of [`ShortBucket::take`]; [`ShortBucket::decision`] converts it to permits and spans, which
/// costs more than the take.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct ShortStep {
    /// The state to keep; `None` for a denial, which writes nothing.
    pub write: Option<u64>,
    debt: u64,
    ask: ScaledCost,
}

impl ShortBucket {
    /// A value that no state has and no take reads as one: marks the absence of a state.
    pub const NO_STATE: u64 = u64::MAX;

    /// `quota` with states that count from `now`. `None` unless `quota` is a token bucket that starts full;
    /// also `None` if it is [keeping instants](Quota::keeping_instants), or has too many permits for 64 bits.
    #[must_use]
    pub fn of(quota: &Quota, now: Timestamp) -> Option<Self> {
        let Step::Word(WordAlgorithm(WordKind::TokenBucket(bucket))) = quota.step() else { return None };
        if bucket.starts_partial() || bucket.keeps_instants() || bucket.is_large() {
            return None;
        }
        // No state reaches `NO_STATE`, and every word has an instant.
        let begins_ns = now.as_nanos();
        let until_latest = Expiry::LATEST.as_nanos().saturating_sub(bucket.horizon_ns);
        let lasts_ns =
            ((u64::MAX - 2 * MAX_DEBT) / bucket.units.scale()).min(until_latest.saturating_sub(begins_ns));
        (lasts_ns > 0).then(|| Self { bucket: bucket.clone(), begins_ns, lasts_ns })
    }

    /// Whether the words of this bucket mean the same to `quota`. (It may allow more or less.)
    #[must_use]
    pub fn is_read_by(&self, quota: &Quota) -> bool {
        let Step::Word(WordAlgorithm(WordKind::TokenBucket(other))) = quota.step() else { return false };
        self.bucket.units == other.units && self.bucket.has_history_of(other) && !other.starts_partial()
    }

    /// Takes `cost` permits if they fit, as [`Quota::take`] does. `None` where only a word has the answer: a
    /// cost of 0, or one that never fits; a clock far from where it was; [`Self::NO_STATE`].
    #[inline(always)]
    #[must_use]
    pub fn take(&self, state: u64, cost: Cost, now: Timestamp) -> Option<ShortStep> {
        let bucket = &self.bucket;
        let since_ns = now.as_nanos().wrapping_sub(self.begins_ns); // too many, for a clock that was set back
        if since_ns > self.lasts_ns {
            return None;
        }
        let ask = match cost {
            Cost::ONE => bucket.one,
            _ if cost.permits().wrapping_sub(1) < bucket.capacity => bucket.ask(cost),
            _ => return None,
        };
        let since = bucket.units.of_nanos(since_ns);
        let debt = state.saturating_sub(since);
        if debt <= ask.highest {
            return Some(ShortStep { write: Some(since + debt + ask.units), debt, ask });
        }
        (debt <= MAX_DEBT).then_some(ShortStep { write: None, debt, ask })
    }

    /// The decision of a step that this bucket has made.
    #[inline(always)]
    pub fn decision(&self, step: ShortStep) -> Decision {
        match self.bucket.decide(step.debt, step.ask) {
            Ok((_, decision)) => decision,
            Err(denial) => denial,
        }
    }

    /// The word that a state stands for.
    #[must_use]
    pub fn word(&self, state: u64) -> Word {
        match state {
            0 => Word::FRESH,
            _ => self.bucket.word_at(self.begins() + u128::from(state)),
        }
    }

    /// The state that stands for `word`, if there is one.
    #[must_use]
    pub fn state(&self, word: Word) -> Option<u64> {
        if word.is_fresh() {
            return Some(0);
        }
        let seconds = word.expires.seconds();
        let behind = self.bucket.behind_own(word.value, seconds);
        let full_at =
            (u128::from(seconds) * u128::from(self.bucket.per_second)).checked_sub(behind.into())?;
        let state = u64::try_from(full_at.checked_sub(self.begins())?).ok()?;
        (state != Self::NO_STATE && self.word(state) == word).then_some(state)
    }

    /// The instant from which states count, in units since the Unix epoch.
    fn begins(&self) -> u128 {
        u128::from(self.begins_ns) * u128::from(self.bucket.units.scale())
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::Algorithm;
    use crate::period::Period;
    use crate::state::State;

    const NOON_NS: u64 = 1_700_000_000_000_000_000;

    proptest! {
        #[test]
        fn a_short_state_counts_as_a_word_does(
            limit in 1_u64..10_000, period_ms in 1_u64..10_000_000, burst in 1_u64..1_000, overdraft in 0_u64..3,
            takes in proptest::collection::vec((0_u64..1_100, -2_000_000_000_i64..3_000_000_000_i64), 1..60),
        ) {
            let algorithm = Algorithm::TokenBucket {
                burst: Some(burst), initial: None, overdraft, refill: crate::Refill::Continuous,
            };
            let period = Period::Span(Duration::from_millis(period_ms));
            let Ok(quota) = Quota::new(limit, period, algorithm) else { return Ok(()) };
            let bucket = ShortBucket::of(&quota, Timestamp::from_nanos(NOON_NS)).expect("a bucket");
            let mut state = quota.fresh();
            let mut short = 0;
            let mut now_ns = NOON_NS;
            for (cost, passed) in takes {
                now_ns = now_ns.saturating_add_signed(passed);
                let cost = Cost(cost % (burst + overdraft + 2));
                let now = Timestamp::from_nanos(now_ns);
                let before = state.clone();
                let want = quota.take(&mut state, cost, now);
                if let Some(step) = bucket.take(short, cost, now) {
                    prop_assert_eq!(bucket.decision(step), want);
                    short = step.write.unwrap_or(short);
                    prop_assert_eq!(State::Word(bucket.word(short)), state.clone());
                } else {
                    let is_known = cost.is_peek() || cost.permits() > burst + overdraft || now_ns < NOON_NS;
                    prop_assert!(is_known, "{:?} of {:?}", cost, quota);
                    match bucket.state(state.word()) {
                        Some(after) => short = after,
                        None => state = before, // of before the beginning
                    }
                }
                prop_assert_eq!(bucket.state(state.word()), Some(short));
                prop_assert!(bucket.take(ShortBucket::NO_STATE, cost, now).is_none());
            }
        }
    }

    #[test]
    fn a_short_state_is_used_up_at_the_end_of_its_time_and_not_before() {
        let noon = Timestamp::from_nanos(NOON_NS);
        for (limit, span) in [(1, 1), (333, 1), (99_999_999, 1), (1, 86_400)] {
            let quota = Quota::token_bucket(limit, Duration::from_secs(span)).expect("a quota");
            let bucket = ShortBucket::of(&quota, noon).expect("a bucket");
            assert!(bucket.lasts_ns > 60_000_000_000, "{limit} lasts {} ns", bucket.lasts_ns);
            let last = noon + Duration::from_nanos(bucket.lasts_ns);
            let step = bucket.take(0, Cost(limit), last).expect("the last instant");
            let mut state = quota.fresh();
            assert_eq!(quota.take(&mut state, Cost(limit), last), bucket.decision(step));
            let short = step.write.expect("it was taken");
            assert_eq!(State::Word(bucket.word(short)), state);
            assert_eq!(bucket.state(state.word()), Some(short));
            assert!(bucket.take(short, Cost::ONE, last + Duration::from_nanos(1)).is_none());
            assert!(bucket.take(short, Cost::ONE, Timestamp::from_nanos(NOON_NS - 1)).is_none());
        }
    }

    #[test]
    fn only_buckets_that_start_full_have_short_states_and_another_rate_does_not_read_them() {
        let second = Duration::from_secs(1);
        let noon = Timestamp::from_nanos(NOON_NS);
        let quota = |limit| Quota::token_bucket(limit, second).expect("a quota");
        assert!(ShortBucket::of(&quota(5).keeping_instants(), noon).is_none());
        assert!(ShortBucket::of(&Quota::fixed_window(5, second).expect("a quota"), noon).is_none());
        assert!(ShortBucket::of(&Quota::unlimited(), noon).is_none());
        assert!(ShortBucket::of(&quota(5), Expiry::LATEST).is_none());
        let bucket = ShortBucket::of(&quota(5), noon).expect("a bucket");
        assert!(bucket.is_read_by(&quota(5)) && !bucket.is_read_by(&quota(6)));
        assert!(bucket.is_read_by(&quota(5).migrated_from(&quota(5), noon)));
        assert!(!bucket.is_read_by(&quota(5).migrated_from(&quota(6), noon)));
        assert!(!bucket.is_read_by(&quota(5).keeping_instants()));
    }
}
