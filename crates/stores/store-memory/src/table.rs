//! The table of one-word states: a hash table without locks for keys that are in it, bounded, and never
//! rebuilt at once.
//!
//! - **A decision on a tracked key** finds the key's slot and swaps its state by one 128-bit
//!   compare-and-swap. It takes no lock and allocates nothing, and mostly touches one cache line ([`line`])
//!   besides a few that are always in the cache.
//! - **A new key** takes the lock of its group of lines (48 slots) for some tens of instructions, so that two
//!   callers that bring the same new key end in one counter. It may wait there for another new key, never for
//!   a decision.
//! - **Growth** ([`grow`]) moves one group at a time, in about a microsecond, as a part of the cost of one
//!   new key in two. A decision on a key of just that group waits for that microsecond; no other does. If a
//!   shard is crowded all the same, a new key waits for its growth.
//! - **At the cap** a new key takes the place of an expired state nearby, else of the one nearby that expires
//!   first.
//!
//! Where the processor has no 128-bit compare-and-swap (x86-64 before 2006, 32-bit machines)
//! `portable-atomic` puts a short lock in its place: still right, no longer lock-free.
//!
//! Two keys with the same low half of their tags (2^-32) could be taken for each other only if one slot
//! changed hands between them within the nanoseconds between a reading and its compare-and-swap, and, for a
//! change of state, with the same value and expiry. That is some orders below the chance that two keys have
//! the same name ([`crate::hash`]).
//!
//! The table never interprets a state: it calls the given step, which must be pure, since it may be called
//! again.

mod chunk;
mod grow;
mod line;
mod place;
mod shard;

use std::sync::atomic::Ordering::Relaxed;

use tollgate_core::{Decision, FastStep, Timestamp, Word};

use crate::atomic128::detect_processor;
use crate::hash::KeyHash;
use crate::sync::{AtomicU128, InLine};
use chunk::CHUNK_BYTES;
use line::{EMPTY, Found, low_half};
pub(crate) use line::{Line, pack, unpack};
use place::{Placed, Room};
use shard::{Ladder, Shard, crowded};

/// The shards are 2^3: the shard of a key is part of its identity.
const SHARDS: usize = if cfg!(loom) { 1 } else { 8 };

#[derive(Debug)]
pub(crate) struct Table {
    shards: Box<[Shard; SHARDS]>,
    ladder: Ladder,
    in_line: Option<InLine>,
}

/// The part of the store's statistics that is about the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableStats {
    pub(crate) used: u64,
    pub(crate) bytes: u64,
    pub(crate) evictions: u64,
    pub(crate) expired_reuses: u64,
}

/// The fast path of a step; small enough to be inlined at both call sites, unlike a closure that is called
/// twice.
pub(crate) trait FastPath {
    /// `None` where only the slow path can decide.
    fn step(&self, word: Word) -> Option<FastStep>;
}

/// The lines of up to this many keys are prefetched together.
pub(crate) const BATCH: usize = 16;

impl Table {
    /// A table of up to `max_bytes` (at least a quarter of a MiB).
    pub(crate) fn new(max_bytes: u64) -> Self {
        let most =
            usize::try_from(max_bytes / SHARDS as u64 / CHUNK_BYTES).unwrap_or(usize::MAX).clamp(1, 1 << 20);
        detect_processor();
        let ladder = Ladder::new(most);
        let shards = Box::new([(); SHARDS].map(|()| Shard::new(&ladder, most)));
        Self { shards, ladder, in_line: InLine::if_possible() }
    }

    #[inline]
    fn shard(&self, key: KeyHash) -> &Shard {
        &self.shards[key.extra as usize % SHARDS]
    }

    /// The line of `key`, for [`Table::update_fast`].
    #[inline]
    pub(crate) fn line(&self, key: KeyHash) -> Option<&Line> {
        self.shard(key).home_line(&self.ladder, key.tag)
    }

    /// Runs the fast path on the state of `key` if that lies in `line`, and keeps the new state. `None`:
    /// nothing has been done; call [`Table::update`].
    ///
    /// Any line is safe to hand in, since a key's state is in one place only and known by its tag; best is
    /// the one that [`Table::line`] has just returned.
    #[inline(always)]
    pub(crate) fn update_fast(
        &self,
        line: Option<&Line>,
        key: KeyHash,
        fast: impl FastPath,
    ) -> Option<Decision> {
        let in_line = self.in_line?;
        let (slot, packed) = line?.glance(in_line, key.tag)?;
        let FastStep { write, decision } = fast.step(unpack(packed))?;
        let Some(word) = write else {
            return (in_line.load(slot) == packed).then_some(decision);
        };
        match in_line.replace(slot, packed, pack(word, key.tag as u32)) {
            Ok(_) => Some(decision),
            Err(actual) => {
                update_again(in_line, slot, actual, key.tag as u32, fast).as_ref().map(Decision::by_fields)
            }
        }
    }

    /// Runs `step` on the state of `key`, or on a fresh one, and keeps its result. The last call returns the
    /// answer.
    pub(crate) fn update<T>(
        &self,
        key: KeyHash,
        now: Timestamp,
        mut step: impl FnMut(Word) -> (Word, T),
    ) -> T {
        let shard = self.shard(key);
        let tag = key.tag;
        if let Some(Found { line, slot, mut packed }) = shard.find(shard.home(&self.ladder, tag), tag) {
            loop {
                let word = unpack(packed);
                let (next, answer) = step(word);
                if next == word {
                    return answer;
                }
                match line.replace(slot, packed, pack(next, tag as u32)) {
                    Ok(()) => return answer,
                    Err(actual) if low_half(actual) == tag as u32 => packed = actual,
                    Err(_) => break, // the slot went to another key, or this one is being moved
                }
            }
        }
        self.update_locked(shard, tag, now, step)
    }

    /// Whether `key` has a state, at a glance: it may be missed while it is being moved.
    pub(crate) fn seems_to_have(&self, key: KeyHash) -> bool {
        let shard = self.shard(key);
        shard.find(shard.home(&self.ladder, key.tag), key.tag).is_some()
    }

    /// The state of `key`; a fresh one if it has no state.
    pub(crate) fn get(&self, key: KeyHash) -> Word {
        let shard = self.shard(key);
        let home = shard.home(&self.ladder, key.tag);
        if let Some(found) = shard.find(home, key.tag) {
            return unpack(found.packed);
        }
        let (home, _guard) = shard.lock_home(&self.ladder, key.tag);
        shard.find(home, key.tag).map_or(Word::FRESH, |found| unpack(found.packed))
    }

    /// Drops the state of `key` and returns it.
    pub(crate) fn remove(&self, key: KeyHash) -> Option<Word> {
        let shard = self.shard(key);
        let (home, _guard) = shard.lock_home(&self.ladder, key.tag);
        let mut found = shard.find(home, key.tag)?;
        while let Err(actual) = found.line.replace(found.slot, found.packed, EMPTY) {
            found.packed = actual; // only a decision on this key can have changed it: the group is locked
        }
        shard.used.fetch_sub(1, Relaxed);
        Some(unpack(found.packed))
    }

    pub(crate) fn stats(&self) -> TableStats {
        self.shards.iter().fold(TableStats::default(), |sum, shard| TableStats {
            used: sum.used + shard.used.load(Relaxed),
            bytes: sum.bytes + shard.chunks.bytes(),
            evictions: sum.evictions + shard.evictions.load(Relaxed),
            expired_reuses: sum.expired_reuses + shard.expired_reuses.load(Relaxed),
        })
    }

    /// As [`Table::update`] for a key that was not found: finds it for certain, or makes a place for it.
    #[inline(never)]
    fn update_locked<T>(
        &self,
        shard: &Shard,
        tag: u64,
        now: Timestamp,
        mut step: impl FnMut(Word) -> (Word, T),
    ) -> T {
        let mut may_grow = true;
        loop {
            let (home, guard) = shard.lock_home(&self.ladder, tag);
            if let Some(Found { line, slot, mut packed }) = shard.find(home, tag) {
                loop {
                    let (word, answer) = step(unpack(packed));
                    match line.replace(slot, packed, pack(word, tag as u32)) {
                        Ok(()) => return answer,
                        // Another decision on this key swapped it: the group is locked.
                        Err(actual) => packed = actual,
                    }
                }
            }
            let (word, answer) = step(Word::FRESH);
            if word == Word::FRESH {
                return answer;
            }
            let generation = shard.stage().generation;
            let room = match (self.ladder.is_last(generation), may_grow) {
                (true, _) => Room::AtTheCap,
                (false, true) => Room::Free,
                (false, false) => Room::Any,
            };
            let lines = self.ladder.lines(generation).unwrap_or(usize::MAX);
            let is_crowded = room == Room::Free && shard.used.load(Relaxed) > crowded(lines);
            let placed =
                if is_crowded { Placed::Not } else { place::place(shard, home, tag, word, room, now) };
            match placed {
                Placed::InEmpty => {
                    shard.used.fetch_add(1, Relaxed);
                    drop(guard);
                    grow::do_upkeep(shard, &self.ladder, tag, now);
                    return answer;
                }
                Placed::Replacing | Placed::Nowhere => return answer,
                Placed::Not => {
                    drop(guard);
                    may_grow = grow::make_room(shard, &self.ladder, now);
                }
            }
        }
    }
}

/// A swap was lost: tries again with the new state, as long as it is of the same key.
#[cold]
#[inline(never)]
fn update_again(
    in_line: InLine,
    slot: &AtomicU128,
    mut packed: u128,
    low: u32,
    fast: impl FastPath,
) -> Option<Decision> {
    while low_half(packed) == low {
        let FastStep { write, decision } = fast.step(unpack(packed))?;
        match in_line.replace(slot, packed, write.map_or(packed, |word| pack(word, low))) {
            Ok(_) => return Some(decision),
            Err(actual) => packed = actual,
        }
    }
    None // the slot went to another key, or this one is being moved
}
