//! Exact counting: one script per decision. Each call goes to the server that has its key, within the
//! deadline of a call.
//!
//! Not here: the work of the scripts ([`call`](crate::call)); leased permits ([`leased`](crate::leased)).

pub(crate) mod all_or_none;

use std::sync::Arc;

use tollgate_core::{Decision, Holder, Slots, Timestamp};
use tollgate_redis_link::{Traffic, Value, Waiter};
use tollgate_store::remote::Finisher;
use tollgate_store::{Counter, SlotKey, StoreError, Take, Verdicts};

use crate::ask::{Answer, Ask, KeyOperation};
use crate::call::ScriptCall;
use crate::client::{PendingAnswer, RedisClient};
use crate::counting::CountItem;
use crate::slots::{self, SlotAction, SlotReply};

/// Counters that are decided by scripts. Its connections end with it.
#[derive(Debug)]
pub(crate) struct Exact {
    client: Arc<RedisClient>,
    /// Batches that are charged in several steps run to their end.
    finisher: Finisher,
}

impl Drop for Exact {
    fn drop(&mut self) {
        self.client.end();
    }
}

impl Exact {
    pub(crate) fn new(client: Arc<RedisClient>) -> Self {
        Self { client, finisher: Finisher::default() }
    }

    pub(crate) fn client(&self) -> &RedisClient {
        &self.client
    }

    pub(crate) const fn finisher(&self) -> &Finisher {
        &self.finisher
    }

    /// Asks one thing of one counter.
    pub(crate) async fn ask(
        &self,
        counter: Counter<'_>,
        kind: KeyOperation,
        now: Timestamp,
    ) -> Result<Answer, StoreError> {
        let asked = self.begin(counter, kind, now).await;
        self.answer(asked).await
    }

    /// As [`Self::ask`], where the answer is a decision.
    pub(crate) async fn decide(
        &self,
        counter: Counter<'_>,
        kind: KeyOperation,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        let answer = self.ask(counter, kind, now).await?;
        self.as_decision(answer)
    }

    /// Decides each take of a batch by itself.
    pub(crate) async fn take_each(&self, batch: &[Take<'_>], now: Timestamp, verdicts: &mut Verdicts) {
        // All are on their way before the first is waited for.
        let mut asked = Vec::with_capacity(batch.len());
        for take in batch {
            asked.push(self.begin(take.counter, KeyOperation::of(take), now).await);
        }
        for asked in asked {
            let answer = self.answer(asked).await;
            verdicts.push(answer.and_then(|answer| self.as_decision(answer)));
        }
    }

    /// Takes or frees a slot of concurrency.
    pub(crate) async fn slot(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        action: SlotAction,
        now: Timestamp,
    ) -> Result<SlotReply, StoreError> {
        let time = self.client.config().time;
        let reply =
            self.run(slots::call(self.client.redis_key(key.key), slots, holder, action, now, time)).await?;
        slots::read(&reply).ok_or_else(|| self.unexpected(format!("{reply:?}")))
    }

    /// Begins to ask one question of one counter; [`Self::answer`] waits for the answer.
    pub(crate) async fn begin(
        &self,
        counter: Counter<'_>,
        kind: KeyOperation,
        now: Timestamp,
    ) -> Result<PendingAnswer<Answer>, StoreError> {
        let key = self.client.redis_key(counter.key);
        let hash_slot = self.client.hash_slot(&key);
        let ask = Box::new(Ask { key, quota: counter.quota.clone(), kind });
        self.send(hash_slot, |to| CountItem::Ask(ask, now, to)).await
    }

    /// Waits for the answer to `asked`.
    pub(crate) async fn answer<T>(
        &self,
        asked: Result<PendingAnswer<T>, StoreError>,
    ) -> Result<T, StoreError> {
        self.client.receive(asked?).await
    }

    pub(crate) fn as_decision(&self, answer: Answer) -> Result<Decision, StoreError> {
        match answer {
            Answer::Decision(decision) => Ok(decision),
            other => Err(self.unexpected(format!("{other:?}"))),
        }
    }

    /// The error for a reply that does not answer the question.
    pub(crate) fn unexpected(&self, reply: impl std::fmt::Display) -> StoreError {
        self.client.rejected(&format!("unexpected reply of a script: {reply}"))
    }

    /// Runs one script call on the server of its first key.
    async fn run(&self, call: ScriptCall) -> Result<Value, StoreError> {
        let hash_slot = self.client.hash_slot(call.keys.first().map_or(&[], Vec::as_slice));
        let asked = self.send(hash_slot, |to| CountItem::Call(call, to)).await;
        self.answer(asked).await
    }

    async fn send<T>(
        &self,
        hash_slot: u16,
        item: impl FnOnce(Waiter<T>) -> CountItem,
    ) -> Result<PendingAnswer<T>, StoreError> {
        let client = &self.client;
        client.counters().requests.add(1);
        let by = client.deadline(Traffic::Foreground, hash_slot).await?;
        client.send(Traffic::Foreground, hash_slot, by, item).await
    }
}
