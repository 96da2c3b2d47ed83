//! The states by the hashes of their keys: words in the table, wide states in their maps.
//!
//! A key has a state of one shape. One of each is possible where its rule's algorithm changed shape and back:
//! then the word is the younger, and neither counts.

use std::time::Duration;

use tollgate_core::{
    Cost, Decision, FastStep, Quota, State, Step, Timestamp, Wide, WideAlgorithm, Word, WordAlgorithm,
    WordStep,
};
use tollgate_store::{Counter, Key, Take, Verdicts};

use crate::atomic128::prefetch;
use crate::config::MemoryConfig;
use crate::hash::{KeyHash, KeyHasher};
use crate::stats::MemoryStats;
use crate::table::{BATCH, FastPath, Table};
use crate::wide::WideStates;

#[derive(Debug)]
pub(crate) struct States {
    hasher: KeyHasher,
    words: Table,
    wide: WideStates,
    max_bytes: u64,
}

impl States {
    pub(crate) fn new(config: &MemoryConfig) -> Self {
        let for_wide = config.max_bytes / 4;
        Self {
            hasher: KeyHasher::new(config.hash_key),
            words: Table::new(config.max_bytes - for_wide),
            wide: WideStates::new(for_wide),
            max_bytes: config.max_bytes,
        }
    }

    #[inline]
    pub(crate) fn hash(&self, key: Key<'_>) -> KeyHash {
        self.hasher.hash(key.0)
    }

    #[inline(always)]
    pub(crate) fn take(&self, key: KeyHash, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        let line = self.words.line(key);
        match self.words.update_fast(line, key, FastTake { quota, cost, now }) {
            Some(decision) => decision,
            None => self.take_slow(key, quota, cost, now).by_fields(),
        }
    }

    /// Up to [`BATCH`] takes, each on its own.
    pub(crate) fn take_each(&self, batch: &[Take<'_>], now: Timestamp, verdicts: &mut Verdicts) {
        let mut keys = [(KeyHash::default(), None); BATCH];
        for ((key, line), take) in keys.iter_mut().zip(batch) {
            *key = self.hash(take.counter.key);
            *line = self.words.line(*key);
            if let Some(line) = line {
                prefetch(*line);
            }
        }
        verdicts.reserve(batch.len());
        for (&Take { counter: Counter { quota, .. }, cost }, &(key, line)) in batch.iter().zip(&keys) {
            // Pushed in two places, so that the fast path writes its answer where it belongs.
            match self.words.update_fast(line, key, FastTake { quota, cost, now }) {
                Some(decision) => verdicts.push(Ok(decision)),
                None => verdicts.push(Ok(self.take_slow(key, quota, cost, now))),
            }
        }
    }

    #[inline(never)]
    fn take_slow(&self, key: KeyHash, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        self.step(key, quota, now, |it, word| it.take(word, cost, now), |it, wide| it.take(wide, cost, now))
    }

    pub(crate) fn give_back(&self, key: KeyHash, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        self.step(
            key,
            quota,
            now,
            |it, word| it.give_back(word, cost, now),
            |it, wide| it.give_back(wide, cost, now),
        )
    }

    pub(crate) fn reserve(
        &self,
        key: KeyHash,
        quota: &Quota,
        cost: Cost,
        max_wait: Duration,
        now: Timestamp,
    ) -> Decision {
        self.step(
            key,
            quota,
            now,
            |it, word| it.reserve(word, cost, max_wait, now),
            |it, wide| it.reserve(wide, cost, now),
        )
    }

    pub(crate) fn charge(&self, key: KeyHash, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        self.step(
            key,
            quota,
            now,
            |it, word| it.charge(word, cost, now),
            |it, wide| it.charge(wide, cost, now),
        )
    }

    /// Runs the step of the quota's shape on the state of `key`.
    fn step(
        &self,
        key: KeyHash,
        quota: &Quota,
        now: Timestamp,
        on_word: impl Fn(&WordAlgorithm, Word) -> WordStep,
        on_wide: impl FnOnce(&WideAlgorithm, &mut Wide) -> Decision,
    ) -> Decision {
        match quota.step() {
            Step::Word(algorithm) => self.words.update(key, now, |word| on_word(algorithm, word)),
            Step::Wide(algorithm) => {
                self.drop_word(key);
                self.wide.update(key, now, |wide| on_wide(algorithm, wide))
            }
        }
    }

    /// Runs `step` on the wide state of `key`, which slots keep theirs in.
    pub(crate) fn update_slots<T>(
        &self,
        key: KeyHash,
        now: Timestamp,
        step: impl FnOnce(&mut Wide) -> T,
    ) -> T {
        self.wide.update(key, now, step)
    }

    /// Drops a word, and the older wide state beside it.
    fn drop_word(&self, key: KeyHash) {
        if self.words.seems_to_have(key) && self.words.remove(key).is_some() {
            self.wide.remove(key);
        }
    }

    pub(crate) fn get(&self, key: KeyHash, quota: &Quota) -> State {
        match quota.step() {
            Step::Word(_) => State::Word(self.words.get(key)),
            Step::Wide(_) if self.words.seems_to_have(key) => quota.fresh(),
            Step::Wide(_) => State::Wide(self.wide.get(key)),
        }
    }

    pub(crate) fn reset(&self, key: KeyHash, now: Timestamp) -> bool {
        let word = self.words.remove(key).is_some_and(|word| !word.expires.is_past(now));
        let wide = self.wide.remove(key).is_some_and(|wide| !wide.expires.is_past(now));
        word || wide
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        let (table, wide) = (self.words.stats(), self.wide.stats());
        MemoryStats {
            tracked_keys: table.used + wide.tracked,
            bytes: table.bytes + wide.bytes,
            max_bytes: self.max_bytes,
            evictions: table.evictions + wide.evictions,
            expired_reuses: table.expired_reuses + wide.expired_reuses,
        }
    }
}

/// The fast path of a take.
struct FastTake<'a> {
    quota: &'a Quota,
    cost: Cost,
    now: Timestamp,
}

impl FastPath for FastTake<'_> {
    #[inline(always)]
    fn step(&self, word: Word) -> Option<FastStep> {
        match self.quota.step() {
            Step::Word(algorithm) => algorithm.take_fast(word, self.cost, self.now),
            Step::Wide(_) => None,
        }
    }
}
