//! The store: hashes keys, and answers at once.

use std::future::{Future, ready};
use std::time::Duration;

use tollgate_core::{Cost, Decision, Holder, Quota, Slots, Timestamp};
use tollgate_store::{Charge, Inspection, Key, Store, StoreError, StoreName, Take, Verdicts};

use crate::all_or_nothing::{self, Stripes};
use crate::config::MemoryConfig;
use crate::states::States;
use crate::stats::MemoryStats;
use crate::table::BATCH;

/// The store of counters in this process.
///
/// The methods that end in `_now`, and [`take_one`](MemoryStore::take_one), are those of [`Store`] without a
/// future. None of them fails: a store in memory is always there.
///
/// # Example
/// ```
/// # use tollgate_store_memory::MemoryStore;
/// # use tollgate_core::{Cost, Quota, Timestamp};
/// # use tollgate_store::Key;
/// # use std::time::Duration;
/// let store = MemoryStore::default();
/// let quota = Quota::token_bucket(2, Duration::from_secs(1))?;
/// let now = Timestamp::from_unix_seconds(1_700_000_000);
/// assert!(store.take_one(Key(b"alice"), &quota, Cost(2), now).is_admitted());
/// assert!(!store.take_one(Key(b"alice"), &quota, Cost::ONE, now).is_admitted());
/// assert!(store.take_one(Key(b"bob"), &quota, Cost::ONE, now).is_admitted());
/// assert_eq!(store.stats().tracked_keys, 2);
/// # Ok::<(), tollgate_core::QuotaError>(())
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    states: States,
    stripes: Stripes,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(MemoryConfig::default())
    }
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(config: MemoryConfig) -> Self {
        Self { states: States::new(&config), stripes: Stripes::new() }
    }

    /// As [`Store::take`], at once.
    pub fn take_now(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        match (charge, batch) {
            (_, []) => {}
            (Charge::Each, [take]) => verdicts.push(Ok(self.take_one(take.key, take.quota, take.cost, now))),
            (Charge::Each, _) => {
                batch.chunks(BATCH).for_each(|part| self.states.take_each(part, now, verdicts))
            }
            (Charge::Together, _) => {
                all_or_nothing::take(&self.states, &self.stripes, batch, None, now, verdicts)
            }
        }
    }

    /// Decides a single take. In line, so that what a caller does not look at need not be worked out.
    #[inline(always)]
    pub fn take_one(&self, key: Key<'_>, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        self.states.take(self.states.hash(key), quota, cost, now)
    }

    /// As [`Store::give_back`], at once.
    pub fn give_back_now(&self, key: Key<'_>, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        self.states.give_back(self.states.hash(key), quota, cost, now)
    }

    /// As [`Store::reserve`], at once.
    pub fn reserve_now(
        &self,
        batch: &[Take<'_>],
        max_wait: Duration,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) {
        match batch {
            [] => {}
            [Take { key, quota, cost }] => {
                verdicts.push(Ok(self.states.reserve(self.states.hash(*key), quota, *cost, max_wait, now)));
            }
            _ => all_or_nothing::take(&self.states, &self.stripes, batch, Some(max_wait), now, verdicts),
        }
    }

    /// As [`Store::charge`], at once.
    pub fn charge_now(&self, key: Key<'_>, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        self.states.charge(self.states.hash(key), quota, cost, now)
    }

    /// As [`Store::reset`], at once.
    pub fn reset_now(&self, key: Key<'_>, _quota: &Quota, now: Timestamp) -> bool {
        self.states.reset(self.states.hash(key), now)
    }

    /// As [`Store::inspect`], at once.
    #[must_use]
    pub fn inspect_now(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Inspection {
        let mut state = self.states.get(self.states.hash(key), quota);
        let is_tracked = !state.expires().is_past(now);
        Inspection { decision: quota.take(&mut state, Cost::PEEK, now), is_tracked }
    }

    /// As [`Store::acquire`], at once.
    pub fn acquire_now(&self, key: Key<'_>, slots: &Slots, holder: Holder, now: Timestamp) -> Decision {
        let key = self.states.hash(key);
        self.states.update_slots(key, now, |state| slots.acquire(state, holder, now))
    }

    /// As [`Store::release`], at once.
    pub fn release_now(&self, key: Key<'_>, slots: &Slots, holder: Holder, now: Timestamp) -> bool {
        let key = self.states.hash(key);
        self.states.update_slots(key, now, |state| slots.release(state, holder, now))
    }

    /// How much is kept, and what had to go.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        self.states.stats()
    }
}

impl Store for MemoryStore {
    fn name(&self) -> StoreName {
        StoreName::new("memory")
    }

    fn take(
        &self,
        batch: &[Take<'_>],
        charge: Charge,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) -> impl Future<Output = ()> + Send {
        self.take_now(batch, charge, now, verdicts);
        ready(())
    }

    fn give_back(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        ready(Ok(self.give_back_now(key, quota, cost, now)))
    }

    fn reserve(
        &self,
        batch: &[Take<'_>],
        max_wait: Duration,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) -> impl Future<Output = ()> + Send {
        self.reserve_now(batch, max_wait, now, verdicts);
        ready(())
    }

    fn charge(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        ready(Ok(self.charge_now(key, quota, cost, now)))
    }

    fn reset(
        &self,
        key: Key<'_>,
        quota: &Quota,
        now: Timestamp,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        ready(Ok(self.reset_now(key, quota, now)))
    }

    fn inspect(
        &self,
        key: Key<'_>,
        quota: &Quota,
        now: Timestamp,
    ) -> impl Future<Output = Result<Inspection, StoreError>> + Send {
        ready(Ok(self.inspect_now(key, quota, now)))
    }

    fn acquire(
        &self,
        key: Key<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        ready(Ok(self.acquire_now(key, slots, holder, now)))
    }

    fn release(
        &self,
        key: Key<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        ready(Ok(self.release_now(key, slots, holder, now)))
    }
}
