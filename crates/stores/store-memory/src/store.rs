//! The store: hashes keys, and answers at once.

use std::future::{Future, ready};
use std::time::Duration;

use tollgate_core::{Acquired, Cost, Decision, Holder, Released, Slots, State, Timestamp};
use tollgate_store::{
    Charge, Counter, Inspection, Origin, SlotKey, Store, StoreError, StoreName, Take, Verdicts,
};

use crate::all_or_nothing::{self, Stripes};
use crate::config::MemoryConfig;
use crate::states::States;
use crate::stats::MemoryStats;
use crate::table::BATCH;

/// The store of counters in this process.
///
/// The methods that end in `_now`, and [`take_one`](MemoryStore::take_one), are those of [`Store`] without a
/// future. None of them fails: a store in memory is always available.
///
/// # Example
/// ```
/// # use tollgate_store_memory::MemoryStore;
/// # use tollgate_core::{Cost, Quota, Timestamp};
/// # use tollgate_store::{Counter, Key};
/// # use std::time::Duration;
/// let store = MemoryStore::default();
/// let quota = Quota::token_bucket(2, Duration::from_secs(1))?;
/// let now = Timestamp::from_unix_seconds(1_700_000_000);
/// let (alice, bob) = (Counter::new(Key(b"alice"), &quota), Counter::new(Key(b"bob"), &quota));
/// assert!(store.take_one(alice, Cost(2), now).is_admitted());
/// assert!(!store.take_one(alice, Cost::ONE, now).is_admitted());
/// assert!(store.take_one(bob, Cost::ONE, now).is_admitted());
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
            (Charge::Each, [take]) if !take.payment.is_after() => {
                verdicts.push(Ok(self.take_one(take.counter, take.cost, now)));
            }
            (Charge::Each, _) => {
                batch.chunks(BATCH).for_each(|part| self.states.take_each(part, now, verdicts))
            }
            (Charge::Together, _) => {
                all_or_nothing::take(&self.states, &self.stripes, batch, None, now, verdicts)
            }
        }
    }

    /// Decides a single take. In line, so that parts that a caller does not look at need not be computed.
    #[inline(always)]
    pub fn take_one(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Decision {
        self.states.take(self.states.hash(counter), counter.quota, cost, now)
    }

    /// As [`Store::give_back`], at once.
    pub fn give_back_now(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Decision {
        self.states.give_back(self.states.hash(counter), counter.quota, cost, now)
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
            &[Take { counter, cost, .. }] => {
                let key = self.states.hash(counter);
                verdicts.push(Ok(self.states.reserve(key, counter.quota, cost, max_wait, now)));
            }
            _ => all_or_nothing::take(&self.states, &self.stripes, batch, Some(max_wait), now, verdicts),
        }
    }

    /// As [`Store::charge`], at once.
    pub fn charge_now(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Decision {
        self.states.charge(self.states.hash(counter), counter.quota, cost, now)
    }

    /// As [`Store::reset`], at once.
    pub fn reset_now(&self, counter: Counter<'_>, now: Timestamp) -> bool {
        self.states.reset(self.states.hash(counter), now)
    }

    /// Runs `step` on the state of `counter` and keeps its result, atomically: for operations that a store
    /// has no call for. It may be called again, with a newer state; the last call returns the answer.
    ///
    /// # Example
    /// ```
    /// # use tollgate_store_memory::MemoryStore;
    /// # use tollgate_core::{Cost, Quota, Timestamp};
    /// # use tollgate_store::{Counter, Key};
    /// # use std::time::Duration;
    /// let (store, quota) = (MemoryStore::default(), Quota::token_bucket(5, Duration::from_secs(1))?);
    /// let (ann, now) = (Counter::new(Key(b"ann"), &quota), Timestamp::from_unix_seconds(1_700_000_000));
    /// let (taken, _) = store.update_now(ann, now, |state| quota.take_at_most(state, Cost(7), now));
    /// assert_eq!(taken, Cost(5));
    /// # Ok::<(), tollgate_core::QuotaError>(())
    /// ```
    pub fn update_now<T>(
        &self,
        counter: Counter<'_>,
        now: Timestamp,
        step: impl FnMut(&mut State) -> T,
    ) -> T {
        self.states.update(self.states.hash(counter), counter.quota, now, step)
    }

    /// A copy of the state of `counter`; a fresh one if nothing is kept of it.
    #[must_use]
    pub fn state_now(&self, counter: Counter<'_>) -> State {
        self.states.get(self.states.hash(counter), counter.quota)
    }

    /// As [`Store::inspect`], at once.
    #[must_use]
    pub fn inspect_now(&self, counter: Counter<'_>, now: Timestamp) -> Inspection {
        let mut state = self.states.get(self.states.hash(counter), counter.quota);
        let is_tracked = !state.expires().is_past(now);
        Inspection { decision: counter.quota.take(&mut state, Cost::PEEK, now), is_tracked }
    }

    /// As [`Store::acquire`], at once.
    pub fn acquire_now(&self, key: SlotKey<'_>, slots: &Slots, holder: Holder, now: Timestamp) -> Acquired {
        let key = self.states.hash_of_slots(key.key);
        self.states.update_slots(key, now, |state| slots.acquire(state, holder, now))
    }

    /// As [`Store::release`], at once.
    pub fn release_now(&self, key: SlotKey<'_>, slots: &Slots, holder: Holder, now: Timestamp) -> Released {
        let key = self.states.hash_of_slots(key.key);
        self.states.update_slots(key, now, |state| slots.release(state, holder, now))
    }

    /// The keys and bytes that are kept, and the evictions so far.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        self.stats_of(Origin::Rule) + self.stats_of(Origin::Request)
    }

    /// The same for counters whose quotas came from `origin`: each origin has its own cap
    /// ([`MemoryConfig::request_share`]).
    #[must_use]
    pub fn stats_of(&self, origin: Origin) -> MemoryStats {
        self.states.stats_of(origin)
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
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        ready(Ok(self.give_back_now(counter, cost, now)))
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
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        ready(Ok(self.charge_now(counter, cost, now)))
    }

    fn reset(
        &self,
        counter: Counter<'_>,
        now: Timestamp,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        ready(Ok(self.reset_now(counter, now)))
    }

    fn inspect(
        &self,
        counter: Counter<'_>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Inspection, StoreError>> + Send {
        ready(Ok(self.inspect_now(counter, now)))
    }

    fn acquire(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> impl Future<Output = Result<Acquired, StoreError>> + Send {
        ready(Ok(self.acquire_now(key, slots, holder, now)))
    }

    fn release(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> impl Future<Output = Result<Released, StoreError>> + Send {
        ready(Ok(self.release_now(key, slots, holder, now)))
    }
}
