//! A store that is down when a test says so.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tollgate_core::{Cost, Decision, Quota, Timestamp};
use tollgate_store::{Charge, Inspection, Key, ModelStore, Store, StoreError, StoreName, Take, Verdicts};

/// The model, while it is up.
pub(crate) struct Moody {
    pub(crate) model: ModelStore,
    pub(crate) is_down: AtomicBool,
    /// How many nodes it says there are.
    pub(crate) nodes: u32,
    /// It can count nothing that it is asked for, as memcached the quotas that come with a question.
    pub(crate) is_unable: bool,
}

impl Default for Moody {
    fn default() -> Self {
        Self { model: ModelStore::default(), is_down: AtomicBool::new(false), nodes: 1, is_unable: false }
    }
}

impl Moody {
    pub(crate) fn down() -> Self {
        Self { is_down: AtomicBool::new(true), ..Self::default() }
    }

    fn error(&self) -> StoreError {
        if self.is_unable {
            return StoreError::Unsupported { store: self.name(), algorithm: "token_bucket" };
        }
        StoreError::Silent { store: self.name(), waited: Duration::from_millis(10) }
    }
}

impl Store for Moody {
    fn name(&self) -> StoreName {
        StoreName::new("moody")
    }

    fn live_nodes(&self) -> u32 {
        self.nodes
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        if self.is_down.load(SeqCst) || self.is_unable {
            verdicts.extend(batch.iter().map(|_| Err(self.error())));
        } else {
            self.model.take(batch, charge, now, verdicts).await;
        }
    }

    async fn give_back(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        if self.is_down.load(SeqCst) {
            Err(self.error())
        } else {
            self.model.give_back(key, quota, cost, now).await
        }
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        if self.is_down.load(SeqCst) {
            verdicts.extend(batch.iter().map(|_| Err(self.error())));
        } else {
            self.model.reserve(batch, max_wait, now, verdicts).await;
        }
    }

    async fn charge(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        if self.is_down.load(SeqCst) {
            Err(self.error())
        } else {
            self.model.charge(key, quota, cost, now).await
        }
    }

    async fn reset(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<bool, StoreError> {
        if self.is_down.load(SeqCst) { Err(self.error()) } else { self.model.reset(key, quota, now).await }
    }

    async fn inspect(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<Inspection, StoreError> {
        if self.is_down.load(SeqCst) { Err(self.error()) } else { self.model.inspect(key, quota, now).await }
    }
}
