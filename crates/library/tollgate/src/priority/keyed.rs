//! The limiter with classes of priority for each key.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use tollgate_clock::MonotonicClock;
use tollgate_core::{Clock, Decision, QuotaError, Timestamp};
use tollgate_store_memory::{MemoryConfig, MemoryStats};

use super::PriorityEngine;
use crate::bounds::Bounds;
use crate::denied::{Admitted, Denied};
use crate::direct::RateLimiter;
use crate::key::LimitKey;
use crate::quota::Quota;
use crate::states::Table;

/// As [`PriorityLimiter`](crate::PriorityLimiter), for each key by itself: the classes of a key share its
/// permits and borrow from each other, never from another key. Memory is bounded as that of
/// [`KeyedRateLimiter`](crate::KeyedRateLimiter). Clones share their permits.
///
/// # Example
/// ```
/// use tollgate::{KeyedPriorityLimiter, Quota, RateLimiter};
///
/// const INTERACTIVE: usize = 0;
/// const BATCH: usize = 1;
/// let tenants: KeyedPriorityLimiter<str> =
///     RateLimiter::keyed_by_priority(Quota::per_hour(10), &[9, 1])?;
///
/// assert!(tenants.check("acme", BATCH).is_ok());
/// assert!(tenants.check("acme", BATCH).is_err()); // its part is 1 of 10
/// assert!(tenants.check_n("acme", INTERACTIVE, 9).is_ok());
/// assert!(tenants.check("umbrella", BATCH).is_ok()); // another tenant
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub struct KeyedPriorityLimiter<K: ?Sized, C = MonotonicClock> {
    shared: Arc<PriorityEngine<Table, C>>,
    key: PhantomData<fn(&K)>,
}

impl<K: ?Sized, C> Clone for KeyedPriorityLimiter<K, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), key: PhantomData }
    }
}

impl<K: ?Sized, C> fmt::Debug for KeyedPriorityLimiter<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedPriorityLimiter")
            .field("classes", &self.shared.classes.len())
            .finish_non_exhaustive()
    }
}

impl RateLimiter {
    /// A limiter whose keys each have a class of priority for each of `weights`, which are from 1 to 1,000;
    /// at most 16.
    ///
    /// # Errors
    /// As [`RateLimiter::by_priority`].
    pub fn keyed_by_priority<K: ?Sized>(
        quota: Quota,
        weights: &[u32],
    ) -> Result<KeyedPriorityLimiter<K>, QuotaError> {
        KeyedPriorityLimiter::with_clock(quota, weights, MonotonicClock::new())
    }
}

impl<K: ?Sized, C: Clock> KeyedPriorityLimiter<K, C> {
    /// As [`RateLimiter::keyed_by_priority`], on the time of `clock`.
    ///
    /// # Errors
    /// As [`RateLimiter::by_priority`].
    pub fn with_clock(quota: Quota, weights: &[u32], clock: C) -> Result<Self, QuotaError> {
        Self::with_memory(quota, weights, clock, MemoryConfig::default().max_bytes)
    }

    /// The same, with `max_bytes` of memory for all keys together instead of 1 GiB; at least 64 KiB. A
    /// quarter of it is for the states of several classes.
    ///
    /// # Errors
    /// As there.
    pub fn with_memory(quota: Quota, weights: &[u32], clock: C, max_bytes: u64) -> Result<Self, QuotaError> {
        let shared = PriorityEngine::new(quota, weights, Table::new(max_bytes), clock)?;
        Ok(Self { shared: Arc::new(shared), key: PhantomData })
    }

    /// The time by the limiter's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.shared.classes.len()
    }

    /// As [`PriorityLimiter::bounds`](crate::PriorityLimiter::bounds), of each key.
    #[must_use]
    pub fn bounds(&self, class: usize) -> Option<Bounds> {
        self.shared.bounds(class)
    }

    /// Tracked keys, the memory that they take, and the number of evicted keys.
    #[must_use]
    pub fn memory(&self) -> MemoryStats {
        self.shared.states.stats()
    }
}

impl<K: LimitKey + ?Sized, C: Clock> KeyedPriorityLimiter<K, C> {
    /// Takes one permit of `key` and `class` if there is one.
    ///
    /// # Errors
    /// [`Denied`] says when the next permit is there; never, if there is no such class. Nothing was taken.
    pub fn check(&self, key: &K, class: usize) -> Result<Admitted, Denied> {
        self.check_n(key, class, 1)
    }

    /// Takes `n` permits of `key` and `class` if all of them are there. 0 takes nothing, and shows the
    /// permits left.
    ///
    /// # Errors
    /// [`Denied`] says when they are there; never, for more than the burst of the class or if there is no
    /// such class. Nothing was taken.
    pub fn check_n(&self, key: &K, class: usize, n: u64) -> Result<Admitted, Denied> {
        Denied::unless_admitted(self.shared.decide(&key.key_bytes(), class, n))
    }

    /// Permits of `key` and `class` left, and when more come; takes nothing.
    pub fn peek(&self, key: &K, class: usize) -> Decision {
        self.shared.decide(&key.key_bytes(), class, 0)
    }

    /// Gives back `n` permits of `key` and `class` that were taken and not used, never above the burst of the
    /// class.
    pub fn give_back(&self, key: &K, class: usize, n: u64) {
        self.shared.give_back(&key.key_bytes(), class, n);
    }
}
