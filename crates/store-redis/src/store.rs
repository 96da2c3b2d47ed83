//! [`RedisStore`]: the trait [`Store`] over flights of script calls. Not here: what the scripts do.

mod leased;
mod together;

pub(crate) use together::again;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redis::Value;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tollgate_core::{Cost, Decision, Holder, Quota, Slots, Timestamp};
use tollgate_store::{Charge, Inspection, Key, Store, StoreError, StoreName, Take, Verdicts};

use self::leased::is_leased;
use crate::ask::{Answer, Ask, Kind};
use crate::call::Call;
use crate::check::{self, Finding, Severity};
use crate::config::{ConfigError, RedisConfig};
use crate::figures::{Counters, Figures, add};
use crate::flight::{Context, Item, Rider};
use crate::hub::Hub;
use crate::keys::redis_key;
use crate::lane::Lane;
use crate::leased::Leased;
use crate::slots::{self, Said, What};
use crate::trouble::{self, Trouble};
use crate::watcher;
use tollgate_store::remote::{Finisher, StoreState};

/// Counters in Redis or Valkey. Cheap to clone; clones share connections and figures.
///
/// Its calls must be made from within a tokio runtime: each thread that makes any has connections of its own, driven by that
/// thread's runtime. A call whose future is dropped before it was sent is never sent.
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
    hub: Arc<Hub>,
    leased: Arc<Leased>,
    /// Batches that are charged in several steps run to their end.
    finisher: Finisher,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.hub.end();
    }
}

impl RedisStore {
    /// A store with these settings. Opens no connection: each thread that uses the store makes its own on first use, in the
    /// background.
    ///
    /// # Errors
    /// [`ConfigError`] when settings contradict each other or a certificate cannot be read.
    pub fn new(config: RedisConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let context = Context {
            name: StoreName::new(&format!("redis at {}", config.servers)),
            time: config.time,
            deadline: config.deadline,
            counters: Counters::default(),
            keeps_slots_apart: AtomicBool::new(config.is_cluster()),
        };
        let hub = Arc::new(Hub::new(config, context)?);
        let leased = Arc::new(Leased::new(hub.clone()));
        Ok(Self { inner: Arc::new(Inner { hub, leased, finisher: Finisher::default() }) })
    }

    /// Begins to watch the store from the tokio runtime it is called in: connects, looks whether the server is fit
    /// ([`RedisStore::check`], warnings are logged), tells the other nodes that this one lives, follows failovers and resharding. Done by
    /// itself on first use; calling it at start makes [`RedisStore::state`] tell the truth before the first request. Calling it again
    /// changes nothing.
    pub fn start(&self) {
        watcher::start(&self.inner.hub);
    }

    /// Whether the store answers, as far as is known.
    #[must_use]
    pub fn state(&self) -> StoreState {
        self.hub().health().state()
    }

    /// What to say of a store that is up and answers more than 1 % of the calls too late; `None` where all is well, or it is down.
    #[must_use]
    pub fn slow(&self) -> Option<Arc<str>> {
        self.hub().health().slow()
    }

    /// Tells every change of [`RedisStore::state`]. The store logs these changes itself, one line each.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<StoreState> {
        self.hub().health().watch()
    }

    /// What was counted since the start.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let mut figures = self.hub().context().counters.snapshot();
        self.leased().add_to(&mut figures);
        figures
    }

    /// For a node that is about to end: waits until batches whose callers have left are charged or given back, then gives all leased
    /// permits back that were not spent, and waits until the ledgers know. Each takes about as long as a call may. The store goes on
    /// working: what is asked for afterwards is leased anew.
    pub async fn close(&self) {
        self.finisher().wait().await;
        self.leased().give_all_back().await;
    }

    /// How many nodes share these counters, this one included, as last heard; at least 1.
    #[must_use]
    pub fn live_nodes(&self) -> u32 {
        u32::try_from(self.figures().live_nodes).unwrap_or(u32::MAX)
    }

    /// Looks whether the servers are fit to keep counters. Takes at most about the time to connect, once a server. A server that is
    /// down is [`Severity::Unknown`]: it may be fit when it is back.
    pub async fn check(&self) -> Vec<Finding> {
        let hub = self.hub();
        if let Err(trouble) = hub.topology().learn(hub.dialer()).await {
            return vec![finding(&trouble)];
        }
        let mut findings = Vec::new();
        for node in hub.topology().masters() {
            let looked = async {
                let address = hub.topology().find(node, hub.dialer()).await?;
                let mut connection = hub.dialer().open_master(&address).await?;
                // Also a server that is too slow now must be fit.
                let limit = hub.dialer().patience();
                let look = tokio::time::timeout(limit, check::look(&mut connection, hub.config()));
                let mut found = look.await.map_err(|_| {
                    Trouble::new(trouble::Kind::Silent, format!("{address}: no answer within {limit:?}"))
                })??;
                found.extend(hub.dialer().probe(&mut connection).await.err().as_ref().map(finding));
                Ok::<_, Trouble>(found)
            };
            match looked.await {
                Ok(found) => findings.extend(found),
                Err(trouble) => findings.push(finding(&trouble)),
            }
        }
        findings
    }

    /// What all lanes share.
    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.inner.hub
    }

    fn leased(&self) -> &Arc<Leased> {
        &self.inner.leased
    }

    fn finisher(&self) -> &Finisher {
        &self.inner.finisher
    }

    /// What a counter is called in Redis.
    fn redis_key(&self, key: Key<'_>) -> Vec<u8> {
        let config = self.hub().config();
        redis_key(&config.prefix, config.hash_tag, key.0)
    }

    /// Runs one script call on the keeper of its first key, within the deadline of a call.
    ///
    /// # Errors
    /// [`StoreError`], which says whether the script may have run.
    pub(crate) async fn run(&self, call: Call) -> Result<Value, StoreError> {
        let slot = self.slot_of(call.keys.first().map_or(&[], Vec::as_slice));
        self.send(slot, |to| Item::Call(call, to)).await?.hear(self.hub()).await
    }

    /// In which slot of a Cluster a key lies.
    fn slot_of(&self, key: &[u8]) -> u16 {
        self.hub().topology().slot(key)
    }

    /// Begins to ask; the answer is heard later.
    async fn send<T>(&self, slot: u16, item: impl FnOnce(Rider<T>) -> Item) -> Result<Asked<T>, StoreError> {
        let hub = self.hub();
        let context = hub.context();
        watcher::start(hub);
        let lane = Lane::here(hub).map_err(|why| context.unreachable(&why))?;
        add(&context.counters.asked, 1);
        let by = Instant::now() + context.patience();
        let (to, answer) = oneshot::channel();
        hub.send(&lane, slot, item(Rider::new(to, by)), by).await?;
        Ok(Asked(answer))
    }

    async fn begin(
        &self,
        key: Key<'_>,
        quota: &Quota,
        kind: Kind,
        now: Timestamp,
    ) -> Result<Asked<Answer>, StoreError> {
        let key = self.redis_key(key);
        let slot = self.slot_of(&key);
        let ask = Box::new(Ask { key, quota: quota.clone(), kind });
        self.send(slot, |to| Item::Ask(ask, now, to)).await
    }

    async fn ask(
        &self,
        key: Key<'_>,
        quota: &Quota,
        kind: Kind,
        now: Timestamp,
    ) -> Result<Answer, StoreError> {
        self.begin(key, quota, kind, now).await?.hear(self.hub()).await
    }

    /// Each take by itself.
    async fn each(&self, batch: &[Take<'_>], now: Timestamp, verdicts: &mut Verdicts) {
        // All are on their way before the first is waited for.
        let mut asked = Vec::with_capacity(batch.len());
        for take in batch {
            asked.push(self.begin(take.key, take.quota, Kind::Take(take.cost), now).await);
        }
        for asked in asked {
            verdicts.push(match asked {
                Ok(asked) => match asked.hear(self.hub()).await {
                    Ok(answer) => self.as_decision(answer),
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            });
        }
    }

    async fn slot(
        &self,
        key: Key<'_>,
        slots: &Slots,
        holder: Holder,
        what: What,
        now: Timestamp,
    ) -> Result<Said, StoreError> {
        let time = self.hub().context().time;
        let reply = self.run(slots::call(self.redis_key(key), slots, holder, what, now, time)).await?;
        slots::said(&reply).ok_or_else(|| self.hub().context().refused(format!("an odd answer: {reply:?}")))
    }

    async fn decide(
        &self,
        key: Key<'_>,
        quota: &Quota,
        kind: Kind,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        let answer = self.ask(key, quota, kind, now).await?;
        self.as_decision(answer)
    }

    fn as_decision(&self, answer: Answer) -> Result<Decision, StoreError> {
        match answer {
            Answer::Decision(decision) => Ok(decision),
            other => Err(self.odd(&other)),
        }
    }

    fn odd(&self, answer: &Answer) -> StoreError {
        self.hub().context().refused(format!("an answer to another question: {answer:?}"))
    }
}

/// A question that is on its way. Dropped before it was sent, it never is.
struct Asked<T>(oneshot::Receiver<Result<T, StoreError>>);

impl<T> Asked<T> {
    async fn hear(self, hub: &Hub) -> Result<T, StoreError> {
        hub.hear(self.0).await
    }
}

fn finding(trouble: &Trouble) -> Finding {
    let severity = match trouble.kind {
        trouble::Kind::Wrong => Severity::Refuse,
        _ => Severity::Unknown,
    };
    Finding { severity, message: trouble.why.to_string() }
}

impl Store for RedisStore {
    fn name(&self) -> StoreName {
        self.hub().context().name.clone()
    }

    fn live_nodes(&self) -> u32 {
        Self::live_nodes(self)
    }

    fn is_remote(&self) -> bool {
        true
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        if batch.iter().any(|take| is_leased(take.quota)) {
            return self.take_with_leases(batch, charge, Kind::Take, now, verdicts).await;
        }
        match batch {
            // Also of one take: one that is denied leaves no trace, which matters to windows that count every hit.
            _ if charge == Charge::Together => {
                self.all_or_none(batch, Kind::Take, now, verdicts).await;
            }
            [take] => verdicts.push(self.decide(take.key, take.quota, Kind::Take(take.cost), now).await),
            _ => self.each(batch, now, verdicts).await,
        }
    }

    async fn give_back(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        if is_leased(quota)
            && let Some(given) = self.leased().give_back(key, quota, cost, now).await
        {
            return given;
        }
        self.decide(key, quota, Kind::GiveBack(cost), now).await
    }

    async fn give_all_back(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        self.return_all(batch, now).await
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        if batch.iter().any(|take| is_leased(take.quota)) {
            let kind = move |cost| Kind::Hold(cost, max_wait);
            return self.take_with_leases(batch, Charge::Together, kind, now, verdicts).await;
        }
        if let [take] = batch {
            verdicts.push(self.decide(take.key, take.quota, Kind::Hold(take.cost, max_wait), now).await);
        } else {
            self.all_or_none(batch, |cost| Kind::Hold(cost, max_wait), now, verdicts).await;
        }
    }

    async fn charge(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        if is_leased(quota)
            && let Some(charged) = self.leased().charge(key, quota, cost, now).await
        {
            return charged;
        }
        self.decide(key, quota, Kind::Charge(cost), now).await
    }

    async fn reset(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<bool, StoreError> {
        if is_leased(quota)
            && let Some(forgotten) = self.leased().reset(key, quota, now).await
        {
            return forgotten;
        }
        match self.ask(key, quota, Kind::Reset, now).await? {
            Answer::Reset(forgotten) => Ok(forgotten),
            other => Err(self.odd(&other)),
        }
    }

    async fn inspect(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<Inspection, StoreError> {
        if is_leased(quota)
            && let Some(seen) = self.leased().inspect(key, quota, now).await
        {
            return seen;
        }
        match self.ask(key, quota, Kind::Inspect, now).await? {
            Answer::Inspection(inspection) => Ok(inspection),
            other => Err(self.odd(&other)),
        }
    }

    async fn acquire(
        &self,
        key: Key<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        Ok(self.slot(key, slots, holder, What::Acquire, now).await?.decision(slots))
    }

    async fn release(
        &self,
        key: Key<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        Ok(self.slot(key, slots, holder, What::Release, now).await?.done)
    }
}
