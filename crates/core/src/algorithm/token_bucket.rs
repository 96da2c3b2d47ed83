//! Token bucket with continuous refill, as the generic cell rate algorithm: one number per key.
//!
//! The number is the instant at which the key will be full again (its theoretical arrival time, TAT). A key's *debt* is
//! how far that lies ahead of now. Taking `cost` permits moves it `cost` intervals later; a take fits while the debt
//! stays within `burst` intervals. Over any span t at most burst + overdraft + limit·t/period are admitted.
//!
//! The word: TAT in the quota's [units](crate::rational) modulo 2^62, then two bits that say which generation of the
//! rule wrote it, so that counts survive a change of the rate.

use std::time::Duration;

use crate::rational::{MAX_UNITS, Units};
use crate::{Cost, Decision, Expiry, QuotaError, Timestamp, Word, WordStep};

const GENERATION_BITS: u32 = 2;
const GENERATIONS: u64 = 1 << GENERATION_BITS;

#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    limit: u64,
    units: Units,
    burst: u64,
    /// Burst in units.
    full: u64,
    /// Overdraft in units.
    overdraft: u64,
    /// Debt of an unseen key, in units: what it lacks of a full bucket.
    initial_debt: u64,
    generation: u64,
    /// The rates that this rule had before, youngest first.
    past: Vec<Past>,
}

/// A rate that was in force until `until`.
#[derive(Clone, Copy, Debug)]
struct Past {
    generation: u64,
    units: Units,
    until: Timestamp,
}

impl TokenBucket {
    pub(crate) fn new(
        limit: u64,
        period: Duration,
        burst: u64,
        initial: Option<u64>,
        overdraft: u64,
    ) -> Result<Self, QuotaError> {
        let initial = initial.unwrap_or(burst);
        if initial > burst {
            return Err(QuotaError::InitialAboveBurst { initial, burst });
        }
        let capacity = burst.saturating_add(overdraft);
        let period_ns = u64::try_from(period.as_nanos()).map_err(|_| QuotaError::LongPeriod(period))?;
        // A limit of zero admits nothing; its units do not matter.
        let units = Units::new(limit.max(1), period_ns, capacity).ok_or(QuotaError::SlowBucket { capacity })?;
        Ok(Self {
            limit,
            units,
            burst,
            full: units.of_permits(burst),
            overdraft: units.of_permits(overdraft),
            initial_debt: units.of_permits(burst - initial),
            generation: 0,
            past: Vec::new(),
        })
    }

    /// Goes on from `old`: its states keep the permits they owed at `at`.
    pub(crate) fn succeed(&mut self, old: &Self, at: Timestamp) {
        self.past.clone_from(&old.past);
        self.generation = old.generation;
        if old.units != self.units {
            self.past.insert(0, Past { generation: old.generation, units: old.units, until: at });
            self.past.truncate(GENERATIONS as usize - 1);
            self.generation = (old.generation + 1) % GENERATIONS;
        }
    }

    #[inline]
    pub(crate) fn take(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let debt = self.debt(word, now);
        let asked = self.units.of_permits(cost.permits());
        let Some(room) = (self.full + self.overdraft).checked_sub(asked) else {
            return WordStep {
                word: self.remember_birth(word, debt, now),
                decision: Decision::never(self.limit, self.remaining(debt), self.units.to_nanos(debt)),
            };
        };
        // Going into overdraft needs a level of at least zero first; without overdraft `room` is the smaller anyway.
        let highest = room.min(self.full);
        if debt > highest {
            return WordStep {
                word: self.remember_birth(word, debt, now),
                decision: Decision::deny(
                    self.limit,
                    self.remaining(debt),
                    self.units.to_nanos(debt - highest),
                    self.units.to_nanos(debt),
                ),
            };
        }
        let owed = debt + asked;
        let reset_ns = self.units.to_nanos(owed);
        let decision = Decision::admit(self.limit, self.remaining(owed), reset_ns);
        let word = if asked == 0 { self.remember_birth(word, debt, now) } else { self.word(owed, reset_ns, now) };
        WordStep { word, decision }
    }

    pub(crate) fn give_back(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let debt = self.debt(word, now).saturating_sub(self.units.of_permits(cost.permits()));
        let reset_ns = self.units.to_nanos(debt);
        WordStep {
            word: self.word(debt, reset_ns, now),
            decision: Decision::admit(self.limit, self.remaining(debt), reset_ns),
        }
    }

    /// Units by which the key is short of a full bucket at `now`.
    #[inline]
    fn debt(&self, word: Word, now: Timestamp) -> u64 {
        if word.value & (GENERATIONS - 1) != self.generation && !word.is_fresh() {
            return self.debt_from_the_past(word, now);
        }
        if word.expires.is_past(now) {
            return self.initial_debt;
        }
        distance(word.value >> GENERATION_BITS, self.units.of_nanos(now.as_nanos()))
    }

    /// The word was written at an older rate: what it owed when that rate ended is owed in permits, at the new rate.
    #[cold]
    fn debt_from_the_past(&self, word: Word, now: Timestamp) -> u64 {
        let written = word.value & (GENERATIONS - 1);
        let Some(first) = self.past.iter().position(|past| past.generation == written) else {
            return self.initial_debt; // older than we remember
        };
        let mut units = self.past[first].units;
        let mut tat_debt = distance(word.value >> GENERATION_BITS, units.of_nanos(self.past[first].until.as_nanos()));
        let mut at = self.past[first].until;
        // Through the generations between, oldest first; the last leg is at the rate in force.
        for (next, ends) in self.past[..first]
            .iter()
            .rev()
            .map(|past| (past.units, past.until))
            .chain(std::iter::once((self.units, now)))
        {
            let owed = u128::from(tat_debt) * u128::from(next.interval);
            let owed = owed.div_ceil(u128::from(units.interval)).min(u128::from(MAX_UNITS)) as u64;
            let elapsed = u128::from(ends.as_nanos().saturating_sub(at.as_nanos())) * u128::from(next.scale);
            tat_debt = owed.saturating_sub(u64::try_from(elapsed).unwrap_or(u64::MAX));
            (units, at) = (next, ends);
        }
        tat_debt
    }

    #[inline]
    fn remaining(&self, debt: u64) -> u64 {
        self.units.to_permits(self.full.saturating_sub(debt))
    }

    #[inline]
    fn word(&self, debt: u64, reset_ns: u64, now: Timestamp) -> Word {
        let tat = self.units.of_nanos(now.as_nanos()).wrapping_add(debt);
        let full_again = Expiry::at(Timestamp::from_nanos(now.as_nanos().saturating_add(reset_ns)));
        Word {
            value: tat << GENERATION_BITS | self.generation,
            expires: if self.initial_debt == 0 { full_again } else { full_again.sticky() },
        }
    }

    /// A key that does not start full begins to fill at its first take, also when that is denied or a peek.
    #[inline]
    fn remember_birth(&self, word: Word, debt: u64, now: Timestamp) -> Word {
        if self.initial_debt != 0 && word.is_fresh() {
            self.word(debt, self.units.to_nanos(debt), now)
        } else {
            word
        }
    }

    /// Most at once.
    pub(crate) const fn burst(&self) -> u64 {
        self.burst
    }
}

/// How far `later` is ahead of `now`, both modulo 2^62; zero when it is not ahead.
#[inline]
fn distance(later: u64, now: u64) -> u64 {
    let signed = (later.wrapping_sub(now) << GENERATION_BITS).cast_signed() >> GENERATION_BITS;
    if signed > 0 { signed.cast_unsigned() } else { 0 }
}
