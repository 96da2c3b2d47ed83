//! Leased counting: a node's leased keys in a table, and the messages to their ledgers.
//!
//! A take that its lease can pay for is decided under one short lock: no round trip, no allocation. Permits
//! are asked for ahead of exhaustion, in the background. Callers that must wait for them do so in order of
//! arrival, within the deadline of a call, and are dealt the grant. Takes of keys that are not worth a lease
//! go to the ledger, merged. Permits that are no longer asked for are given back.
//!
//! Everything that touches a leased key goes through its ledger or its lease, under a Redis key of its own,
//! so a rule that changes between `exact` and `leased` never misreads a state; it starts afresh.
//!
//! Not here: what a lease may pay for ([`tollgate_lease`]); which limits are leased
//! ([`mixed`](crate::mixed)).

mod central;
mod clock;
mod decide;
mod grants;
mod ledger_client;
pub(crate) mod ledger_script;
mod local;
mod outgoing;
mod requests;
mod table;
mod take;
mod tasks;

pub(crate) use take::{Begun, DeniedHit, LeasedTake};

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::time::{Instant, timeout_at};
use tollgate_core::{Cost, Decision, Timestamp};
use tollgate_lease::{LedgerReply, Op, Terms};
use tollgate_redis_link::Traffic;
use tollgate_store::{Counter, Inspection, StoreError};

use self::clock::{Moment, NodeClock};
use self::ledger_client::LedgerClient;
use self::local::LocalLeases;
use self::outgoing::PendingSends;
use self::table::{LeasedKey, SharedTerms};
use self::take::PendingTake;
use crate::client::RedisClient;
use crate::keys::bounded;
use crate::stats::LeaseStats;

/// The leased keys of one node. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Leased {
    local: Arc<LocalLeases>,
}

/// The result of an operation on a ledger.
struct Operated {
    shared: Arc<SharedTerms>,
    reply: LedgerReply,
    /// Permits that this node holds in addition.
    held: u64,
}

impl Leased {
    pub(crate) fn new(client: Arc<RedisClient>) -> Self {
        let (clock, most_keys) = (NodeClock::new(client.config().time), client.config().max_leased_keys);
        Self { local: Arc::new(LocalLeases::new(LedgerClient::new(client), clock, most_keys)) }
    }

    /// Begins a take. `None`: the quota cannot be leased.
    #[inline]
    pub(crate) fn begin(&self, counter: Counter<'_>, take: LeasedTake, now: Timestamp) -> Option<Begun> {
        let mut sends = PendingSends::default();
        let begun = self.local.begin(counter, take, now, &mut sends);
        tasks::dispatch(&self.local, sends);
        begun
    }

    /// The result of a take that has begun.
    pub(crate) async fn result(&self, begun: Begun) -> Result<Decision, StoreError> {
        match begun {
            Begun::Done(result) => result,
            Begun::Waits(pending) => self.wait(pending).await,
        }
    }

    /// Gives permits back: to the lease that they were spent from, or to the ledger. `None`: the quota cannot
    /// be leased.
    pub(crate) async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Option<Result<Decision, StoreError>> {
        let moment = self.local.clock.moment(now);
        let here =
            self.with(counter, moment, |key, _| key.node.give_back(&key.shared.terms, cost, moment.mono))?;
        Some(match here {
            Ok(Ok(decision)) => Ok(decision),
            Ok(Err(rest)) => self.operate_and_peek(counter, Op::GiveBack { cost: rest.permits() }, now).await,
            Err(error) => Err(error),
        })
    }

    /// Takes permits whether they are there or not. `None`: the quota cannot be leased.
    pub(crate) async fn charge(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Option<Result<Decision, StoreError>> {
        Terms::of(counter.quota)?;
        Some(self.operate_and_peek(counter, Op::Charge { cost: cost.permits() }, now).await)
    }

    /// The key's state, by its ledger. `None`: the quota cannot be leased.
    pub(crate) async fn inspect(
        &self,
        counter: Counter<'_>,
        now: Timestamp,
    ) -> Option<Result<Inspection, StoreError>> {
        Terms::of(counter.quota)?;
        let operated = self.operate(counter, Op::Peek, now).await;
        Some(
            operated.map(|operated| Inspection {
                decision: operated.peek(),
                is_tracked: operated.reply.taken > 0,
            }),
        )
    }

    /// Forgets the key. Leases of other nodes end with their next request, within tau. `None`: the quota
    /// cannot be leased.
    pub(crate) async fn reset(
        &self,
        counter: Counter<'_>,
        now: Timestamp,
    ) -> Option<Result<bool, StoreError>> {
        let (local, moment) = (&self.local, self.local.clock.moment(now));
        let call = self.with(counter, moment, |key, _| local.reset_call(key, moment.mono))?;
        let replied = match call {
            Ok(call) => local.client.run(Traffic::Foreground, call, self.deadline()).await,
            Err(error) => return Some(Err(error)),
        };
        let was_tracked = replied.map(|reply| reply.taken > 0);
        if was_tracked.is_ok() {
            self.with(counter, moment, |key, sends| local.forget(key, moment.mono, sends));
        }
        Some(was_tracked)
    }

    /// Gives back all that is held, and waits until the ledger knows, each request for a call's deadline at
    /// most.
    pub(crate) async fn give_all_back(&self) {
        tasks::give_all_back(&self.local).await;
    }

    /// What was counted.
    pub(crate) fn stats(&self) -> LeaseStats {
        self.local.stats()
    }

    async fn wait(&self, pending: PendingTake) -> Result<Decision, StoreError> {
        let PendingTake { mut answer, sent, by } = pending;
        let answered = match timeout_at(by, &mut answer).await {
            Ok(answered) => answered.ok(),
            Err(_) => {
                answer.close(); // from now on nothing is dealt to it
                answer.try_recv().ok()
            }
        };
        answered.unwrap_or_else(|| {
            let client = &self.local.client;
            Err(if sent.load(Relaxed) { client.silent() } else { client.no_lease() })
        })
    }

    /// Does something with a key. `None`: the quota cannot be leased.
    fn with<T>(
        &self,
        counter: Counter<'_>,
        now: Moment,
        what: impl FnOnce(&mut LeasedKey, &mut PendingSends) -> T,
    ) -> Option<Result<T, StoreError>> {
        let mut sends = PendingSends::default();
        let done = self.local.with(counter, now, &mut sends, what);
        tasks::dispatch(&self.local, sends);
        done
    }

    /// An operation that cannot be denied; the answer is what is there afterwards.
    async fn operate_and_peek(
        &self,
        counter: Counter<'_>,
        op: Op,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        let operated = self.operate(counter, op, now).await?;
        let peeked = operated.peek();
        let is_nothing = matches!(op, Op::GiveBack { cost: 0 }); // of a bucket it is a peek
        if is_nothing && operated.shared.terms.per_us() > 0 {
            return Ok(peeked);
        }
        let reset_ns = u64::try_from(peeked.reset_after().as_nanos()).unwrap_or(u64::MAX);
        Ok(Decision::admit(peeked.limit(), peeked.remaining(), reset_ns)) // done, whatever is owed now
    }

    /// An operation on the ledger of a key.
    async fn operate(&self, counter: Counter<'_>, op: Op, now: Timestamp) -> Result<Operated, StoreError> {
        let (local, moment) = (&self.local, self.local.clock.moment(now));
        let mut kept = Vec::new();
        let counter = bounded(counter, &mut kept);
        let planned = self.with(counter, moment, |key, _| {
            (local.call(key, op, moment.mono), key.shared.clone(), key.node.live(moment.mono))
        });
        let Some(planned) = planned else {
            return Err(local.client.rejected("the quota cannot be leased"));
        };
        let (call, shared, held) = planned?;
        let by = self.deadline();
        let sent = local.client.send(Traffic::Foreground, call, by).await;
        let reply = tasks::reply_in_window(local, counter.key.0, op, sent, by).await?;
        local.note_reply(counter.key.0, &shared, &reply, moment.mono);
        Ok(Operated { shared, reply, held })
    }

    /// Until when a call that begins now may take.
    fn deadline(&self) -> Instant {
        Instant::now() + self.local.client.patience()
    }
}

impl Operated {
    /// What a peek would answer now: what the ledger has, and what is held here.
    fn peek(&self) -> Decision {
        let terms = &self.shared.terms;
        let taken = self.reply.taken.saturating_sub(self.held.saturating_mul(terms.interval()));
        terms.decision(&LedgerReply { taken, ..self.reply }, 0)
    }
}
