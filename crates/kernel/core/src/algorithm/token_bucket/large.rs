//! The debt of a bucket in 128 bits: charges, promises, and very large costs.
//!
//! A debt ends at [`Expiry::LATEST`] at the latest, since a word holds no later instant.

use core::time::Duration;

use super::{Debt, TokenBucket};
use crate::bounds::MAX_COUNT;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::promise::Promise;
use crate::state::{Expiry, Word, WordStep};
use crate::time::Timestamp;

impl TokenBucket {
    /// A take of any cost, with any debt.
    #[cold]
    #[inline(never)]
    pub(super) fn take_large(&self, word: Word, debt: Debt, cost: Cost, now: Timestamp) -> WordStep {
        let owed = debt.units;
        let remaining = self.remaining_of(debt.units);
        let reset_ns = self.units.nanos_in_any(owed);
        let is_said = debt.is_current || owed > self.latest(now);
        let word = if is_said { word } else { self.word_owing(owed, now) };
        let denied = match self.room(cost) {
            None => Decision::never(self.limit, remaining, reset_ns),
            Some(room) if owed > room => {
                let retry_ns = self.units.nanos_in_any(owed - room);
                Decision::deny(self.limit, remaining, retry_ns, reset_ns)
            }
            Some(_) if cost.is_peek() => {
                return WordStep { word, decision: Decision::admit(self.limit, remaining, reset_ns) };
            }
            Some(_) => {
                let after = owed + self.units.of_any(cost.permits());
                let remaining = self.remaining_of(after);
                let reset_ns = self.units.nanos_in_any(after);
                let decision = Decision::admit(self.limit, remaining, reset_ns);
                return WordStep { word: self.word_owing(after, now), decision };
            }
        };
        let is_first = self.starts_partial() && !word.expires.is_sticky() && !cost.is_peek();
        WordStep { word: if is_first { self.word_owing(owed, now) } else { word }, decision: denied }
    }

    /// Adds `cost` to the debt, even if it does not fit.
    pub(crate) fn charge(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let mut owed = self.debt(word, now).units;
        if !cost.is_peek() {
            let more = self.units.of_any(cost.permits());
            owed = owed.saturating_add(more).min(self.most_owed().max(owed)).min(self.latest(now));
        }
        let lacking = owed.saturating_sub(self.full());
        let interval = u128::from(self.units.interval());
        let permits = u64::try_from(lacking.div_ceil(interval)).unwrap_or(u64::MAX);
        let until_one = owed.saturating_add(interval).saturating_sub(self.full());
        let decision = Decision::used(
            self.limit,
            self.remaining_of(owed),
            permits,
            self.units.nanos_in_any(until_one),
            self.units.nanos_in_any(owed),
        );
        WordStep { word: if cost.is_peek() { word } else { self.word_owing(owed, now) }, decision }
    }

    pub(crate) fn give_back(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let debt = self.debt(word, now);
        let owed = debt.units.saturating_sub(self.units.of_any(cost.permits()));
        if owed == debt.units {
            return WordStep { word, ..self.take_owing(word, debt, Cost::PEEK, now) };
        }
        self.owing(owed, now)
    }

    /// Promises `cost` permits for the first instant at which all of them are available, if that is within
    /// `max_wait`.
    pub(crate) fn promise(&self, word: Word, cost: Cost, max_wait: Duration, now: Timestamp) -> Promise {
        let asked = self.units.of_any(cost.permits());
        let owed = self.debt(word, now).units.saturating_add(asked);
        if asked > self.full() || owed > self.latest(now) {
            return Promise::denied(word, cost, Timestamp::NEVER);
        }
        let wait_ns = self.units.nanos_in_any(owed.saturating_sub(self.full()));
        let wait = Duration::from_nanos(wait_ns);
        if wait > max_wait {
            return Promise::denied(word, cost, now + wait);
        }
        self.granted(word, cost, owed, now + wait, now)
    }

    /// The wait until permits may be used that were promised before the `behind` last ones, in ns.
    pub(crate) fn wait_of_promised_ns(&self, word: Word, behind: Cost, now: Timestamp) -> u64 {
        self.units.nanos_in_any(self.owed_before(word, behind, now).saturating_sub(self.full()))
    }

    /// The debt before the `behind` last permits were promised, in units.
    pub(crate) fn owed_before(&self, word: Word, behind: Cost, now: Timestamp) -> u128 {
        self.debt(word, now).units.saturating_sub(self.units.of_any(behind.permits()))
    }

    /// The promise of `cost` permits at `act_at`, after which the key owes `owed`.
    pub(crate) fn granted(
        &self,
        word: Word,
        cost: Cost,
        owed: u128,
        act_at: Timestamp,
        now: Timestamp,
    ) -> Promise {
        let after = if cost.is_peek() { word } else { self.word_owing(owed, now) };
        Promise::granted(after, cost, act_at)
    }

    /// Owes `owed` units from now on, or until the last instant that a word can hold.
    pub(super) fn owing(&self, owed: u128, now: Timestamp) -> WordStep {
        let owed = owed.min(self.latest(now));
        let reset_ns = self.units.nanos_in_any(owed);
        let decision = Decision::admit(self.limit, self.remaining_of(owed), reset_ns);
        WordStep { word: self.word_owing(owed, now), decision }
    }

    /// A take of `cost` fits while no more units than these are owed; `None` when it never does.
    pub(crate) fn room(&self, cost: Cost) -> Option<u128> {
        let free = self.bucket_span().checked_sub(self.units.of_any(cost.permits()))?;
        Some(free.min(self.full()))
    }

    /// The largest debt that a charge makes, in units.
    pub(crate) const fn most_owed(&self) -> u128 {
        self.units.of_any(MAX_COUNT)
    }

    /// The largest debt that a word can hold at `now`, in units.
    pub(crate) fn latest(&self, now: Timestamp) -> u128 {
        let left_ns = Expiry::LATEST.as_nanos().saturating_sub(now.as_nanos());
        u128::from(left_ns) * u128::from(self.units.scale())
    }

    /// The word of a key that owes `debt` at `now`.
    fn word_owing(&self, debt: u128, now: Timestamp) -> Word {
        self.word_at(u128::from(now.as_nanos()) * u128::from(self.units.scale()) + debt)
    }

    fn remaining_of(&self, debt: u128) -> u64 {
        self.units.permits_in_any(self.full().saturating_sub(debt))
    }
}
