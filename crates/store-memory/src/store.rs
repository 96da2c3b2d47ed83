//! The store: hashes keys, sends each take to the table or to the wide states.

use std::future::{Future, ready};
use std::time::Duration;

use tollgate_core::{Cost, Decision, FastStep, Holder, Quota, Shape, Slots, State, Timestamp, Word};
use tollgate_store::{Charge, Inspection, Key, Store, StoreError, StoreName, Take, Verdicts};

use crate::all_or_nothing::{self, Stripes};
use crate::atomic128::prefetch;
use crate::config::MemoryConfig;
use crate::hash::{KeyHash, KeyHasher};
use crate::stats::MemoryStats;
use crate::table::{BATCH, Table, Usual};
use crate::wide::WideStates;

/// The store of counters in this process.
///
/// The methods that end in `_now`, and [`take_one`](MemoryStore::take_one), are those of [`Store`] without a future. None of them
/// fails: a store in memory is always there.
///
/// # Example
/// ```
/// # use tollgate_store_memory::MemoryStore;
/// # use tollgate_core::{Cost, Quota, Timestamp};
/// # use tollgate_store::Key;
/// # use std::time::Duration;
/// let store = MemoryStore::default();
/// let quota = Quota::token_bucket(2, Duration::from_secs(1))?;
/// let now = Timestamp::from_unix_seconds(1_700_000_000);
/// assert!(store.take_one(Key(b"alice"), &quota, Cost(2), now).is_admitted());
/// assert!(!store.take_one(Key(b"alice"), &quota, Cost::ONE, now).is_admitted());
/// assert!(store.take_one(Key(b"bob"), &quota, Cost::ONE, now).is_admitted());
/// assert_eq!(store.stats().tracked_keys, 2);
/// # Ok::<(), tollgate_core::QuotaError>(())
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    states: States,
    stripes: Stripes,
    max_bytes: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(MemoryConfig::default())
    }
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(config: MemoryConfig) -> Self {
        Self { states: States::new(&config), stripes: Stripes::new(), max_bytes: config.max_bytes }
    }

    /// As [`Store::take`], at once.
    pub fn take_now(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        match (charge, batch) {
            (_, []) => {}
            (Charge::Each, [take]) => verdicts.push(Ok(self.take_one(take.key, take.quota, take.cost, now))),
            (Charge::Each, _) => {
                batch.chunks(BATCH).for_each(|part| self.states.take_each(part, now, verdicts))
            }
            (Charge::Together, _) => {
                all_or_nothing::take(&self.states, &self.stripes, batch, None, now, verdicts)
            }
        }
    }

    /// Decides a single take. In line, so that what a caller does not look at need not be worked out.
    #[inline(always)]
    pub fn take_one(&self, key: Key<'_>, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        self.states.take(self.states.hash(key), quota, cost, now)
    }

    /// As [`Store::give_back`], at once.
    pub fn give_back_now(&self, key: Key<'_>, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        self.states.give_back(self.states.hash(key), quota, cost, now)
    }

    /// As [`Store::reserve`], at once.
    pub fn reserve_now(
        &self,
        batch: &[Take<'_>],
        max_wait: Duration,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) {
        match batch {
            [] => {}
            [Take { key, quota, cost }] => {
                verdicts.push(Ok(self.states.reserve(self.states.hash(*key), quota, *cost, max_wait, now)));
            }
            _ => all_or_nothing::take(&self.states, &self.stripes, batch, Some(max_wait), now, verdicts),
        }
    }

    /// As [`Store::charge`], at once.
    pub fn charge_now(&self, key: Key<'_>, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        self.states.charge(self.states.hash(key), quota, cost, now)
    }

    /// As [`Store::reset`], at once.
    pub fn reset_now(&self, key: Key<'_>, _quota: &Quota, now: Timestamp) -> bool {
        self.states.reset(self.states.hash(key), now)
    }

    /// As [`Store::inspect`], at once.
    #[must_use]
    pub fn inspect_now(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Inspection {
        let mut state = self.states.get(self.states.hash(key), quota);
        let expires = match &state {
            State::Word(word) => word.expires,
            State::Wide(wide) => wide.expires,
        };
        Inspection { decision: quota.take(&mut state, Cost::PEEK, now), is_tracked: !expires.is_past(now) }
    }

    /// As [`Store::acquire`], at once.
    pub fn acquire_now(&self, key: Key<'_>, slots: &Slots, holder: Holder, now: Timestamp) -> Decision {
        let key = self.states.hash(key);
        self.states.wide.update(key, now, |state| slots.acquire(state, holder, now))
    }

    /// As [`Store::release`], at once.
    pub fn release_now(&self, key: Key<'_>, slots: &Slots, holder: Holder, now: Timestamp) -> bool {
        let key = self.states.hash(key);
        self.states.wide.update(key, now, |state| slots.release(state, holder, now))
    }

    /// How much is kept, and what had to go.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        let (table, wide) = (self.states.words.stats(), self.states.wide.stats());
        MemoryStats {
            tracked_keys: table.used + wide.tracked,
            bytes: table.bytes + wide.bytes,
            max_bytes: self.max_bytes,
            evictions: table.evictions + wide.evictions,
            expired_reuses: table.expired_reuses + wide.expired_reuses,
        }
    }
}

struct UsualTake<'a> {
    quota: &'a Quota,
    cost: Cost,
    now: Timestamp,
}

impl Usual for UsualTake<'_> {
    #[inline(always)]
    fn step(&self, word: Word) -> Option<FastStep> {
        self.quota.take_fast_word(word, self.cost, self.now)
    }
}

/// The states by the hash of their keys, of either shape.
#[derive(Debug)]
pub(crate) struct States {
    hasher: KeyHasher,
    words: Table,
    wide: WideStates,
}

impl States {
    fn new(config: &MemoryConfig) -> Self {
        let for_wide = config.max_bytes / 4;
        Self {
            hasher: KeyHasher::new(config.hash_key),
            words: Table::new(config.max_bytes - for_wide),
            wide: WideStates::new(for_wide),
        }
    }

    #[inline]
    pub(crate) fn hash(&self, key: Key<'_>) -> KeyHash {
        self.hasher.hash(key.0)
    }

    #[inline(always)]
    pub(crate) fn take(&self, key: KeyHash, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        let line = self.words.line(key);
        match self.words.update_usually(line, key, UsualTake { quota, cost, now }) {
            Some(decision) => decision,
            None => self.take_generally(key, quota, cost, now).by_fields(),
        }
    }

    #[inline(never)]
    fn take_generally(&self, key: KeyHash, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        match quota.shape() {
            Shape::Word => self.words.update(key, now, move |word| quota.take_word(word, cost, now)),
            Shape::Wide => {
                self.forget_word(key);
                self.wide.update(key, now, |wide| quota.take_wide(wide, cost, now))
            }
        }
    }

    /// A word beside a wide state is the younger one: the rule's algorithm went to one word and has come back. Neither counts then.
    fn forget_word(&self, key: KeyHash) {
        if self.words.seems_to_have(key) && self.words.remove(key).is_some() {
            self.wide.remove(key);
        }
    }

    /// Up to [`BATCH`] takes that stand alone.
    fn take_each(&self, batch: &[Take<'_>], now: Timestamp, verdicts: &mut Verdicts) {
        let mut keys = [(KeyHash::default(), None); BATCH];
        for ((key, line), take) in keys.iter_mut().zip(batch) {
            *key = self.hash(take.key);
            *line = self.words.line(*key);
            if let Some(line) = line {
                prefetch(*line);
            }
        }
        verdicts.reserve(batch.len());
        for (&Take { quota, cost, .. }, &(key, line)) in batch.iter().zip(&keys) {
            // Pushed in two places, so that the usual answer goes straight to where it belongs.
            match self.words.update_usually(line, key, UsualTake { quota, cost, now }) {
                Some(decision) => verdicts.push(Ok(decision)),
                None => verdicts.push(Ok(self.take_generally(key, quota, cost, now))),
            }
        }
    }

    pub(crate) fn give_back(&self, key: KeyHash, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        match quota.shape() {
            Shape::Word => self.words.update(key, now, move |word| quota.give_back_word(word, cost, now)),
            Shape::Wide => {
                self.forget_word(key);
                self.wide.update(key, now, |wide| quota.give_back_wide(wide, cost, now))
            }
        }
    }

    pub(crate) fn reserve(
        &self,
        key: KeyHash,
        quota: &Quota,
        cost: Cost,
        max_wait: Duration,
        now: Timestamp,
    ) -> Decision {
        match quota.shape() {
            Shape::Word => {
                self.words.update(key, now, move |word| quota.reserve_word(word, cost, max_wait, now))
            }
            Shape::Wide => {
                self.forget_word(key);
                self.wide.update(key, now, |wide| quota.reserve_wide(wide, cost, now))
            }
        }
    }

    fn charge(&self, key: KeyHash, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        match quota.shape() {
            Shape::Word => self.words.update(key, now, move |word| quota.charge_word(word, cost, now)),
            Shape::Wide => {
                self.forget_word(key);
                self.wide.update(key, now, |wide| quota.charge_wide(wide, cost, now))
            }
        }
    }

    pub(crate) fn get(&self, key: KeyHash, quota: &Quota) -> State {
        match quota.shape() {
            Shape::Word => State::Word(self.words.get(key)),
            Shape::Wide if self.words.seems_to_have(key) => quota.fresh(),
            Shape::Wide => State::Wide(self.wide.get(key)),
        }
    }

    fn reset(&self, key: KeyHash, now: Timestamp) -> bool {
        let word = self.words.remove(key).is_some_and(|word| !word.expires.is_past(now));
        let wide = self.wide.remove(key).is_some_and(|wide| !wide.expires.is_past(now));
        word || wide
    }
}

impl Store for MemoryStore {
    fn name(&self) -> StoreName {
        StoreName::new("memory")
    }

    fn take(
        &self,
        batch: &[Take<'_>],
        charge: Charge,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) -> impl Future<Output = ()> + Send {
        self.take_now(batch, charge, now, verdicts);
        ready(())
    }

    fn give_back(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        ready(Ok(self.give_back_now(key, quota, cost, now)))
    }

    fn reserve(
        &self,
        batch: &[Take<'_>],
        max_wait: Duration,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) -> impl Future<Output = ()> + Send {
        self.reserve_now(batch, max_wait, now, verdicts);
        ready(())
    }

    fn charge(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        ready(Ok(self.charge_now(key, quota, cost, now)))
    }

    fn reset(
        &self,
        key: Key<'_>,
        quota: &Quota,
        now: Timestamp,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        ready(Ok(self.reset_now(key, quota, now)))
    }

    fn inspect(
        &self,
        key: Key<'_>,
        quota: &Quota,
        now: Timestamp,
    ) -> impl Future<Output = Result<Inspection, StoreError>> + Send {
        ready(Ok(self.inspect_now(key, quota, now)))
    }

    fn acquire(
        &self,
        key: Key<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        ready(Ok(self.acquire_now(key, slots, holder, now)))
    }

    fn release(
        &self,
        key: Key<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        ready(Ok(self.release_now(key, slots, holder, now)))
    }
}
