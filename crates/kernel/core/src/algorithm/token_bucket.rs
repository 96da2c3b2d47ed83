//! Token bucket with continuous refill, as the generic cell rate algorithm: one number per key.
//!
//! The number is the instant at which the key will be full again (its theoretical arrival time, TAT). A key's
//! *debt* is the time from now until then. Taking `cost` permits moves it `cost` intervals later; a take fits
//! while the debt stays within `burst` intervals. Over any span t at most burst + overdraft + limit·t/period
//! are admitted.
//!
//! The word: TAT in the quota's [units](crate::rational) modulo 2^60, then four bits that say which
//! generation of the rule wrote it, so that counts survive a change of the rate. The word's expiry is the TAT
//! rounded up to a second (a sticky one to four), which makes the whole of it known; [`history`] reads the
//! words of other rates. A bucket that [keeps instants](crate::Quota::keeping_instants) writes instead the
//! time from its TAT to the expiry, as a fraction that every rate reads.
//!
//! Debts of takes fit 64 bits of units. [`large`] counts in 128: debts from charges, at any rate until
//! [`Expiry::LATEST`], and buckets of very many permits.
//!
//! Not here: refill by the period ([`interval_bucket`](super::interval_bucket)), delays
//! ([`leaky_queue`](super::leaky_queue)).

mod history;
mod large;
mod short;

use core::time::Duration;

pub(crate) use self::history::Debt;
use self::history::{GENERATION_BITS, History, MAX_BEHIND_SECONDS};
pub use self::short::{ShortBucket, ShortStep};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::QuotaError;
use crate::inherit::Inherit;
use crate::rational::{MAX_UNITS, Units};
use crate::state::{Expiry, FastStep, Word, WordStep};
use crate::time::{NANOS_PER_SECOND, Timestamp, nanos};

/// The largest debt that is counted in 64 bits, in units.
const MAX_DEBT: u64 = 2 * MAX_UNITS;

/// Marks words that only this quota and its predecessors write.
const ALONE: u64 = 0;
/// Marks words that quotas of any rate write.
const ANY_RATE: u64 = u64::MAX;

/// Which quotas write the words of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordsOf {
    /// This quota, and its predecessors.
    This,
    /// Any quota that keeps instants.
    AnyRate,
    /// Any quota of the same rate and burst with at most this overdraft.
    Classes { overdraft: u64 },
}

#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    limit: u64,
    units: Units,
    /// Burst and overdraft: the most that one take may ever get.
    capacity: u64,
    /// The capacity where the bucket starts full and its units fit 64 bits, else 0.
    fast_capacity: u64,
    /// Burst in units; 0 if the bucket [is large](Self::is_large).
    full: u64,
    /// Burst and overdraft in units; 0 if the bucket [is large](Self::is_large).
    bucket_span: u64,
    burst: u64,
    /// Permits that an unseen key lacks of a full bucket.
    lacking: u64,
    /// A take of one permit, unless the bucket [is large](Self::is_large).
    one: ScaledCost,
    /// Units in a second.
    per_second: u64,
    /// No take makes a word that expires later than this many nanoseconds from now: the span of the bucket,
    /// two roundings up to a second, and one up to four where words are sticky.
    horizon_ns: u64,
    /// Which quotas write and read the words of a key: [`ALONE`]; [`ANY_RATE`], see
    /// [`Quota::keeping_instants`](crate::Quota::keeping_instants); or the largest capacity of those that do,
    /// see [`Quota::with_room_for_overdraft`](crate::Quota::with_room_for_overdraft). (An enum would become
    /// the place of the tag of the enum around it, which then costs each decision five instructions more.)
    words_of: u64,
    history: History,
}

/// A cost within the capacity, converted to units and ns.
#[derive(Clone, Copy, Debug)]
struct ScaledCost {
    units: u64,
    /// The same in nanoseconds, rounded up.
    nanos: u64,
    /// Whole seconds of the cost, and the units that are left.
    seconds: u64,
    rest: u64,
    /// The cost fits while no more units than these are owed. Going into overdraft needs a level of at least
    /// zero first; without overdraft the span of the bucket is the smaller bound anyway.
    highest: u64,
}

impl ScaledCost {
    #[inline]
    fn of(permits: u64, units: &Units, full: u64, bucket_span: u64) -> Self {
        let asked = permits * units.interval();
        let (seconds, rest) = units.seconds_in(asked);
        Self {
            units: asked,
            nanos: units.nanos_in(asked),
            seconds,
            rest,
            highest: (bucket_span - asked).min(full),
        }
    }
}

impl TokenBucket {
    /// `limit` and `burst` are at least 1.
    pub(crate) fn new(
        limit: u64,
        period: Duration,
        burst: u64,
        initial: u64,
        overdraft: u64,
    ) -> Result<Self, QuotaError> {
        Self::of_words(ALONE, limit, period, burst, initial, overdraft)
    }

    /// As [`new`](Self::new), with words that all quotas of this rate and burst can read if their capacity is
    /// at most `words_of`.
    fn of_words(
        words_of: u64,
        limit: u64,
        period: Duration,
        burst: u64,
        initial: u64,
        overdraft: u64,
    ) -> Result<Self, QuotaError> {
        let capacity = burst.saturating_add(overdraft);
        let period_ns = nanos(period);
        let most = capacity.max(words_of);
        let units =
            Units::new(limit, period_ns, most).ok_or(if u128::from(limit) > u128::from(period_ns) * 100 {
                QuotaError::FastRate { limit, period }
            } else {
                QuotaError::SlowBucket { capacity: most }
            })?;
        let is_large = units.of_any(capacity) > u128::from(MAX_UNITS);
        let small = |permits: u64| if is_large { 0 } else { units.of_any(permits) as u64 };
        let full = small(burst);
        let bucket_span = small(capacity);
        Ok(Self {
            limit,
            units,
            capacity,
            fast_capacity: if initial == burst && !is_large { capacity } else { 0 },
            full,
            bucket_span,
            burst,
            lacking: burst - initial,
            one: ScaledCost::of(1, &units, full, bucket_span.max(units.interval())),
            per_second: units.per_second(),
            horizon_ns: units.nanos_in_any(units.of_any(most)).saturating_add(6 * NANOS_PER_SECOND),
            words_of,
            history: History::default(),
        })
    }

    /// True when the bucket's units do not fit 64 bits.
    const fn is_large(&self) -> bool {
        self.bucket_span == 0
    }

    /// The fast path, for a bucket that starts full, a cost that can fit, and a word that the rate in force
    /// wrote: only arithmetic, so that a store can inline it. `None` otherwise.
    ///
    /// Where the key owes something, the new word comes from the old one alone: its TAT moves by the units of
    /// the cost, its expiry by their whole seconds, and by one more where the rest reaches beyond that
    /// second.
    #[inline(always)]
    pub(crate) fn take_fast(&self, word: Word, cost: Cost, now: Timestamp) -> Option<FastStep> {
        // Also `None` for a peek, and for a bucket that does not start full or keeps instants, since its
        // `fast_capacity` is 0. (Both forms of words in line would cost each decision 60 instructions.)
        if cost.permits().wrapping_sub(1) >= self.fast_capacity {
            return None;
        }
        let ask = if cost == Cost::ONE { self.one } else { self.ask(cost) };
        let expires = word.expires.to_bits();
        let expires_ns = u64::from(expires) * NANOS_PER_SECOND;
        let now_ns = now.as_nanos();
        if expires_ns > now_ns {
            // Off by a second or more: another rate has written the word. (The bits of a sticky expiry are
            // beyond every horizon.)
            let behind = self.behind_own(word.value, u64::from(expires));
            let left_ns = expires_ns - now_ns;
            if left_ns > self.horizon_ns || behind >= self.per_second {
                return None;
            }
            let left = self.units.of_nanos(left_ns);
            if left > behind {
                return match self.decide(left - behind, ask) {
                    Ok((_, decision)) => {
                        let seconds = u64::from(expires) + ask.seconds + u64::from(ask.rest > behind);
                        let value = word.value.wrapping_add(ask.units << GENERATION_BITS);
                        let write = Some(Word { value, expires: Expiry::of_seconds(seconds)? });
                        Some(FastStep { write, decision })
                    }
                    Err(denial) => Some(FastStep { write: None, decision: denial }),
                };
            }
        }
        let decision = Decision::admit(self.limit, self.remaining(ask.units), ask.nanos);
        let tat = self.units.of_nanos(now_ns).wrapping_add(ask.units);
        Some(FastStep { write: Some(self.word_own(tat, now_ns.saturating_add(ask.nanos))), decision })
    }

    /// The slow path, for any cost and any word.
    #[inline]
    pub(crate) fn take_slow(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        self.take_owing(word, self.debt(word, now), cost, now)
    }

    /// A take of any cost from a key that owes `debt`.
    #[inline]
    pub(crate) fn take_owing(&self, word: Word, debt: Debt, cost: Cost, now: Timestamp) -> WordStep {
        if debt.units > u128::from(MAX_DEBT) || self.is_large() {
            return self.take_large(word, debt, cost, now);
        }
        let owed = debt.units as u64;
        let word = if debt.is_current { word } else { self.word(owed, self.units.nanos_in(owed), now) };
        self.take_owing_units(word, owed, cost, now)
    }

    #[inline]
    fn take_owing_units(&self, word: Word, debt: u64, cost: Cost, now: Timestamp) -> WordStep {
        let decided = if cost.permits() > self.capacity {
            Err(Decision::never(self.limit, self.remaining(debt), self.units.nanos_in(debt)))
        } else {
            self.decide(debt, self.ask(cost))
        };
        match decided {
            Ok((_, decision)) if cost.is_peek() => WordStep { word, decision },
            Ok((owed, decision)) => WordStep { word: self.word(owed, decision.reset_ns, now), decision },
            Err(denial) => WordStep { word: self.remember_start(word, debt, now), decision: denial },
        }
    }

    /// Admits the cost, with the units that are then owed, or denies it.
    #[inline(always)]
    fn decide(&self, debt: u64, ask: ScaledCost) -> Result<(u64, Decision), Decision> {
        if debt > ask.highest {
            let remaining = self.remaining(debt);
            let reset_ns = self.units.nanos_in(debt);
            let retry_ns = self.units.nanos_in(debt - ask.highest);
            return Err(Decision::deny(self.limit, remaining, retry_ns, reset_ns));
        }
        let owed = debt + ask.units;
        Ok((owed, Decision::admit(self.limit, self.remaining(owed), self.units.nanos_in(owed))))
    }

    /// Converts a cost within the capacity.
    #[inline]
    fn ask(&self, cost: Cost) -> ScaledCost {
        ScaledCost::of(cost.permits(), &self.units, self.full, self.bucket_span)
    }

    /// The debt of any word at `now`.
    #[inline]
    pub(crate) fn debt(&self, word: Word, now: Timestamp) -> Debt {
        let seconds = word.expires.seconds();
        let now_ns = now.as_nanos();
        let expires_ns = seconds * NANOS_PER_SECOND;
        if expires_ns <= now_ns {
            // A sticky word is never equivalent to no state: past its instant, its key is full.
            let units = if word.expires.is_sticky() { 0 } else { self.initial_debt() };
            return Debt { units, is_current: true };
        }
        let behind = self.behind(word.value, seconds);
        if behind > MAX_BEHIND_SECONDS * self.per_second {
            let most = self.units.of_any(self.largest_capacity());
            return self.history.debt(word, &self.units, most, now);
        }
        let left = u128::from(expires_ns - now_ns) * u128::from(self.units.scale());
        Debt { units: left.saturating_sub(u128::from(behind)), is_current: true }
    }

    /// Units by which the TAT of a word is behind its expiry: less than a second, or [`MAX_BEHIND_SECONDS`]
    /// where words are sticky. More where another rate has written the word.
    #[inline]
    fn behind(&self, value: u64, expires_seconds: u64) -> u64 {
        if self.keeps_instants() {
            self.units.of_fraction(value)
        } else {
            self.behind_own(value, expires_seconds)
        }
    }

    /// The same for a word that does not keep an instant.
    #[inline(always)]
    fn behind_own(&self, value: u64, expires_seconds: u64) -> u64 {
        let value_then =
            expires_seconds.wrapping_mul(self.per_second << GENERATION_BITS) | self.history.mark();
        value_then.wrapping_sub(value).rotate_right(GENERATION_BITS)
    }

    /// A key that does not start full begins to fill at its first take, also when that is denied. (A peek is
    /// denied only in debt, and then is not the first.)
    #[inline(never)]
    fn remember_start(&self, word: Word, debt: u64, now: Timestamp) -> Word {
        let is_first = self.starts_partial() && !word.expires.is_sticky();
        if is_first { self.word(debt, self.units.nanos_in(debt), now) } else { word }
    }

    #[inline(always)]
    fn remaining(&self, debt: u64) -> u64 {
        self.units.permits_in(self.full.saturating_sub(debt))
    }

    #[inline]
    fn word(&self, debt: u64, reset_ns: u64, now: Timestamp) -> Word {
        let tat = self.units.of_nanos(now.as_nanos()).wrapping_add(debt);
        self.word_of(tat, now.as_nanos().saturating_add(reset_ns))
    }

    /// The word of a key that is full again at `tat` units since the Unix epoch.
    pub(crate) fn word_at(&self, tat: u128) -> Word {
        let full_again_ns = u64::try_from(tat.div_ceil(u128::from(self.units.scale()))).unwrap_or(u64::MAX);
        self.word_of(tat as u64, full_again_ns)
    }

    #[inline]
    fn word_of(&self, tat: u64, full_again_ns: u64) -> Word {
        if !self.keeps_instants() {
            return self.word_own(tat, full_again_ns);
        }
        let expires = Expiry::at(Timestamp::from_nanos(full_again_ns));
        // The difference is less than a second; more where the expiry cannot be as late as the TAT.
        let behind = expires.seconds().wrapping_mul(self.per_second).wrapping_sub(tat);
        let behind = if behind < self.per_second { behind } else { 0 };
        Word { value: self.units.fraction_of(behind), expires }
    }

    /// The same for a bucket that does not keep instants.
    #[inline(always)]
    fn word_own(&self, tat: u64, full_again_ns: u64) -> Word {
        let expires = Expiry::at(Timestamp::from_nanos(full_again_ns));
        Word {
            value: (tat << GENERATION_BITS) | self.history.mark(),
            expires: if self.starts_partial() { expires.sticky() } else { expires },
        }
    }

    /// Words become those of any rate, unless they are sticky.
    pub(crate) const fn keep_instants(&mut self) {
        if !self.starts_partial() {
            self.words_of = ANY_RATE;
            self.fast_capacity = 0;
        }
    }

    pub(crate) const fn keeps_instants(&self) -> bool {
        self.words_of == ANY_RATE
    }

    /// This bucket with words that are the same for every bucket of its rate and burst whose capacity is at
    /// most `most`. It has no earlier rates yet.
    pub(crate) fn with_words_up_to(&self, period: Duration, most: u64) -> Result<Self, QuotaError> {
        let burst = self.burst();
        let initial = burst - self.lacking;
        let words_of = most.max(self.capacity);
        Self::of_words(words_of, self.limit, period, burst, initial, self.capacity - burst)
    }

    /// The most permits at once.
    pub(crate) const fn burst(&self) -> u64 {
        self.burst
    }

    /// Which quotas write its words.
    pub(crate) fn words_of(&self) -> WordsOf {
        match self.words_of {
            ALONE => WordsOf::This,
            ANY_RATE => WordsOf::AnyRate,
            most => WordsOf::Classes { overdraft: most - self.burst() },
        }
    }

    /// The largest capacity among the quotas that write the same words; this bucket's own where that is
    /// unknown.
    pub(crate) fn largest_capacity(&self) -> u64 {
        match self.words_of {
            ANY_RATE => self.capacity,
            words_of => words_of.max(self.capacity),
        }
    }

    /// Continues from `old`: its states keep the permits that they owed at `at`.
    pub(crate) fn migrate_from(&mut self, old: &Self, at: Timestamp) {
        if self.keeps_instants() {
            return; // it reads them as they are
        }
        self.history = if old.units == self.units {
            old.history.clone()
        } else {
            old.history.followed_by(old.units, &self.units, at)
        };
    }

    /// It may still be asked once `other` has successors, and then reads their words.
    pub(crate) fn share_successors_of(&self, other: &Self) {
        self.history.share_lineage_of(&other.history);
    }

    /// The word of a key at `now` when this bucket replaces `old`. A successor of `old` may have written it.
    pub(crate) fn inherit(&self, word: Word, old: &Self, how: Inherit, now: Timestamp) -> WordStep {
        let is_owing = word.expires.seconds() * NANOS_PER_SECOND > now.as_nanos();
        let debt = if is_owing && self.history.follows(&old.history, old.units) {
            self.debt(word, now).units
        } else {
            let debt = old.debt(word, now).units;
            (debt * u128::from(self.units.interval())).div_ceil(u128::from(old.units.interval()))
        };
        let old_full = u128::from(old.burst()) * u128::from(self.units.interval());
        self.owing(how.missing(debt, old_full, self.full()), now)
    }

    /// True when both have the same earlier rates, the same generation now, and words of the same quotas.
    pub(crate) fn has_history_of(&self, other: &Self) -> bool {
        self.history.is_that_of(&other.history) && self.words_of == other.words_of
    }

    pub(crate) const fn starts_partial(&self) -> bool {
        self.lacking != 0
    }

    pub(crate) const fn units(&self) -> &Units {
        &self.units
    }

    /// The debt of an unseen key, in units.
    pub(crate) const fn initial_debt(&self) -> u128 {
        self.units.of_any(self.lacking)
    }

    /// Burst and overdraft, in units.
    pub(crate) const fn bucket_span(&self) -> u128 {
        self.units.of_any(self.capacity)
    }

    /// The content of a full bucket, in units.
    pub(crate) const fn full(&self) -> u128 {
        self.units.of_any(self.burst)
    }
}

const _: () = assert!(MAX_UNITS.is_power_of_two() && NANOS_PER_SECOND < 1 << 30);
