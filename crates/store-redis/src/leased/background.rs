//! What goes to the ledger while callers go on: requests for permits, central takes, returns of what is idle. Each runs as a task of the
//! runtime that had the need; when a runtime ends in the middle, those who waited hear of it and nothing stays under way for ever.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tollgate_core::{Cost, Timestamp};
use tollgate_lease::{
    LeaseRequest as Request, LedgerCall as Call, LedgerReply as Reply, Mono, Op, Verdict, merge as merged,
};
use tollgate_redis_link::Traffic;
use tollgate_store::StoreError;
use tollgate_store::remote::duplicate;

use super::script::{self, Job};
use super::table::{Entry, Rule, SHARDS, Waiter};
use super::{AFTER_A_FAILURE, Hit, Leased};
use crate::call::Call as ScriptCall;

/// How often the table is looked through for what is idle, in a tau.
const LOOKS: u32 = 5;
/// Of so many looks, one at each shard finds what was long not used.
const FORGETS: usize = 16;
/// How long an entry that holds nothing is kept after its last use, in taus.
const KEPT: u32 = 20;
/// Most returns that are under way at once when all is given back.
const RETURNS: usize = 256;
/// Most round trips of one key's central takes that overlap.
const MOST_TELLERS: usize = 8;
/// How long the answer to a request for permits is awaited, on links that take longer than a call may. A quarter of tau.
const LEASE_PATIENCE: Duration = Duration::from_millis(125);
/// Tries to begin a window whose end the ledger sees elsewhere.
pub(super) const TRIES: u32 = 3;

/// A request on its way.
pub(super) struct Trip {
    key: Arc<[u8]>,
    /// Whose request, and its number.
    request: (u64, u64),
    call: ScriptCall,
    /// Its entry is no more: nobody waits for the reply.
    orphan: bool,
}

/// What is to be begun once the shard's lock is free again: a task that cannot begin, since its runtime ends, takes the lock to say so.
#[derive(Default)]
pub(super) struct Outbox {
    trips: Vec<Trip>,
    /// Keys that are to be looked after: they may hold something.
    pub(super) awake: Vec<Arc<[u8]>>,
    /// Keys whose takes are to be told to the ledger.
    tellers: Vec<Arc<[u8]>>,
}

impl Leased {
    /// Begins what was put into `out`, as tasks of this thread's runtime. Not to be called with a shard's lock.
    #[inline]
    pub(super) fn dispatch(self: &Arc<Self>, out: Outbox) {
        if !out.trips.is_empty() || !out.tellers.is_empty() {
            self.dispatch_all(out);
        }
    }

    #[cold]
    fn dispatch_all(self: &Arc<Self>, out: Outbox) {
        let runtime = Handle::try_current();
        if let Ok(runtime) = &runtime
            && !self.looked_after.swap(true, Relaxed)
        {
            runtime.spawn(Keeper(Arc::downgrade(self)).run());
        }
        // Without a runtime they are dropped, and say so to those who wait.
        for trip in out.trips {
            let carrier = Carrier { leased: self.clone(), trip: Some(trip) };
            if let Ok(runtime) = &runtime {
                runtime.spawn(carrier.run());
            }
        }
        for key in out.tellers {
            let teller = Teller { leased: self.clone(), key, is_done: false };
            if let Ok(runtime) = &runtime {
                runtime.spawn(teller.run());
            }
        }
    }

    /// A request of `entry` is to be sent.
    pub(super) fn send(&self, entry: &mut Entry, request: Request, now: Mono, out: &mut Outbox) {
        out.trips.push(self.trip(entry, request, now));
        self.stay_awake(entry, out);
    }

    fn stay_awake(&self, entry: &mut Entry, out: &mut Outbox) {
        if !std::mem::replace(&mut entry.is_awake, true) {
            out.awake.push(entry.key.clone());
        }
    }

    /// The same ahead of need: left out for a moment after one has failed, and said again later.
    pub(super) fn send_ahead(&self, entry: &mut Entry, request: Request, now: Mono, out: &mut Outbox) {
        if now < entry.quiet_until {
            entry.node.on_lost(&entry.rule.terms, request.seq);
            self.stay_awake(entry, out);
        } else {
            self.send(entry, request, now, out);
        }
    }

    /// What entries give back that are no more is to be sent.
    pub(super) fn send_returns(&self, returns: Vec<(Entry, Request)>, now: Mono, out: &mut Outbox) {
        for (mut entry, request) in returns {
            out.trips.push(Trip { orphan: true, ..self.trip(&mut entry, request, now) });
        }
    }

    fn trip(&self, entry: &mut Entry, mut request: Request, now: Mono) -> Trip {
        // Those who wait behind the first have been told to; the ledger need not be asked once for each.
        let waits = entry.waiters.iter().fold(0_u64, |sum, waiter| sum.saturating_add(waiter.cost.permits()));
        request.need =
            request.need.max(waits.saturating_sub(entry.node.held()).min(entry.rule.terms.burst()));
        request.want = request.want.max(request.need);
        entry.flying = Some((request.node, request.seq));
        self.counts.requests.add(1);
        Trip {
            key: entry.key.clone(),
            request: (request.node, request.seq),
            call: self.call(entry, Op::Lease(request), now),
            orphan: false,
        }
    }

    /// One operation on the ledger of `entry`.
    pub(super) fn call(&self, entry: &Entry, op: Op, now: Mono) -> ScriptCall {
        let window_ends_us = entry.rule.terms.window_ends_us(&entry.rule.quota, entry.wall_at(now));
        let job = Job::Call(Call { op, window_ends_us });
        script::encode(entry.redis_key.clone(), entry.rule.packed.clone(), job, self.ledger_time(now))
    }

    /// What became of a request; the next one, where somebody still waits.
    fn land(self: &Arc<Self>, trip: &Trip, result: Result<Reply, StoreError>) -> Option<Trip> {
        if trip.orphan {
            return None;
        }
        let now = self.now();
        let mut out = Outbox::default();
        let mut shard = self.table.shard(&trip.key);
        let entry = shard.entries.get_mut(&*trip.key)?;
        if entry.flying != Some(trip.request) {
            return None; // given up meanwhile
        }
        entry.flying = None;
        match result {
            Ok(reply) => {
                if !entry.node.on_grant(&entry.rule.terms, &reply, now) {
                    entry.node.on_lost(&entry.rule.terms, trip.request.1); // no answer to it: nobody is to wait for another
                }
                self.counts.granted.add(reply.granted);
                if reply.rejected {
                    entry.wall = (Timestamp::from_nanos(reply.now_us.saturating_mul(1_000)), now);
                }
            }
            Err(error) => {
                entry.node.on_lost(&entry.rule.terms, trip.request.1);
                entry.quiet_until = now.after(AFTER_A_FAILURE);
                for waiter in entry.waiters.drain(..) {
                    waiter.to.send(Err(self.nothing_taken(&error))).ok();
                }
            }
        }
        self.deal(entry, now, &mut out);
        shard.awake.append(&mut out.awake);
        drop(shard);
        let next = out.trips.pop(); // there is one at most: of this key
        self.dispatch(out);
        next
    }

    /// Deals out what is there, in order of arrival; after a request has ended, or the lease was dropped.
    pub(super) fn deal(&self, entry: &mut Entry, now: Mono, out: &mut Outbox) {
        let mut request = None;
        while let Some(waiter) = entry.waiters.front() {
            if waiter.to.is_closed() {
                entry.waiters.pop_front();
                continue;
            }
            let step = entry.node.retake(&entry.rule.terms, waiter.cost, now);
            request = step.send.or(request);
            if step.verdict == Verdict::Wait {
                break;
            }
            let Some(waiter) = entry.waiters.pop_front() else { break };
            match step.verdict {
                Verdict::Decided(decision) => {
                    let cost = waiter.cost;
                    if let Err(Ok(decision)) = waiter.to.send(Ok(decision))
                        && decision.is_admitted()
                    {
                        // The caller stopped waiting at this very moment: others can have what it took.
                        entry.node.give_back(&entry.rule.terms, cost, now).ok();
                    }
                }
                _ => self.take_centrally(entry, waiter, out),
            }
        }
        if let Some(mut request) = request {
            // It was made when the first was dealt to; what the others got since is wanted too.
            let dealt = request.held.saturating_sub(entry.node.held());
            request.want = request.want.saturating_add(dealt).min(entry.rule.terms.burst());
            self.send(entry, request, now, out);
        }
    }

    /// The take is to go to the ledger, with all others of its key that wait for that.
    pub(super) fn take_centrally(&self, entry: &mut Entry, waiter: Waiter, out: &mut Outbox) {
        entry.central.push_back(waiter);
        if entry.tellers < tellers(entry.node.round_trip()) {
            entry.tellers += 1;
            out.tellers.push(entry.key.clone());
        }
    }

    /// All takes of a key that wait to be sent, those alike merged.
    fn next_orders(&self, key: &[u8]) -> Vec<Order> {
        let now = self.now();
        let mut shard = self.table.shard(key);
        let Some(entry) = shard.entries.get_mut(key) else { return Vec::new() };
        let waiting = std::mem::take(&mut entry.central).into_iter().filter(|waiter| !waiter.to.is_closed());
        let orders: Vec<Order> = merged(waiting, |waiter| (waiter.cost, waiter.hit))
            .into_iter()
            .filter_map(|((cost, hit), takers)| {
                let by = takers.iter().map(|waiter| waiter.by).max()?; // each has a timer of its own, too
                for waiter in &takers {
                    waiter.sent.store(true, Relaxed);
                }
                let (permits, times) = (cost.permits(), takers.len() as u64);
                let op = match hit {
                    Hit::Counts => Op::Take { cost: permits, times },
                    Hit::TakenBack | Hit::Never => Op::Try { cost: permits, times },
                };
                let call = self.call(entry, op, now);
                Some(Order { takers, cost, hit, by, call, op, asked: now, rule: entry.rule.clone() })
            })
            .collect();
        if orders.is_empty() {
            entry.tellers = entry.tellers.saturating_sub(1);
        }
        orders
    }

    /// What the ledger said is remembered, if the key still goes by that rule.
    pub(super) fn heed(&self, key: &[u8], rule: &Arc<Rule>, reply: &Reply, asked: Mono) {
        if let Some(entry) = self.table.shard(key).entries.get_mut(key)
            && Arc::ptr_eq(&entry.rule, rule)
        {
            entry.node.on_central(&rule.terms, reply, asked, self.now());
        }
    }

    fn fill_order(&self, key: &[u8], order: Order, result: Result<Reply, StoreError>) {
        let Order { takers, cost, hit, rule, asked, .. } = order;
        let times = takers.len() as u64;
        match result {
            Ok(reply) => {
                self.counts.central.add(times);
                self.heed(key, &rule, &reply, asked);
                let (terms, cost) = (&rule.terms, cost.permits());
                for (nth, waiter) in (0..).zip(takers) {
                    let decision = match hit {
                        Hit::Counts => terms.decision_of(&reply, cost, nth, times),
                        // What would never fit is told in one way.
                        Hit::Never if cost <= terms.burst() => {
                            terms.decision_of(&reply, cost, nth, reply.admitted)
                        }
                        _ => terms.decision_of_try(&reply, cost, nth),
                    };
                    waiter.to.send(Ok(decision)).ok();
                }
            }
            Err(error) => {
                for waiter in takers {
                    waiter.to.send(Err(duplicate(&error))).ok();
                }
            }
        }
    }

    /// The call again, where the ledger is in another window than the caller thought.
    pub(super) fn in_its_window(&self, key: &[u8], op: Op, reply: &Reply) -> Option<ScriptCall> {
        let now = self.now();
        let mut shard = self.table.shard(key);
        let entry = shard.entries.get_mut(key)?;
        entry.wall = (Timestamp::from_nanos(reply.now_us.saturating_mul(1_000)), now);
        Some(self.call(entry, op, now))
    }

    /// Gives back what nobody has asked for in a while, in one shard; `forgets` what was long not used, too.
    fn look(self: &Arc<Self>, shard: usize, forgets: bool) {
        let now = self.now();
        let mut out = Outbox::default();
        let mut guard = self.table.nth(shard);
        let shard = &mut *guard;
        for key in std::mem::take(&mut shard.awake) {
            let Some(entry) = shard.entries.get_mut(&*key) else { continue };
            if let Some(request) = entry.node.on_time(&entry.rule.terms, now) {
                self.send_ahead(entry, request, now, &mut out);
            }
            entry.is_awake = entry.flying.is_some() || entry.node.wakes_at(&entry.rule.terms).is_some();
            if entry.is_awake {
                shard.awake.push(key);
            }
        }
        if forgets {
            let long = self.timing.tau * KEPT;
            let old = shard.take_out(now, |entry| entry.used.after(long) <= now && !entry.is_awake);
            self.send_returns(old, now, &mut out);
        }
        drop(guard);
        self.dispatch(out);
    }

    /// Gives back all that is held, and waits until the ledger knows, each request for a call's deadline at most.
    pub(crate) async fn give_all_back(self: &Arc<Self>) {
        let now = self.now();
        let mut trips = Vec::new();
        for mut shard in self.table.shards() {
            for entry in shard.entries.values_mut() {
                if let Some(request) = entry.node.give_up(&entry.rule.terms, now) {
                    trips.push(self.trip(entry, request, now));
                }
            }
        }
        let mut under_way = tokio::task::JoinSet::new();
        for trip in trips {
            while under_way.len() >= RETURNS {
                under_way.join_next().await;
            }
            under_way.spawn(Carrier { leased: self.clone(), trip: Some(trip) }.run());
        }
        while under_way.join_next().await.is_some() {}
    }
}

/// Carries a request to the ledger, and those that follow from its reply.
struct Carrier {
    leased: Arc<Leased>,
    trip: Option<Trip>,
}

impl Carrier {
    async fn run(mut self) {
        while let Some(trip) = &self.trip {
            // Those who wait have timers of their own; a grant that comes after them serves the next.
            let by = Instant::now() + self.leased.patience().max(LEASE_PATIENCE);
            let result = self.leased.ask(Traffic::Background, trip.call.clone(), by).await;
            let trip = self.trip.take();
            self.trip = trip.and_then(|trip| self.leased.land(&trip, result));
        }
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if let Some(trip) = self.trip.take() {
            self.leased.land(&trip, Err(self.leased.no_runtime()));
        }
    }
}

/// Takes of one key that were merged.
struct Order {
    takers: Vec<Waiter>,
    cost: Cost,
    hit: Hit,
    by: Instant,
    call: ScriptCall,
    op: Op,
    asked: Mono,
    rule: Arc<Rule>,
}

/// How many round trips of one key's central takes may overlap: where one is short, the more wait, the fewer calls each costs; where it is
/// long, nobody is to wait for one that has left before, and then for its own.
fn tellers(round_trip: Duration) -> usize {
    (2 * round_trip.as_millis() as usize).clamp(1, MOST_TELLERS)
}

/// Takes one key's takes to the ledger, those that wait at once together.
struct Teller {
    leased: Arc<Leased>,
    key: Arc<[u8]>,
    is_done: bool,
}

impl Teller {
    async fn run(mut self) {
        loop {
            let orders = self.leased.next_orders(&self.key);
            if orders.is_empty() {
                break;
            }
            let mut asked = Vec::with_capacity(orders.len());
            for order in orders {
                let answer =
                    self.leased.begin_to_ask(Traffic::Foreground, order.call.clone(), order.by).await;
                asked.push((order, answer));
            }
            for (order, answer) in asked {
                let result = self.leased.hear_in_window(&self.key, answer, order.op, order.by).await;
                self.leased.fill_order(&self.key, order, result);
            }
        }
        self.is_done = true;
    }
}

/// The runtime may end before all are served: they hear of it, their ends being dropped.
impl Drop for Teller {
    fn drop(&mut self) {
        if !self.is_done
            && let Some(entry) = self.leased.table.shard(&self.key).entries.get_mut(&*self.key)
        {
            entry.tellers = entry.tellers.saturating_sub(1);
            entry.central.clear();
        }
    }
}

/// Looks after what is idle, as long as anybody has the table.
struct Keeper(Weak<Leased>);

impl Keeper {
    async fn run(self) {
        let Some(every) = self.0.upgrade().map(|leased| leased.timing.tau / LOOKS) else { return };
        let mut ticks = interval(every.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for turn in 0.. {
            ticks.tick().await;
            for shard in 0..SHARDS {
                match self.0.upgrade() {
                    Some(leased) if !leased.client.shared().has_ended() => {
                        leased.look(shard, shard % FORGETS == turn % FORGETS)
                    }
                    _ => return,
                }
                tokio::task::yield_now().await; // callers are not held up by many keys
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(leased) = self.0.upgrade() {
            leased.looked_after.store(false, Relaxed);
        }
    }
}
