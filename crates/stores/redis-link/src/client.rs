//! [`Client`]: sends items to the server that keeps their slot. Not here: their way through a queue
//! (`driver`).

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tollgate_store::StoreName;
use tollgate_store::remote::{ConfigError, Failure, StoreState};

use crate::dial::Network;
use crate::flight::QueueEntry;
use crate::queue::Traffic;
use crate::server_error::{Cause, ServerError};
use crate::settings::{CONNECT_SETTING, LinkSettings};
use crate::shared::Shared;
use crate::thread_connections::{PerThread, Registry};
use crate::topology::ServerIndex;

/// A client of one server, a master behind Sentinels, or a Cluster. Opens no connection before the first
/// call.
///
/// Calls must be made from within a tokio runtime: each thread that makes any has connections of its own,
/// driven by that thread's runtime. When it is dropped, its connections close and waiting calls fail.
#[derive(Debug)]
pub struct Client<W: PerThread> {
    shared: Arc<Shared>,
    workload: W,
    registry: Arc<Registry<W>>,
}

impl<W: PerThread> Client<W> {
    /// A client of the servers that `settings` name; messages call them `name`. `network` replaces the real
    /// one in tests.
    ///
    /// # Errors
    /// [`ConfigError`] when settings contradict each other or a certificate cannot be read.
    pub fn new(
        settings: LinkSettings,
        name: StoreName,
        workload: W,
        network: Option<Arc<dyn Network>>,
    ) -> Result<Self, ConfigError> {
        settings.validate()?;
        let shared = Arc::new(Shared::new(settings, name, network)?);
        Ok(Self { shared, workload, registry: Arc::default() })
    }

    /// The state that all its connections share.
    #[must_use]
    pub const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The node that keeps `slot`. Waits only while a Cluster's nodes are not known yet, at most until `by`.
    ///
    /// # Errors
    /// [`Failure`] when no node can be asked.
    pub async fn node_of(&self, slot: u16, by: Instant) -> Result<ServerIndex, Failure> {
        if let Some(why) = self.shared.barred() {
            return Err(why.to_failure());
        }
        match self.shared.topology().node_of(slot) {
            Some(node) => Ok(node),
            None => self.find_node(slot, by).await.map_err(|why| why.to_failure()),
        }
    }

    /// The instant at which a call that is made now has waited long enough: its deadline, which begins once
    /// there is a connection if the settings say that calls [wait for one](LinkSettings::waits_to_connect).
    ///
    /// # Errors
    /// [`Failure`] when the attempt to connect fails, or takes too long.
    pub async fn deadline(&self, traffic: Traffic, slot: u16) -> Result<Instant, Failure> {
        if self.shared.settings().waits_to_connect && !self.is_connected(traffic, slot) {
            Box::pin(self.until_connected(traffic, slot)).await?;
        }
        Ok(Instant::now() + self.shared.patience())
    }

    /// Whether there is a connection, or no attempt to connect to wait for.
    fn is_connected(&self, traffic: Traffic, slot: u16) -> bool {
        let Some(node) = self.shared.topology().node_of(slot) else { return false };
        let here = W::threads().with(|map| map.connections(&self.shared, &self.workload, &self.registry));
        here.is_ok_and(|here| here.queue(node, traffic).is_settled())
    }

    async fn until_connected(&self, traffic: Traffic, slot: u16) -> Result<(), Failure> {
        let limit = self.shared.dialer().patience();
        let by = Instant::now() + limit;
        let node = self.node_of(slot, by).await?;
        let here = W::threads().with(|map| map.connections(&self.shared, &self.workload, &self.registry));
        let queue = here.map_err(|why| why.to_failure())?.queue(node, traffic);
        let late = |_| {
            let servers = &self.shared.settings().servers;
            let why = format!("{servers}: no connection within {limit:?}; raise {CONNECT_SETTING}");
            ServerError::new(Cause::Silent, why)
        };
        timeout_at(by, queue.settled()).await.map_err(late).flatten().map_err(|why| why.to_failure())
    }

    /// Puts an item into the queue of a node.
    ///
    /// # Errors
    /// [`Failure`] when it cannot be sent; then its caller gets no other answer.
    pub fn send(&self, traffic: Traffic, node: ServerIndex, item: W::Item) -> Result<(), Failure> {
        let failed = |why: &ServerError| Err(why.to_failure());
        let here = W::threads().with(|map| map.connections(&self.shared, &self.workload, &self.registry));
        let connections = match here {
            Ok(connections) => connections,
            Err(why) => return failed(&why),
        };
        let mut entry = QueueEntry::New(item);
        for _ in 0..2 {
            let queue = connections.queue(node, traffic);
            match queue.push(entry) {
                Ok(()) => return Ok(()),
                // It ended since it was looked up; there is a new one.
                Err((back, _)) if queue.has_ended() => entry = back,
                Err((_, why)) => return failed(&why),
            }
        }
        failed(&ServerError::new(Cause::Unavailable, "the store is shutting down"))
    }

    /// Waits until the node of a slot is known.
    async fn find_node(&self, slot: u16, by: Instant) -> Result<ServerIndex, ServerError> {
        let topology = self.shared.topology();
        let unavailable = Cause::Unavailable;
        let mut learnt = topology.watch();
        if let StoreState::Down { why, .. } = self.shared.health().state() {
            return Err(ServerError::new(unavailable, why));
        }
        topology.doubted.notify_one();
        let found = async {
            loop {
                if let Some(node) = topology.node_of(slot) {
                    return Some(node);
                }
                learnt.changed().await.ok()?;
            }
        };
        let unknown =
            || ServerError::new(unavailable, format!("it is not known yet which node keeps slot {slot}"));
        timeout_at(by, found).await.ok().flatten().ok_or_else(unknown)
    }

    /// Waits for an answer. One always comes, in time, unless the runtime is shut down.
    ///
    /// # Errors
    /// The [`Failure`] says what became of the call.
    pub async fn receive<T>(&self, answer: oneshot::Receiver<Result<T, Failure>>) -> Result<T, Failure> {
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(self.shared.silent(self.shared.settings().deadline)),
        }
    }

    /// Closes all connections; waiting calls fail.
    pub fn end(&self) {
        self.shared.end();
        self.registry.end_all();
    }
}

impl<W: PerThread> Drop for Client<W> {
    fn drop(&mut self) {
        self.end();
    }
}
