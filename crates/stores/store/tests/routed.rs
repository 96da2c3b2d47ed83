//! The routed store is held to the suite of all stores: with all counters shared, all local, and both in one
//! batch.

use std::time::Duration;

use tollgate_core::{Acquired, Cost, Decision, Holder, Released, Slots, Timestamp};
use tollgate_store::routed::RoutedStore;
use tollgate_store::suite::{Options, Parked, run};
use tollgate_store::{
    Charge, Counter, Inspection, Key, ModelStore, Sharing, SlotKey, Store, StoreError, StoreName, Take,
    Verdicts,
};
use tollgate_store_memory::MemoryStore;

/// The place of the counter of a key.
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

    fn routed<'a>(&self, counter: Counter<'a>) -> Counter<'a> {
        counter.shared((self.route)(counter.key))
    }

    fn all<'a>(&self, batch: &[Take<'a>]) -> Vec<Take<'a>> {
        batch.iter().map(|take| Take { counter: self.routed(take.counter), ..*take }).collect()
    }
}

impl Store for ByKey {
    fn name(&self) -> StoreName {
        self.store.name()
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        self.store.take(&self.all(batch), charge, now, verdicts).await;
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.store.give_back(self.routed(counter), cost, now).await
    }

    async fn give_all_back(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        self.store.give_all_back(&self.all(batch), now).await
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        self.store.reserve(&self.all(batch), max_wait, now, verdicts).await;
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Result<Decision, StoreError> {
        self.store.charge(self.routed(counter), cost, now).await
    }

    async fn reset(&self, counter: Counter<'_>, now: Timestamp) -> Result<bool, StoreError> {
        self.store.reset(self.routed(counter), now).await
    }

    async fn inspect(&self, counter: Counter<'_>, now: Timestamp) -> Result<Inspection, StoreError> {
        self.store.inspect(self.routed(counter), now).await
    }

    async fn acquire(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Acquired, StoreError> {
        self.store.acquire(key, slots, holder, now).await
    }

    async fn release(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Released, StoreError> {
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
    // Permits that memory gives back, since the other store has denied, leave traces that only these show: a
    // window that began with that hit stays begun, a window that slides gives back its oldest hits and keeps
    // the later ones, and after a step back of the clock the refill counts from then.
    let unsupported = &["first_hit", "sliding_window_log", "sliding_window"];
    let options = Options { is_split: true, unsupported, steps_back: false, ..Options::default() };
    run(&Parked, || ByKey::new(by_length), &options);
}
