//! Counters of which every thread has its own copy, so that counting is a load, an addition and a store.
//!
//! A thread takes a *slot* at its first count and gives it back when it ends. There are a few more slots than
//! the machine has cores; later threads share the last shard and add atomically. Reading sums the shards.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// More slots than this are never made: beyond, sharing is cheaper than memory.
const MAX_SLOTS: usize = 32;
/// Slots beyond the number of cores, for background threads.
const SPARE_SLOTS: usize = 2;

/// `N` counters, one cache line (or a few) a shard.
#[derive(Debug)]
pub(crate) struct ShardedCounters<const N: usize>(Box<[Shard<N>]>);

/// One thread's counters.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Shard<const N: usize>([AtomicU64; N]);

/// The shard in which the current thread counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadSlot {
    shard: usize,
    is_own: bool,
}

/// Free slots; all taken below `next`.
#[derive(Debug, Default)]
struct Slots {
    free: Vec<usize>,
    next: usize,
}

static SLOTS: Mutex<Slots> = Mutex::new(Slots { free: Vec::new(), next: 0 });

/// Gives the slot back when its thread ends.
struct SlotClaim(Cell<Option<ThreadSlot>>);

thread_local! {
    static CLAIM: SlotClaim = const { SlotClaim(Cell::new(None)) };
}

/// Shards of single threads; one shared shard follows them.
fn own_shards() -> usize {
    static OWN: OnceLock<usize> = OnceLock::new();
    *OWN.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (cores + SPARE_SLOTS).min(MAX_SLOTS)
    })
}

impl ThreadSlot {
    /// The slot of the current thread.
    #[inline]
    pub(crate) fn here() -> Self {
        let shared = || Self { shard: own_shards(), is_own: false };
        CLAIM.try_with(|claim| claim.0.get().unwrap_or_else(|| claim.take())).unwrap_or_else(|_| shared())
    }
}

impl SlotClaim {
    #[cold]
    fn take(&self) -> ThreadSlot {
        let mut slots = SLOTS.lock();
        let shard = slots.free.pop().or_else(|| {
            (slots.next < own_shards()).then(|| {
                slots.next += 1;
                slots.next - 1
            })
        });
        let slot = match shard {
            Some(shard) => ThreadSlot { shard, is_own: true },
            None => ThreadSlot { shard: own_shards(), is_own: false },
        };
        self.0.set(Some(slot));
        slot
    }
}

impl Drop for SlotClaim {
    fn drop(&mut self) {
        if let Some(ThreadSlot { shard, is_own: true }) = self.0.get() {
            SLOTS.lock().free.push(shard);
        }
    }
}

impl<const N: usize> Default for ShardedCounters<N> {
    fn default() -> Self {
        Self((0..=own_shards()).map(|_| Shard([const { AtomicU64::new(0) }; N])).collect())
    }
}

impl<const N: usize> ShardedCounters<N> {
    /// Adds `more` to counter `index`.
    #[inline]
    pub(crate) fn add(&self, slot: ThreadSlot, index: usize, more: u64) {
        let counter = &self.0[slot.shard].0[index];
        if slot.is_own {
            // No other thread writes here, so no locked instruction is needed.
            counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
        } else {
            counter.fetch_add(more, Relaxed);
        }
    }

    /// The sum of counter `index` over all threads.
    pub(crate) fn sum(&self, index: usize) -> u64 {
        self.0.iter().fold(0, |sum, shard| sum.wrapping_add(shard.0[index].load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_slots_lose_no_count() {
        let shards = ShardedCounters::<2>::default();
        std::thread::scope(|scope| {
            for _ in 0..own_shards() + 5 {
                scope.spawn(|| (0..1_000).for_each(|_| shards.add(ThreadSlot::here(), 1, 2)));
            }
        });
        assert_eq!(shards.sum(0), 0);
        assert_eq!(shards.sum(1), 2_000 * (own_shards() as u64 + 5));
    }

    #[test]
    fn a_slot_is_used_again_when_its_thread_has_ended() {
        for _ in 0..own_shards() * 3 {
            let slot = std::thread::spawn(ThreadSlot::here).join().expect("no panic");
            assert!(slot.shard <= own_shards());
        }
    }
}
