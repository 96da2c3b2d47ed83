//! Words that the rate in force did not write, or that lie far in the future: slow, exact, and rarely needed.
//!
//! A word's expiry tells its TAT to a few seconds, its value the rest, so the TAT is known in full, in 128 bits.

use super::{DEEPEST, GENERATION_BITS, GENERATIONS, TokenBucket};
use crate::rational::Units;
use crate::time::NANOS_PER_SECOND;
use crate::{Cost, Decision, Expiry, Timestamp, Word, WordStep};

/// A rate that was in force until `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Past {
    generation: u64,
    units: Units,
    until: Timestamp,
}

impl TokenBucket {
    /// Goes on from `old`: its states keep the permits they owed at `at`.
    pub(crate) fn succeed(&mut self, old: &Self, at: Timestamp) {
        self.past.clone_from(&old.past);
        self.generation = old.generation;
        if old.units != self.units {
            let ended = Past { generation: old.generation, units: old.units, until: at };
            let remembered = old.past.iter().copied().take(GENERATIONS as usize - 2);
            self.past = std::iter::once(ended).chain(remembered).collect();
            self.generation = (old.generation + 1) % GENERATIONS;
        }
    }

    /// When the key of a word is full again, in units since the Unix epoch, where the rate in force has written it.
    pub(crate) fn whole_tat(&self, word: Word) -> Option<u128> {
        (word.value % GENERATIONS == self.generation).then(|| whole_tat(word, &self.units).ok()).flatten()
    }

    /// Scale and interval of the rates before, youngest first.
    pub(crate) fn past_rates(&self) -> impl Iterator<Item = (u64, u64)> {
        self.past.iter().map(|past| (past.units.scale(), past.units.interval()))
    }

    /// The word that the `nth` of the rates before wrote of a key that is full again at `tat`, in its units.
    pub(crate) fn past_word(&self, nth: usize, tat: u128) -> Option<Word> {
        self.past.get(nth).map(|past| word_at(tat, &past.units, past.generation))
    }

    /// The same rates before, the same generation now.
    pub(crate) fn has_the_past_of(&self, other: &Self) -> bool {
        self.generation == other.generation && self.past == other.past
    }

    /// A take from an odd word. The word comes back in the present generation, also from a denial: else a client that
    /// is denied through four changes of the rate would be forgotten.
    #[cold]
    pub(super) fn take_odd(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let debt = self.debt_of_odd(word, now);
        if debt <= u128::from(DEEPEST) {
            let debt = debt as u64;
            let word = self.word(debt, self.units.nanos_in(debt), now);
            return self.decide(word, debt, cost, now);
        }
        // The clock stepped far back: the key stays as it was until the step is made up for.
        let to_nanos = |units: u128| {
            u64::try_from(units.div_ceil(u128::from(self.units.scale()))).unwrap_or(u64::MAX - 1)
        };
        let reset_ns = to_nanos(debt);
        let decision = if cost.permits() > self.capacity {
            Decision::never(self.limit, 0, reset_ns)
        } else {
            let highest = (self.deepest - self.units.of_permits(cost.permits())).min(self.full);
            Decision::deny(self.limit, 0, to_nanos(debt - u128::from(highest)), reset_ns)
        };
        WordStep { word, decision }
    }

    /// Units by which any word is short of a full bucket at `now`.
    #[cold]
    pub(super) fn debt_of_odd(&self, word: Word, now: Timestamp) -> u128 {
        let written = word.value % GENERATIONS;
        let now_units = |units: &Units, at: Timestamp| u128::from(at.as_nanos()) * u128::from(units.scale());
        if written == self.generation {
            return match whole_tat(word, &self.units) {
                Ok(tat) => tat.saturating_sub(now_units(&self.units, now)),
                // Written by a generation that is no longer known: at most an empty bucket.
                Err(latest) => {
                    latest.saturating_sub(now_units(&self.units, now)).min(u128::from(self.deepest))
                }
            };
        }
        let Some(first) = self.past.iter().position(|past| past.generation == written) else {
            let latest = u128::from(word.expires.seconds()) * u128::from(self.units.per_second());
            return latest.saturating_sub(now_units(&self.units, now)).min(u128::from(self.deepest));
        };
        // What it owed when its rate ended is owed in permits at the next rate, and so on; the last leg is in force.
        let Past { mut units, until: mut at, .. } = self.past[first];
        let tat = whole_tat(word, &units).unwrap_or_else(|latest| latest);
        let mut debt = tat.saturating_sub(now_units(&units, at));
        let younger = self.past[..first].iter().rev().map(|past| (past.units, past.until));
        for (next, ends) in younger.chain(std::iter::once((self.units, now))) {
            let owed =
                debt.saturating_mul(u128::from(next.interval())).div_ceil(u128::from(units.interval()));
            let elapsed =
                u128::from(ends.as_nanos().saturating_sub(at.as_nanos())) * u128::from(next.scale());
            debt = owed.saturating_sub(elapsed);
            (units, at) = (next, ends);
        }
        debt
    }
}

/// The word of a TAT.
pub(super) fn word_at(tat: u128, units: &Units, generation: u64) -> Word {
    let nanos = u64::try_from(tat.div_ceil(u128::from(units.scale()))).unwrap_or(u64::MAX);
    let value = ((tat as u64) << GENERATION_BITS) | generation;
    Word { value, expires: Expiry::at(Timestamp::from_nanos(nanos)) }
}

/// The whole TAT of a word in units since the Unix epoch; where value and expiry disagree, the latest that the expiry
/// allows.
fn whole_tat(word: Word, units: &Units) -> Result<u128, u128> {
    const MODULUS: u128 = 1 << (64 - GENERATION_BITS);
    let latest = u128::from(word.expires.seconds()) * u128::from(units.per_second());
    let behind = (latest % MODULUS + MODULUS - u128::from(word.value >> GENERATION_BITS)) % MODULUS;
    let farthest = u128::from(5 * NANOS_PER_SECOND) * u128::from(units.scale());
    if behind <= farthest { Ok(latest.saturating_sub(behind)) } else { Err(latest) }
}
