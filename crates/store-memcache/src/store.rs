//! [`MemcacheStore`]: the trait [`Store`] over lanes. Not here: what is asked of memcached (`work`).

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};
use tollgate_core::{Algorithm, Cost, Decision, Quota, Sharing, Timestamp};
use tollgate_store::remote::{Finisher, StoreState, patience};
use tollgate_store::{Charge, Inspection, Key, Store, StoreError, StoreName, Take, Verdicts};

use crate::ask::{Answer, Ask, Claim, Failure, Op, copy};
use crate::config::{ConfigError, MemcacheConfig};
use crate::figures::{Counters, Figures, add};
use crate::health::Health;
use crate::lane::{Lane, Refusal};
use crate::spread::Spread;
use crate::{item, together};

/// Counters in memcached. Cheap to clone; clones share connections and figures.
///
/// Each tokio runtime that uses it has connections of its own, so that no call crosses from one to another; it must have timers and
/// I/O enabled.
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
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    name: StoreName,
    config: Arc<MemcacheConfig>,
    spread: Spread,
    pub(crate) counters: Arc<Counters>,
    health: Arc<Health>,
    /// A lane a server, by runtime.
    lanes: RwLock<HashMap<Id, Arc<[Lane]>>>,
    /// Batches that are charged in several steps run to their end.
    pub(crate) finisher: Finisher,
}

/// Whether memcached's commands can count by `quota`.
///
/// # Errors
/// Why not, and what to write instead; for the message at load.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tollgate_core::Quota;
/// use tollgate_store_memcache::supports;
///
/// let second = Duration::from_secs(1);
/// assert!(supports(&Quota::fixed_window(5, second)?).is_ok());
/// assert!(supports(&Quota::token_bucket(5, second)?).is_err());
/// # Ok::<(), tollgate_core::QuotaError>(())
/// ```
pub fn supports(quota: &Quota) -> Result<(), &'static str> {
    match (quota.sharing(), quota.algorithm()) {
        (Sharing::Local, _) | (_, Algorithm::Unlimited) => Ok(()),
        (_, Algorithm::Total) => Err(
            "memcached may forget an item at any time, and a total must not be forgotten; use a redis store",
        ),
        (Sharing::Leased, Algorithm::FixedWindow { .. } | Algorithm::SlidingWindowCounter) => {
            Err("memcached runs no scripts, so it cannot lease permits; use sharing: exact, or a redis store")
        }
        (Sharing::Exact, Algorithm::FixedWindow { .. } | Algorithm::SlidingWindowCounter) => Ok(()),
        _ => Err("memcached runs no scripts, so it counts only fixed_window and sliding_window_counter; \
                  use one of them, sharing: local, or a redis store"),
    }
}

impl MemcacheStore {
    /// A store with these settings. Opens no connection: each runtime that uses the store makes its own on first use, in the
    /// background.
    ///
    /// # Errors
    /// [`ConfigError`] when a setting is out of its bounds.
    pub fn new(config: MemcacheConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let servers: Vec<_> = config.servers.iter().map(ToString::to_string).collect();
        Ok(Self {
            inner: Arc::new(Inner {
                name: StoreName::new(&format!("memcached at {}", servers.join(","))),
                spread: Spread::over(&config.servers),
                counters: Arc::default(),
                health: Arc::new(Health::new(&config.servers)),
                lanes: RwLock::default(),
                finisher: Finisher::default(),
                config: Arc::new(config),
            }),
        })
    }

    /// Connects from the tokio runtime it is called in. Done by itself on first use; calling it at start makes
    /// [`MemcacheStore::state`] tell the truth before the first request. Does nothing outside of a runtime.
    pub fn start(&self) {
        let _ = self.inner.lanes();
    }

    /// Whether the store answers, as far as is known.
    #[must_use]
    pub fn state(&self) -> StoreState {
        self.inner.health.state()
    }

    /// Tells every change of [`MemcacheStore::state`].
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<StoreState> {
        self.inner.health.watch()
    }

    /// For a node that is about to end: waits until batches whose callers have left are charged or given back, about as long as two
    /// calls may take.
    pub async fn close(&self) {
        self.inner.finisher.wait().await;
    }

    /// What was counted since the start.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.inner.counters.snapshot()
    }

    async fn one(&self, key: Key<'_>, quota: &Quota, op: Op, now: Timestamp) -> Result<Answer, StoreError> {
        if !self.inner.can_count(quota) {
            return Err(self.inner.unsupported(quota));
        }
        self.inner.send(key, op, quota, now).answer(&self.inner).await
    }

    async fn decision(
        &self,
        key: Key<'_>,
        quota: &Quota,
        op: Op,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        match self.one(key, quota, op, now).await? {
            Answer::Decision(decision) => Ok(decision),
            _ => Err(self.inner.odd()),
        }
    }
}

impl Store for MemcacheStore {
    fn name(&self) -> StoreName {
        self.inner.name.clone()
    }

    fn is_remote(&self) -> bool {
        true
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        if charge == Charge::Together {
            return together::charge(&self.inner, batch, None, now, verdicts).await;
        }
        let send = |take: &Take<'_>| {
            let can = self.inner.can_count(take.quota);
            can.then(|| self.inner.send(take.key, Op::Take(take.cost), take.quota, now))
        };
        let sent: Vec<_> = batch.iter().map(send).collect();
        for (take, pending) in batch.iter().zip(sent) {
            let answer = match pending {
                Some(pending) => pending.answer(&self.inner).await,
                None => Err(self.inner.unsupported(take.quota)),
            };
            verdicts.push(answer.and_then(|answer| match answer {
                Answer::Decision(decision) => Ok(decision),
                _ => Err(self.inner.odd()),
            }));
        }
    }

    async fn give_back(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.decision(key, quota, Op::GiveBack(cost), now).await
    }

    async fn give_all_back(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        together::give_all_back(&self.inner, batch, now).await
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        together::charge(&self.inner, batch, Some(max_wait), now, verdicts).await;
    }

    async fn charge(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.decision(key, quota, Op::Charge(cost), now).await
    }

    async fn reset(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<bool, StoreError> {
        match self.one(key, quota, Op::Reset, now).await? {
            Answer::Forgot(was) => Ok(was),
            _ => Err(self.inner.odd()),
        }
    }

    async fn inspect(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<Inspection, StoreError> {
        match self.one(key, quota, Op::Inspect, now).await? {
            Answer::Inspection(inspection) => Ok(inspection),
            _ => Err(self.inner.odd()),
        }
    }
}

/// An ask under way.
pub(crate) enum Pending {
    Sent { claim: Arc<Claim>, reply: oneshot::Receiver<Result<Answer, Failure>>, until: Instant },
    Settled(Result<Answer, Failure>),
}

impl Pending {
    /// Waits for it, until its deadline.
    pub(crate) async fn answer(self, inner: &Inner) -> Result<Answer, StoreError> {
        let outcome = match self {
            Self::Settled(outcome) => outcome,
            Self::Sent { claim, reply, until } => match timeout_at(until, reply).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) | Err(_) if claim.give_up() => {
                    let why = format!("nothing was sent within {:?}", inner.config.deadline);
                    Err(Failure::Unreachable(io::Error::new(io::ErrorKind::TimedOut, why)))
                }
                Ok(Err(_)) | Err(_) => Err(Failure::Silent),
            },
        };
        outcome.map_err(|failure| inner.tell(failure))
    }
}

impl Inner {
    /// Whether there is a way to count by `quota` here, whatever its sharing.
    pub(crate) fn can_count(&self, quota: &Quota) -> bool {
        use Algorithm::{FixedWindow, SlidingWindowCounter, Unlimited};
        matches!(quota.algorithm(), FixedWindow { .. } | SlidingWindowCounter | Unlimited)
    }

    /// Hands an ask to its lane.
    pub(crate) fn send(&self, key: Key<'_>, op: Op, quota: &Quota, now: Timestamp) -> Pending {
        let (sender, reply) = oneshot::channel();
        let claim = Arc::new(Claim::default());
        let ask = Ask { op, quota: quota.clone(), now, claim: claim.clone(), reply: sender };
        if matches!(quota.algorithm(), Algorithm::Unlimited) {
            return Pending::Settled(Ok(ask.without_a_state()));
        }
        add(&self.counters.asked, 1);
        let refused = |kind, why: &str| {
            Pending::Settled(Err(Failure::Unreachable(io::Error::new(kind, why.to_owned()))))
        };
        let Some(lanes) = self.lanes() else {
            return refused(io::ErrorKind::Unsupported, "it is asked outside of a tokio runtime");
        };
        let item = item::name(&self.config.prefix, key.0);
        let lane = &lanes[self.spread.server(&item)];
        match lane.ask(item, ask) {
            Ok(()) => Pending::Sent { claim, reply, until: Instant::now() + patience(self.config.deadline) },
            Err(Refusal::Breaker) => {
                add(&self.counters.breaker_refused, 1);
                refused(
                    io::ErrorKind::NotConnected,
                    "the server does not answer; it is asked again in the background",
                )
            }
            Err(Refusal::Full) => {
                add(&self.counters.queue_full, 1);
                refused(io::ErrorKind::WouldBlock, "too many calls wait already")
            }
            Err(Refusal::Gone) => refused(io::ErrorKind::NotConnected, "the runtime is shutting down"),
        }
    }

    /// The lanes of the runtime this is called in.
    fn lanes(&self) -> Option<Arc<[Lane]>> {
        let id = Handle::try_current().ok()?.id();
        if let Some(lanes) = self.lanes.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return Some(lanes.clone());
        }
        let mut all = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, lanes| !lanes.iter().all(Lane::is_gone)); // of runtimes that have ended
        let start = |at| Lane::start(at, &self.config, &self.counters, &self.health);
        Some(all.entry(id).or_insert_with(|| (0..self.config.servers.len()).map(start).collect()).clone())
    }

    fn tell(&self, failure: Failure) -> StoreError {
        let store = self.name.clone();
        match failure {
            Failure::Unreachable(source) => {
                if source.kind() == io::ErrorKind::TimedOut {
                    add(&self.counters.unsent, 1);
                }
                StoreError::Unreachable { store, source }
            }
            Failure::Silent => {
                add(&self.counters.silent, 1);
                self.silent()
            }
            Failure::Refused(reason) => {
                add(&self.counters.refused, 1);
                StoreError::Failed { store, reason }
            }
        }
    }

    pub(crate) fn silent(&self) -> StoreError {
        StoreError::Silent { store: self.name.clone(), waited: self.config.deadline }
    }

    pub(crate) fn unsupported(&self, quota: &Quota) -> StoreError {
        StoreError::Unsupported { store: self.name.clone(), algorithm: quota.algorithm().name() }
    }

    /// What a take hears whose answer is that to another question.
    pub(crate) fn odd(&self) -> StoreError {
        StoreError::Failed { store: self.name.clone(), reason: "an answer to another question".to_owned() }
    }

    /// The same error for another take.
    pub(crate) fn again(&self, error: &StoreError) -> StoreError {
        let store = self.name.clone();
        match error {
            StoreError::Unreachable { source, .. } => StoreError::Unreachable { store, source: copy(source) },
            StoreError::Failed { reason, .. } => StoreError::Failed { store, reason: reason.clone() },
            _ => self.silent(),
        }
    }
}
