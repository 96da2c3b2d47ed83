//! States of several numbers: maps behind locks, bounded by bytes.
//!
//! There are few of them compared with one-word states, and each costs more, so a lock around each part of
//! them is enough: here a decision waits for another one on a key of the same part. Expired states are
//! dropped a few at a time as new keys come, and before others where room must be made.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tollgate_core::{Timestamp, Wide};

use crate::hash::KeyHash;
use crate::sync::{AtomicU64, Mutex};

/// States that a new key checks for expiry, and from which one is chosen for eviction at the cap.
const SAMPLE: usize = 4;
/// Lifetime of an expired state while less than half of the room is used.
const GRACE: Duration = Duration::from_secs(60);
/// Bytes of a state besides its numbers: its entry, its place in the index, the allocation.
const OVERHEAD_BYTES: u64 = 128;

#[derive(Debug)]
pub(crate) struct WideStates {
    parts: Box<[Mutex<WideShard>]>,
    max_bytes: u64,
    bytes: AtomicU64,
    tracked: AtomicU64,
    evictions: AtomicU64,
    expired_reuses: AtomicU64,
}

#[derive(Debug, Default)]
struct WideShard {
    index: HashMap<KeyHash, usize, BuildHasherDefault<AlreadyHashed>>,
    entries: Vec<(KeyHash, Wide)>,
    /// The place where the next new key begins to look for expired states.
    hand: usize,
}

/// The part of the store's statistics that is about wide states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WideStats {
    pub(crate) tracked: u64,
    pub(crate) bytes: u64,
    pub(crate) evictions: u64,
    pub(crate) expired_reuses: u64,
}

impl WideStates {
    pub(crate) fn new(max_bytes: u64) -> Self {
        let parts = (max_bytes >> 16).clamp(1, 256).next_power_of_two();
        Self {
            parts: (0..parts).map(|_| Mutex::new(WideShard::default())).collect(),
            max_bytes,
            bytes: AtomicU64::new(0),
            tracked: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            expired_reuses: AtomicU64::new(0),
        }
    }

    fn part(&self, key: KeyHash) -> &Mutex<WideShard> {
        &self.parts[(key.tag >> 32) as usize % self.parts.len()]
    }

    /// Runs `step` on the state of `key`, or on a fresh one, in place.
    pub(crate) fn update<T>(&self, key: KeyHash, now: Timestamp, step: impl FnOnce(&mut Wide) -> T) -> T {
        let mut part = self.part(key).lock();
        if let Some(&at) = part.index.get(&key) {
            let state = &mut part.entries[at].1;
            let before = size(state);
            let decision = step(state);
            let after = size(state);
            self.resize(before, after);
            if after > before {
                self.keep_within_cap(&mut part, key);
            }
            return decision;
        }
        let mut state = Wide::default();
        let decision = step(&mut state);
        if state == Wide::default() {
            return decision;
        }
        self.drop_expired(&mut part, now);
        self.resize(0, size(&state));
        self.tracked.fetch_add(1, Relaxed);
        part.insert(key, state);
        self.keep_within_cap(&mut part, key);
        decision
    }

    /// A copy of the state of `key`; a fresh one if it has no state.
    pub(crate) fn get(&self, key: KeyHash) -> Wide {
        let part = self.part(key).lock();
        part.index.get(&key).map(|&at| part.entries[at].1.clone()).unwrap_or_default()
    }

    /// Drops the state of `key` and returns it.
    pub(crate) fn remove(&self, key: KeyHash) -> Option<Wide> {
        if self.tracked.load(Relaxed) == 0 {
            return None;
        }
        let mut part = self.part(key).lock();
        let at = *part.index.get(&key)?;
        Some(self.remove_at(&mut part, at))
    }

    pub(crate) fn stats(&self) -> WideStats {
        WideStats {
            tracked: self.tracked.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            evictions: self.evictions.load(Relaxed),
            expired_reuses: self.expired_reuses.load(Relaxed),
        }
    }

    fn resize(&self, before: u64, after: u64) {
        match after.checked_sub(before) {
            Some(more) => self.bytes.fetch_add(more, Relaxed),
            None => self.bytes.fetch_sub(before - after, Relaxed),
        };
    }

    fn remove_at(&self, part: &mut WideShard, at: usize) -> Wide {
        let state = part.swap_remove(at);
        self.resize(size(&state), 0);
        self.tracked.fetch_sub(1, Relaxed);
        state
    }

    fn drop_expired(&self, part: &mut WideShard, now: Timestamp) {
        // While there is room they are kept a little longer, so that a clock that steps back finds them.
        let is_roomy = self.bytes.load(Relaxed) < self.max_bytes / 2;
        let grace = if is_roomy { GRACE } else { Duration::ZERO };
        let now = Timestamp::ZERO + now.since(Timestamp::ZERO + grace);
        for _ in 0..SAMPLE.min(part.entries.len()) {
            part.hand = if part.hand < part.entries.len() { part.hand } else { 0 };
            if part.entries.get(part.hand).is_some_and(|(_, state)| state.expires.is_past(now)) {
                self.remove_at(part, part.hand);
                self.expired_reuses.fetch_add(1, Relaxed);
            } else {
                part.hand += 1;
            }
        }
    }

    /// Above the cap: drops, from samples of a few states, the one that expires first, `kept` last.
    fn keep_within_cap(&self, part: &mut WideShard, kept: KeyHash) {
        while self.bytes.load(Relaxed) > self.max_bytes {
            let count = part.entries.len();
            let first_to_go = (part.hand..part.hand + SAMPLE.max(2))
                .map(|at| at % count.max(1))
                .filter_map(|at| {
                    let (key, state) = part.entries.get(at)?;
                    Some(((*key == kept, state.expires.is_sticky(), state.expires.seconds()), at))
                })
                .min();
            let Some((_, at)) = first_to_go else { return };
            part.hand = at + 1;
            self.remove_at(part, at);
            self.evictions.fetch_add(1, Relaxed);
        }
    }
}

impl WideShard {
    fn insert(&mut self, key: KeyHash, state: Wide) {
        self.index.insert(key, self.entries.len());
        self.entries.push((key, state));
    }

    fn swap_remove(&mut self, at: usize) -> Wide {
        let (key, state) = self.entries.swap_remove(at);
        self.index.remove(&key);
        if let Some((moved, _)) = self.entries.get(at) {
            self.index.insert(*moved, at);
        }
        state
    }
}

fn size(state: &Wide) -> u64 {
    OVERHEAD_BYTES + (state.cells.capacity() * size_of::<u64>()) as u64
}

/// A [`KeyHash`] is a hash already.
#[derive(Default)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {}

    fn write_u64(&mut self, tag: u64) {
        self.0 = tag;
    }

    fn write_u32(&mut self, extra: u32) {
        self.0 ^= u64::from(extra);
    }
}
