//! Leases, driven: a node's leased keys in a table, and what goes to the ledger for them.
//!
//! A take that its lease can pay for is decided under one short lock: no round trip, no allocation. Permits are asked for ahead of
//! exhaustion, in the background. Callers who must wait for them do so in order of arrival, within the deadline of a call, and are dealt
//! the grant. Takes of keys that are not worth a lease go to the ledger, merged. What nobody asks for any more is given back.
//!
//! Everything that touches a leased key goes through its ledger or its lease, under a Redis key of its own, so that a rule that changes
//! between `exact` and `leased` never misreads a state; it starts afresh.
//!
//! Not here: what a lease may pay for ([`lease`](tollgate_lease)); which limits are leased (`store`).

mod background;
mod script;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tollgate_core::{Cost, Decision, Quota, Sharing, Timestamp};
use tollgate_lease::{LedgerReply as Reply, Mono, Op, Terms, Timing, Verdict};
use tollgate_redis_link::{Traffic, Value};
use tollgate_store::remote::{Counter, duplicate};
use tollgate_store::{Inspection, Key, StoreError};

use self::background::Outbox;
use self::script::{Job, SUFFIX};
use self::table::{Entry, Rule, Shard, Table, Waiter};
use crate::call::Call as ScriptCall;
use crate::client::{self, RedisClient};
use crate::config::StoreTime;
use crate::counting::CountItem;
use crate::keys::redis_key;
use crate::stats::LeaseStats;

/// How long no request ahead of need is sent after one has failed.
const AFTER_A_FAILURE: Duration = Duration::from_millis(20);

/// The leased keys of one node. All threads share it.
#[derive(Debug)]
pub(crate) struct Leased {
    client: Arc<RedisClient>,
    table: Table,
    timing: Timing,
    began: Instant,
    /// The latest time that a caller named, where that is what counts.
    named: AtomicU64,
    counts: Counts,
    /// A task gives back what is idle.
    looked_after: AtomicBool,
}

#[derive(Debug, Default)]
struct Counts {
    requests: Counter,
    granted: Counter,
    central: Counter,
}

/// What becomes of the hit, when a window denies a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Hit {
    /// It is counted.
    Counts,
    /// It is told as if it were, and is not: of limits that are charged together, or not at all.
    TakenBack,
    /// There is none: of what is held.
    Never,
}

/// A take that has begun.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It was decided here, or could not even be asked.
    Done(Result<Decision, StoreError>),
    /// It is under way.
    Waits(Pending),
}

/// A take that is under way. Dropped, it may still be charged.
#[derive(Debug)]
pub(crate) struct Pending {
    answer: oneshot::Receiver<Result<Decision, StoreError>>,
    sent: Arc<AtomicBool>,
    by: Instant,
}

/// A script call on its way.
struct Asked {
    key: Vec<u8>,
    answer: client::Asked<Value>,
}

impl Leased {
    pub(crate) fn new(client: Arc<RedisClient>) -> Self {
        Self {
            table: Table::new(client.config().max_leased_keys),
            client,
            timing: Timing::default(),
            began: Instant::now(),
            named: AtomicU64::new(0),
            counts: Counts::default(),
            looked_after: AtomicBool::new(false),
        }
    }

    /// Begins a take. `None`: the quota cannot be leased.
    #[inline]
    pub(crate) fn begin(
        self: &Arc<Self>,
        key: Key<'_>,
        quota: &Quota,
        (cost, hit): (Cost, Hit),
        now: Timestamp,
    ) -> Option<Begun> {
        let mono = self.at(now);
        let mut out = Outbox::default();
        let mut guard = self.table.shard(key.0);
        let shard = &mut *guard;
        let begun =
            match shard.entries.get_mut(key.0).filter(|entry| entry.rule.quota.is_equivalent_to(quota)) {
                Some(entry) => {
                    entry.used = mono;
                    entry.wall = (now, mono);
                    self.take(entry, (cost, hit), mono, &mut out)
                }
                None => match self.entry(shard, key, quota, (now, mono), &mut out)? {
                    Ok(entry) => self.take(entry, (cost, hit), mono, &mut out),
                    Err(error) => Begun::Done(Err(error)),
                },
            };
        shard.local += u64::from(matches!(begun, Begun::Done(Ok(_))));
        shard.awake.append(&mut out.awake);
        drop(guard);
        self.dispatch(out);
        Some(begun)
    }

    fn take(&self, entry: &mut Entry, (cost, hit): (Cost, Hit), now: Mono, out: &mut Outbox) -> Begun {
        let hit = if entry.rule.terms.per_us() > 0 { Hit::Counts } else { hit }; // a bucket counts none
        let can_wait = cost.permits() > 0 && cost.permits() <= entry.rule.terms.burst();
        if !entry.waiters.is_empty() && can_wait {
            entry.node.queue(&entry.rule.terms, cost, now);
            return self.wait(entry, cost, hit);
        }
        if hit != Hit::Counts
            && let Some(denial) = entry.node.denies(&entry.rule.terms, cost, now)
        {
            return Begun::Done(Ok(denial));
        }
        let step = entry.node.take(&entry.rule.terms, cost, now);
        if let Some(request) = step.send {
            if step.verdict == Verdict::Wait {
                self.send(entry, request, now, out);
            } else {
                self.send_ahead(entry, request, now, out);
            }
        }
        match step.verdict {
            Verdict::Decided(decision) => Begun::Done(Ok(decision)),
            Verdict::Wait => self.wait(entry, cost, hit),
            Verdict::Central => {
                if let Some(full) = self.is_full(entry.central.len()) {
                    return full;
                }
                let (waiter, pending) = self.waiter(cost, hit);
                self.take_centrally(entry, waiter, out);
                Begun::Waits(pending)
            }
        }
    }

    fn wait(&self, entry: &mut Entry, cost: Cost, hit: Hit) -> Begun {
        if let Some(full) = self.is_full(entry.waiters.len()) {
            return full;
        }
        let (waiter, pending) = self.waiter(cost, hit);
        entry.waiters.push_back(waiter);
        Begun::Waits(pending)
    }

    fn waiter(&self, cost: Cost, hit: Hit) -> (Waiter, Pending) {
        let (to, answer) = oneshot::channel();
        let sent = Arc::new(AtomicBool::new(false));
        let by = Instant::now() + self.patience();
        (Waiter { cost, hit, to, sent: sent.clone(), by }, Pending { answer, sent, by })
    }

    fn is_full(&self, waiting: usize) -> Option<Begun> {
        if waiting < self.client.config().link.max_queued {
            return None;
        }
        self.client.counters().queue_full.add(1);
        Some(Begun::Done(Err(self.unreachable(format!("{waiting} takes of one key are waiting already")))))
    }

    /// Waits for what was begun.
    pub(crate) async fn hear(&self, pending: Pending) -> Result<Decision, StoreError> {
        let Pending { mut answer, sent, by } = pending;
        let heard = match timeout_at(by, &mut answer).await {
            Ok(heard) => heard.ok(),
            Err(_) => {
                answer.close(); // from now on nothing is dealt to it
                answer.try_recv().ok()
            }
        };
        heard.unwrap_or_else(|| {
            if sent.load(Relaxed) {
                Err(self.client.silent())
            } else {
                let deadline = self.client.config().link.deadline;
                Err(self.unreachable(format!("no permits were leased within {deadline:?}")))
            }
        })
    }

    /// Gives permits back: to the lease that they were spent from, or to the ledger. `None`: the quota cannot be leased.
    pub(crate) async fn give_back(
        self: &Arc<Self>,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Option<Result<Decision, StoreError>> {
        let mono = self.at(now);
        let here = self
            .with(key, quota, (now, mono), |entry, _| entry.node.give_back(&entry.rule.terms, cost, mono))?;
        Some(match here {
            Ok(Ok(decision)) => Ok(decision),
            Ok(Err(rest)) => self.peek_after(key, quota, Op::GiveBack { cost: rest.permits() }, now).await,
            Err(error) => Err(error),
        })
    }

    /// Takes permits whether they are there or not. `None`: the quota cannot be leased.
    pub(crate) async fn charge(
        self: &Arc<Self>,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Option<Result<Decision, StoreError>> {
        Terms::of(quota)?;
        Some(self.peek_after(key, quota, Op::Charge { cost: cost.permits() }, now).await)
    }

    /// What is kept of the key, by its ledger. `None`: the quota cannot be leased.
    pub(crate) async fn inspect(
        self: &Arc<Self>,
        key: Key<'_>,
        quota: &Quota,
        now: Timestamp,
    ) -> Option<Result<Inspection, StoreError>> {
        Terms::of(quota)?;
        let asked = self.operate(key, quota, Op::Peek, now).await;
        Some(asked.map(|(rule, reply, held)| Inspection {
            decision: peek(&rule.terms, &reply, held),
            is_tracked: reply.taken > 0,
        }))
    }

    /// Forgets the key. Leases of other nodes end when these ask next, within tau. `None`: the quota cannot be leased.
    pub(crate) async fn reset(
        self: &Arc<Self>,
        key: Key<'_>,
        quota: &Quota,
        now: Timestamp,
    ) -> Option<Result<bool, StoreError>> {
        let mono = self.at(now);
        let call = self.with(key, quota, (now, mono), |entry, _| {
            let time = self.ledger_time(mono);
            script::encode(entry.redis_key.clone(), entry.rule.packed.clone(), Job::Reset, time)
        })?;
        let asked = match call {
            Ok(call) => self.ask(Traffic::Foreground, call, Instant::now() + self.patience()).await,
            Err(error) => return Some(Err(error)),
        };
        let forgotten = asked.map(|reply| reply.taken > 0);
        if forgotten.is_ok() {
            self.with(key, quota, (now, mono), |entry, out| {
                entry.node.forget();
                entry.flying = None;
                self.deal(entry, mono, out);
            });
        }
        Some(forgotten)
    }

    /// What was counted since the start.
    pub(crate) fn stats(&self) -> LeaseStats {
        let now = self.now();
        let mut stats = LeaseStats {
            lease_requests: self.counts.requests.get(),
            permits_leased: self.counts.granted.get(),
            central_takes: self.counts.central.get(),
            ..LeaseStats::default()
        };
        for shard in self.table.shards() {
            stats.local_decisions += shard.local;
            stats.permits_lost += shard.lost;
            stats.permits_returned += shard.returned;
            stats.leased_keys_evicted += shard.evicted;
            stats.leased_keys += shard.entries.len() as u64;
            for entry in shard.entries.values() {
                let held = entry.node.live(now);
                stats.permits_held += held;
                stats.leases_held += u64::from(held > 0);
                stats.permits_lost += entry.node.lapsed();
                stats.permits_returned += entry.node.given_back();
            }
        }
        stats
    }

    /// Does something with the entry of a key. `None`: the quota cannot be leased.
    fn with<T>(
        self: &Arc<Self>,
        key: Key<'_>,
        quota: &Quota,
        (now, mono): (Timestamp, Mono),
        what: impl FnOnce(&mut Entry, &mut Outbox) -> T,
    ) -> Option<Result<T, StoreError>> {
        let mut out = Outbox::default();
        let mut shard = self.table.shard(key.0);
        let done = self
            .entry(&mut shard, key, quota, (now, mono), &mut out)
            .map(|entry| entry.map(|entry| what(entry, &mut out)));
        shard.awake.append(&mut out.awake);
        drop(shard);
        self.dispatch(out);
        done
    }

    /// The entry of a key: the one there is, changed to `quota` where that is another, or a new one.
    fn entry<'a>(
        &self,
        shard: &'a mut Shard,
        key: Key<'_>,
        quota: &Quota,
        (now, mono): (Timestamp, Mono),
        out: &mut Outbox,
    ) -> Option<Result<&'a mut Entry, StoreError>> {
        let rule = shard.rule(quota, self.timing)?;
        match shard.entries.get_mut(key.0) {
            Some(entry) if entry.rule.quota.is_equivalent_to(quota) => {}
            Some(entry) => {
                if let Some(request) = entry.change(rule, mono) {
                    self.send(entry, request, mono, out);
                }
                self.deal(entry, mono, out);
            }
            None => {
                if !self.table.has_room(shard) {
                    let returns = shard.make_room(mono);
                    self.send_returns(returns, mono, out);
                }
                if !self.table.has_room(shard) {
                    self.client.counters().queue_full.add(1);
                    let why = "more leased keys are in use than there may be".to_owned();
                    return Some(Err(self.unreachable(why)));
                }
                let config = self.client.config();
                let mut name = redis_key(&config.prefix, config.hash_tag, key.0);
                name.extend_from_slice(SUFFIX);
                self.table.insert(shard, key.0, name, rule);
            }
        }
        let entry = shard.entries.get_mut(key.0)?;
        entry.used = mono;
        entry.wall = (now, mono);
        Some(Ok(entry))
    }

    async fn peek_after(
        self: &Arc<Self>,
        key: Key<'_>,
        quota: &Quota,
        op: Op,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        let (rule, reply, held) = self.operate(key, quota, op, now).await?;
        let seen = peek(&rule.terms, &reply, held);
        let is_nothing = matches!(op, Op::GiveBack { cost: 0 }); // a bucket is looked at then
        if is_nothing && rule.terms.per_us() > 0 {
            return Ok(seen);
        }
        let reset_ns = u64::try_from(seen.reset_after().as_nanos()).unwrap_or(u64::MAX);
        Ok(Decision::admit(seen.limit(), seen.remaining(), reset_ns)) // done, whatever is owed now
    }

    /// An operation on the ledger; also says what is held here.
    async fn operate(
        self: &Arc<Self>,
        key: Key<'_>,
        quota: &Quota,
        op: Op,
        now: Timestamp,
    ) -> Result<(Arc<Rule>, Reply, u64), StoreError> {
        let mono = self.at(now);
        let planned = self.with(key, quota, (now, mono), |entry, _| {
            (self.call(entry, op, mono), entry.rule.clone(), entry.node.live(mono))
        });
        let Some(planned) = planned else {
            let reason = "the quota cannot be leased".to_owned();
            return Err(self.client.rejected(&reason));
        };
        let (call, rule, held) = planned?;
        let by = Instant::now() + self.patience();
        let reply = self.ask_in_window(key.0, call, op, by).await?;
        self.heed(key.0, &rule, &reply, mono);
        Ok((rule, reply, held))
    }

    /// Runs a call; again where the ledger's window is another than the caller's.
    async fn ask_in_window(
        &self,
        key: &[u8],
        call: ScriptCall,
        op: Op,
        by: Instant,
    ) -> Result<Reply, StoreError> {
        let asked = self.begin_to_ask(Traffic::Foreground, call, by).await;
        self.hear_in_window(key, asked, op, by).await
    }

    /// Hears what a call came to; runs it again where the ledger's window is another than the caller's.
    async fn hear_in_window(
        &self,
        key: &[u8],
        mut asked: Result<Asked, StoreError>,
        op: Op,
        by: Instant,
    ) -> Result<Reply, StoreError> {
        for tries_left in (0..background::TRIES).rev() {
            let reply = self.hear_call(asked?).await?;
            if !reply.rejected {
                return Ok(reply);
            }
            match self.in_its_window(key, op, &reply) {
                Some(again) if tries_left > 0 => {
                    asked = self.begin_to_ask(Traffic::Foreground, again, by).await;
                }
                _ => break,
            }
        }
        Err(self.client.rejected("no window could be begun: is the server's clock right?"))
    }

    /// Runs one script call.
    async fn ask(&self, traffic: Traffic, call: ScriptCall, by: Instant) -> Result<Reply, StoreError> {
        self.hear_call(self.begin_to_ask(traffic, call, by).await?).await
    }

    /// Puts one script call on its way.
    async fn begin_to_ask(
        &self,
        traffic: Traffic,
        call: ScriptCall,
        by: Instant,
    ) -> Result<Asked, StoreError> {
        let key = call.keys.first().cloned().unwrap_or_default();
        let slot = self.client.slot_of(&key);
        let answer = self.client.send(traffic, slot, by, |to| CountItem::Call(call, to)).await?;
        Ok(Asked { key, answer })
    }

    async fn hear_call(&self, asked: Asked) -> Result<Reply, StoreError> {
        let Asked { key, answer } = asked;
        let value = self.client.receive(answer).await?;
        script::decode(&value)
            .map_err(|odd| self.client.rejected(&format!("key {} {odd}", String::from_utf8_lossy(&key))))
    }

    fn patience(&self) -> Duration {
        self.client.patience()
    }

    /// The node's clock. What callers name as the time may be set; where the store's clock counts, this one is the machine's own.
    fn at(&self, now: Timestamp) -> Mono {
        match self.client.config().time {
            StoreTime::Store => self.now(),
            StoreTime::Node => {
                let now = now.as_nanos();
                Mono(self.named.fetch_max(now, Relaxed).max(now))
            }
        }
    }

    fn now(&self) -> Mono {
        match self.client.config().time {
            StoreTime::Store => Mono(0).after(Instant::now().saturating_duration_since(self.began)),
            StoreTime::Node => Mono(self.named.load(Relaxed)),
        }
    }

    /// What the ledger is told of the time.
    fn ledger_time(&self, now: Mono) -> Option<u64> {
        (self.client.config().time == StoreTime::Node).then_some(now.0 / 1_000)
    }

    fn unreachable(&self, why: String) -> StoreError {
        self.client.unavailable(&why)
    }

    fn no_runtime(&self) -> StoreError {
        self.unreachable("the runtime has ended, or there is none".to_owned())
    }

    /// The same error for one who waited for permits: whatever became of the request, nothing was taken for them.
    fn nothing_taken(&self, error: &StoreError) -> StoreError {
        match error {
            StoreError::Silent { waited, .. } => {
                self.client.timed_out(&format!("no permits were leased: no answer within {waited:?}"))
            }
            other => duplicate(other),
        }
    }
}

/// Whether permits of `quota` are leased.
pub(crate) fn is_leased(quota: &Quota) -> bool {
    quota.sharing() == Sharing::Leased
}

/// What a peek answers: what the ledger has, and what is held here.
fn peek(terms: &Terms, reply: &Reply, held: u64) -> Decision {
    let taken = reply.taken.saturating_sub(held.saturating_mul(terms.interval()));
    terms.decision(&Reply { taken, ..*reply }, 0)
}
