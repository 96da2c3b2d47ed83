//! Token bucket with continuous refill, as the generic cell rate algorithm: one number per key.
//!
//! The number is the instant at which the key will be full again (its theoretical arrival time, TAT). A key's *debt* is
//! how far that lies ahead of now. Taking `cost` permits moves it `cost` intervals later; a take fits while the debt
//! stays within `burst` intervals. Over any span t at most burst + overdraft + limit·t/period are admitted.
//!
//! The word: TAT in the quota's [units](crate::rational) modulo 2^62, then two bits that say which generation of the
//! rule wrote it, so that counts survive a change of the rate. The word's expiry is the TAT rounded up to a second (a
//! sticky one to four), which makes the whole of it known: [`history`] reads words that are odd in any way.
//!
//! Not here: refill by the period ([`interval_bucket`](super::interval_bucket)), delays
//! ([`leaky_queue`](super::leaky_queue)).

mod history;

use std::time::Duration;

use self::history::Past;
use crate::rational::{MAX_UNITS, Units};
use crate::time::NANOS_PER_SECOND;
use crate::{Cost, Decision, Expiry, FastStep, Promise, QuotaError, Timestamp, Word, WordStep};

const GENERATION_BITS: u32 = 2;
const GENERATIONS: u64 = 1 << GENERATION_BITS;

const DEEPEST: u64 = TokenBucket::DEEPEST;

#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    limit: u64,
    units: Units,
    /// Burst and overdraft: the most that one take may ever get.
    capacity: u64,
    /// The capacity where the bucket starts full, else 0.
    usual_capacity: u64,
    /// Burst in units.
    full: u64,
    /// Burst and overdraft in units.
    deepest: u64,
    /// Debt of an unseen key, in units: what it lacks of a full bucket.
    initial_debt: u64,
    generation: u64,
    /// A take of one permit.
    one: Ask,
    /// Units in a second.
    per_second: u64,
    /// No take makes a word that expires later than this many seconds from now.
    horizon: u64,
    /// The same in nanoseconds.
    horizon_ns: u64,
    /// How far a word's expiry may lie behind its TAT, seen from the beginning of a second, in units.
    slack: u64,
    /// The rates that this rule had before, youngest first.
    past: Box<[Past]>,
}

/// What a cost asks for, worked out.
#[derive(Clone, Copy, Debug)]
struct Ask {
    units: u64,
    /// The same in nanoseconds, rounded up.
    nanos: u64,
    /// Whole seconds of it, and the units that are left.
    seconds: u64,
    rest: u64,
    /// It fits while no more units than these are owed. Going into overdraft needs a level of at least zero first; without
    /// overdraft the room is the smaller anyway.
    highest: u64,
}

impl Ask {
    /// For a cost within the capacity.
    #[inline(always)]
    fn of(permits: u64, units: &Units, full: u64, deepest: u64) -> Self {
        let asked = permits * units.interval();
        let (seconds, rest) = units.seconds_in(asked);
        Self {
            units: asked,
            nanos: units.nanos_in(asked),
            seconds,
            rest,
            highest: (deepest - asked).min(full),
        }
    }
}

impl TokenBucket {
    /// The deepest debt that is written: what a reservation or a charge beyond the burst may reach.
    pub(crate) const DEEPEST: u64 = 2 * MAX_UNITS;

    /// `limit` and `burst` are at least 1.
    pub(crate) fn new(
        limit: u64,
        period: Duration,
        burst: u64,
        initial: u64,
        overdraft: u64,
    ) -> Result<Self, QuotaError> {
        let capacity = burst.saturating_add(overdraft);
        let period_ns = u64::try_from(period.as_nanos()).map_err(|_| QuotaError::LongPeriod(period))?;
        let units = Units::new(limit, period_ns, capacity).ok_or(
            if u128::from(limit) > u128::from(period_ns) * 100 {
                QuotaError::FastRate { limit, period }
            } else {
                QuotaError::SlowBucket { capacity }
            },
        )?;
        let (full, deepest) = (units.of_permits(burst), units.of_permits(capacity));
        let horizon = deepest / units.per_second() + 6;
        Ok(Self {
            limit,
            units,
            capacity,
            usual_capacity: if initial == burst { capacity } else { 0 },
            full,
            deepest,
            one: Ask::of(1, &units, full, deepest),
            initial_debt: units.of_permits(burst - initial),
            generation: 0,
            // Two roundings up to a second, and one to four where words are sticky.
            per_second: units.per_second(),
            horizon,
            horizon_ns: horizon.saturating_mul(NANOS_PER_SECOND),
            slack: 6 * units.per_second(),
            past: Box::default(),
        })
    }

    /// As [`Self::take`], for a bucket that starts full, a cost that can fit, and a word that is not odd: no more than some
    /// arithmetic, so that a store can have it in line. `None` for the rest.
    ///
    /// Where the key owes something, the new word comes from the old one alone: its TAT is so many units later, its expiry so
    /// many whole seconds, and one more where what is left of the units reaches beyond that second.
    #[inline(always)]
    pub(crate) fn take_usual(&self, word: Word, cost: Cost, now: Timestamp) -> Option<FastStep> {
        // Also `None`: a peek, and a bucket that does not start full, whose `usual_capacity` is 0.
        if cost.permits().wrapping_sub(1) >= self.usual_capacity {
            return None;
        }
        let ask = if cost == Cost::ONE { self.one } else { self.ask(cost) };
        let expires = word.expires.to_bits();
        let (expires_ns, now_ns) = (u64::from(expires) * NANOS_PER_SECOND, now.as_nanos());
        if expires_ns > now_ns {
            // How far the TAT is from the end of its second. A second and more: another rate has written the word. (A sticky
            // expiry's bits are beyond every horizon.)
            let value_at_the_end =
                u64::from(expires).wrapping_mul(self.per_second << GENERATION_BITS) | self.generation;
            let behind = value_at_the_end.wrapping_sub(word.value).rotate_right(GENERATION_BITS);
            let left_ns = expires_ns - now_ns;
            if left_ns > self.horizon_ns || behind >= self.per_second {
                return None;
            }
            let left = self.units.of_nanos(left_ns);
            if left > behind {
                return self.take_owing(word, left - behind, behind, ask);
            }
        }
        let decision = Decision::admit(self.limit, self.remaining(ask.units), ask.nanos);
        Some(FastStep { write: Some(self.word(ask.units, ask.nanos, now)), decision })
    }

    /// A take from a key that owes `debt`, whose TAT is `behind` its expiry.
    #[inline(always)]
    fn take_owing(&self, word: Word, debt: u64, behind: u64, ask: Ask) -> Option<FastStep> {
        if debt > ask.highest {
            let (remaining, reset_ns) = (self.remaining(debt), self.units.nanos_in(debt));
            let retry_ns = self.units.nanos_in(debt - ask.highest);
            let decision = Decision::deny(self.limit, remaining, retry_ns, reset_ns);
            return Some(FastStep { write: None, decision });
        }
        let expires = u64::from(word.expires.to_bits()) + ask.seconds + u64::from(ask.rest > behind);
        let owed = debt + ask.units;
        let decision = Decision::admit(self.limit, self.remaining(owed), self.units.nanos_in(owed));
        let value = word.value.wrapping_add(ask.units << GENERATION_BITS);
        Some(FastStep { write: Some(Word { value, expires: Expiry::of_seconds(expires)? }), decision })
    }

    /// What a cost within the capacity asks for.
    #[inline(always)]
    fn ask(&self, cost: Cost) -> Ask {
        Ask::of(cost.permits(), &self.units, self.full, self.deepest)
    }

    #[inline]
    pub(crate) fn take(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        match self.debt(word, now) {
            Some(debt) => self.decide(word, debt, cost, now),
            None => self.take_odd(word, cost, now),
        }
    }

    /// Adds `cost` to the debt without asking: what was used turned out to be more than what was asked for.
    pub(crate) fn charge(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let owed = self
            .debt_or_deepest(word, now)
            .saturating_add(self.units.of_permits(cost.permits()))
            .min(DEEPEST)
            .min(self.units_between(now, Expiry::LATEST)); // a later one could not be told from another rate's
        self.settle(owed, now)
    }

    pub(crate) fn give_back(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let debt = self.debt_or_deepest(word, now);
        let owed = debt.saturating_sub(self.units.of_permits(cost.permits()));
        if owed == debt {
            return self.decide(word, debt, Cost::PEEK, now);
        }
        self.settle(owed, now)
    }

    /// `cost` permits for the first instant at which they are all there, if that is within `max_wait_ns`.
    pub(crate) fn reserve(&self, word: Word, cost: Cost, max_wait_ns: u64, now: Timestamp) -> Promise {
        let asked = self.units.of_permits(cost.permits());
        let debt = self.debt_or_deepest(word, now);
        if asked > self.full || debt.saturating_add(asked) > DEEPEST {
            return Promise::refused(word, cost, Timestamp::from_nanos(u64::MAX));
        }
        let owed = debt + asked;
        let wait_ns = self.units.nanos_in(owed.saturating_sub(self.full));
        self.reserve_at(word, cost, owed, wait_ns, max_wait_ns, now)
    }

    /// Units from one instant to another, saturating.
    fn units_between(&self, from: Timestamp, to: Timestamp) -> u64 {
        to.as_nanos().saturating_sub(from.as_nanos()).saturating_mul(self.units.scale())
    }

    /// The end of every reservation: `wait_ns` from now, owing `owed` units, unless that is too long.
    pub(crate) fn reserve_at(
        &self,
        word: Word,
        cost: Cost,
        owed: u64,
        wait_ns: u64,
        max_wait_ns: u64,
        now: Timestamp,
    ) -> Promise {
        let act_at = Timestamp::from_nanos(now.as_nanos().saturating_add(wait_ns));
        if wait_ns > max_wait_ns {
            return Promise::refused(word, cost, act_at);
        }
        let word = if cost.is_peek() { word } else { self.word(owed, self.units.nanos_in(owed), now) };
        Promise { granted: true, permits: cost.permits(), act_at, word }
    }

    /// Units by which the key is short of a full bucket at `now`; `None` for a word that is odd: written at another
    /// rate, or when the clock showed a much later time.
    #[inline]
    pub(crate) fn debt(&self, word: Word, now: Timestamp) -> Option<u64> {
        if word.expires.is_sticky() {
            return self.debt_of_sticky(word, now);
        }
        let ahead = word.expires.seconds().saturating_sub(now.unix_seconds());
        if ahead == 0 { Some(self.initial_debt) } else { self.debt_ahead(word, ahead, now) }
    }

    /// A sticky word is never as none: past its instant, its key is full.
    #[inline(never)]
    fn debt_of_sticky(&self, word: Word, now: Timestamp) -> Option<u64> {
        let ahead = word.expires.seconds().saturating_sub(now.unix_seconds());
        if ahead == 0 { Some(0) } else { self.debt_ahead(word, ahead, now) }
    }

    /// The debt of a word that expires `ahead` seconds after the second in which now lies.
    #[inline(always)]
    fn debt_ahead(&self, word: Word, ahead: u64, now: Timestamp) -> Option<u64> {
        let now_value = (self.units.of_nanos(now.as_nanos()) << GENERATION_BITS) | self.generation;
        let difference = word.value.wrapping_sub(now_value).cast_signed();
        let distance = difference >> GENERATION_BITS;
        // The expiry names the TAT a second time; where the two disagree, another rate has written the word.
        let behind = ahead.wrapping_mul(self.per_second).wrapping_sub(distance.cast_unsigned());
        let is_of_another = difference.cast_unsigned() & (GENERATIONS - 1) != 0;
        if is_of_another || ahead > self.horizon || behind > self.slack {
            return None;
        }
        Some(distance.max(0).cast_unsigned())
    }

    /// As [`Self::debt`] for any word, at most [`DEEPEST`].
    pub(crate) fn debt_or_deepest(&self, word: Word, now: Timestamp) -> u64 {
        self.debt(word, now)
            .unwrap_or_else(|| u64::try_from(self.debt_of_odd(word, now)).unwrap_or(DEEPEST).min(DEEPEST))
    }

    #[inline]
    fn decide(&self, word: Word, debt: u64, cost: Cost, now: Timestamp) -> WordStep {
        if cost.permits() > self.capacity {
            return self.never(word, debt, now);
        }
        let mut step = self.admit_or_deny(word, debt, cost.permits() * self.units.interval(), now);
        if cost.is_peek() {
            step.word = word;
        }
        if self.initial_debt != 0 && !step.decision.is_admitted() {
            step.word = self.remember_birth(word, debt, now);
        }
        step
    }

    /// `asked` units, which are within the capacity.
    #[inline(always)]
    fn admit_or_deny(&self, word: Word, debt: u64, asked: u64, now: Timestamp) -> WordStep {
        // Going into overdraft needs a level of at least zero first; without overdraft the room is the smaller anyway.
        let highest = (self.deepest - asked).min(self.full);
        if debt > highest {
            let (remaining, reset_ns) = (self.remaining(debt), self.units.nanos_in(debt));
            let retry_ns = self.units.nanos_in(debt - highest);
            return WordStep { word, decision: Decision::deny(self.limit, remaining, retry_ns, reset_ns) };
        }
        let owed = debt + asked;
        let reset_ns = self.units.nanos_in(owed);
        let decision = Decision::admit(self.limit, self.remaining(owed), reset_ns);
        WordStep { word: self.word(owed, reset_ns, now), decision }
    }

    #[cold]
    fn never(&self, word: Word, debt: u64, now: Timestamp) -> WordStep {
        let decision = Decision::never(self.limit, self.remaining(debt), self.units.nanos_in(debt));
        WordStep { word: self.remember_birth(word, debt, now), decision }
    }

    /// A key that does not start full begins to fill at its first take, also when that is denied. (A peek is denied only
    /// in debt, and then is not the first.)
    #[inline(never)]
    fn remember_birth(&self, word: Word, debt: u64, now: Timestamp) -> Word {
        let is_born = self.initial_debt != 0 && !word.expires.is_sticky();
        if is_born { self.word(debt, self.units.nanos_in(debt), now) } else { word }
    }

    /// Owes `owed` units from now on.
    fn settle(&self, owed: u64, now: Timestamp) -> WordStep {
        let reset_ns = self.units.nanos_in(owed);
        let decision = Decision::admit(self.limit, self.remaining(owed), reset_ns);
        WordStep { word: self.word(owed, reset_ns, now), decision }
    }

    #[inline(always)]
    fn remaining(&self, debt: u64) -> u64 {
        self.units.permits_in(self.full.saturating_sub(debt))
    }

    #[inline(always)]
    fn word(&self, debt: u64, reset_ns: u64, now: Timestamp) -> Word {
        let tat = self.units.of_nanos(now.as_nanos()).wrapping_add(debt);
        let full_again = Expiry::at(Timestamp::from_nanos(now.as_nanos().saturating_add(reset_ns)));
        Word {
            value: (tat << GENERATION_BITS) | self.generation,
            expires: if self.initial_debt == 0 { full_again } else { full_again.sticky() },
        }
    }

    pub(crate) const fn units(&self) -> &Units {
        &self.units
    }

    /// What an unseen key lacks, in units.
    pub(crate) const fn initial_debt(&self) -> u64 {
        self.initial_debt
    }

    /// A take of `cost` fits while no more units than these are owed; `None` when it never does.
    pub(crate) fn room(&self, cost: Cost) -> Option<u64> {
        (cost.permits() <= self.capacity).then(|| self.ask(cost).highest)
    }

    /// The word of a key that is full again so many units after the Unix epoch.
    pub(crate) fn word_at(&self, tat: u128) -> Word {
        let word = history::word_at(tat, &self.units, self.generation);
        let expires = if self.initial_debt == 0 { word.expires } else { word.expires.sticky() };
        Word { expires, ..word }
    }

    /// Burst and overdraft, in units.
    pub(crate) const fn deepest(&self) -> u64 {
        self.deepest
    }

    /// What the bucket holds, in units.
    pub(crate) const fn full(&self) -> u64 {
        self.full
    }
}

const _: () = assert!(MAX_UNITS.is_power_of_two() && NANOS_PER_SECOND < 1 << 30);
