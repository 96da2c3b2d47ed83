//! A learned limit that is split over classes of callers.

use std::sync::Arc;

use tollgate_clock::MonotonicClock;
use tollgate_core::Clock;

use super::feed::Feed;
use super::guard::AdaptiveGuard;
use super::limit::SettingError;
use super::limiter::AdaptiveLimiter;
use crate::concurrency::error::NoSlot;
use crate::concurrency::partitions::Partitions;

/// The classes of an [`AdaptiveLimiter`]: each has its part of the learned limit whatever the others do, and
/// borrows idle slots, as in a [`PartitionedLimiter`](crate::PartitionedLimiter).
///
/// # Example
/// ```
/// use tollgate::AdaptiveLimiter;
/// use tollgate::adaptive::Gradient2;
///
/// let backend = AdaptiveLimiter::new(Gradient2::default().initial(20))?;
/// let (live, batch) = (0, 1);
/// let classes = backend.partitioned(&[9, 1])?;
/// assert_eq!((classes.limit_of(live), classes.limit_of(batch)), (18, 2));
/// let call = classes.try_enter(batch)?;
/// // ask the backend
/// call.success();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AdaptivePartitions<C = MonotonicClock> {
    feed: Arc<Feed<C>>,
    partitions: Arc<Partitions>,
}

impl<C> Clone for AdaptivePartitions<C> {
    fn clone(&self) -> Self {
        Self { feed: Arc::clone(&self.feed), partitions: Arc::clone(&self.partitions) }
    }
}

impl<C: Clock> AdaptiveLimiter<C> {
    /// Splits the limit over classes: the class with the number `i` has the part `weights[i]` of their sum,
    /// rounded up. Calls that the limiter itself admits belong to no class; call this once, and share clones
    /// of the result.
    ///
    /// # Errors
    /// [`SettingError`]: the weights are not 1 to 64 numbers of which one is above 0.
    pub fn partitioned(&self, weights: &[u64]) -> Result<AdaptivePartitions<C>, SettingError> {
        let partitions = Partitions::new(self.feed.slots.clone(), weights)?;
        Ok(AdaptivePartitions { feed: Arc::clone(&self.feed), partitions })
    }
}

impl<C: Clock> AdaptivePartitions<C> {
    /// Begins a call of `class`, in a slot of its own or an idle one of others.
    ///
    /// # Errors
    /// [`NoSlot`] says how many of the class are in flight, and how many slots are its own. Nothing was
    /// taken.
    pub fn try_enter(&self, class: usize) -> Result<AdaptiveGuard<C>, NoSlot> {
        Ok(AdaptiveGuard::new(self.partitions.enter(class)?, &self.feed))
    }

    /// Number of calls of `class` that may be in flight now whatever the others do.
    #[must_use]
    pub fn limit_of(&self, class: usize) -> u64 {
        self.partitions.part_of(class)
    }

    /// Number of calls of `class` in flight.
    #[must_use]
    pub fn in_flight_of(&self, class: usize) -> u64 {
        self.partitions.in_use_of(class)
    }
}
