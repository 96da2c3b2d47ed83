//! The store that the settings name, as one type, so that everything above is compiled once.
//!
//! A call to memory goes straight through. One to a shared store costs an allocation beside its round trip; in return a decision's
//! future is no larger than memory needs it. Not here: what each store does.

use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::{Cost, Decision, Quota, Timestamp};
use tollgate_envoy_rls::RateLimitService;
use tollgate_http_api::{HttpApi, StoreView};
use tollgate_limiter::Limiter;
use tollgate_resp_api::RespApi;
use tollgate_store::{Charge, Inspection, Key, Store, StoreError, StoreName, Take, Verdicts};
use tollgate_store_memory::MemoryStore;
use tollgate_store_redis::{RedisStore, Severity, StoreState};

/// The store that the settings name.
#[derive(Debug)]
pub enum Counters {
    /// This process's memory.
    Memory(MemoryStore),
    /// Redis or Valkey.
    Redis(RedisStore),
}

/// A limiter on it, with this process's memory beside a shared store.
pub type NodeLimiter = Limiter<Counters, MemoryStore>;

/// Its surfaces.
pub type Grpc = RateLimitService<Counters, MemoryStore>;
/// See [`Grpc`].
pub type Http = HttpApi<Counters, MemoryStore>;
/// See [`Grpc`].
pub type Resp = RespApi<Counters, MemoryStore>;

impl Counters {
    /// Begins to connect from the tokio runtime that it is called in, where there is something to connect to.
    pub fn start(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(store) => store.start(),
        }
    }

    /// Tells each change of a shared store's state; `None` for memory.
    #[must_use]
    pub fn watch(&self) -> Option<watch::Receiver<StoreState>> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(store) => Some(store.watch()),
        }
    }

    /// Why it must not be used so, as far as it can be looked at now; at most about the time to connect, once a server.
    pub async fn refusals(&self) -> Vec<String> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Redis(store) => {
                let findings = store.check().await.into_iter();
                findings.filter(|it| it.severity == Severity::Refuse).map(|it| it.message).collect()
            }
        }
    }

    /// How it is, as people and programs are told.
    #[must_use]
    pub fn view(&self) -> StoreView {
        let state = match self {
            Self::Memory(_) => StoreState::Up,
            Self::Redis(store) => store.state(),
        };
        let name = self.name().as_str().to_owned();
        match state {
            StoreState::Up => StoreView { name, state: "up", down_for: None, why: None },
            StoreState::Down { since, why } => {
                StoreView { name, state: "down", down_for: Some(since.elapsed()), why: Some(why) }
            }
            _ => StoreView { name, state: "trying", down_for: None, why: None },
        }
    }
}

/// `$call` on the store, in a box where the store is a shared one.
macro_rules! on {
    ($store:expr, $call:ident($($argument:expr),*)) => {
        match $store {
            Counters::Memory(store) => store.$call($($argument),*).await,
            Counters::Redis(store) => Box::pin(store.$call($($argument),*)).await,
        }
    };
}

impl Store for Counters {
    fn name(&self) -> StoreName {
        match self {
            Self::Memory(store) => store.name(),
            Self::Redis(store) => store.name(),
        }
    }

    fn live_nodes(&self) -> u32 {
        match self {
            Self::Memory(_) => 1,
            Self::Redis(store) => store.live_nodes(),
        }
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

    async fn hold(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        on!(self, hold(batch, max_wait, now, verdicts));
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
}
