//! Counters in this process: a keyed table of one-word states.

mod config;
mod stats;

use std::future::{Future, ready};

use tollgate_core::{Cost, Decision, Quota, Timestamp};
use tollgate_store::{
    Charge, Inspection, Key, ModelStore, Store, StoreError, StoreName, Take, Verdicts, block_on,
};

pub use config::{HashKey, MemoryConfig};
pub use stats::MemoryStats;

/// The store of counters in this process.
#[derive(Debug)]
pub struct MemoryStore {
    states: ModelStore,
    max_bytes: u64,
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
        Self { states: ModelStore::default(), max_bytes: config.max_bytes }
    }

    /// As [`Store::take`], at once.
    pub fn take_now(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        block_on(self.states.take(batch, charge, now, verdicts));
    }

    /// Decides a single take.
    pub fn take_one(&self, key: Key<'_>, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        let mut verdicts = Vec::with_capacity(1);
        self.take_now(&[Take { key, quota, cost }], Charge::Each, now, &mut verdicts);
        match verdicts.pop() {
            Some(Ok(decision)) => decision,
            _ => unreachable!("the model answers every take"),
        }
    }

    /// As [`Store::give_back`], at once.
    pub fn give_back_now(&self, key: Key<'_>, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        match block_on(self.states.give_back(key, quota, cost, now)) {
            Ok(decision) => decision,
            Err(_) => unreachable!("the model has no errors"),
        }
    }

    /// As [`Store::reset`], at once.
    pub fn reset_now(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> bool {
        block_on(self.states.reset(key, quota, now)).unwrap_or(false)
    }

    /// As [`Store::inspect`], at once.
    #[must_use]
    pub fn inspect_now(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Inspection {
        match block_on(self.states.inspect(key, quota, now)) {
            Ok(inspection) => inspection,
            Err(_) => unreachable!("the model has no errors"),
        }
    }

    /// How much is kept, and what had to go.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        let tracked_keys = self.states.len() as u64;
        MemoryStats { tracked_keys, bytes: 0, max_bytes: self.max_bytes, evictions: 0, expired_reuses: 0 }
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
}
