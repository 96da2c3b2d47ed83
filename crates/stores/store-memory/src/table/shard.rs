//! One shard of the table: its size, the home of a tag, and the locks for inserting.
//!
//! Lines are in the order of the tags that have their home in them, so a shard grows by moving one group of
//! lines after another from the table of one [generation](Ladder) to that of the next, which is a quarter
//! larger. The number of groups that have been moved is beside the generation; both are one atomic word, and
//! a tag's home follows from it.
//!
//! A key lies in its home or in one of the next lines around its group; a group that is full spills over into
//! the next ones.

use std::sync::atomic::Ordering::{Acquire, Release};

use super::chunk::{CHUNK_GROUPS, CHUNK_LINES, Chunks, GROUP_LINES};
use super::line::{Found, Line, SLOTS};
use crate::sync::{AtomicU64, Mutex, MutexGuard};

/// Number of groups that a key may lie in: that of its home, and those into which it spills over. 768 slots:
/// where growth ends, at 82 of a hundred slots in use, a run of that many full slots is five and a half
/// standard deviations away.
pub(crate) const SPILL_GROUPS: usize = if cfg!(loom) { 4 } else { 16 };

/// Lines of a shard, by generation.
#[derive(Debug)]
pub(crate) struct Ladder(Box<[u32]>);

impl Ladder {
    /// From one chunk to `most_chunks`, each step a quarter larger.
    pub(crate) fn new(most_chunks: usize) -> Self {
        let mut steps = Vec::new();
        let mut chunks = 1;
        while chunks < most_chunks {
            steps.push(chunks);
            chunks += chunks.div_ceil(4);
        }
        steps.push(most_chunks.max(1));
        Self(
            steps.into_iter().map(|chunks| u32::try_from(chunks * CHUNK_LINES).unwrap_or(u32::MAX)).collect(),
        )
    }

    #[inline]
    pub(crate) fn lines(&self, generation: usize) -> Option<usize> {
        self.0.get(generation).map(|&lines| lines as usize)
    }

    pub(crate) fn is_last(&self, generation: usize) -> bool {
        generation + 1 >= self.0.len()
    }
}

/// Generation (one of fewer than 100), and the number of its groups that have been moved to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) generation: usize,
    pub(crate) moved: usize,
}

/// The home of a tag: generation and line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) generation: usize,
    pub(crate) line: usize,
}

impl Home {
    #[inline]
    pub(crate) fn group(self) -> usize {
        self.line / GROUP_LINES
    }

    /// The line to look at after `distance` others: around the group, then around the next.
    #[inline]
    pub(crate) fn probe(self, distance: usize) -> usize {
        let group = self.group() + distance / GROUP_LINES;
        group * GROUP_LINES + (self.line + distance) % GROUP_LINES
    }
}

#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Shard {
    stage: AtomicU64,
    pub(super) chunks: Chunks,
    /// Slots in use.
    pub(super) used: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) expired_reuses: AtomicU64,
    /// Held while expired states are dropped or a group is moved: the next group to drop expired states of.
    pub(super) upkeep: Mutex<usize>,
}

impl Shard {
    pub(crate) fn new(ladder: &Ladder, most_chunks: usize) -> Self {
        Self {
            stage: AtomicU64::new(pack_stage(ladder, Stage { generation: 0, moved: 0 })),
            chunks: Chunks::new(most_chunks),
            used: AtomicU64::default(),
            evictions: AtomicU64::default(),
            expired_reuses: AtomicU64::default(),
            upkeep: Mutex::new(0),
        }
    }

    #[inline]
    pub(crate) fn stage(&self) -> Stage {
        let Packed { generation, moved_lines, .. } = unpack_stage(self.stage.load(Acquire));
        Stage { generation, moved: moved_lines / GROUP_LINES }
    }

    /// Called only by the holder of `upkeep`.
    pub(super) fn set_stage(&self, ladder: &Ladder, stage: Stage) {
        self.stage.store(pack_stage(ladder, stage), Release);
    }

    #[inline]
    pub(crate) fn home(&self, ladder: &Ladder, tag: u64) -> Home {
        let Packed { generation, moved_lines, lines } = unpack_stage(self.stage.load(Acquire));
        let line = part(tag, lines);
        if line < moved_lines { home_in(ladder, generation + 1, tag) } else { Home { generation, line } }
    }

    /// The line in which `tag` has its home now. It stays a line, but the home may move.
    #[inline]
    pub(crate) fn home_line(&self, ladder: &Ladder, tag: u64) -> Option<&Line> {
        let home = self.home(ladder, tag);
        self.chunks.line(home.generation, home.line)
    }

    /// The slot of `tag`. `None` is certain only while the home's group is locked and the home still right;
    /// else the key may be on its way to another place.
    pub(crate) fn find(&self, home: Home, tag: u64) -> Option<Found<'_>> {
        let line = self.chunks.line(home.generation, home.line)?;
        if let Some(found) = line.find(tag) {
            return Some(found);
        }
        match line.reach() {
            0 => None,
            reach => self.find_further(home, tag, reach),
        }
    }

    #[inline(never)]
    fn find_further(&self, home: Home, tag: u64, reach: usize) -> Option<Found<'_>> {
        (1..=reach).find_map(|distance| self.chunks.line(home.generation, home.probe(distance))?.find(tag))
    }

    /// Locks the group of the tag's home, which then cannot move; no other caller adds or drops a key there.
    pub(crate) fn lock_home(&self, ladder: &Ladder, tag: u64) -> (Home, MutexGuard<'_, ()>) {
        loop {
            let home = self.home(ladder, tag);
            if let Some(guard) = self.lock_group(home.generation, home.group())
                && self.home(ladder, tag) == home
            {
                return (home, guard);
            }
        }
    }

    /// `None` when the group is out of use, or behind the last one that a table may spill into.
    pub(super) fn lock_group(&self, generation: usize, group: usize) -> Option<MutexGuard<'_, ()>> {
        let is_wanted = || {
            let stage = self.stage();
            match generation.checked_sub(stage.generation) {
                Some(0) => group / CHUNK_GROUPS >= stage.moved / CHUNK_GROUPS,
                next => next == Some(1),
            }
        };
        let first = self.chunks.line_or_make(generation, group * GROUP_LINES, is_wanted)?;
        Some(first.lock.lock())
    }

    pub(super) fn line(&self, generation: usize, line: usize) -> Option<&Line> {
        self.chunks.line(generation, line)
    }
}

#[inline]
pub(super) fn home_in(ladder: &Ladder, generation: usize, tag: u64) -> Home {
    Home { generation, line: part(tag, ladder.lines(generation).unwrap_or(1)) }
}

/// The line of `tag` among `lines`: lines are in the order of their tags.
#[inline]
fn part(tag: u64, lines: usize) -> usize {
    ((u128::from(tag) * lines as u128) >> 64) as usize
}

/// Bits of a stage's word for its lines, and as many for those that have been moved; the rest is the
/// generation.
const STAGE_BITS: u32 = 28;
const STAGE_MASK: u64 = (1 << STAGE_BITS) - 1;

/// A stage as a look-up needs it.
struct Packed {
    generation: usize,
    moved_lines: usize,
    /// Lines of the generation, moved or not.
    lines: usize,
}

#[inline]
fn unpack_stage(word: u64) -> Packed {
    let generation = (word >> (2 * STAGE_BITS)) as usize;
    let moved_lines = (word >> STAGE_BITS & STAGE_MASK) as usize;
    Packed { generation, moved_lines, lines: (word & STAGE_MASK) as usize }
}

fn pack_stage(ladder: &Ladder, Stage { generation, moved }: Stage) -> u64 {
    let lines = ladder.lines(generation).unwrap_or(1) as u64;
    (generation as u64) << (2 * STAGE_BITS) | ((moved * GROUP_LINES) as u64) << STAGE_BITS | lines
}

/// Slots in use above which a table of `lines` lines must grow: 25 of 32.
pub(super) fn threshold(lines: usize) -> u64 {
    (lines * SLOTS * 25 / 32) as u64
}

/// Slots in use above which new keys wait for the shard's growth: 27 of 32, a little more than where growth
/// ends.
pub(super) fn crowded(lines: usize) -> u64 {
    (lines * SLOTS * 27 / 32) as u64
}
