//! The configured store as one type, so that everything above it is compiled once.
//!
//! A call to memory costs nothing extra. A call to a shared store allocates once beside its round trip; in
//! return the future of a decision is only as large as memory needs it. Not here: what each store does.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::{Acquired, Cost, Decision, Holder, Quota, Released, Slots, Timestamp};
use tollgate_http_api::{StoreStatus, StoreView};
use tollgate_limiter::Limiter;
use tollgate_store::remote::StoreState;
use tollgate_store::routed::RoutedStore;
use tollgate_store::{
    Charge, Counter, Inspection, Key, ScanError, Scanned, SlotKey, Store, StoreError, StoreName, Take,
    Verdicts,
};
use tollgate_store_memcache::MemcacheStore;
use tollgate_store_memory::MemoryStore;
use tollgate_store_redis::{RedisStore, Severity};

/// Longest wait at the start for the store's first reply.
const FIRST_STATE: Duration = Duration::from_millis(300);

/// The configured store.
#[derive(Debug)]
pub(crate) enum AnyStore {
    /// This process's memory.
    Memory(MemoryStore),
    /// Redis or Valkey, and this process's memory beside it.
    Redis(RoutedStore<RedisStore, MemoryStore>),
    /// memcached, which does not know its nodes, and this process's memory beside it.
    Memcache {
        store: RoutedStore<MemcacheStore, MemoryStore>,
        /// Number of nodes that share it, from the settings.
        nodes: u32,
    },
}

/// A limiter on it.
pub(crate) type NodeLimiter = Limiter<AnyStore>;

impl AnyStore {
    /// Starts connecting, on the current tokio runtime.
    pub(crate) fn start(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(store) => store.shared().start(),
            Self::Memcache { store, .. } => store.shared().start(),
        }
    }

    /// Connects this thread before its first request. Waits no longer than a call may take.
    pub(crate) async fn warm(&self, now: Timestamp) {
        if !matches!(self, Self::Memory(_))
            && let Ok(quota) = Quota::fixed_window(1, Duration::from_secs(1))
        {
            // The result does not matter: nothing was counted.
            drop(self.inspect(Counter::new(Key(b"tollgate|warm|second"), &quota), now).await);
        }
    }

    /// Completes unfinished charges, and returns what this node has leased and not spent.
    pub(crate) async fn close(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(store) => store.shared().close().await,
            Self::Memcache { store, .. } => store.shared().close().await,
        }
    }

    /// This process's memory.
    pub(crate) const fn memory(&self) -> &MemoryStore {
        match self {
            Self::Memory(store) => store,
            Self::Redis(store) => store.local(),
            Self::Memcache { store, .. } => store.local(),
        }
    }

    /// Changes of a shared store's state.
    pub(crate) fn changes(&self) -> Changes {
        match self {
            Self::Memory(_) => Changes(None),
            Self::Redis(store) => Changes(Some(store.shared().watch())),
            Self::Memcache { store, .. } => Changes(Some(store.shared().watch())),
        }
    }

    /// Waits briefly until the store is known to be up or down, so that the start can report it.
    pub(crate) async fn first_state(&self) {
        let mut changes = self.changes();
        let known = async { while self.state() == StoreState::Trying && changes.next().await.is_some() {} };
        let _ = tokio::time::timeout(FIRST_STATE, known).await;
    }

    /// Whether the store is known to be up.
    pub(crate) fn is_up(&self) -> bool {
        self.state().is_up()
    }

    /// Whether the store answers.
    pub(crate) fn state(&self) -> StoreState {
        match self {
            Self::Memory(_) => StoreState::Up,
            Self::Redis(store) => store.shared().state(),
            Self::Memcache { store, .. } => store.shared().state(),
        }
    }

    /// Reasons why the store must not be used in this configuration, as far as it can be reached now. Takes
    /// no longer than connecting to each of its servers once.
    pub(crate) async fn unusable_because(&self) -> Vec<String> {
        match self {
            Self::Memory(_) | Self::Memcache { .. } => Vec::new(),
            Self::Redis(store) => {
                let findings = store.shared().check().await.into_iter();
                findings.filter(|it| it.severity == Severity::Reject).map(|it| it.message).collect()
            }
        }
    }

    /// The state of the store for people and programs.
    pub(crate) fn view(&self) -> StoreView {
        let status = match self.state() {
            StoreState::Up => StoreStatus::Up { slow: self.slow() },
            StoreState::Down { since, why } => StoreStatus::Down { duration: since.elapsed(), why },
            _ => StoreStatus::Trying,
        };
        StoreView { name: self.name().as_str().to_owned(), status }
    }

    /// Why a store that answers is too slow; `None` if it is not.
    fn slow(&self) -> Option<Arc<str>> {
        match self {
            Self::Redis(store) => store.shared().slow(),
            Self::Memory(_) | Self::Memcache { .. } => None,
        }
    }
}

/// Changes of a shared store's state; memory has none.
#[derive(Debug)]
pub(crate) struct Changes(Option<watch::Receiver<StoreState>>);

impl Changes {
    /// Waits for the next change; `None` if there will be none.
    pub(crate) async fn next(&mut self) -> Option<()> {
        self.0.as_mut()?.changed().await.ok()
    }
}

/// `$call` on the store, in a box if the store is shared.
macro_rules! on {
    ($store:expr, $call:ident($($argument:expr),*)) => {
        match $store {
            AnyStore::Memory(store) => store.$call($($argument),*).await,
            AnyStore::Redis(store) => Box::pin(store.$call($($argument),*)).await,
            AnyStore::Memcache { store, .. } => Box::pin(store.$call($($argument),*)).await,
        }
    };
}

impl Store for AnyStore {
    fn name(&self) -> StoreName {
        match self {
            Self::Memory(store) => store.name(),
            Self::Redis(store) => store.name(),
            Self::Memcache { store, .. } => store.name(),
        }
    }

    fn live_nodes(&self) -> u32 {
        match self {
            Self::Memory(_) => 1,
            Self::Redis(store) => store.live_nodes(),
            Self::Memcache { nodes, .. } => *nodes,
        }
    }

    fn is_remote(&self) -> bool {
        !matches!(self, Self::Memory(_))
    }

    fn has_local(&self) -> bool {
        !matches!(self, Self::Memory(_))
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        on!(self, take(batch, charge, now, verdicts));
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        on!(self, give_back(counter, cost, now))
    }

    async fn give_all_back(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        on!(self, give_all_back(batch, now))
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        on!(self, reserve(batch, max_wait, now, verdicts));
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Result<Decision, StoreError> {
        on!(self, charge(counter, cost, now))
    }

    async fn reset(&self, counter: Counter<'_>, now: Timestamp) -> Result<bool, StoreError> {
        on!(self, reset(counter, now))
    }

    async fn inspect(&self, counter: Counter<'_>, now: Timestamp) -> Result<Inspection, StoreError> {
        on!(self, inspect(counter, now))
    }

    async fn scan(&self, start: &[u8], cursor: &str) -> Result<Scanned, ScanError> {
        on!(self, scan(start, cursor))
    }

    async fn acquire(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Acquired, StoreError> {
        on!(self, acquire(key, slots, holder, now))
    }

    async fn release(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Released, StoreError> {
        on!(self, release(key, slots, holder, now))
    }
}
