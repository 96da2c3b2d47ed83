//! The quota of each key, where a function returns it: its answers, remembered by key.
//!
//! Each different quota is a tier, whose states lie beside those of the others in one table. So a call that
//! is decided while its key changes tiers is counted by the one or the other, and never reads a state that it
//! cannot understand. The answers are in a table as well: looking one up takes no lock and allocates nothing.
//!
//! The function is never called here, nor while a lock is held: its answers are passed in.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::{Expiry, Inherit, Quota, QuotaError, State, Timestamp, Word};
use tollgate_store_memory::MemoryStats;

use crate::bounds::Bounds;
use crate::epochs::{STRIPES, stripe_of};
use crate::in_force::InForce;
use crate::states::{States, Table};

/// Most tiers made by answers. (A quota that replaces that of all other keys is a tier as well.)
const MOST_TIERS: usize = 10_000;
/// Most tiers in all.
const MOST_PLACES: usize = CHUNKS * CHUNK;
const CHUNKS: usize = 80;
const CHUNK: usize = 128;
/// Room in the table for one answer, with its part of the free room.
const BYTES_PER_ANSWER: u64 = 48;
/// An answer is kept for a day, or two windows of its quota, at least. A key that comes back later may find
/// that its counts are forgotten with the answer.
const KEPT: Duration = Duration::from_secs(86_400);

/// Settings for answers: how long they are remembered, and the counts that a key keeps when its answer
/// changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking {
    pub(crate) remember_for: Duration,
    pub(crate) most_keys: u64,
    pub(crate) how: Inherit,
}

#[derive(Debug)]
pub(crate) struct Tiers<S> {
    list: List<S>,
    changing: Mutex<Changing>,
    answers: Table,
    /// The quota by which the table of answers reads its words.
    reads: Quota,
    /// Number of times that the answers of the keys of each stripe became old.
    turns: [AtomicU32; STRIPES],
    remember_for: Duration,
    began: Timestamp,
    unusable: AtomicU64,
}

type Chunk<S> = Box<[OnceLock<Arc<InForce<S>>>]>;

/// All tiers by their numbers. A tier in the list stays there, so that it is found without a lock.
#[derive(Debug)]
struct List<S> {
    first: Arc<InForce<S>>,
    chunks: [OnceLock<Chunk<S>>; CHUNKS],
}

impl<S> List<S> {
    fn new(first: InForce<S>) -> Self {
        Self { first: Arc::new(first), chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// The tier; the first tier for a number that does not exist, which no answer contains.
    #[inline]
    fn get(&self, tier: u16) -> &Arc<InForce<S>> {
        let chunk = usize::from(tier) / CHUNK;
        let place = usize::from(tier) % CHUNK;
        self.chunks.get(chunk).and_then(|it| it.get()?.get(place)?.get()).unwrap_or(&self.first)
    }

    fn set(&self, tier: u16, in_force: InForce<S>) {
        let chunk = usize::from(tier) / CHUNK;
        let place = usize::from(tier) % CHUNK;
        let chunk = self.chunks[chunk].get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        chunk[place].get_or_init(|| Arc::new(in_force));
    }
}

#[derive(Debug)]
struct Changing {
    numbers: HashMap<ByNumbers, u16>,
    /// The tier of keys that have no quota of their own.
    otherwise: u16,
    how: Inherit,
    fault: Option<QuotaError>,
}

/// A quota as a key of a map.
#[derive(Debug, PartialEq, Eq)]
struct ByNumbers(crate::Quota);

impl Hash for ByNumbers {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.numbers().hash(hasher);
    }
}

/// The answer about a key: a word of the table, from the highest bits down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TierAnswer {
    /// The second from which the answer is old, counted from the beginning of the limiter. 28 bits; the
    /// largest value means never.
    until: u64,
    /// The turn of its stripe at which it was asked for. 20 bits.
    pub(crate) turn: u32,
    pub(crate) tier: u16,
}

impl TierAnswer {
    const TURNS: u32 = 1 << 20;
    const NEVER: u64 = (1 << 28) - 1;

    const fn to_bits(self) -> u64 {
        self.until << 36 | (self.turn as u64) << 16 | self.tier as u64
    }

    const fn from_bits(bits: u64) -> Self {
        Self { until: bits >> 36, turn: (bits >> 16) as u32 % Self::TURNS, tier: bits as u16 }
    }
}

impl<S: States> Tiers<S> {
    /// Starts with one tier, that of `first`, for all keys.
    pub(crate) fn new(first: &InForce<S>, quota: crate::Quota, asking: Asking, now: Timestamp) -> Self {
        let otherwise = InForce::of_tier(first.quota.clone(), Arc::clone(&first.states), 0);
        let numbers = HashMap::from([(ByNumbers(quota), 0)]);
        Self {
            list: List::new(otherwise),
            changing: Mutex::new(Changing { numbers, otherwise: 0, how: asking.how, fault: None }),
            answers: Table::new(asking.most_keys.saturating_mul(BYTES_PER_ANSWER)),
            reads: Quota::unlimited(),
            turns: [const { AtomicU32::new(0) }; STRIPES],
            remember_for: asking.remember_for,
            began: now,
            unusable: AtomicU64::new(0),
        }
    }

    /// The quota and states of the keys that have no quota of their own.
    pub(crate) fn otherwise(&self) -> Arc<InForce<S>> {
        self.get(self.changing.lock().otherwise)
    }

    pub(crate) fn get(&self, tier: u16) -> Arc<InForce<S>> {
        Arc::clone(self.list.get(tier))
    }

    #[inline]
    pub(crate) fn at(&self, tier: u16) -> &InForce<S> {
        self.list.get(tier)
    }

    /// The counts that a key keeps when its answer changes.
    pub(crate) fn how(&self) -> Inherit {
        self.changing.lock().how
    }

    /// The tier of a quota for all keys that have none of their own.
    pub(crate) fn number_of_all_others(&self, quota: &crate::Quota) -> Result<u16, QuotaError> {
        self.number(quota, MOST_PLACES)
    }

    /// Replaces the tier of all other keys, and returns the previous one.
    pub(crate) fn replace_otherwise(&self, tier: u16, how: Inherit) -> u16 {
        let mut changing = self.changing.lock();
        changing.how = how;
        std::mem::replace(&mut changing.otherwise, tier)
    }

    /// The quota and states of `key`, as far as is known.
    pub(crate) fn of_key(&self, key: &[u8]) -> Arc<InForce<S>> {
        self.answer(key).map_or_else(|| self.otherwise(), |answer| self.get(answer.tier))
    }

    #[inline]
    pub(crate) fn answer(&self, key: &[u8]) -> Option<TierAnswer> {
        match self.answers.get(key, &self.reads) {
            State::Word(word) if !word.is_fresh() => Some(TierAnswer::from_bits(word.value)),
            _ => None,
        }
    }

    /// The tier of `key`, if that is known and not old.
    #[inline]
    pub(crate) fn known(&self, key: &[u8], now: Timestamp) -> Option<u16> {
        let answer = self.answer(key)?;
        (answer.turn == self.turn(key) && self.seconds(now) < answer.until).then_some(answer.tier)
    }

    fn seconds(&self, now: Timestamp) -> u64 {
        now.since(self.began).as_secs()
    }

    fn stripe(&self, key: &[u8]) -> &AtomicU32 {
        &self.turns[stripe_of(key)]
    }

    pub(crate) fn turn(&self, key: &[u8]) -> u32 {
        self.stripe(key).load(Ordering::SeqCst) % TierAnswer::TURNS
    }

    pub(crate) fn remember(&self, key: &[u8], tier: u16, turn: u32, now: Timestamp) {
        let lasts =
            self.remember_for.as_secs().saturating_add(u64::from(self.remember_for.subsec_nanos() > 0));
        let until = self.seconds(now).saturating_add(lasts.max(1)).min(TierAnswer::NEVER);
        let window = Bounds::of(&self.get(tier).quota).window.unwrap_or_default();
        let expires = Expiry::at(now + KEPT.max(2 * window.min(Duration::MAX / 2)).max(self.remember_for));
        let value = TierAnswer { until, turn, tier }.to_bits();
        self.answers.update(key, &self.reads, now, |state| *state = State::Word(Word { value, expires }));
    }

    /// Notes that `key` has changed tiers. The time at which it is asked for again does not change.
    pub(crate) fn correct(&self, key: &[u8], tier: u16, now: Timestamp) {
        self.answers.update(key, &self.reads, now, |state| {
            if let State::Word(word) = state
                && !word.is_fresh()
            {
                word.value = TierAnswer { tier, ..TierAnswer::from_bits(word.value) }.to_bits();
            }
        });
    }

    /// The tier of a quota; makes a new one if needed.
    fn number(&self, quota: &crate::Quota, most: usize) -> Result<u16, QuotaError> {
        let mut changing = self.changing.lock();
        let named = ByNumbers(quota.clone());
        if let Some(number) = changing.numbers.get(&named) {
            return Ok(*number);
        }
        let checked = quota.checked()?;
        let number = changing.numbers.len();
        if number >= most {
            let algorithm = checked.algorithm().name();
            let what = "more than 10,000 different quotas of keys";
            return Err(QuotaError::Unsupported { algorithm, what });
        }
        let number = number as u16; // at most MOST_PLACES
        let states = Arc::clone(&self.list.first.states);
        self.list.set(number, InForce::of_tier(checked, states, number));
        changing.numbers.insert(named, number);
        Ok(number)
    }

    /// The tier of an answer. An invalid answer means the tier of all other keys.
    pub(crate) fn meant_by(&self, answer: Option<&crate::Quota>) -> u16 {
        match answer.map(|quota| self.number(quota, MOST_TIERS)) {
            Some(Ok(tier)) => tier,
            None => self.changing.lock().otherwise,
            Some(Err(fault)) => {
                self.unusable.fetch_add(1, Ordering::Relaxed);
                let mut changing = self.changing.lock();
                changing.fault = Some(fault);
                changing.otherwise
            }
        }
    }

    /// Makes the answer about `key` old, so that the function is asked again.
    pub(crate) fn ask_again(&self, key: &[u8]) {
        self.stripe(key).fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn ask_all_again(&self) {
        for turn in &self.turns {
            turn.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Numbers of remembered answers, of tiers and of answers that were not valid, and the last fault.
    pub(crate) fn stats(&self) -> (MemoryStats, usize, u64, Option<QuotaError>) {
        let (fault, tiers) = {
            let changing = self.changing.lock();
            (changing.fault.clone(), changing.numbers.len())
        };
        (self.answers.stats(), tiers, self.unusable.load(Ordering::Relaxed), fault)
    }
}
