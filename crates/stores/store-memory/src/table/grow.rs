//! Making room, a group of lines at a time: dropping expired states, and moving to a larger table.
//!
//! Every second new key checks whether more than 25 of 32 slots of its shard are in use. If so, it drops the
//! expired states of one group; only where that frees less than a quarter of the group does the shard begin
//! to grow, so that a stream of short-lived keys does not grow the table. From then on every second new key
//! moves one group, five times faster than new keys arrive.
//!
//! The thread that does so may be interrupted while others bring thousands of keys. So in a shard that is
//! crowded nevertheless, a new key waits for the upkeep, and does a step itself: before the cap, no live
//! state is evicted.

use std::sync::atomic::Ordering::Relaxed;

use tollgate_core::Timestamp;

use super::chunk::{CHUNK_GROUPS, GROUP_LINES};
use super::line::{EMPTY, SLOTS, unpack};
use super::place::{Placed, Room, place};
use super::shard::{Home, Ladder, SPILL_GROUPS, Shard, Stage, home_in, threshold};
use crate::sync::MutexGuard;

/// One new key in this many does a step of upkeep.
const KEYS_PER_STEP: u64 = if cfg!(loom) { 1 } else { 2 };

/// Does a step of upkeep if one is due. Called after a new key has taken an empty slot, with no lock held.
pub(super) fn do_upkeep(shard: &Shard, ladder: &Ladder, tag: u64, now: Timestamp) {
    if !tag.is_multiple_of(KEYS_PER_STEP) {
        return;
    }
    if !is_due(shard, ladder, shard.stage()) {
        return;
    }
    if let Some(mut next_group) = shard.upkeep.try_lock() {
        step(shard, ladder, &mut next_group, now);
    }
}

/// Does a step of upkeep for a key that has found no room, after another caller's step that runs now. Called
/// with no lock held. False if no step is due or possible: there will be no more room.
pub(super) fn make_room(shard: &Shard, ladder: &Ladder, now: Timestamp) -> bool {
    step(shard, ladder, &mut shard.upkeep.lock(), now)
}

fn is_due(shard: &Shard, ladder: &Ladder, Stage { generation, moved }: Stage) -> bool {
    let lines = ladder.lines(generation).unwrap_or(usize::MAX);
    !ladder.is_last(generation) && (moved > 0 || shard.used.load(Relaxed) > threshold(lines))
}

fn step(shard: &Shard, ladder: &Ladder, next_group: &mut usize, now: Timestamp) -> bool {
    let stage = shard.stage();
    if !is_due(shard, ladder, stage) {
        return false;
    }
    if stage.moved == 0 {
        let groups = ladder.lines(stage.generation).unwrap_or(GROUP_LINES) / GROUP_LINES;
        let group = *next_group % groups;
        *next_group = group + 1;
        if drop_expired_of(shard, stage.generation, group, now) {
            return true;
        }
    }
    move_group(shard, ladder, stage, now)
}

/// Drops the expired states of a group. True when that was a quarter of it or more.
fn drop_expired_of(shard: &Shard, generation: usize, group: usize, now: Timestamp) -> bool {
    let Some(_guard) = shard.lock_group(generation, group) else { return false };
    let mut seen = 0;
    let mut freed = 0;
    for line in group * GROUP_LINES..(group + 1) * GROUP_LINES {
        let Some(line) = shard.line(generation, line) else { continue };
        for slot in 0..SLOTS {
            let packed = line.load(slot);
            if packed == EMPTY {
                continue;
            }
            seen += 1;
            if unpack(packed).expires.is_past(now) && line.replace(slot, packed, EMPTY).is_ok() {
                freed += 1;
            }
        }
    }
    shard.used.fetch_sub(freed, Relaxed);
    freed * 4 >= seen && freed > 0
}

/// Moves the keys that have their home in the next group, wherever they lie, to the next generation. False if
/// there is no such group, or no chunk for it.
fn move_group(shard: &Shard, ladder: &Ladder, stage: Stage, now: Timestamp) -> bool {
    let Stage { generation, moved: group } = stage;
    let Some(lines) = ladder.lines(generation) else { return false };
    let Some(_home_guard) = shard.lock_group(generation, group) else { return false };
    let reach = (0..GROUP_LINES)
        .filter_map(|line| shard.line(generation, group * GROUP_LINES + line))
        .map(|line| line.reach())
        .max();
    // A distance of a whole group or more leads into the next groups.
    let spilled = reach.unwrap_or(0) / GROUP_LINES;
    let _guards: [Option<MutexGuard<'_, ()>>; SPILL_GROUPS] = std::array::from_fn(|further| {
        if (1..=spilled).contains(&further) { shard.lock_group(generation, group + further) } else { None }
    });
    let mut mover = Mover { shard, ladder, to: generation + 1, locked: None, now };
    for line in group * GROUP_LINES..(group + 1 + spilled) * GROUP_LINES {
        let Some(line) = shard.line(generation, line) else { continue };
        for slot in 0..SLOTS {
            let mut packed = line.load(slot);
            if packed == EMPTY {
                continue;
            }
            let tag = line.tag(slot, packed);
            if home_in(ladder, generation, tag).group() != group {
                continue;
            }
            while let Err(actual) = line.replace(slot, packed, EMPTY) {
                packed = actual;
            }
            mover.insert(tag, packed);
        }
    }
    drop(mover);
    for line in group * GROUP_LINES..(group + 1) * GROUP_LINES {
        if let Some(line) = shard.line(generation, line) {
            line.set_reach(0);
        }
    }
    let moved = group + 1;
    let next = Stage { generation: generation + 1, moved: 0 };
    if moved * GROUP_LINES < lines {
        shard.set_stage(ladder, Stage { generation, moved });
        if moved % CHUNK_GROUPS == 0 {
            shard.chunks.release(generation, group * GROUP_LINES, || {});
        }
    } else {
        shard.chunks.release(generation, lines, || {});
        shard.chunks.release(generation, group * GROUP_LINES, || shard.set_stage(ladder, next));
    }
    true
}

/// Puts moved keys into the next generation; keeps the lock of the group that the last one went to.
struct Mover<'a> {
    shard: &'a Shard,
    ladder: &'a Ladder,
    to: usize,
    locked: Option<(usize, MutexGuard<'a, ()>)>,
    now: Timestamp,
}

impl Mover<'_> {
    fn insert(&mut self, tag: u64, packed: u128) {
        let word = unpack(packed);
        if word.expires.is_past(self.now) {
            self.shard.used.fetch_sub(1, Relaxed);
            return;
        }
        let home = home_in(self.ladder, self.to, tag);
        self.lock(home);
        match place(self.shard, home, tag, word, Room::Any, self.now) {
            Placed::InEmpty => {}
            Placed::Replacing | Placed::Nowhere | Placed::Not => drop(self.shard.used.fetch_sub(1, Relaxed)),
        }
    }

    fn lock(&mut self, home: Home) {
        if self.locked.as_ref().is_some_and(|(group, _)| *group == home.group()) {
            return;
        }
        self.locked = None; // before the next, so that locks are only ever taken in ascending order
        self.locked = self.shard.lock_group(self.to, home.group()).map(|guard| (home.group(), guard));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use tollgate_core::{Expiry, Word};
    use tollgate_store::Origin;

    use super::super::shard::crowded;
    use super::super::{SHARDS, Table};
    use super::*;
    use crate::hash::KeyHash;

    const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

    /// As if the thread that does the upkeep was interrupted: another one brings ten times as many keys as
    /// fit.
    #[test]
    fn new_keys_wait_for_a_growth_that_is_interrupted_and_evict_no_live_state() {
        let table = Table::new(1 << 24);
        let shard = &table.shards[0];
        let lines = table.ladder.lines(0).unwrap_or_default();
        let keys = 10 * crowded(lines);
        let expires = Expiry::at(NOON + Duration::from_secs(60));
        std::thread::scope(|scope| {
            let upkeep = shard.upkeep.lock();
            let bringing = scope.spawn(|| {
                for key in 1..=keys {
                    let tag = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                    let hash = KeyHash { tag, extra: SHARDS as u32, origin: Origin::default() };
                    table.update(hash, NOON, |word| (Word { value: word.value + 1, expires }, ()));
                }
            });
            while shard.used.load(Relaxed) <= crowded(lines) && !bringing.is_finished() {
                std::thread::yield_now();
            }
            drop(upkeep);
        });
        assert_eq!((shard.used.load(Relaxed), shard.evictions.load(Relaxed)), (keys, 0));
    }
}
