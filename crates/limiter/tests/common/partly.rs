//! A store of which some keys cannot be had, as while one node of a cluster is down.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use tollgate_core::{Cost, Decision, Quota, Timestamp};
use tollgate_store::{Charge, Inspection, Key, ModelStore, Store, StoreError, StoreName, Take, Verdicts};

/// The model, but for keys that hold `down`.
#[derive(Default)]
pub(crate) struct Partly {
    pub(crate) model: ModelStore,
    pub(crate) down: Mutex<Option<&'static str>>,
    /// It takes nothing back.
    pub(crate) keeps_all: AtomicBool,
    /// How often it was asked to.
    pub(crate) backs: AtomicU32,
    pub(crate) nodes: AtomicU32,
}

impl Partly {
    /// Keys that hold `word` give no answer from now on.
    pub(crate) fn down(&self, word: Option<&'static str>) {
        *self.down.lock().expect("no panic") = word;
    }

    fn error(&self) -> StoreError {
        StoreError::Silent { store: self.name(), waited: Duration::from_millis(10) }
    }

    fn ask(&self, key: Key<'_>) -> Result<&ModelStore, StoreError> {
        let down = *self.down.lock().expect("no panic");
        let is_down = down.is_some_and(|word| String::from_utf8_lossy(key.0).contains(word));
        if is_down { Err(self.error()) } else { Ok(&self.model) }
    }
}

impl Store for Partly {
    fn name(&self) -> StoreName {
        StoreName::new("partly")
    }

    fn live_nodes(&self) -> u32 {
        self.nodes.load(SeqCst)
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        for take in batch {
            match self.ask(take.key) {
                Ok(model) => model.take(&[*take], charge, now, verdicts).await,
                Err(error) => verdicts.push(Err(error)),
            }
        }
    }

    async fn give_back(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.backs.fetch_add(1, SeqCst);
        if self.keeps_all.load(SeqCst) {
            return Err(self.error());
        }
        self.ask(key)?.give_back(key, quota, cost, now).await
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        for take in batch {
            match self.ask(take.key) {
                Ok(model) => model.reserve(&[*take], max_wait, now, verdicts).await,
                Err(error) => verdicts.push(Err(error)),
            }
        }
    }

    async fn charge(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.ask(key)?.charge(key, quota, cost, now).await
    }

    async fn reset(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<bool, StoreError> {
        self.ask(key)?.reset(key, quota, now).await
    }

    async fn inspect(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<Inspection, StoreError> {
        self.ask(key)?.inspect(key, quota, now).await
    }
}
