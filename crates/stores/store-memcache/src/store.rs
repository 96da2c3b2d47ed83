//! [`MemcacheStore`]: the trait [`Store`] over a client of memcached. Not here: the commands (`transaction`).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::{Algorithm, Cost, Decision, Quota, Timestamp};
use tollgate_store::remote::{ConfigError, StoreState};
use tollgate_store::{
    Charge, Counter, Inspection, Payment, Sharing, Store, StoreError, StoreName, Take, Verdicts,
};

use crate::charge_together;
use crate::client::SharedClient;
use crate::config::MemcacheConfig;
use crate::request::{Op, OpAnswer};
use crate::stats::MemcacheStats;

/// Counters in memcached. Cheap to clone; clones share connections and counters.
///
/// Each tokio runtime that uses it has connections of its own, so that no call crosses from one to another;
/// it must have timers and I/O enabled.
///
/// # Example
/// ```
/// use tollgate_store_memcache::{MemcacheConfig, MemcacheStore, StoreState};
///
/// // Opens nothing: the servers may still be down.
/// let store = MemcacheStore::new(MemcacheConfig::parse_url("memcache://127.0.0.1")?)?;
/// assert_eq!(store.state(), StoreState::Trying);
/// # Ok::<(), tollgate_store_memcache::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemcacheStore {
    client: Arc<SharedClient>,
}

/// Whether memcached's commands can count by `quota`, shared so. Local counters are not counted there.
///
/// # Errors
/// The reason, and the remedy; for the message at load.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tollgate_core::Quota;
/// use tollgate_store::Sharing;
/// use tollgate_store_memcache::supports;
///
/// let second = Duration::from_secs(1);
/// assert!(supports(&Quota::fixed_window(5, second)?, Sharing::Exact).is_ok());
/// assert!(supports(&Quota::fixed_window(5, second)?, Sharing::Leased).is_err());
/// assert!(supports(&Quota::token_bucket(5, second)?, Sharing::Exact).is_err());
/// # Ok::<(), tollgate_core::QuotaError>(())
/// ```
pub fn supports(quota: &Quota, sharing: Sharing) -> Result<(), &'static str> {
    match (quota.algorithm(), sharing) {
        (Algorithm::Unlimited, _) | (_, Sharing::Local) => Ok(()),
        (Algorithm::FixedWindow { .. } | Algorithm::SlidingWindowCounter, Sharing::Exact) => Ok(()),
        (Algorithm::FixedWindow { .. } | Algorithm::SlidingWindowCounter, Sharing::Leased) => {
            Err("memcached runs no scripts, so it cannot lease permits; use sharing: exact, or a redis store")
        }
        (Algorithm::Total, _) => Err(
            "memcached may forget an item at any time, and a total must not be forgotten; use a redis store",
        ),
        _ => Err("memcached runs no scripts, so it counts only fixed_window and sliding_window_counter; \
                  use one of them, sharing: local, or a redis store"),
    }
}

impl MemcacheStore {
    /// A store with these settings. Opens no connection: each runtime that uses the store makes its own on
    /// first use, in the background.
    ///
    /// # Errors
    /// [`ConfigError`] when a setting is out of its bounds.
    pub fn new(config: MemcacheConfig) -> Result<Self, ConfigError> {
        Ok(Self { client: Arc::new(SharedClient::new(config)?) })
    }

    /// Connects from the tokio runtime it is called in. The first use does so too; calling it at startup
    /// makes [`MemcacheStore::state`] right before the first request. Does nothing outside of a runtime.
    pub fn start(&self) {
        let _ = self.client.queues();
    }

    /// Whether the store answers, as far as is known.
    #[must_use]
    pub fn state(&self) -> StoreState {
        self.client.health.state()
    }

    /// Reports every change of [`MemcacheStore::state`].
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<StoreState> {
        self.client.health.watch()
    }

    /// For a node that is about to end: waits until batches whose callers have left are charged or given
    /// back, about as long as two calls may take.
    pub async fn close(&self) {
        self.client.finisher.wait().await;
    }

    /// The counts since the start.
    #[must_use]
    pub fn stats(&self) -> MemcacheStats {
        self.client.counters.snapshot()
    }

    async fn one(&self, counter: Counter<'_>, op: Op, now: Timestamp) -> Result<OpAnswer, StoreError> {
        if !self.client.can_count(counter.quota) {
            return Err(self.client.unsupported(counter.quota));
        }
        self.client.send(counter, op, now).answer(&self.client).await
    }

    async fn decision(&self, counter: Counter<'_>, op: Op, now: Timestamp) -> Result<Decision, StoreError> {
        match self.one(counter, op, now).await? {
            OpAnswer::Decision(decision) => Ok(decision),
            _ => Err(self.client.odd()),
        }
    }
}

impl Store for MemcacheStore {
    fn name(&self) -> StoreName {
        self.client.name.clone()
    }

    fn is_remote(&self) -> bool {
        true
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        if charge == Charge::Together {
            return charge_together::charge(&self.client, batch, None, now, verdicts).await;
        }
        let send = |take: &Take<'_>| {
            let can = self.client.can_count(take.counter.quota);
            let op = match take.payment {
                Payment::Ahead => Op::Take(take.cost),
                Payment::After => Op::Pay(take.cost),
                Payment::Consumed => Op::Charge(take.cost),
            };
            can.then(|| self.client.send(take.counter, op, now))
        };
        let sent: Vec<_> = batch.iter().map(send).collect();
        for (take, pending) in batch.iter().zip(sent) {
            let answer = match pending {
                Some(pending) => pending.answer(&self.client).await,
                None => Err(self.client.unsupported(take.counter.quota)),
            };
            verdicts.push(answer.and_then(|answer| match answer {
                OpAnswer::Decision(decision) => Ok(decision),
                _ => Err(self.client.odd()),
            }));
        }
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.decision(counter, Op::GiveBack(cost), now).await
    }

    async fn give_all_back(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        charge_together::give_all_back(&self.client, batch, now).await
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        charge_together::charge(&self.client, batch, Some(max_wait), now, verdicts).await;
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Result<Decision, StoreError> {
        self.decision(counter, Op::Charge(cost), now).await
    }

    async fn reset(&self, counter: Counter<'_>, now: Timestamp) -> Result<bool, StoreError> {
        match self.one(counter, Op::Reset, now).await? {
            OpAnswer::Forgot(was) => Ok(was),
            _ => Err(self.client.odd()),
        }
    }

    async fn inspect(&self, counter: Counter<'_>, now: Timestamp) -> Result<Inspection, StoreError> {
        match self.one(counter, Op::Inspect, now).await? {
            OpAnswer::Inspection(inspection) => Ok(inspection),
            _ => Err(self.client.odd()),
        }
    }
}
