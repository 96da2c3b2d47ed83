//! The store that the settings name, as one type, so that everything above is compiled once.
//!
//! A call to memory goes straight through. One to a shared store costs an allocation beside its round trip; in return a decision's
//! future is no larger than memory needs it. Not here: what each store does.

use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::{Cost, Decision, Holder, Quota, Slots, Timestamp};
use tollgate_envoy_rls::RateLimitService;
use tollgate_http_api::{HttpApi, StoreView};
use tollgate_limiter::Limiter;
use tollgate_resp_api::RespApi;
use tollgate_store::remote::StoreState;
use tollgate_store::{Charge, Inspection, Key, Store, StoreError, StoreName, Take, Verdicts};
use tollgate_store_memcache::MemcacheStore;
use tollgate_store_memory::MemoryStore;
use tollgate_store_redis::{RedisStore, Severity};
use tollgate_store_routed::RoutedStore;

/// How long the screen waits for the first news of the store.
const FIRST_NEWS: Duration = Duration::from_millis(300);

/// The store that the settings name.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one in a process, and a call to memory takes no detour"
)]
pub enum Counters {
    /// This process's memory.
    Memory(MemoryStore),
    /// Redis or Valkey, and this process's memory beside it.
    Redis(RoutedStore<RedisStore, MemoryStore>),
    /// memcached, which does not report how many nodes use it, and this process's memory beside it.
    Memcache {
        /// The store.
        store: RoutedStore<MemcacheStore, MemoryStore>,
        /// Nodes that share it, as the operator says.
        nodes: u32,
    },
}

/// A limiter on it.
pub type NodeLimiter = Limiter<Counters>;

/// Its surfaces.
pub type Grpc = RateLimitService<Counters>;
/// See [`Grpc`].
pub type Http = HttpApi<Counters>;
/// See [`Grpc`].
pub type Resp = RespApi<Counters>;

impl Counters {
    /// Begins to connect from the tokio runtime that it is called in, where there is something to connect to.
    pub fn start(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(store) => store.shared().start(),
            Self::Memcache { store, .. } => store.shared().start(),
        }
    }

    /// Lets this thread connect before the first request comes, for as long as a call may take: a server that does not answer
    /// delays nothing further.
    pub async fn warm(&self, now: Timestamp) {
        if !matches!(self, Self::Memory(_))
            && let Ok(quota) = Quota::fixed_window(1, Duration::from_secs(1))
        {
            // Whatever comes of it: nothing was counted.
            drop(self.inspect(Key(b"tollgate|warm|second"), &quota, now).await);
        }
    }

    /// Waits until nothing is half charged, and gives back what this node has leased and not spent.
    pub async fn close(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(store) => store.shared().close().await,
            Self::Memcache { store, .. } => store.shared().close().await,
        }
    }

    /// This process's memory.
    #[must_use]
    pub const fn memory(&self) -> &MemoryStore {
        match self {
            Self::Memory(store) => store,
            Self::Redis(store) => store.local(),
            Self::Memcache { store, .. } => store.local(),
        }
    }

    /// Waits until a shared store's state changes; for ever for memory.
    pub fn changes(&self) -> Changes {
        match self {
            Self::Memory(_) => Changes(None),
            Self::Redis(store) => Changes(Some(store.shared().watch())),
            Self::Memcache { store, .. } => Changes(Some(store.shared().watch())),
        }
    }

    /// Waits a moment for the first news of it, so that the screen can say how it is.
    pub async fn first_news(&self) {
        let mut changes = self.changes();
        let news = async { while self.state() == StoreState::Trying && changes.next().await.is_some() {} };
        let _ = tokio::time::timeout(FIRST_NEWS, news).await;
    }

    /// Whether it answers, as far as is known.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.state().is_up()
    }

    fn state(&self) -> StoreState {
        match self {
            Self::Memory(_) => StoreState::Up,
            Self::Redis(store) => store.shared().state(),
            Self::Memcache { store, .. } => store.shared().state(),
        }
    }

    /// Why it must not be used so, as far as it can be looked at now; at most about the time to connect, once a server.
    pub async fn refusals(&self) -> Vec<String> {
        match self {
            Self::Memory(_) | Self::Memcache { .. } => Vec::new(),
            Self::Redis(store) => {
                let findings = store.shared().check().await.into_iter();
                findings.filter(|it| it.severity == Severity::Reject).map(|it| it.message).collect()
            }
        }
    }

    /// How it is, as people and programs are told.
    #[must_use]
    pub fn view(&self) -> StoreView {
        let name = self.name().as_str().to_owned();
        let state = self.state();
        let slow = if let Self::Redis(store) = self { store.shared().slow() } else { None };
        let why = state.why().cloned().or(slow);
        StoreView { name, state: state.as_str(), down_for: state.down_for(), why }
    }
}

/// Changes of a shared store's state; none where it is memory.
#[derive(Debug)]
pub struct Changes(Option<watch::Receiver<StoreState>>);

impl Changes {
    /// Ends at the next change; `None` when there will be none.
    pub async fn next(&mut self) -> Option<()> {
        self.0.as_mut()?.changed().await.ok()
    }
}

/// `$call` on the store, in a box where the store is a shared one.
macro_rules! on {
    ($store:expr, $call:ident($($argument:expr),*)) => {
        match $store {
            Counters::Memory(store) => store.$call($($argument),*).await,
            Counters::Redis(store) => Box::pin(store.$call($($argument),*)).await,
            Counters::Memcache { store, .. } => Box::pin(store.$call($($argument),*)).await,
        }
    };
}

impl Store for Counters {
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
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        on!(self, give_back(key, quota, cost, now))
    }

    async fn give_all_back(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        on!(self, give_all_back(batch, now))
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        on!(self, reserve(batch, max_wait, now, verdicts));
    }

    async fn charge(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        on!(self, charge(key, quota, cost, now))
    }

    async fn reset(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<bool, StoreError> {
        on!(self, reset(key, quota, now))
    }

    async fn inspect(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<Inspection, StoreError> {
        on!(self, inspect(key, quota, now))
    }

    async fn acquire(
        &self,
        key: Key<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        on!(self, acquire(key, slots, holder, now))
    }

    async fn release(
        &self,
        key: Key<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        on!(self, release(key, slots, holder, now))
    }
}
