//! The states by the hashes of their keys: words in the table, wide states in their maps.
//!
//! A key has a state of one shape. It may have a state of both shapes if its rule's algorithm changed shape
//! and back: then the word is the younger, and neither counts.

use std::time::Duration;

use tollgate_core::{
    Cost, Decision, FastStep, Quota, State, Step, Timestamp, Wide, WideAlgorithm, Word, WordAlgorithm,
    WordStep,
};
use tollgate_store::{Counter, Key, Origin, Payment, Take, Verdicts};

use crate::atomic128::prefetch;
use crate::config::MemoryConfig;
use crate::hash::{KeyHash, KeyHasher};
use crate::stats::MemoryStats;
use crate::table::{BATCH, FastPath, Table};
use crate::wide::WideStates;

#[derive(Debug)]
pub(crate) struct States {
    hasher: KeyHasher,
    of_rules: Room,
    of_requests: Room,
}

/// The room of counters whose quotas have one origin. Counters of one origin never evict those of the other.
#[derive(Debug)]
struct Room {
    words: Table,
    wide: WideStates,
    max_bytes: u64,
}

impl Room {
    fn new(max_bytes: u64) -> Self {
        let for_wide = max_bytes / 4;
        Self { words: Table::new(max_bytes - for_wide), wide: WideStates::new(for_wide), max_bytes }
    }

    fn stats(&self) -> MemoryStats {
        let table = self.words.stats();
        let wide = self.wide.stats();
        MemoryStats {
            tracked_keys: table.used + wide.tracked,
            bytes: table.bytes + wide.bytes,
            max_bytes: self.max_bytes,
            evictions: table.evictions + wide.evictions,
            expired_reuses: table.expired_reuses + wide.expired_reuses,
        }
    }
}

impl States {
    pub(crate) fn new(config: &MemoryConfig) -> Self {
        let of_requests = config.request_bytes();
        Self {
            hasher: KeyHasher::new(config.hash_key),
            of_rules: Room::new(config.max_bytes - of_requests),
            of_requests: Room::new(of_requests),
        }
    }

    #[inline(always)]
    pub(crate) fn hash(&self, Counter { key, origin, .. }: Counter<'_>) -> KeyHash {
        KeyHash { origin, ..self.hasher.hash(key.0) }
    }

    /// Slots belong to rules.
    pub(crate) fn hash_of_slots(&self, key: Key<'_>) -> KeyHash {
        self.hasher.hash(key.0)
    }

    #[inline(always)]
    const fn room(&self, key: KeyHash) -> &Room {
        match key.origin {
            Origin::Rule => &self.of_rules,
            Origin::Request => &self.of_requests,
        }
    }

    #[inline(always)]
    pub(crate) fn take(&self, key: KeyHash, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        let words = &self.room(key).words;
        let line = words.line(key);
        match words.update_fast(line, key, FastTake { quota, cost, now }) {
            Some(decision) => decision,
            None => self.take_slow(key, quota, cost, now).by_fields(),
        }
    }

    /// Up to [`BATCH`] takes, each on its own.
    pub(crate) fn take_each(&self, batch: &[Take<'_>], now: Timestamp, verdicts: &mut Verdicts) {
        let mut keys = [(KeyHash::default(), None); BATCH];
        for ((key, line), take) in keys.iter_mut().zip(batch) {
            *key = self.hash(take.counter);
            *line = self.room(*key).words.line(*key);
            if let Some(line) = line {
                prefetch(*line);
            }
        }
        verdicts.reserve(batch.len());
        for (&Take { counter: Counter { quota, .. }, cost, payment }, &(key, line)) in batch.iter().zip(&keys)
        {
            if payment.is_after() {
                verdicts.push(Ok(self.pay(key, quota, cost, payment, now)));
                continue;
            }
            // The push is in two places, so that the fast path writes its answer directly into the vector.
            match self.room(key).words.update_fast(line, key, FastTake { quota, cost, now }) {
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
            |it, wide| it.reserve(wide, cost, max_wait, now),
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

    /// Counts permits that are used already.
    #[cold]
    #[inline(never)]
    fn pay(&self, key: KeyHash, quota: &Quota, cost: Cost, payment: Payment, now: Timestamp) -> Decision {
        if payment == Payment::Consumed {
            return self.charge(key, quota, cost, now);
        }
        self.step(key, quota, now, |it, word| it.pay(word, cost, now), |it, wide| it.pay(wide, cost, now))
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
            Step::Word(algorithm) => self.room(key).words.update(key, now, |word| {
                let WordStep { word, decision } = on_word(algorithm, word);
                (word, decision)
            }),
            Step::Wide(algorithm) => {
                self.drop_word(key);
                self.room(key).wide.update(key, now, |wide| on_wide(algorithm, wide))
            }
        }
    }

    /// Runs `step` on the state of `key`, of the shape that `quota` keeps. It may be called again; the last
    /// call returns the answer.
    pub(crate) fn update<T>(
        &self,
        key: KeyHash,
        quota: &Quota,
        now: Timestamp,
        mut step: impl FnMut(&mut State) -> T,
    ) -> T {
        match quota.step() {
            Step::Word(_) => self.room(key).words.update(key, now, |word| {
                let mut state = State::Word(word);
                let answer = step(&mut state);
                (if let State::Word(after) = state { after } else { word }, answer)
            }),
            Step::Wide(_) => {
                self.drop_word(key);
                self.room(key).wide.update(key, now, |wide| {
                    let mut state = State::Wide(std::mem::take(wide));
                    let answer = step(&mut state);
                    if let State::Wide(after) = state {
                        *wide = after;
                    }
                    answer
                })
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
        self.room(key).wide.update(key, now, step)
    }

    /// Drops a word, and the older wide state beside it.
    fn drop_word(&self, key: KeyHash) {
        let Room { words, wide, .. } = self.room(key);
        if words.seems_to_have(key) && words.remove(key).is_some() {
            wide.remove(key);
        }
    }

    pub(crate) fn get(&self, key: KeyHash, quota: &Quota) -> State {
        let Room { words, wide, .. } = self.room(key);
        match quota.step() {
            Step::Word(_) => State::Word(words.get(key)),
            Step::Wide(_) if words.seems_to_have(key) => quota.fresh(),
            Step::Wide(_) => State::Wide(wide.get(key)),
        }
    }

    pub(crate) fn reset(&self, key: KeyHash, now: Timestamp) -> bool {
        let Room { words, wide, .. } = self.room(key);
        let word = words.remove(key).is_some_and(|word| !word.expires.is_past(now));
        let wide = wide.remove(key).is_some_and(|wide| !wide.expires.is_past(now));
        word || wide
    }

    pub(crate) fn stats_of(&self, origin: Origin) -> MemoryStats {
        match origin {
            Origin::Rule => self.of_rules.stats(),
            Origin::Request => self.of_requests.stats(),
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
