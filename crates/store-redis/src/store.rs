//! [`RedisStore`]: the trait [`Store`] over flights of script calls. Not here: what the scripts do.

mod leased;
mod together;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tollgate_core::{Cost, Decision, Holder, Quota, Slots, Timestamp};
use tollgate_redis_link::{Cause, ServerError, Traffic, Value, Waiter};
use tollgate_store::remote::{ConfigError, Finisher, StoreState};
use tollgate_store::{Charge, Inspection, Key, Store, StoreError, StoreName, Take, Verdicts};

use crate::ask::{Answer, Ask, Kind};
use crate::call::Call;
use crate::check::{self, Finding, Severity};
use crate::client::{Asked, RedisClient};
use crate::config::RedisConfig;
use crate::counting::CountItem;
use crate::keys::redis_key;
use crate::leased::{Leased, is_leased};
use crate::slots::{self, Said, What};
use crate::stats::RedisStats;

/// Counters in Redis or Valkey. Cheap to clone; clones share connections and counters.
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
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Arc<RedisClient>,
    leased: Arc<Leased>,
    /// Batches that are charged in several steps run to their end.
    finisher: Finisher,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.client.end();
    }
}

impl RedisStore {
    /// A store with these settings. Opens no connection: each thread that uses the store makes its own on
    /// first use, in the background.
    ///
    /// # Errors
    /// [`ConfigError`] when settings contradict each other or a certificate cannot be read.
    pub fn new(config: RedisConfig) -> Result<Self, ConfigError> {
        let client = Arc::new(RedisClient::new(config)?);
        let leased = Arc::new(Leased::new(client.clone()));
        Ok(Self { inner: Arc::new(Inner { client, leased, finisher: Finisher::default() }) })
    }

    /// Starts to watch the store from the tokio runtime that it is called in: connects, checks whether the
    /// server is fit ([`RedisStore::check`], warnings are logged), sends heartbeats for the other nodes,
    /// follows failovers and resharding. The first call to the store does this, too; calling it at start
    /// makes [`RedisStore::state`] right before the first request. Calling it again changes nothing.
    pub fn start(&self) {
        self.client().watch();
    }

    /// Whether the store answers, as far as is known.
    #[must_use]
    pub fn state(&self) -> StoreState {
        self.client().shared().health().state()
    }

    /// What to say of a store that is up and answers more than 1 % of the calls too late; `None` where it is
    /// not slow, or down.
    #[must_use]
    pub fn slow(&self) -> Option<Arc<str>> {
        self.client().shared().slow()
    }

    /// Receives every change of [`RedisStore::state`]. The store logs these changes itself, one line each.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<StoreState> {
        self.client().shared().health().watch()
    }

    /// What was counted since the start.
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
    /// back, then gives all leased permits back that were not spent, and waits until the ledgers know. Each
    /// takes about as long as a call may. The store keeps working: later takes lease again.
    pub async fn close(&self) {
        self.finisher().wait().await;
        self.leased().give_all_back().await;
    }

    /// How many nodes share these counters, this one included, by the last heartbeat; at least 1.
    #[must_use]
    pub fn live_nodes(&self) -> u32 {
        u32::try_from(self.client().live_nodes()).unwrap_or(u32::MAX)
    }

    /// Checks whether the servers are fit to keep counters. Takes at most about the time to connect, once a
    /// server. A server that is down is [`Severity::Unknown`]: it may be fit when it is back.
    pub async fn check(&self) -> Vec<Finding> {
        let (topology, dialer) = (self.client().shared().topology(), self.client().shared().dialer());
        if let Err(error) = topology.learn(dialer).await {
            return vec![finding(&error)];
        }
        let mut findings = Vec::new();
        for node in topology.masters() {
            let looked = async {
                let address = topology.find(node, dialer).await?;
                let mut connection = dialer.open_master(&address).await?;
                // Also a server that is too slow now must be fit.
                let limit = dialer.patience();
                let look = check::look(&mut connection, self.client().config());
                let mut found = tokio::time::timeout(limit, look).await.map_err(|_| {
                    ServerError::new(Cause::Silent, format!("{address}: no answer within {limit:?}"))
                })??;
                found.extend(dialer.probe(&mut connection).await.err().as_ref().map(finding));
                Ok::<_, ServerError>(found)
            };
            match looked.await {
                Ok(found) => findings.extend(found),
                Err(error) => findings.push(finding(&error)),
            }
        }
        findings
    }

    fn client(&self) -> &RedisClient {
        &self.inner.client
    }

    fn leased(&self) -> &Arc<Leased> {
        &self.inner.leased
    }

    fn finisher(&self) -> &Finisher {
        &self.inner.finisher
    }

    /// What a counter is called in Redis.
    fn redis_key(&self, key: Key<'_>) -> Vec<u8> {
        let config = self.client().config();
        redis_key(&config.prefix, config.hash_tag, key.0)
    }

    /// Runs one script call on the keeper of its first key, within the deadline of a call.
    ///
    /// # Errors
    /// [`StoreError`], which says whether the script may have run.
    async fn run(&self, call: Call) -> Result<Value, StoreError> {
        let slot = self.client().slot_of(call.keys.first().map_or(&[], Vec::as_slice));
        let asked = self.send(slot, |to| CountItem::Call(call, to)).await?;
        self.client().receive(asked).await
    }

    /// Sends a question; the answer is received later.
    async fn send<T>(
        &self,
        slot: u16,
        item: impl FnOnce(Waiter<T>) -> CountItem,
    ) -> Result<Asked<T>, StoreError> {
        let client = self.client();
        client.counters().requests.add(1);
        client.send(Traffic::Foreground, slot, Instant::now() + client.patience(), item).await
    }

    async fn begin(
        &self,
        key: Key<'_>,
        quota: &Quota,
        kind: Kind,
        now: Timestamp,
    ) -> Result<Asked<Answer>, StoreError> {
        let key = self.redis_key(key);
        let slot = self.client().slot_of(&key);
        let ask = Box::new(Ask { key, quota: quota.clone(), kind });
        self.send(slot, |to| CountItem::Ask(ask, now, to)).await
    }

    async fn ask(
        &self,
        key: Key<'_>,
        quota: &Quota,
        kind: Kind,
        now: Timestamp,
    ) -> Result<Answer, StoreError> {
        let asked = self.begin(key, quota, kind, now).await?;
        self.client().receive(asked).await
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
                Ok(asked) => match self.client().receive(asked).await {
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
        let time = self.client().config().time;
        let reply = self.run(slots::call(self.redis_key(key), slots, holder, what, now, time)).await?;
        slots::said(&reply).ok_or_else(|| self.client().rejected(&format!("an unexpected reply: {reply:?}")))
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
        self.client().rejected(&format!("an answer to another request: {answer:?}"))
    }
}

fn finding(error: &ServerError) -> Finding {
    let severity = match error.cause {
        Cause::Misconfigured => Severity::Reject,
        _ => Severity::Unknown,
    };
    Finding { severity, message: error.why.to_string() }
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
        if batch.iter().any(|take| is_leased(take.quota)) {
            return self.take_with_leases(batch, charge, Kind::Take, now, verdicts).await;
        }
        match batch {
            // Also of one take: one that is denied leaves no trace, which matters to windows that count every
            // hit.
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
