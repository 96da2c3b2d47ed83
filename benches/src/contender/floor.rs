//! The least that a keyed limiter must do: hash the key, find its 16-byte slot, one compare-and-swap, read
//! the clock.
//!
//! A yardstick, not a limiter: it never grows, never forgets, and trusts its hash.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_clock::SystemClock;
use tollgate_core::Clock as _;

use super::{Allowance, Contender};

const BATCH: usize = 16;

pub(crate) struct Floor {
    slots: Vec<Slot>,
    hasher: ahash::RandomState,
    clock: SystemClock,
    every_ns: u64,
    full_ns: u64,
}

/// Owner of the slot, and the instant at which its key is full again. 16 bytes.
#[derive(Default)]
struct Slot {
    tag: AtomicU64,
    full_again_ns: AtomicU64,
}

impl Floor {
    pub(crate) fn new(allowance: Allowance, keys: u64) -> Self {
        let every_ns = allowance.every.as_nanos() as u64;
        let slots = std::iter::repeat_with(Slot::default).take(keys as usize * 3 / 2 + 16).collect();
        Self {
            slots,
            hasher: ahash::RandomState::new(),
            clock: SystemClock::new(),
            every_ns,
            full_ns: every_ns.saturating_mul(u64::from(allowance.burst)),
        }
    }

    #[inline]
    fn hash(&self, key: &str) -> u64 {
        self.hasher.hash_one(key.as_bytes()) | 1
    }

    #[inline]
    fn first_slot(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }

    #[inline]
    fn decide(&self, hash: u64, now_ns: u64) -> bool {
        let mut at = self.first_slot(hash);
        loop {
            let slot = &self.slots[at];
            let tag = slot.tag.load(Ordering::Relaxed);
            if tag == hash {
                return self.take(slot, now_ns);
            }
            if tag == 0 {
                match slot.tag.compare_exchange(0, hash, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return self.take(slot, now_ns),
                    Err(other) if other == hash => return self.take(slot, now_ns),
                    Err(_) => {}
                }
            }
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
    }

    #[inline]
    fn take(&self, slot: &Slot, now_ns: u64) -> bool {
        let mut old = slot.full_again_ns.load(Ordering::Relaxed);
        loop {
            let new = old.max(now_ns) + self.every_ns;
            if new - now_ns > self.full_ns {
                return false;
            }
            match slot.full_again_ns.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(seen) => old = seen,
            }
        }
    }
}

impl Contender for Floor {
    fn pass(&self, keys: &[String]) -> u64 {
        keys.iter().map(|key| u64::from(self.decide(self.hash(key), self.clock.now().as_nanos()))).sum()
    }
}

pub(crate) struct Batches(pub(crate) Floor);

impl Contender for Batches {
    fn pass(&self, keys: &[String]) -> u64 {
        let floor = &self.0;
        let mut admitted = 0;
        for batch in keys.chunks(BATCH) {
            let mut hashes = [0; BATCH];
            let mut touched = 0;
            for (hash, key) in hashes.iter_mut().zip(batch) {
                *hash = floor.hash(key);
                // Independent loads: their cache misses overlap.
                touched |= floor.slots[floor.first_slot(*hash)].tag.load(Ordering::Relaxed);
            }
            std::hint::black_box(touched);
            let now_ns = floor.clock.now().as_nanos();
            admitted +=
                hashes[..batch.len()].iter().map(|&hash| u64::from(floor.decide(hash, now_ns))).sum::<u64>();
        }
        admitted
    }
}
