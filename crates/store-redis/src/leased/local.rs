//! What a node decides about its leased keys by itself, each under the short lock of one shard: no I/O. What
//! must be sent is put into [`PendingSends`]. Not here: what a lease may pay for ([`tollgate_lease`]); the
//! tasks that send.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tollgate_core::{Cost, Decision, Timestamp};
use tollgate_lease::{LeaseRequest, LedgerCall, LedgerReply, Mono, Op, Terms, Timing, Verdict, merge};
use tollgate_store::remote::{Stat, duplicate};
use tollgate_store::{Counter, StoreError};

use super::clock::{Moment, NodeClock};
use super::ledger_client::LedgerClient;
use super::ledger_script::{self, LedgerJob};
use super::table::{DeniedHit, LeasedKey, LeasedTake, RequestId, Shard, SharedTerms, Table, WaitingTake};
use crate::call::ScriptCall;
use crate::stats::LeaseStats;

/// How long no request ahead of need is sent after one has failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(20);
/// How long a key that holds nothing is kept after its last use, in taus.
const KEPT_TAUS: u32 = 20;
/// Most round trips of one key's central takes that overlap.
const MOST_CENTRAL_TASKS: usize = 8;

/// The leased keys of one node. All threads share them.
#[derive(Debug)]
pub(super) struct LocalLeases {
    pub(super) client: LedgerClient,
    pub(super) timing: Timing,
    pub(super) clock: NodeClock,
    /// A task that gives back what is idle is running.
    pub(super) has_reaper: AtomicBool,
    table: Table,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    requests: Stat,
    granted: Stat,
    central: Stat,
}

/// A take that has begun.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It was decided here, or could not even be sent.
    Done(Result<Decision, StoreError>),
    /// It waits for the ledger.
    Waits(PendingTake),
}

/// A take that waits for the ledger. Dropped, it may still be charged.
#[derive(Debug)]
pub(crate) struct PendingTake {
    pub(super) answer: oneshot::Receiver<Result<Decision, StoreError>>,
    pub(super) sent: Arc<AtomicBool>,
    pub(super) by: Instant,
}

/// What is to be sent once the shard's lock is free again: a task that cannot begin, since its runtime ends,
/// takes the lock to report that.
#[derive(Debug, Default)]
pub(super) struct PendingSends {
    pub(super) requests: Vec<OutgoingRequest>,
    /// Keys whose takes go to the ledger.
    pub(super) central: Vec<Arc<[u8]>>,
    /// Keys that may hold something from now on.
    watched: Vec<Arc<[u8]>>,
}

/// A node's request for permits, on its way.
#[derive(Debug)]
pub(super) struct OutgoingRequest {
    key: Arc<[u8]>,
    id: RequestId,
    pub(super) call: ScriptCall,
    /// Its key has left the table: no caller waits for the reply.
    is_orphan: bool,
}

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
    pub(super) fn new(client: LedgerClient, clock: NodeClock, most_keys: usize) -> Self {
        Self {
            client,
            timing: Timing::default(),
            clock,
            has_reaper: AtomicBool::new(false),
            table: Table::new(most_keys),
            counts: Counts::default(),
        }
    }

    /// Begins a take. `None`: the quota cannot be leased.
    #[inline]
    pub(super) fn begin(
        &self,
        counter: Counter<'_>,
        take: LeasedTake,
        now: Timestamp,
        sends: &mut PendingSends,
    ) -> Option<Begun> {
        let now = self.clock.moment(now);
        let Counter { key, quota, .. } = counter;
        let mut guard = self.table.shard(key.0);
        let shard = &mut *guard;
        let begun = match shard.keys.get_mut(key.0).filter(|found| found.shared.quota.is_equivalent_to(quota))
        {
            Some(found) => {
                found.note_use(now);
                self.take(found, take, now.mono, sends)
            }
            None => match self.find(shard, counter, now, sends)? {
                Ok(found) => self.take(found, take, now.mono, sends),
                Err(error) => Begun::Done(Err(error)),
            },
        };
        shard.local_decisions += u64::from(matches!(begun, Begun::Done(Ok(_))));
        shard.watched.append(&mut sends.watched);
        Some(begun)
    }

    /// Does something with a key. `None`: the quota cannot be leased.
    pub(super) fn with<T>(
        &self,
        counter: Counter<'_>,
        now: Moment,
        sends: &mut PendingSends,
        what: impl FnOnce(&mut LeasedKey, &mut PendingSends) -> T,
    ) -> Option<Result<T, StoreError>> {
        let mut shard = self.table.shard(counter.key.0);
        let done =
            self.find(&mut shard, counter, now, sends).map(|found| found.map(|found| what(found, sends)));
        shard.watched.append(&mut sends.watched);
        done
    }

    /// Forgets the lease of a key that was reset.
    pub(super) fn forget(&self, key: &mut LeasedKey, now: Mono, sends: &mut PendingSends) {
        key.node.forget();
        key.in_flight = None;
        self.deal(key, now, sends);
    }

    /// One operation on the ledger of a key.
    pub(super) fn call(&self, key: &LeasedKey, op: Op, now: Mono) -> ScriptCall {
        let SharedTerms { quota, terms, .. } = &*key.shared;
        let window_ends_us = terms.window_ends_us(quota, key.clock.time_at(now));
        self.script_call(key, LedgerJob::Call(LedgerCall { op, window_ends_us }), now)
    }

    /// The call that forgets a key.
    pub(super) fn reset_call(&self, key: &LeasedKey, now: Mono) -> ScriptCall {
        self.script_call(key, LedgerJob::Reset, now)
    }

    fn script_call(&self, key: &LeasedKey, job: LedgerJob, now: Mono) -> ScriptCall {
        let now_us = self.clock.ledger_time_us(now);
        ledger_script::encode(key.redis_key.clone(), key.shared.packed.clone(), job, now_us)
    }

    /// The same operation again, where the ledger is in another window than this node thought.
    pub(super) fn call_in_window(&self, key: &[u8], op: Op, reply: &LedgerReply) -> Option<ScriptCall> {
        let now = self.clock.now();
        let mut shard = self.table.shard(key);
        let found = shard.keys.get_mut(key)?;
        found.clock = ledger_moment(reply, now);
        Some(self.call(found, op, now))
    }

    /// Remembers what the ledger replied to an operation, if the key still has these terms.
    pub(super) fn note_reply(&self, key: &[u8], shared: &Arc<SharedTerms>, reply: &LedgerReply, sent: Mono) {
        if let Some(found) = self.table.shard(key).keys.get_mut(key)
            && Arc::ptr_eq(&found.shared, shared)
        {
            found.node.on_central(&shared.terms, reply, sent, self.clock.now());
        }
    }

    /// Handles the result of a lease request. What is to be sent then includes the next request, where
    /// callers still wait.
    pub(super) fn on_lease_reply(
        &self,
        request: &OutgoingRequest,
        result: Result<LedgerReply, StoreError>,
    ) -> PendingSends {
        let mut sends = PendingSends::default();
        if request.is_orphan {
            return sends;
        }
        let now = self.clock.now();
        let mut shard = self.table.shard(&request.key);
        let Some(key) = shard.keys.get_mut(&*request.key) else { return sends };
        if key.in_flight != Some(request.id) {
            return sends; // given up meanwhile
        }
        key.in_flight = None;
        match result {
            Ok(reply) => self.on_granted(key, request.id, &reply, now),
            Err(error) => self.on_lease_failed(key, request.id, &error, now),
        }
        self.deal(key, now, &mut sends);
        shard.watched.append(&mut sends.watched);
        sends
    }

    /// All takes of a key that wait to be sent to the ledger, equal ones merged. Without any, its task is to
    /// end.
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
        let (terms, cost) = (&shared.terms, take.cost.permits());
        for (nth, waiter) in (0..).zip(waiters) {
            let decision = match take.hit {
                DeniedHit::Counts => terms.decision_of(&reply, cost, nth, times),
                // What would never fit has one answer, whether hits count or not.
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

    /// Gives back what is idle in one shard; `evicts`: also removes the keys that were long not used.
    pub(super) fn reap(&self, shard: usize, evicts: bool) -> PendingSends {
        let now = self.clock.now();
        let mut sends = PendingSends::default();
        let mut guard = self.table.nth(shard);
        let shard = &mut *guard;
        for name in std::mem::take(&mut shard.watched) {
            let Some(key) = shard.keys.get_mut(&*name) else { continue };
            if let Some(request) = key.node.on_time(&key.shared.terms, now) {
                self.send_ahead(key, request, now, &mut sends);
            }
            key.is_watched = key.in_flight.is_some() || key.node.wakes_at(&key.shared.terms).is_some();
            if key.is_watched {
                shard.watched.push(name);
            }
        }
        if evicts {
            let long = self.timing.tau * KEPT_TAUS;
            let old = shard.remove_idle(now, |key| key.used.after(long) <= now && !key.is_watched);
            self.send_returns(old, now, &mut sends);
        }
        sends
    }

    /// The requests that give back all that is held.
    pub(super) fn give_all_back(&self) -> Vec<OutgoingRequest> {
        let now = self.clock.now();
        let mut requests = Vec::new();
        for mut shard in self.table.shards() {
            for key in shard.keys.values_mut() {
                if let Some(request) = key.node.give_up(&key.shared.terms, now) {
                    requests.push(self.lease_request(key, request, now));
                }
            }
        }
        requests
    }

    /// What was counted here.
    pub(super) fn stats(&self) -> LeaseStats {
        let now = self.clock.now();
        let mut stats = LeaseStats {
            lease_requests: self.counts.requests.get(),
            permits_leased: self.counts.granted.get(),
            central_takes: self.counts.central.get(),
            ..LeaseStats::default()
        };
        for shard in self.table.shards() {
            stats.local_decisions += shard.local_decisions;
            stats.permits_lost += shard.lapsed;
            stats.permits_returned += shard.given_back;
            stats.leased_keys_evicted += shard.evicted;
            stats.leased_keys += shard.keys.len() as u64;
            for key in shard.keys.values() {
                let held = key.node.live(now);
                stats.permits_held += held;
                stats.leases_held += u64::from(held > 0);
                stats.permits_lost += key.node.lapsed();
                stats.permits_returned += key.node.given_back();
            }
        }
        stats
    }

    /// The key of the table: changed to `quota` where it had another, or added. `None`: the quota cannot be
    /// leased.
    fn find<'a>(
        &self,
        shard: &'a mut Shard,
        Counter { key, quota, .. }: Counter<'_>,
        now: Moment,
        sends: &mut PendingSends,
    ) -> Option<Result<&'a mut LeasedKey, StoreError>> {
        let shared = shard.shared_terms(quota, self.timing)?;
        match shard.keys.get_mut(key.0) {
            Some(found) if found.shared.quota.is_equivalent_to(quota) => {}
            Some(found) => {
                if let Some(request) = found.change(shared, now.mono) {
                    self.send(found, request, now.mono, sends);
                }
                self.deal(found, now.mono, sends);
            }
            None => {
                if !self.table.has_room(shard) {
                    let returns = shard.make_room(now.mono);
                    self.send_returns(returns, now.mono, sends);
                }
                if !self.table.has_room(shard) {
                    let why = "more leased keys are in use than there may be";
                    return Some(Err(self.client.queue_full(why)));
                }
                self.table.insert(shard, key.0, self.client.redis_key(key.0), shared, now);
            }
        }
        let found = shard.keys.get_mut(key.0)?;
        found.note_use(now);
        Some(Ok(found))
    }

    fn take(&self, key: &mut LeasedKey, take: LeasedTake, now: Mono, sends: &mut PendingSends) -> Begun {
        let terms = &key.shared.terms;
        let is_bucket = terms.per_us() > 0; // a bucket counts no denied hits
        let hit = if is_bucket { DeniedHit::Counts } else { take.hit };
        let take = LeasedTake { hit, ..take };
        let cost = take.cost;
        let can_wait = cost.permits() > 0 && cost.permits() <= terms.burst();
        if !key.waiting.is_empty() && can_wait {
            key.node.queue(terms, cost, now);
            return self.wait(&mut key.waiting, take);
        }
        if hit != DeniedHit::Counts
            && let Some(denial) = key.node.denies(terms, cost, now)
        {
            return Begun::Done(Ok(denial));
        }
        let step = key.node.take(terms, cost, now);
        if let Some(request) = step.send {
            if step.verdict == Verdict::Wait {
                self.send(key, request, now, sends);
            } else {
                self.send_ahead(key, request, now, sends);
            }
        }
        match step.verdict {
            Verdict::Decided(decision) => Begun::Done(Ok(decision)),
            Verdict::Wait => self.wait(&mut key.waiting, take),
            Verdict::Central => {
                let begun = self.wait(&mut key.central, take);
                if matches!(begun, Begun::Waits(_)) {
                    start_central(key, sends);
                }
                begun
            }
        }
    }

    /// Puts a take into a queue of its key.
    fn wait(&self, queue: &mut VecDeque<WaitingTake>, take: LeasedTake) -> Begun {
        let waiting = queue.len();
        if waiting >= self.client.max_queued() {
            let why = format!("{waiting} takes of one key are waiting already");
            return Begun::Done(Err(self.client.queue_full(&why)));
        }
        let (to, answer) = oneshot::channel();
        let sent = Arc::new(AtomicBool::new(false));
        let by = Instant::now() + self.client.patience();
        queue.push_back(WaitingTake { take, to, sent: sent.clone(), by });
        Begun::Waits(PendingTake { answer, sent, by })
    }

    /// Sends a request of this key.
    fn send(&self, key: &mut LeasedKey, request: LeaseRequest, now: Mono, sends: &mut PendingSends) {
        sends.requests.push(self.lease_request(key, request, now));
        watch(key, sends);
    }

    /// Sends a request that no caller waits for. For a moment after a request has failed it is left out, and
    /// made again later.
    fn send_ahead(&self, key: &mut LeasedKey, request: LeaseRequest, now: Mono, sends: &mut PendingSends) {
        if now < key.pause_until {
            key.node.on_lost(&key.shared.terms, request.seq);
            watch(key, sends);
        } else {
            self.send(key, request, now, sends);
        }
    }

    /// Sends what keys give back that have left the table.
    fn send_returns(&self, returns: Vec<(LeasedKey, LeaseRequest)>, now: Mono, sends: &mut PendingSends) {
        for (mut key, request) in returns {
            sends
                .requests
                .push(OutgoingRequest { is_orphan: true, ..self.lease_request(&mut key, request, now) });
        }
    }

    fn lease_request(&self, key: &mut LeasedKey, mut request: LeaseRequest, now: Mono) -> OutgoingRequest {
        // The node knows of the first that waits only; the ledger need not be asked once for each.
        let missing = key.permits_waited_for().saturating_sub(key.node.held());
        request.need = request.need.max(missing.min(key.shared.terms.burst()));
        request.want = request.want.max(request.need);
        let id = RequestId::of(&request);
        key.in_flight = Some(id);
        self.counts.requests.add(1);
        OutgoingRequest {
            key: key.key.clone(),
            id,
            call: self.call(key, Op::Lease(request), now),
            is_orphan: false,
        }
    }

    fn on_granted(&self, key: &mut LeasedKey, id: RequestId, reply: &LedgerReply, now: Mono) {
        let terms = &key.shared.terms;
        if !key.node.on_grant(terms, reply, now) {
            key.node.on_lost(terms, id.seq); // not the reply to this request, and no other will come
        }
        self.counts.granted.add(reply.granted);
        if reply.rejected {
            key.clock = ledger_moment(reply, now);
        }
    }

    fn on_lease_failed(&self, key: &mut LeasedKey, id: RequestId, error: &StoreError, now: Mono) {
        key.node.on_lost(&key.shared.terms, id.seq);
        key.pause_until = now.after(PAUSE_AFTER_FAILURE);
        for waiter in key.waiting.drain(..) {
            waiter.to.send(Err(self.client.nothing_taken(error))).ok();
        }
    }

    /// Deals out what is there, in order of arrival; after a request has ended, or the lease was dropped.
    fn deal(&self, key: &mut LeasedKey, now: Mono, sends: &mut PendingSends) {
        let mut request = None;
        while let Some(waiter) = key.waiting.front() {
            if waiter.to.is_closed() {
                key.waiting.pop_front();
                continue;
            }
            let step = key.node.retake(&key.shared.terms, waiter.take.cost, now);
            request = step.send.or(request);
            if step.verdict == Verdict::Wait {
                break;
            }
            let Some(waiter) = key.waiting.pop_front() else { break };
            match step.verdict {
                Verdict::Decided(decision) => answer(key, waiter, decision, now),
                _ => {
                    key.central.push_back(waiter);
                    start_central(key, sends);
                }
            }
        }
        if let Some(mut request) = request {
            // The request was made when the first was dealt to; what the others got since is wanted too.
            let dealt = request.held.saturating_sub(key.node.held());
            request.want = request.want.saturating_add(dealt).min(key.shared.terms.burst());
            self.send(key, request, now, sends);
        }
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
        let (cost, times) = (take.cost.permits(), waiters.len() as u64);
        let op = match take.hit {
            DeniedHit::Counts => Op::Take { cost, times },
            DeniedHit::TakenBack | DeniedHit::None => Op::Try { cost, times },
        };
        let call = self.call(key, op, now);
        Some(MergedTake { call, op, by, take, waiters, sent: now, shared: key.shared.clone() })
    }
}

/// Answers a take that waited for a grant.
fn answer(key: &mut LeasedKey, waiter: WaitingTake, decision: Decision, now: Mono) {
    let cost: Cost = waiter.take.cost;
    if let Err(Ok(decision)) = waiter.to.send(Ok(decision))
        && decision.is_admitted()
    {
        // The caller has just stopped waiting: others can have what it took.
        key.node.give_back(&key.shared.terms, cost, now).ok();
    }
}

/// Puts the key on the list of those that may hold something.
fn watch(key: &mut LeasedKey, sends: &mut PendingSends) {
    if !std::mem::replace(&mut key.is_watched, true) {
        sends.watched.push(key.key.clone());
    }
}

/// Has the central takes of the key sent, by one more task where another may overlap.
fn start_central(key: &mut LeasedKey, sends: &mut PendingSends) {
    if key.central_tasks < most_central_tasks(key.node.round_trip()) {
        key.central_tasks += 1;
        sends.central.push(key.key.clone());
    }
}

/// How many round trips of one key's central takes may overlap. Where a round trip is short, one at a time
/// merges the most takes. Where it is long, a take is not to wait for an earlier call and then for its own.
fn most_central_tasks(round_trip: Duration) -> usize {
    (2 * round_trip.as_millis() as usize).clamp(1, MOST_CENTRAL_TASKS)
}

/// The time of day as the ledger had it.
fn ledger_moment(reply: &LedgerReply, now: Mono) -> Moment {
    Moment { time: Timestamp::from_nanos(reply.now_us.saturating_mul(1_000)), mono: now }
}

/// What a peek answers: what the ledger has, and what is held here.
pub(super) fn peek(terms: &Terms, reply: &LedgerReply, held: u64) -> Decision {
    let taken = reply.taken.saturating_sub(held.saturating_mul(terms.interval()));
    terms.decision(&LedgerReply { taken, ..*reply }, 0)
}
