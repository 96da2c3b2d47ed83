//! A cache line of the table: three slots, and the rest of their tags.
//!
//! A slot is one 128-bit word: the state's value, its expiry and the low half of its key's tag, so that one
//! compare-and-swap changes a state only while it is still the state of that key. The high half of the tag
//! is stored beside it. Zero is an empty slot (a tag's low half is never 0).

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use tollgate_core::{Expiry, Word};

use crate::sync::{AtomicU8, AtomicU32, AtomicU128, InLine, Mutex};

pub(crate) const SLOTS: usize = 3;
pub(crate) const EMPTY: u128 = 0;

#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Line {
    slots: [AtomicU128; SLOTS],
    /// High halves of the slots' tags. A half is changed only while its slot is empty and the group is
    /// locked.
    tags: [AtomicU32; SLOTS],
    /// Distance, in lines, of the farthest key that has its home here.
    reach: AtomicU8,
    /// Only the lock of a group's first line is used.
    pub(super) lock: Mutex<()>,
}

/// A slot that is not empty, as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) line: &'a Line,
    pub(crate) slot: usize,
    pub(crate) packed: u128,
}

impl Line {
    /// The slot of `tag` and its contents, if a first look finds it in this line. Its two halves may have
    /// been read one after the other, so the contents must be confirmed: by swapping them, or by another look
    /// at them.
    #[inline(always)]
    pub(crate) fn glance(&self, in_line: InLine, tag: u64) -> Option<(&AtomicU128, u128)> {
        // Selects the slot without a branch: which slot a key has cannot be predicted, and a misprediction
        // costs more than all the rest of this.
        let is_at = |slot: usize| in_line.low_half(&self.slots[slot]) == tag as u32;
        let is_at_1 = is_at(1);
        let is_at_2 = is_at(2);
        let slot = if is_at_2 { 2 } else { usize::from(is_at_1) };
        let packed = in_line.glance(&self.slots[slot]);
        // The tag's high half is read after that: an earlier reading may have been of the slot's previous
        // key.
        let is_of_tag = low_half(packed) == tag as u32 && self.tags[slot].load(Relaxed) == (tag >> 32) as u32;
        is_of_tag.then_some((&self.slots[slot], packed))
    }

    /// The slot of `tag`, if it is in this line.
    pub(crate) fn find(&self, tag: u64) -> Option<Found<'_>> {
        (0..SLOTS).find_map(|slot| {
            let packed = self.slots[slot].load(Acquire);
            // The tag's high half is read after that: an earlier reading may have been of the slot's previous
            // key.
            let is_of_tag =
                low_half(packed) == tag as u32 && self.tags[slot].load(Relaxed) == (tag >> 32) as u32;
            is_of_tag.then_some(Found { line: self, slot, packed })
        })
    }

    #[inline]
    pub(crate) fn load(&self, slot: usize) -> u128 {
        self.slots[slot].load(Acquire)
    }

    /// The whole tag of the slot that `packed` was read from. Only right while the group is locked.
    pub(crate) fn tag(&self, slot: usize, packed: u128) -> u64 {
        u64::from(self.tags[slot].load(Relaxed)) << 32 | u64::from(low_half(packed))
    }

    /// # Errors
    /// The slot holds another value than `old`: that value.
    #[inline]
    pub(crate) fn replace(&self, slot: usize, old: u128, new: u128) -> Result<(), u128> {
        self.slots[slot].compare_exchange(old, new, AcqRel, Acquire).map(|_| ())
    }

    /// Inserts a key into an empty slot. Only while the group is locked.
    pub(crate) fn insert(&self, slot: usize, tag: u64, word: Word) {
        self.tags[slot].store((tag >> 32) as u32, Relaxed);
        self.slots[slot].store(pack(word, tag as u32), Release);
    }

    #[inline]
    pub(crate) fn reach(&self) -> usize {
        usize::from(self.reach.load(Acquire))
    }

    /// To be called only while the group is locked.
    pub(crate) fn set_reach(&self, reach: usize) {
        self.reach.store(u8::try_from(reach).unwrap_or(u8::MAX), Release);
    }
}

#[inline]
pub(crate) fn pack(word: Word, low_half: u32) -> u128 {
    u128::from(word.value) << 64 | u128::from(word.expires.to_bits()) << 32 | u128::from(low_half)
}

#[inline]
pub(crate) fn unpack(packed: u128) -> Word {
    Word { value: (packed >> 64) as u64, expires: Expiry::from_bits((packed >> 32) as u32) }
}

#[inline]
pub(crate) fn low_half(packed: u128) -> u32 {
    packed as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_cache_line() {
        assert_eq!(size_of::<Line>(), 64);
    }

    #[test]
    fn a_packed_word_comes_out_as_it_went_in() {
        let word = Word { value: 0x0123_4567_89AB_CDEF, expires: Expiry::from_bits(0xFEDC_BA98) };
        assert_eq!(unpack(pack(word, 7)), word);
        assert_eq!(low_half(pack(word, 7)), 7);
    }
}
