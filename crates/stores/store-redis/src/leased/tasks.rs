//! The tasks that talk to the ledger while callers continue: requests for permits, central takes, returns of
//! idle permits. Each runs in the runtime of the caller that needed it. When a runtime ends in the middle,
//! the callers that wait get an error, and nothing stays in flight forever.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tollgate_lease::{LedgerReply, Op};
use tollgate_redis_link::Traffic;
use tollgate_store::StoreError;

use super::ledger_client::SentCall;
use super::local::LocalLeases;
use super::outgoing::{OutgoingRequest, PendingSends};
use super::table::SHARDS;

/// Searches of the table for idle permits, per tau.
const LOOKS_PER_TAU: u32 = 5;
/// One look in this many, at each shard, removes the keys that were not used for long.
const LOOKS_PER_EVICTION: usize = 16;
/// Most returns in flight when all permits are given back.
const MOST_RETURNS: usize = 256;
/// The wait for the reply to a request for permits, on links that take longer than a call may. A quarter of
/// tau.
const LEASE_PATIENCE: Duration = Duration::from_millis(125);
/// Attempts to begin a window whose end the ledger sees elsewhere.
const TRIES: u32 = 3;

/// Sends the pending messages, as tasks of this thread's runtime. Not to be called with a shard's lock.
#[inline]
pub(super) fn dispatch(local: &Arc<LocalLeases>, sends: PendingSends) {
    if !sends.requests.is_empty() || !sends.central.is_empty() {
        spawn(local, sends);
    }
}

#[cold]
fn spawn(local: &Arc<LocalLeases>, sends: PendingSends) {
    let runtime = Handle::try_current();
    if let Ok(runtime) = &runtime
        && !local.has_reaper.swap(true, Relaxed)
    {
        runtime.spawn(IdleReaper(Arc::downgrade(local)).run());
    }
    // Without a runtime the tasks are dropped, which answers the callers that wait.
    for request in sends.requests {
        let task = LeaseRequestTask { local: local.clone(), request: Some(request) };
        if let Ok(runtime) = &runtime {
            runtime.spawn(task.run());
        }
    }
    for key in sends.central {
        let task = CentralTakeTask { local: local.clone(), key, is_done: false };
        if let Ok(runtime) = &runtime {
            runtime.spawn(task.run());
        }
    }
}

/// Gives back all permits held, and waits until the ledgers have confirmed, for at most a call's deadline per
/// request.
pub(super) async fn give_all_back(local: &Arc<LocalLeases>) {
    let mut in_flight = JoinSet::new();
    for request in local.give_all_back() {
        while in_flight.len() >= MOST_RETURNS {
            in_flight.join_next().await;
        }
        in_flight.spawn(LeaseRequestTask { local: local.clone(), request: Some(request) }.run());
    }
    while in_flight.join_next().await.is_some() {}
}

/// Waits for the reply to an operation on a key's ledger; makes it again where the ledger is in another
/// window than this node thought.
pub(super) async fn reply_in_window(
    local: &LocalLeases,
    key: &[u8],
    op: Op,
    mut sent: Result<SentCall, StoreError>,
    by: Instant,
) -> Result<LedgerReply, StoreError> {
    for tries_left in (0..TRIES).rev() {
        let reply = local.client.reply(sent?).await?;
        if !reply.rejected {
            return Ok(reply);
        }
        match local.call_in_window(key, op, &reply) {
            Some(again) if tries_left > 0 => sent = local.client.send(Traffic::Foreground, again, by).await,
            _ => break,
        }
    }
    Err(local.client.rejected("no window could be begun: is the server's clock right?"))
}

/// Takes a request for permits to the ledger, and those that follow from its reply.
struct LeaseRequestTask {
    local: Arc<LocalLeases>,
    request: Option<OutgoingRequest>,
}

impl LeaseRequestTask {
    async fn run(mut self) {
        while let Some(request) = &self.request {
            // The callers that wait have timers of their own; a grant that comes after them serves the next.
            let by = Instant::now() + self.local.client.patience().max(LEASE_PATIENCE);
            let result = self.local.client.run(Traffic::Background, request.call.clone(), by).await;
            let request = self.request.take();
            self.request = request.and_then(|request| self.end(&request, result));
        }
    }

    /// Ends a request; returns the one that follows from it.
    fn end(
        &self,
        request: &OutgoingRequest,
        result: Result<LedgerReply, StoreError>,
    ) -> Option<OutgoingRequest> {
        let mut sends = self.local.on_lease_reply(request, result);
        let next = sends.requests.pop(); // there is one at most: of this key
        dispatch(&self.local, sends);
        next
    }
}

impl Drop for LeaseRequestTask {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            self.end(&request, Err(self.local.client.no_runtime()));
        }
    }
}

/// Takes the takes of one key to the ledger, those that wait at the same time together.
struct CentralTakeTask {
    local: Arc<LocalLeases>,
    key: Arc<[u8]>,
    is_done: bool,
}

impl CentralTakeTask {
    async fn run(mut self) {
        let local = &self.local;
        loop {
            let merged = local.next_merged_takes(&self.key);
            if merged.is_empty() {
                break;
            }
            let mut sent = Vec::with_capacity(merged.len());
            for take in merged {
                let call = local.client.send(Traffic::Foreground, take.call.clone(), take.by).await;
                sent.push((take, call));
            }
            for (take, call) in sent {
                let result = reply_in_window(local, &self.key, take.op, call, take.by).await;
                local.on_central_reply(&self.key, take, result);
            }
        }
        self.is_done = true;
    }
}

impl Drop for CentralTakeTask {
    fn drop(&mut self) {
        if !self.is_done {
            self.local.abandon_central(&self.key);
        }
    }
}

/// Gives back idle permits, as long as the table is in use.
struct IdleReaper(Weak<LocalLeases>);

impl IdleReaper {
    async fn run(self) {
        let Some(every) = self.0.upgrade().map(|local| local.timing.tau / LOOKS_PER_TAU) else { return };
        let mut ticks = interval(every.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for turn in 0.. {
            ticks.tick().await;
            for shard in 0..SHARDS {
                match self.0.upgrade() {
                    Some(local) if !local.client.has_ended() => {
                        let evicts = shard % LOOKS_PER_EVICTION == turn % LOOKS_PER_EVICTION;
                        dispatch(&local, local.reap(shard, evicts));
                    }
                    _ => return,
                }
                tokio::task::yield_now().await; // callers are not held up by many keys
            }
        }
    }
}

impl Drop for IdleReaper {
    fn drop(&mut self) {
        if let Some(local) = self.0.upgrade() {
            local.has_reaper.store(false, Relaxed);
        }
    }
}
