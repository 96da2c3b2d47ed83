//! States that pass from one quota to the next.
//!
//! Not here: the choice of states to change, and the time of the change (the library and its stores).

use core::mem::discriminant;

use super::Quota;
use crate::algorithm::Algorithm;
use crate::bounds::MAX_COUNT;
use crate::cost::Cost;
use crate::inherit::Inherit;
use crate::state::{State, WordStep};
use crate::step::{Step, WordKind};
use crate::time::Timestamp;

impl Quota {
    /// Converts `state` at `at`, when this quota replaces `old`. Where this one is the
    /// [successor](Quota::migrated_from) of `old`, it may have taken from the state already.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let (noon, hour) = (Timestamp::from_unix_seconds(1_700_000_000), Duration::from_secs(3_600));
    /// let old = Quota::token_bucket(10, hour)?;
    /// let new = Quota::token_bucket(20, hour)?.migrated_from(&old, noon);
    /// for (how, left) in [
    ///     (Inherit::Taken, 13),
    ///     (Inherit::Reset, 20),
    ///     (Inherit::AsIs, 3),
    ///     (Inherit::Additive, 13),
    ///     (Inherit::Proportional, 6),
    /// ] {
    ///     let mut state = old.fresh();
    ///     assert_eq!(old.take(&mut state, Cost(7), noon).remaining(), 3);
    ///     let mut after = new.inherit(state, &old, how, noon);
    ///     assert_eq!(new.take(&mut after, Cost::PEEK, noon).remaining(), left, "{how:?}");
    /// }
    /// # Ok::<(), QuotaError>(())
    /// ```
    #[must_use]
    pub fn inherit(&self, state: State, old: &Self, how: Inherit, at: Timestamp) -> State {
        let is_of_its_kind = self.counts_as(old);
        let is_limited = !self.is_unlimited() && !old.is_unlimited();
        if how == Inherit::Reset || !is_limited || (how == Inherit::Taken && !is_of_its_kind) {
            return match self.step() {
                // A key without a limit has nothing to warm up for.
                Step::Wide(new) if how != Inherit::Reset && old.is_unlimited() => {
                    State::Wide(new.after_no_limit(at))
                }
                _ => self.fresh(),
            };
        }
        if let (Step::Wide(new), Step::Wide(old), State::Wide(wide)) = (self.step(), old.step(), &state)
            && let Some(after) = new.inherit(wide, old, how, at)
        {
            return State::Wide(after);
        }
        if [self, old].iter().any(|it| matches!(it.algorithm(), Algorithm::WarmUp { .. })) {
            return self.fresh(); // a number of permits does not show how cold the key is
        }
        if let (Step::Word(new), Step::Word(old)) = (self.step(), old.step()) {
            let word = match (&new.0, &old.0) {
                (WordKind::TokenBucket(new), WordKind::TokenBucket(old)) => {
                    Some(new.inherit(state.word(), old, how, at))
                }
                (WordKind::LeakyQueue(new), WordKind::LeakyQueue(old)) => {
                    Some(new.bucket().inherit(state.word(), old.bucket(), how, at))
                }
                _ => None,
            };
            if let Some(WordStep { word, .. }) = word {
                return State::Word(word);
            }
        }
        let was_missing = old.missing(&state, at);
        let old_full = u128::from(old.burst());
        let full = u128::from(self.burst());
        let missing = how.missing(u128::from(was_missing), old_full, full).min(u128::from(MAX_COUNT)) as u64;
        let mut state = if is_of_its_kind { state } else { self.fresh() };
        let is_missing = self.missing(&state, at);
        let _left = match missing.checked_sub(is_missing) {
            Some(0) => return state,
            Some(more) => self.charge(&mut state, Cost(more), at),
            None => self.give_back(&mut state, Cost(is_missing - missing), at),
        };
        state
    }

    /// Whether both read the same states, up to their numbers.
    #[must_use]
    pub fn counts_as(&self, other: &Self) -> bool {
        match (self.step(), other.step()) {
            (Step::Word(a), Step::Word(b)) => discriminant(&a.0) == discriminant(&b.0),
            (Step::Wide(a), Step::Wide(b)) => a.tag() == b.tag(),
            _ => false,
        }
    }

    fn is_unlimited(&self) -> bool {
        matches!(self.step(), Step::Word(word) if matches!(word.0, WordKind::Unlimited))
    }

    /// Whole permits that a key lacks of a full quota, including its debt beyond that.
    fn missing(&self, state: &State, now: Timestamp) -> u64 {
        let left_with = |back: u64| {
            let mut state = state.clone();
            if back > 0 {
                let _left = self.give_back(&mut state, Cost(back), now);
            }
            self.take(&mut state, Cost::PEEK, now).remaining()
        };
        let left = left_with(0);
        if left > 0 || self.burst() == 0 {
            return self.burst() - left;
        }
        // The least number of permits that, given back, leaves some available, less one.
        let mut owed = 0;
        let mut enough = 1;
        while left_with(enough) == 0 && enough < MAX_COUNT {
            (owed, enough) = (enough, enough * 2);
        }
        while enough - owed > 1 {
            let middle = owed + (enough - owed) / 2;
            if left_with(middle) == 0 {
                owed = middle;
            } else {
                enough = middle;
            }
        }
        self.burst().saturating_add(owed)
    }
}
