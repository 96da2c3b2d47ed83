//! The store's client of Redis: sends asks in time, and words failures as errors of this store. Not here: the
//! asks (`counting`), and their way (`redis-link`).

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};
use tollgate_redis_link::{Cause, Client, ServerError, Shared, Traffic, Waiter, watch};
use tollgate_store::remote::{ConfigError, ConnCounters, Failure, Stat};
use tollgate_store::{Key, StoreError, StoreName};

use crate::config::RedisConfig;
use crate::counting::{CountItem, Counting};
use crate::heartbeat::Heartbeat;
use crate::keys::redis_key;

/// The store's client of Redis.
#[derive(Debug)]
pub(crate) struct RedisClient {
    config: Arc<RedisConfig>,
    link: Client<Counting>,
    live_nodes: Arc<Stat>,
}

/// A question that was sent. Dropped before it left its queue, it never leaves.
#[derive(Debug)]
pub(crate) struct PendingAnswer<T>(oneshot::Receiver<Result<T, Failure>>);

impl RedisClient {
    pub(crate) fn new(config: RedisConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let name = StoreName::new(&format!("redis at {}", config.link.servers));
        let counting = Counting { time: config.time };
        let link = Client::new(config.link.clone(), name, counting, None)?;
        Ok(Self { config: Arc::new(config), link, live_nodes: Arc::default() })
    }

    pub(crate) fn config(&self) -> &RedisConfig {
        &self.config
    }

    pub(crate) fn name(&self) -> &StoreName {
        self.shared().name()
    }

    /// The state that all connections share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.link.shared()
    }

    pub(crate) fn counters(&self) -> &ConnCounters {
        &self.shared().counters().conn
    }

    /// Nodes that share the counters, this one included; at least 1.
    pub(crate) fn live_nodes(&self) -> u64 {
        self.live_nodes.get().max(1)
    }

    /// The wait for an answer.
    pub(crate) fn patience(&self) -> Duration {
        self.shared().patience()
    }

    /// The instant at which a call that is made now has waited long enough.
    pub(crate) async fn deadline(&self, traffic: Traffic, hash_slot: u16) -> Result<Instant, StoreError> {
        self.watch();
        self.link.deadline(traffic, hash_slot).await.map_err(|failure| self.error(failure))
    }

    /// The Redis key of a counter.
    pub(crate) fn redis_key(&self, key: Key<'_>) -> Vec<u8> {
        redis_key(&self.config.prefix, self.config.hash_tag, key.0)
    }

    /// The hash slot of a Redis key in a Cluster.
    pub(crate) fn hash_slot(&self, redis_key: &[u8]) -> u16 {
        self.shared().topology().slot(redis_key)
    }

    /// Closes all connections; waiting calls fail.
    pub(crate) fn end(&self) {
        self.link.end();
    }

    /// Watches the servers from the runtime that the caller is in, unless a task does already.
    pub(crate) fn watch(&self) {
        watch(self.shared(), || Heartbeat::new(&self.config, self.name(), &self.live_nodes));
    }

    /// Sends an item; its answer is received later.
    pub(crate) async fn send<T>(
        &self,
        traffic: Traffic,
        hash_slot: u16,
        by: Instant,
        item: impl FnOnce(Waiter<T>) -> CountItem,
    ) -> Result<PendingAnswer<T>, StoreError> {
        self.watch();
        // The item is made after the wait: data that is kept over a wait is copied once more.
        let node = self.link.node_of(hash_slot, by).await.map_err(|failure| self.error(failure))?;
        let (to, answer) = oneshot::channel();
        match self.link.send(traffic, node, item(Waiter::new(to, by))) {
            Ok(()) => Ok(PendingAnswer(answer)),
            Err(failure) => Err(self.error(failure)),
        }
    }

    /// Waits for the answer. One always comes, in time.
    pub(crate) async fn receive<T>(&self, asked: PendingAnswer<T>) -> Result<T, StoreError> {
        match self.link.receive(asked.0).await {
            Ok(answer) => Ok(answer),
            Err(failure) => Err(self.error(failure)),
        }
    }

    #[cold]
    fn error(&self, failure: Failure) -> StoreError {
        failure.into_error(self.name())
    }

    /// The failure of a call that was not sent, since the store cannot be asked now.
    pub(crate) fn unavailable(&self, why: &str) -> StoreError {
        self.error(ServerError::new(Cause::Unavailable, why).to_failure())
    }

    /// The failure of a call that was not sent in time.
    pub(crate) fn timed_out(&self, why: &str) -> StoreError {
        self.error(ServerError::new(Cause::Silent, why).to_failure())
    }

    /// The failure of a call that was sent and not answered within its deadline.
    pub(crate) fn silent(&self) -> StoreError {
        self.error(self.shared().silent(self.config.link.deadline))
    }

    /// The error for a call that the server rejected, or answered with an impossible reply.
    pub(crate) fn rejected(&self, reason: &str) -> StoreError {
        self.error(self.shared().rejected(reason))
    }
}
