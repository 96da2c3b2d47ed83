//! The shared part of all clones of a store: its servers, and the queues of each runtime to them. Not here:
//! requests (`transaction`), and batches (`charge_together`).

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tollgate_core::{Algorithm, Quota, Timestamp};
use tollgate_store::remote::{ConfigError, Failure, Finisher, Health, patience};
use tollgate_store::{Counter, StoreError, StoreName};

use crate::config::MemcacheConfig;
use crate::connection_queue::{ConnectionQueue, Rejected};
use crate::item_name;
use crate::rendezvous::Rendezvous;
use crate::request::{Claim, KeyRequest, Op, OpAnswer};
use crate::stats::Counters;

/// The shared part of all clones of a store.
#[derive(Debug)]
pub(crate) struct SharedClient {
    pub(crate) name: StoreName,
    config: Arc<MemcacheConfig>,
    servers: Rendezvous,
    pub(crate) counters: Arc<Counters>,
    pub(crate) health: Arc<Health>,
    /// One queue per server, by runtime.
    queues: RwLock<HashMap<Id, Arc<[ConnectionQueue]>>>,
    /// Batches that are charged in several steps run to their end.
    pub(crate) finisher: Finisher,
}

/// A request in flight.
pub(crate) enum Pending {
    Sent { claim: Arc<Claim>, reply: oneshot::Receiver<Result<OpAnswer, Failure>>, until: Instant },
    Settled(Result<OpAnswer, Failure>),
}

impl Pending {
    /// Waits for the answer, until its deadline.
    pub(crate) async fn answer(self, client: &SharedClient) -> Result<OpAnswer, StoreError> {
        let outcome = match self {
            Self::Settled(outcome) => outcome,
            Self::Sent { claim, reply, until } => match timeout_at(until, reply).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) | Err(_) if claim.give_up() => {
                    let why = format!("nothing was sent within {:?}", client.config.deadline);
                    Err(Failure::not_sent(io::ErrorKind::TimedOut, why))
                }
                Ok(Err(_)) | Err(_) => Err(Failure::Silent { waited: client.config.deadline }),
            },
        };
        outcome.map_err(|failure| client.error(failure))
    }
}

impl SharedClient {
    pub(crate) fn new(config: MemcacheConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let servers: Vec<_> = config.servers.iter().map(ToString::to_string).collect();
        Ok(Self {
            name: StoreName::new(&format!("memcached at {}", servers.join(","))),
            servers: Rendezvous::over(&config.servers),
            counters: Arc::default(),
            health: Arc::new(Health::new(servers.iter().map(|server| format!("memcached at {server}")))),
            queues: RwLock::default(),
            finisher: Finisher::default(),
            config: Arc::new(config),
        })
    }

    /// Whether memcached's commands can count by `quota`.
    pub(crate) fn can_count(&self, quota: &Quota) -> bool {
        use Algorithm::{FixedWindow, SlidingWindowCounter, Unlimited};
        matches!(quota.algorithm(), FixedWindow { .. } | SlidingWindowCounter | Unlimited)
    }

    /// Puts a request into the queue of its server.
    pub(crate) fn send(&self, counter: Counter<'_>, op: Op, now: Timestamp) -> Pending {
        let Counter { key, quota, .. } = counter;
        let (sender, reply) = oneshot::channel();
        let claim = Arc::new(Claim::default());
        let deadline = self.config.deadline;
        let request =
            KeyRequest { op, quota: quota.clone(), now, deadline, claim: claim.clone(), reply: sender };
        if matches!(quota.algorithm(), Algorithm::Unlimited) {
            return Pending::Settled(Ok(request.without_a_state()));
        }
        let conn = &self.counters.conn;
        conn.requests.add(1);
        let failed = |kind, why: &str| Pending::Settled(Err(Failure::not_sent(kind, why)));
        let Some(queues) = self.queues() else {
            return failed(io::ErrorKind::Unsupported, "called from outside of a tokio runtime");
        };
        let item = item_name::name(&self.config.prefix, key.0);
        let queue = &queues[self.servers.server(&item)];
        match queue.push(item, request) {
            Ok(()) => Pending::Sent { claim, reply, until: Instant::now() + patience(deadline) },
            Err(Rejected::Breaker) => {
                conn.breaker_blocked.add(1);
                failed(
                    io::ErrorKind::NotConnected,
                    "the server does not answer; it is retried in the background",
                )
            }
            Err(Rejected::Full) => {
                conn.queue_full.add(1);
                failed(io::ErrorKind::WouldBlock, "too many calls are waiting")
            }
            Err(Rejected::Gone) => failed(io::ErrorKind::NotConnected, "the runtime is shutting down"),
        }
    }

    /// The queues of the runtime that this is called in; it connects at once.
    pub(crate) fn queues(&self) -> Option<Arc<[ConnectionQueue]>> {
        let id = Handle::try_current().ok()?.id();
        if let Some(queues) = self.queues.read().get(&id) {
            return Some(queues.clone());
        }
        let mut all = self.queues.write();
        all.retain(|_, queues| !queues.iter().all(ConnectionQueue::is_gone)); // of runtimes that have ended
        let start = |at| ConnectionQueue::start(at, &self.config, &self.counters, &self.health);
        Some(all.entry(id).or_insert_with(|| (0..self.config.servers.len()).map(start).collect()).clone())
    }

    /// The error that a caller gets; counts it.
    fn error(&self, failure: Failure) -> StoreError {
        let conn = &self.counters.conn;
        match &failure {
            Failure::NotSent { kind: io::ErrorKind::TimedOut, .. } => conn.unsent.add(1),
            Failure::Silent { .. } => conn.silent.add(1),
            Failure::Rejected(_) => conn.rejected.add(1),
            _ => {}
        }
        failure.into_error(&self.name)
    }

    pub(crate) fn silent(&self) -> StoreError {
        Failure::Silent { waited: self.config.deadline }.into_error(&self.name)
    }

    pub(crate) fn unsupported(&self, quota: &Quota) -> StoreError {
        Failure::Unsupported { algorithm: quota.algorithm().name() }.into_error(&self.name)
    }

    /// The error of a take whose answer belongs to another request.
    pub(crate) fn odd(&self) -> StoreError {
        Failure::Rejected("an answer to another request".into()).into_error(&self.name)
    }
}
