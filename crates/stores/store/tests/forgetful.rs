//! An expired state is equivalent to none: a store that drops such states at once answers as one that keeps
//! them.

use std::time::Duration;

use tollgate_core::{Acquired, Cost, Decision, Holder, Released, Slots, Timestamp};
use tollgate_store::{
    Charge, Counter, Inspection, ModelStore, SlotKey, Store, StoreError, StoreName, Take, Verdicts, suite,
};

#[derive(Default)]
struct Forgetful(ModelStore);

impl Store for Forgetful {
    fn name(&self) -> StoreName {
        StoreName::new("forgetful")
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        self.0.forget_expired(now);
        self.0.take(batch, charge, now, verdicts).await;
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.0.forget_expired(now);
        self.0.give_back(counter, cost, now).await
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        self.0.forget_expired(now);
        self.0.reserve(batch, max_wait, now, verdicts).await;
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Result<Decision, StoreError> {
        self.0.forget_expired(now);
        self.0.charge(counter, cost, now).await
    }

    async fn reset(&self, counter: Counter<'_>, now: Timestamp) -> Result<bool, StoreError> {
        self.0.forget_expired(now);
        self.0.reset(counter, now).await
    }

    async fn inspect(&self, counter: Counter<'_>, now: Timestamp) -> Result<Inspection, StoreError> {
        self.0.forget_expired(now);
        self.0.inspect(counter, now).await
    }

    async fn acquire(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Acquired, StoreError> {
        self.0.forget_expired(now);
        self.0.acquire(key, slots, holder, now).await
    }

    async fn release(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Released, StoreError> {
        self.0.forget_expired(now);
        self.0.release(key, slots, holder, now).await
    }
}

#[test]
fn a_store_that_drops_expired_states_at_once_answers_as_one_that_keeps_them() {
    let options = suite::Options { cases: 1_000, ..Default::default() };
    suite::run(&suite::Parked, Forgetful::default, &options);
}
