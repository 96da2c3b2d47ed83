//! Calls of the ledger's script on their way to Redis and back. Not here: the choice of calls, and the
//! meaning of their replies.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_lease::LedgerReply;
use tollgate_redis_link::{Traffic, Value};
use tollgate_store::remote::duplicate;
use tollgate_store::{Key, StoreError};

use super::ledger_script;
use crate::call::ScriptCall;
use crate::client::{PendingAnswer, RedisClient};
use crate::counting::CountItem;

/// Runs script calls of leased keys, and makes the errors of callers.
#[derive(Debug)]
pub(super) struct LedgerClient {
    client: Arc<RedisClient>,
}

/// A script call that was sent.
pub(super) struct SentCall {
    redis_key: Vec<u8>,
    reply: PendingAnswer<Value>,
}

impl LedgerClient {
    pub(super) const fn new(client: Arc<RedisClient>) -> Self {
        Self { client }
    }

    /// True when the store has been dropped.
    pub(super) fn has_ended(&self) -> bool {
        self.client.shared().has_ended()
    }

    /// Most takes of one key that may wait at a time.
    pub(super) fn max_queued(&self) -> usize {
        self.client.config().link.max_queued
    }

    /// The longest wait of a caller.
    pub(super) fn patience(&self) -> Duration {
        self.client.patience()
    }

    /// The Redis key of a leased counter.
    pub(super) fn redis_key(&self, key: &[u8]) -> Vec<u8> {
        let mut redis_key = self.client.redis_key(Key(key));
        redis_key.extend_from_slice(ledger_script::SUFFIX);
        redis_key
    }

    /// Runs one script call.
    pub(super) async fn run(
        &self,
        traffic: Traffic,
        call: ScriptCall,
        by: Instant,
    ) -> Result<LedgerReply, StoreError> {
        self.reply(self.send(traffic, call, by).await?).await
    }

    /// Sends one script call.
    pub(super) async fn send(
        &self,
        traffic: Traffic,
        call: ScriptCall,
        by: Instant,
    ) -> Result<SentCall, StoreError> {
        let redis_key = call.keys.first().cloned().unwrap_or_default();
        let hash_slot = self.client.hash_slot(&redis_key);
        let reply = self.client.send(traffic, hash_slot, by, |to| CountItem::Call(call, to)).await?;
        Ok(SentCall { redis_key, reply })
    }

    /// Waits for the reply to a script call.
    pub(super) async fn reply(&self, sent: SentCall) -> Result<LedgerReply, StoreError> {
        let SentCall { redis_key, reply } = sent;
        let value = self.client.receive(reply).await?;
        ledger_script::decode(&value)
            .map_err(|error| self.rejected(&format!("key {} {error}", String::from_utf8_lossy(&redis_key))))
    }

    /// The error of a take that was sent and not answered in time.
    pub(super) fn silent(&self) -> StoreError {
        self.client.silent()
    }

    /// The error of a take for which no permits were leased in time.
    pub(super) fn no_lease(&self) -> StoreError {
        let deadline = self.client.config().link.deadline;
        self.client.unavailable(&format!("no permits were leased within {deadline:?}"))
    }

    /// The error of a call for which the queue has no place.
    pub(super) fn queue_full(&self, why: &str) -> StoreError {
        self.client.counters().queue_full.add(1);
        self.client.unavailable(why)
    }

    pub(super) fn no_runtime(&self) -> StoreError {
        self.client.unavailable("the runtime has ended, or the call was made outside of one")
    }

    pub(super) fn rejected(&self, reason: &str) -> StoreError {
        self.client.rejected(reason)
    }

    /// The error of a caller that waited for permits: whatever the outcome of the request for them, nothing
    /// was taken for that caller.
    pub(super) fn nothing_taken(&self, error: &StoreError) -> StoreError {
        match error {
            StoreError::Silent { waited, .. } => {
                self.client.timed_out(&format!("no permits were leased: no answer within {waited:?}"))
            }
            other => duplicate(other),
        }
    }
}
