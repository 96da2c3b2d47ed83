//! Slots that are split over classes of callers by weight.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::ConcurrencyLimiter;
use super::error::NoSlot;
use super::guard::ConcurrencyGuard;
use crate::adaptive::SettingError;

/// Caps concurrency, with a part of the slots for each class of callers whatever the others do. A class that
/// needs more borrows idle slots.
///
/// A class within its part is admitted even while others have borrowed its slots: it never waits for them. So
/// more calls than the limit may run until the borrowers end, but always less than twice as many, if the
/// classes' parts come to whole slots.
///
/// # Example
/// ```
/// use tollgate::ConcurrencyLimiter;
///
/// let database = ConcurrencyLimiter::partitioned(10, &[7, 3])?;
/// let (live, batch) = (0, 1);
/// let borrowed: Vec<_> = (0..10).map_while(|_| database.try_enter(batch).ok()).collect();
/// assert_eq!(borrowed.len(), 10);
/// assert!(database.try_enter(batch).is_err());
/// let call = database.try_enter(live)?; // it has seven of its own
/// assert_eq!((database.in_use(), database.in_use_of(live)), (11, 1));
/// # drop(call);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PartitionedLimiter {
    partitions: Arc<Partitions>,
}

impl ConcurrencyLimiter {
    /// A limiter whose slots are split over classes: the class with the number `i` has the part `weights[i]`
    /// of their sum, rounded up to whole slots.
    ///
    /// # Errors
    /// [`SettingError`]: the weights are not 1 to 64 numbers of which one is above 0.
    pub fn partitioned(limit: u64, weights: &[u64]) -> Result<PartitionedLimiter, SettingError> {
        let partitions = Partitions::new(Self::direct(limit), weights)?;
        Ok(PartitionedLimiter { partitions })
    }
}

impl PartitionedLimiter {
    /// Takes a slot for a caller of `class`: one of its own, or an idle one of others.
    ///
    /// # Errors
    /// [`NoSlot`] says how many the class has in use, and how many are its own: 0 of a class that does not
    /// exist. Nothing was taken.
    pub fn try_enter(&self, class: usize) -> Result<PartitionGuard, NoSlot> {
        self.partitions.enter(class)
    }

    /// Slots in all.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.partitions.slots.limit()
    }

    /// Slots that `class` has whatever the others do.
    #[must_use]
    pub fn limit_of(&self, class: usize) -> u64 {
        self.partitions.part_of(class)
    }

    /// Slots in use.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.partitions.slots.in_use()
    }

    /// Slots that callers of `class` use.
    #[must_use]
    pub fn in_use_of(&self, class: usize) -> u64 {
        self.partitions.in_use_of(class)
    }

    /// Another number of slots, split by the same weights. Calls that hold slots are not ended.
    pub fn set_limit(&self, limit: u64) {
        self.partitions.slots.set_limit(limit);
    }
}

const MOST_CLASSES: usize = 64;

/// The slots of a limiter, and how many each class uses of them.
pub(crate) struct Partitions {
    slots: ConcurrencyLimiter,
    sum: u128,
    classes: Box<[Class]>,
}

struct Class {
    weight: u64,
    in_use: AtomicU64,
}

impl Partitions {
    pub(crate) fn new(slots: ConcurrencyLimiter, weights: &[u64]) -> Result<Arc<Self>, SettingError> {
        let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        if sum == 0 || weights.len() > MOST_CLASSES {
            return Err(SettingError {
                setting: "number of classes with weights",
                value: if sum == 0 { 0.0 } else { weights.len() as f64 },
                expected: "1 to 64 weights, and one above 0",
            });
        }
        let class = |weight: &u64| Class { weight: *weight, in_use: AtomicU64::new(0) };
        Ok(Arc::new(Self { slots, sum, classes: weights.iter().map(class).collect() }))
    }

    pub(crate) fn part_of(&self, class: usize) -> u64 {
        let weight = self.classes.get(class).map_or(0, |class| class.weight);
        // Two factors of 64 bits fit into 128, and the part is at most the whole.
        (u128::from(self.slots.limit()) * u128::from(weight)).div_ceil(self.sum) as u64
    }

    pub(crate) fn in_use_of(&self, class: usize) -> u64 {
        self.classes.get(class).map_or(0, |class| class.in_use.load(SeqCst))
    }

    pub(crate) fn enter(self: &Arc<Self>, number: usize) -> Result<PartitionGuard, NoSlot> {
        let part = self.part_of(number);
        let no_slot = |in_use| NoSlot { asked: 1, in_use, limit: part, waiting: self.slots.waiting() };
        let class = self.classes.get(number).ok_or_else(|| no_slot(0))?;
        let one_more = |in_use: u64| (in_use < part).then_some(in_use + 1);
        let slot = match class.in_use.try_update(SeqCst, SeqCst, one_more) {
            Ok(_) => self.slots.enter_beyond(),
            Err(in_use) => {
                let slot = self.slots.try_enter().map_err(|_| no_slot(in_use))?;
                class.in_use.fetch_add(1, SeqCst);
                slot
            }
        };
        Ok(PartitionGuard { _slot: slot, partitions: Arc::clone(self), class: number })
    }
}

impl fmt::Debug for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let classes = self.classes.iter().map(|class| (class.weight, class.in_use.load(SeqCst)));
        f.debug_struct("Partitions")
            .field("slots", &self.slots)
            .field("classes", &classes.collect::<Vec<_>>())
            .finish()
    }
}

/// A slot that a caller of a class holds. It is given up when the guard is dropped.
#[derive(Debug)]
#[must_use = "the slot is given up when the guard is dropped"]
pub struct PartitionGuard {
    /// Given up after the class has one fewer.
    _slot: ConcurrencyGuard,
    partitions: Arc<Partitions>,
    class: usize,
}

impl Drop for PartitionGuard {
    fn drop(&mut self) {
        self.partitions.classes[self.class].in_use.fetch_sub(1, SeqCst);
    }
}
