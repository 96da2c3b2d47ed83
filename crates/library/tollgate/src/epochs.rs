//! Numbers of restarts of counting: permits taken before a restart are not given back to later counts.

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

/// A number for each key, which changes when its counting begins anew. The numbers of other keys may change
/// with it; then less is given back to them than could be.
#[derive(Debug)]
pub(crate) struct Epochs {
    stripes: [AtomicU32; STRIPES],
}

impl Epochs {
    pub(crate) fn new() -> Self {
        Self { stripes: [const { AtomicU32::new(0) }; STRIPES] }
    }

    /// The number of a key, read before permits are taken: if it changes, they are not given back.
    pub(crate) fn of(&self, key: &[u8]) -> u32 {
        self.stripes[stripe_of(key)].load(SeqCst)
    }

    /// Notes that `key` is counted anew.
    pub(crate) fn begin(&self, key: &[u8]) {
        self.stripes[stripe_of(key)].fetch_add(1, SeqCst);
    }

    /// Notes that all keys are counted anew.
    pub(crate) fn begin_all(&self) {
        for stripe in &self.stripes {
            stripe.fetch_add(1, SeqCst);
        }
    }
}
