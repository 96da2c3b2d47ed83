//! [`RedisStore`]: the trait [`Store`] over counters that are exact, leased, or both in one batch. Not here:
//! the counting itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::{Acquired, Cost, Decision, Holder, Released, Slots, Timestamp};
use tollgate_store::remote::{ConfigError, StoreState};
use tollgate_store::{
    Charge, Counter, Inspection, Payment, ScanError, Scanned, SlotKey, Store, StoreError, StoreName, Take,
    Verdicts,
};

use crate::ask::{Answer, BatchKind, KeyOperation};
use crate::check::{self, Finding};
use crate::client::RedisClient;
use crate::config::RedisConfig;
use crate::exact::Exact;
use crate::leased::Leased;
use crate::mixed::{Mixed, is_leased};
use crate::scan;
use crate::slots::SlotAction;
use crate::stats::RedisStats;

/// Counters in Redis or Valkey. Cheap to clone; clones share connections and statistics.
///
/// Its calls must be made from within a tokio runtime: each thread that makes any has connections of its own,
/// driven by that thread's runtime. A call whose future is dropped before it was sent is never sent.
///
/// # Example
/// ```
/// use tollgate_store_redis::{RedisConfig, RedisStore, StoreState};
///
/// // Opens nothing: the server may still be down.
/// let store = RedisStore::new(RedisConfig::parse_url("redis://127.0.0.1:6379")?)?;
/// assert_eq!(store.state(), StoreState::Trying);
/// # Ok::<(), tollgate_store_redis::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RedisStore {
    mixed: Mixed,
}

impl RedisStore {
    /// A store with these settings. Opens no connection: each thread that uses the store makes its own on
    /// first use, in the background.
    ///
    /// # Errors
    /// [`ConfigError`] when settings contradict each other or a certificate cannot be read.
    pub fn new(config: RedisConfig) -> Result<Self, ConfigError> {
        let client = Arc::new(RedisClient::new(config)?);
        let leased = Leased::new(client.clone());
        Ok(Self { mixed: Mixed { exact: Arc::new(Exact::new(client)), leased } })
    }

    /// Begins to watch the store from the tokio runtime it is called in: connects, checks whether the server
    /// is fit ([`RedisStore::check`], warnings are logged), sends heartbeats to the other nodes, follows
    /// failovers and resharding. The first use of the store starts it too; calling it at startup makes
    /// [`RedisStore::state`] right before the first request. Calling it again changes nothing.
    pub fn start(&self) {
        self.client().watch();
    }

    /// Whether the store answers, as far as is known.
    #[must_use]
    pub fn state(&self) -> StoreState {
        self.client().shared().health().state()
    }

    /// A warning about a store that is up and answers more than 1 % of the calls too late; `None` where there
    /// is no such problem, or the store is down.
    #[must_use]
    pub fn slow(&self) -> Option<Arc<str>> {
        self.client().shared().slow()
    }

    /// Reports every change of [`RedisStore::state`]. The store logs these changes itself, one line each.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<StoreState> {
        self.client().shared().health().watch()
    }

    /// The counts since the start.
    #[must_use]
    pub fn stats(&self) -> RedisStats {
        RedisStats {
            conn: self.client().counters().snapshot(),
            flights: self.client().shared().counters().flights(),
            live_nodes: self.client().live_nodes(),
            leases: self.leased().stats(),
        }
    }

    /// For a node that is about to end: waits until batches whose callers have left are charged or given
    /// back, then gives back all leased permits that were not spent, and waits for the ledgers' replies. Each
    /// takes about as long as a call may. The store keeps working: permits that are asked for afterwards are
    /// leased anew.
    pub async fn close(&self) {
        self.exact().finisher().wait().await;
        self.leased().give_all_back().await;
    }

    /// The number of nodes that share these counters, this one included, as last reported by the server; at
    /// least 1.
    #[must_use]
    pub fn live_nodes(&self) -> u32 {
        u32::try_from(self.client().live_nodes()).unwrap_or(u32::MAX)
    }

    /// Checks whether the servers are fit to keep counters. Takes at most about the time to connect, per
    /// server. A server that is down is [`Severity::Unknown`](crate::Severity): it may be fit when it is
    /// back.
    pub async fn check(&self) -> Vec<Finding> {
        check::all_servers(self.client().shared(), self.client().config()).await
    }

    fn client(&self) -> &RedisClient {
        self.exact().client()
    }

    fn exact(&self) -> &Arc<Exact> {
        &self.mixed.exact
    }

    fn leased(&self) -> &Leased {
        &self.mixed.leased
    }
}

impl Store for RedisStore {
    fn name(&self) -> StoreName {
        self.client().name().clone()
    }

    fn live_nodes(&self) -> u32 {
        Self::live_nodes(self)
    }

    fn is_remote(&self) -> bool {
        true
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        let is_leased = batch.iter().any(|take| is_leased(take.counter));
        match (charge, batch) {
            (Charge::Each, _) if is_leased => self.mixed.take_each(batch, now, verdicts).await,
            (Charge::Together, _) if is_leased => {
                self.mixed.all_or_none(batch, BatchKind::Take, now, verdicts).await;
            }
            (Charge::Each, [take]) => {
                verdicts.push(self.exact().decide(take.counter, KeyOperation::of(take), now).await);
            }
            (Charge::Each, _) => self.exact().take_each(batch, now, verdicts).await,
            // This holds also for one take: a denial leaves no trace, which matters to windows that count
            // every hit.
            (Charge::Together, _) => self.exact().all_or_none(batch, BatchKind::Take, now, verdicts).await,
        }
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        if is_leased(counter)
            && let Some(given) = self.leased().give_back(counter, cost, now).await
        {
            return given;
        }
        self.exact().decide(counter, KeyOperation::GiveBack(cost), now).await
    }

    async fn give_all_back(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        self.mixed.give_all_back(batch, now).await
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        if batch.iter().any(|take| is_leased(take.counter)) {
            self.mixed.all_or_none(batch, BatchKind::Reserve { max_wait }, now, verdicts).await;
        } else {
            self.mixed.reserve_exact(batch, max_wait, now, verdicts).await;
        }
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Result<Decision, StoreError> {
        if is_leased(counter)
            && let Some(charged) = self.leased().pay(counter, cost, Payment::Consumed, now).await
        {
            return charged;
        }
        self.exact().decide(counter, KeyOperation::Charge(cost), now).await
    }

    async fn reset(&self, counter: Counter<'_>, now: Timestamp) -> Result<bool, StoreError> {
        if is_leased(counter)
            && let Some(forgotten) = self.leased().reset(counter, now).await
        {
            return forgotten;
        }
        match self.exact().ask(counter, KeyOperation::Reset, now).await? {
            Answer::Reset(forgotten) => Ok(forgotten),
            other => Err(self.exact().unexpected(format_args!("{other:?}"))),
        }
    }

    async fn inspect(&self, counter: Counter<'_>, now: Timestamp) -> Result<Inspection, StoreError> {
        if is_leased(counter)
            && let Some(seen) = self.leased().inspect(counter, now).await
        {
            return seen;
        }
        match self.exact().ask(counter, KeyOperation::Inspect, now).await? {
            Answer::Inspection(inspection) => Ok(inspection),
            other => Err(self.exact().unexpected(format_args!("{other:?}"))),
        }
    }

    async fn scan(&self, start: &[u8], cursor: &str) -> Result<Scanned, ScanError> {
        scan::page(self.client(), start, cursor).await
    }

    async fn acquire(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Acquired, StoreError> {
        Ok(self.exact().slot(key, slots, holder, SlotAction::Acquire, now).await?.acquired(slots))
    }

    async fn release(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Released, StoreError> {
        Ok(self.exact().slot(key, slots, holder, SlotAction::Release, now).await?.released())
    }
}
