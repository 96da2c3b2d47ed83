//! The places of lines: chunks of a few groups, made one by one as they are needed and given back only with
//! the whole table.
//!
//! Chunks that a growth has emptied are used again by the next. Since a chunk is never freed, a reader that
//! was held up can look into any line without a lock: the line may belong elsewhere by now, but it is always
//! a line, and the tag of a slot identifies its key.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::line::Line;
use crate::sync::{AtomicPtr, AtomicU64, Mutex};

/// Lines that share a lock and move together, and in which a key with a full home line looks first for a
/// place.
pub(crate) const GROUP_LINES: usize = if cfg!(loom) { 2 } else { 16 };
pub(crate) const CHUNK_GROUPS: usize = if cfg!(loom) { 1 } else { 8 };
pub(crate) const CHUNK_LINES: usize = GROUP_LINES * CHUNK_GROUPS;
pub(crate) const CHUNK_BYTES: u64 = (CHUNK_LINES * LINE_BYTES) as u64;

/// Bytes of a line, also where a model checker makes it larger.
const LINE_BYTES: usize = 64;

pub(crate) type Chunk = [Line; CHUNK_LINES];

/// The chunks of a shard, and their generations.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// Owns the chunks; each stays at its address until the end.
    all: Box<[OnceLock<Box<Chunk>>]>,
    /// The chunk by place, for even and odd generations; null where there is no chunk. Always one of `all`.
    maps: [Box<[AtomicPtr<Chunk>]>; 2],
    stock: Mutex<Stock>,
    made: AtomicU64,
}

#[derive(Debug)]
struct Stock {
    made: u32,
    free: Vec<u32>,
    /// The contents of the maps, as the chunk's number in `all` plus one; 0 where there is no chunk.
    numbers: [Box<[u32]>; 2],
}

impl Chunks {
    /// Room for a table of up to `most` chunks.
    pub(crate) fn new(most: usize) -> Self {
        // One place more for keys that the last group cannot hold; while growing two tables overlap by a few
        // chunks.
        let map = || (0..=most).map(|_| AtomicPtr::default()).collect();
        let numbers = || (0..=most).map(|_| 0).collect();
        Self {
            all: (0..most + 8).map(|_| OnceLock::new()).collect(),
            maps: [map(), map()],
            stock: Mutex::new(Stock { made: 0, free: Vec::new(), numbers: [numbers(), numbers()] }),
            made: AtomicU64::default(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        let entry =
            size_of::<OnceLock<Box<Chunk>>>() + 2 * (size_of::<AtomicPtr<Chunk>>() + size_of::<u32>());
        self.made.load(Relaxed) * CHUNK_BYTES + (self.all.len() * entry) as u64
    }

    #[inline]
    #[allow(
        unsafe_code,
        reason = "a look-up by number is one more load and two more checks a decision, 14 of 300 instructions"
    )]
    pub(crate) fn line(&self, generation: usize, line: usize) -> Option<&Line> {
        let chunk = self.maps[generation & 1].get(line / CHUNK_LINES)?.load(Acquire);
        // SAFETY: a pointer in a map is null or that of a chunk in `all`, which was made before the pointer
        // was stored (Acquire here, Release there), and which is neither moved nor freed before `self` is;
        // all that is in a chunk is atomic.
        let chunk = unsafe { chunk.as_ref() }?;
        Some(&chunk[line % CHUNK_LINES])
    }

    /// As [`Chunks::line`]; makes the chunk where it is missing, unless `is_wanted`, which is
    /// called while no chunk can be made or released, returns that the place is out of use.
    pub(crate) fn line_or_make(
        &self,
        generation: usize,
        line: usize,
        is_wanted: impl Fn() -> bool,
    ) -> Option<&Line> {
        if let Some(line) = self.line(generation, line) {
            return Some(line);
        }
        let parity = generation & 1;
        let at = line / CHUNK_LINES;
        let place = self.maps[parity].get(at)?;
        let mut stock = self.stock.lock();
        if stock.numbers[parity][at] == 0 {
            if !is_wanted() {
                return None;
            }
            let number = stock.take(&self.all)?;
            let chunk = self.all[number as usize].get()?;
            self.made.store(u64::from(stock.made), Relaxed);
            stock.numbers[parity][at] = number + 1;
            place.store(std::ptr::from_ref::<Chunk>(chunk).cast_mut(), Release);
        }
        drop(stock);
        self.line(generation, line)
    }

    /// Takes the emptied chunk in which `line` lies out of a generation, for use by another; then runs
    /// `after`, before another chunk can be made or released.
    pub(crate) fn release(&self, generation: usize, line: usize, after: impl FnOnce()) {
        let mut stock = self.stock.lock();
        let parity = generation & 1;
        let at = line / CHUNK_LINES;
        if let Some(place) = self.maps[parity].get(at)
            && let Some(number) = stock.numbers[parity][at].checked_sub(1)
        {
            place.store(std::ptr::null_mut(), Release);
            stock.numbers[parity][at] = 0;
            stock.free.push(number);
        }
        after();
    }
}

impl Stock {
    fn take(&mut self, all: &[OnceLock<Box<Chunk>>]) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        let number = self.made;
        all.get(number as usize)?.get_or_init(new_chunk);
        self.made += 1;
        Some(number)
    }
}

fn new_chunk() -> Box<Chunk> {
    let lines: Box<[Line]> = (0..CHUNK_LINES).map(|_| Line::default()).collect();
    match lines.try_into() {
        Ok(chunk) => chunk,
        Err(_) => unreachable!("as many lines as a chunk has"),
    }
}
