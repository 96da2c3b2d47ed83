//! How many times counting began anew: what was taken before is not given back to what counts now.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

pub(crate) const STRIPES: usize = 64;

/// One of [`STRIPES`] parts of all keys.
pub(crate) fn stripe_of(key: &[u8]) -> usize {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15; // of the golden ratio
    let tail = key.rchunks(8).next().unwrap_or_default();
    let mut word = [0; 8];
    word[..tail.len()].copy_from_slice(tail);
    (u64::from_le_bytes(word).wrapping_mul(ODD) >> (64 - STRIPES.ilog2())) as usize
}

/// A number for each key, which changes when its counting begins anew; that of other keys may change with it,
/// and then less is given back to them than could be.
#[derive(Debug)]
pub(crate) struct Epochs {
    stripes: [AtomicU32; STRIPES],
}

impl Epochs {
    pub(crate) fn new() -> Self {
        Self { stripes: [const { AtomicU32::new(0) }; STRIPES] }
    }

    /// Read before permits are taken: what begins anew meanwhile is not given back.
    pub(crate) fn of(&self, key: &[u8]) -> u32 {
        self.stripes[stripe_of(key)].load(SeqCst)
    }

    /// `key` is counted anew.
    pub(crate) fn begin(&self, key: &[u8]) {
        self.stripes[stripe_of(key)].fetch_add(1, SeqCst);
    }

    /// All keys are.
    pub(crate) fn begin_all(&self) {
        for stripe in &self.stripes {
            stripe.fetch_add(1, SeqCst);
        }
    }
}
