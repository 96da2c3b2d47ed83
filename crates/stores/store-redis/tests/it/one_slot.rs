//! A store whose keys all share one slot of a Cluster: a batch that is charged together is one script there.
//! Across slots it is not atomic, and the suite would notice.

use std::time::Duration;

use tollgate_core::{Acquired, Cost, Decision, Holder, Released, Slots, Timestamp};
use tollgate_store::{
    Charge, Counter, Inspection, Key, SlotKey, Store, StoreError, StoreName, Take, Verdicts,
};
use tollgate_store_redis::RedisStore;

/// To be used with [`HashTag::Domain`](tollgate_store_redis::HashTag::Domain).
#[derive(Debug)]
pub(crate) struct OneSlot(pub(crate) RedisStore);

fn within(key: Key<'_>) -> Vec<u8> {
    [b"suite|", key.0].concat()
}

fn named<'a>(counter: Counter<'a>, key: &'a [u8]) -> Counter<'a> {
    Counter { key: Key(key), ..counter }
}

fn all<'a>(batch: &[Take<'a>], keys: &'a [Vec<u8>]) -> Vec<Take<'a>> {
    batch.iter().zip(keys).map(|(take, key)| Take { counter: named(take.counter, key), ..*take }).collect()
}

impl Store for OneSlot {
    fn name(&self) -> StoreName {
        self.0.name()
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        let keys: Vec<_> = batch.iter().map(|take| within(take.counter.key)).collect();
        self.0.take(&all(batch, &keys), charge, now, verdicts).await;
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.0.give_back(named(counter, &within(counter.key)), cost, now).await
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        let keys: Vec<_> = batch.iter().map(|take| within(take.counter.key)).collect();
        self.0.reserve(&all(batch, &keys), max_wait, now, verdicts).await;
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Result<Decision, StoreError> {
        self.0.charge(named(counter, &within(counter.key)), cost, now).await
    }

    async fn reset(&self, counter: Counter<'_>, now: Timestamp) -> Result<bool, StoreError> {
        self.0.reset(named(counter, &within(counter.key)), now).await
    }

    async fn inspect(&self, counter: Counter<'_>, now: Timestamp) -> Result<Inspection, StoreError> {
        self.0.inspect(named(counter, &within(counter.key)), now).await
    }

    async fn acquire(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Acquired, StoreError> {
        self.0.acquire(SlotKey { key: Key(&within(key.key)), ..key }, slots, holder, now).await
    }

    async fn release(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Released, StoreError> {
        self.0.release(SlotKey { key: Key(&within(key.key)), ..key }, slots, holder, now).await
    }
}
