//! The routed store is held to the suite of all stores: with all counters shared, all local, and both in one
//! batch.

use std::time::Duration;

use tollgate_core::{Cost, Decision, Holder, Quota, Sharing, Slots, Timestamp};
use tollgate_store::suite::{Options, Parked, run};
use tollgate_store::{Charge, Inspection, Key, ModelStore, Store, StoreError, StoreName, Take, Verdicts};
use tollgate_store_memory::MemoryStore;
use tollgate_store_routed::RoutedStore;

/// Where the counter of a key is kept.
type Route = fn(Key<'_>) -> Sharing;

/// A routed store that counts each key where `route` says.
#[derive(Debug)]
struct ByKey {
    store: RoutedStore<ModelStore, MemoryStore>,
    route: Route,
}

impl ByKey {
    fn new(route: Route) -> Self {
        Self { store: RoutedStore::new(ModelStore::default(), MemoryStore::default()), route }
    }

    fn quota(&self, key: Key<'_>, quota: &Quota) -> Quota {
        quota.clone().shared((self.route)(key))
    }

    fn quotas(&self, batch: &[Take<'_>]) -> Vec<Quota> {
        batch.iter().map(|take| self.quota(take.key, take.quota)).collect()
    }
}

fn with<'a>(batch: &[Take<'a>], quotas: &'a [Quota]) -> Vec<Take<'a>> {
    batch.iter().zip(quotas).map(|(take, quota)| Take { quota, ..*take }).collect()
}

impl Store for ByKey {
    fn name(&self) -> StoreName {
        self.store.name()
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        let quotas = self.quotas(batch);
        self.store.take(&with(batch, &quotas), charge, now, verdicts).await;
    }

    async fn give_back(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.store.give_back(key, &self.quota(key, quota), cost, now).await
    }

    async fn give_all_back(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        let quotas = self.quotas(batch);
        self.store.give_all_back(&with(batch, &quotas), now).await
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        let quotas = self.quotas(batch);
        self.store.reserve(&with(batch, &quotas), max_wait, now, verdicts).await;
    }

    async fn charge(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.store.charge(key, &self.quota(key, quota), cost, now).await
    }

    async fn reset(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<bool, StoreError> {
        self.store.reset(key, &self.quota(key, quota), now).await
    }

    async fn inspect(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<Inspection, StoreError> {
        self.store.inspect(key, &self.quota(key, quota), now).await
    }

    async fn acquire(
        &self,
        key: Key<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.store.acquire(key, slots, holder, now).await
    }

    async fn release(
        &self,
        key: Key<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.store.release(key, slots, holder, now).await
    }
}

#[test]
fn with_all_counters_shared_it_answers_as_the_model_does() {
    run(&Parked, || ByKey::new(|_| Sharing::Exact), &Options::default());
}

#[test]
fn with_all_counters_local_it_answers_as_the_model_does() {
    run(&Parked, || ByKey::new(|_| Sharing::Local), &Options::default());
}

#[test]
fn with_both_in_one_batch_it_answers_as_the_model_does() {
    let by_length: Route = |key| if key.0.len() % 2 == 0 { Sharing::Exact } else { Sharing::Local };
    // What memory gives back, since the other store has denied, leaves traces that only these show: a window
    // that began with that hit stays begun, a window that slides gives back its oldest hits and keeps the later
    // ones, and after a step back of the clock the refill counts from then.
    let unsupported = &["first_hit", "sliding_window_log", "sliding_window"];
    let options = Options { is_split: true, unsupported, steps_back: false, ..Options::default() };
    run(&Parked, || ByKey::new(by_length), &options);
}
