//! A store that never answers.

use std::time::Duration;

use tollgate_core::{Cost, Decision, Quota, Timestamp};
use tollgate_store::{Charge, Inspection, Key, Store, StoreError, StoreName, Take, Verdicts};

#[derive(Debug)]
pub(crate) struct Down;

impl Down {
    fn error(&self) -> StoreError {
        StoreError::Silent { store: self.name(), waited: Duration::from_millis(10) }
    }
}

impl Store for Down {
    fn name(&self) -> StoreName {
        StoreName::new("down")
    }

    async fn take(&self, batch: &[Take<'_>], _: Charge, _: Timestamp, verdicts: &mut Verdicts) {
        verdicts.extend(batch.iter().map(|_| Err(self.error())));
    }

    async fn give_back(&self, _: Key<'_>, _: &Quota, _: Cost, _: Timestamp) -> Result<Decision, StoreError> {
        Err(self.error())
    }

    async fn reserve(&self, batch: &[Take<'_>], _: Duration, _: Timestamp, verdicts: &mut Verdicts) {
        verdicts.extend(batch.iter().map(|_| Err(self.error())));
    }

    async fn charge(&self, _: Key<'_>, _: &Quota, _: Cost, _: Timestamp) -> Result<Decision, StoreError> {
        Err(self.error())
    }

    async fn reset(&self, _: Key<'_>, _: &Quota, _: Timestamp) -> Result<bool, StoreError> {
        Err(self.error())
    }

    async fn inspect(&self, _: Key<'_>, _: &Quota, _: Timestamp) -> Result<Inspection, StoreError> {
        Err(self.error())
    }
}
