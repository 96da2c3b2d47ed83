//! Takes that the ledger decides: those that wait at the same time go to it merged.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::time::Instant;
use tollgate_lease::{LedgerReply, Mono, Op, merge};
use tollgate_store::StoreError;
use tollgate_store::remote::duplicate;

use super::clock::Moment;
use super::local::LocalLeases;
use super::table::{LeasedKey, SharedTerms};
use super::take::{DeniedHit, LeasedTake, WaitingTake};
use crate::call::ScriptCall;

/// Equal takes of one key, as one operation of the ledger.
#[derive(Debug)]
pub(super) struct MergedTake {
    pub(super) call: ScriptCall,
    pub(super) op: Op,
    pub(super) by: Instant,
    take: LeasedTake,
    waiters: Vec<WaitingTake>,
    sent: Mono,
    shared: Arc<SharedTerms>,
}

impl LocalLeases {
    /// All takes of a key that wait to be sent to the ledger, equal ones merged. If none waits, its task is
    /// to end.
    pub(super) fn next_merged_takes(&self, key: &[u8]) -> Vec<MergedTake> {
        let now = self.clock.now();
        let mut shard = self.table.shard(key);
        let Some(key) = shard.keys.get_mut(key) else { return Vec::new() };
        let waiting = std::mem::take(&mut key.central).into_iter().filter(|waiter| !waiter.to.is_closed());
        let merged: Vec<MergedTake> = merge(waiting, |waiter| waiter.take)
            .into_iter()
            .filter_map(|(take, waiters)| self.merged_take(key, take, waiters, now))
            .collect();
        if merged.is_empty() {
            key.central_tasks = key.central_tasks.saturating_sub(1);
        }
        merged
    }

    fn merged_take(
        &self,
        key: &LeasedKey,
        take: LeasedTake,
        waiters: Vec<WaitingTake>,
        now: Mono,
    ) -> Option<MergedTake> {
        let by = waiters.iter().map(|waiter| waiter.by).max()?; // each caller has a timer of its own, too
        for waiter in &waiters {
            waiter.sent.store(true, Relaxed);
        }
        let cost = take.cost.permits();
        let times = waiters.len() as u64;
        let op = match take.hit {
            DeniedHit::Counts => Op::Take { cost, times },
            DeniedHit::TakenBack | DeniedHit::None => Op::Try { cost, times },
        };
        let call = self.call(key, op, now);
        Some(MergedTake { call, op, by, take, waiters, sent: now, shared: key.shared.clone() })
    }

    /// Answers the callers of merged takes.
    pub(super) fn on_central_reply(
        &self,
        key: &[u8],
        merged: MergedTake,
        result: Result<LedgerReply, StoreError>,
    ) {
        let MergedTake { take, waiters, shared, sent, .. } = merged;
        let reply = match result {
            Ok(reply) => reply,
            Err(error) => {
                for waiter in waiters {
                    waiter.to.send(Err(duplicate(&error))).ok();
                }
                return;
            }
        };
        let times = waiters.len() as u64;
        self.counts.central.add(times);
        self.note_reply(key, &shared, &reply, sent);
        let terms = &shared.terms;
        let cost = take.cost.permits();
        for (nth, waiter) in (0..).zip(waiters) {
            let decision = match take.hit {
                DeniedHit::Counts => terms.decision_of(&reply, cost, nth, times),
                // A cost that would never fit has one answer, whether hits count or not.
                DeniedHit::None if cost <= terms.burst() => {
                    terms.decision_of(&reply, cost, nth, reply.admitted)
                }
                _ => terms.decision_of_try(&reply, cost, nth),
            };
            waiter.to.send(Ok(decision)).ok();
        }
    }

    /// A task of central takes ends in the middle, with its runtime: the callers get an error, since their
    /// senders are dropped.
    pub(super) fn abandon_central(&self, key: &[u8]) {
        if let Some(key) = self.table.shard(key).keys.get_mut(key) {
            key.central_tasks = key.central_tasks.saturating_sub(1);
            key.central.clear();
        }
    }

    /// Remembers the ledger's reply to an operation, if the key still has these terms.
    pub(super) fn note_reply(&self, key: &[u8], shared: &Arc<SharedTerms>, reply: &LedgerReply, sent: Mono) {
        if let Some(found) = self.table.shard(key).keys.get_mut(key)
            && Arc::ptr_eq(&found.shared, shared)
        {
            found.node.on_central(&shared.terms, reply, sent, self.clock.now());
        }
    }

    /// The same operation again, if the ledger is in another window than this node thought.
    pub(super) fn call_in_window(&self, key: &[u8], op: Op, reply: &LedgerReply) -> Option<ScriptCall> {
        let now = self.clock.now();
        let mut shard = self.table.shard(key);
        let found = shard.keys.get_mut(key)?;
        found.clock = Moment::of_ledger(reply, now);
        Some(self.call(found, op, now))
    }
}
