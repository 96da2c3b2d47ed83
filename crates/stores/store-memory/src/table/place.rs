//! The choice of a slot for a new key, and of the key that is evicted for it.

use std::sync::atomic::Ordering::Relaxed;

use tollgate_core::{Timestamp, Word};

use super::chunk::GROUP_LINES;
use super::line::{EMPTY, Line, SLOTS, unpack};
use super::shard::{Home, SPILL_GROUPS, Shard};
use crate::sync::MutexGuard;

/// Lines that are searched once the table may not grow.
const LINES_AT_THE_CAP: usize = if cfg!(loom) { 2 } else { 8 };

/// The place of a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    InEmpty,
    Replacing,
    /// There was no [`Room::Free`]; nothing has changed.
    Not,
    /// There was no line. The state is lost, and counted as evicted.
    Nowhere,
}

/// The slots that a new key may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// A slot that is empty, or whose state has expired.
    Free,
    /// Otherwise the slot of a live state.
    Any,
    /// Otherwise the slot of a live state nearby: the table may not grow.
    AtTheCap,
}

/// Inserts a key that is not in the table. The caller has locked the group of its home.
pub(super) fn place(shard: &Shard, home: Home, tag: u64, word: Word, room: Room, now: Timestamp) -> Placed {
    loop {
        let Some(place) = SlotChoice::search(shard, home, room, now) else {
            shard.evictions.fetch_add(1, Relaxed);
            return Placed::Nowhere;
        };
        let SlotChoice { line, slot, packed, distance, rank, .. } = place;
        if room == Room::Free && matches!(rank, Rank::Live { .. }) {
            return Placed::Not;
        }
        if packed != EMPTY && line.replace(slot, packed, EMPTY).is_err() {
            continue; // a decision on that key came between: search again
        }
        if let Some(home_line) = shard.line(home.generation, home.line)
            && home_line.reach() < distance
        {
            home_line.set_reach(distance);
        }
        line.insert(slot, tag, word);
        return match rank {
            Rank::Empty => Placed::InEmpty,
            Rank::Expired => {
                shard.expired_reuses.fetch_add(1, Relaxed);
                Placed::Replacing
            }
            Rank::Live { .. } => {
                shard.evictions.fetch_add(1, Relaxed);
                Placed::Replacing
            }
        };
    }
}

/// Eviction priority; the lowest is evicted first. All counts of one window end together: there the value
/// orders by use, so that a flood of new keys evicts its own counts and not that of a key that has used up
/// its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Empty,
    Expired,
    Live { is_sticky: bool, expires_s: u64, value: u64 },
}

impl Rank {
    fn of(packed: u128, now: Timestamp) -> Self {
        let Word { value, expires } = unpack(packed);
        match () {
            () if packed == EMPTY => Self::Empty,
            () if expires.is_past(now) => Self::Expired,
            () => Self::Live { is_sticky: expires.is_sticky(), expires_s: expires.seconds(), value },
        }
    }
}

/// A slot, as it was read, and the locks to hold until it is taken.
struct SlotChoice<'a> {
    line: &'a Line,
    slot: usize,
    packed: u128,
    distance: usize,
    rank: Rank,
    _guards: [Option<MutexGuard<'a, ()>>; SPILL_GROUPS - 1],
}

impl<'a> SlotChoice<'a> {
    /// The best slot of the nearest line with an empty or an expired one; if there is no such line, of all
    /// lines.
    fn search(shard: &'a Shard, home: Home, room: Room, now: Timestamp) -> Option<Self> {
        let most = if room == Room::AtTheCap { LINES_AT_THE_CAP } else { SPILL_GROUPS * GROUP_LINES };
        let mut guards = [const { None }; SPILL_GROUPS - 1];
        let mut best: Option<(Rank, &Line, usize, u128, usize)> = None;
        for distance in 0..most {
            let number = home.probe(distance);
            if distance > 0 && distance % GROUP_LINES == 0 {
                let Some(guard) = shard.lock_group(home.generation, number / GROUP_LINES) else { break };
                guards[distance / GROUP_LINES - 1] = Some(guard);
            }
            let Some(line) = shard.line(home.generation, number) else { break };
            for slot in 0..SLOTS {
                let packed = line.load(slot);
                let rank = Rank::of(packed, now);
                if best.is_none_or(|(least, ..)| rank < least) {
                    best = Some((rank, line, slot, packed, distance));
                }
            }
            if let Some((Rank::Empty | Rank::Expired, ..)) = best {
                break;
            }
        }
        let (rank, line, slot, packed, distance) = best?;
        Some(Self { line, slot, packed, distance, rank, _guards: guards })
    }
}
