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
//! Not here: the rules of a lease ([`tollgate_lease`]); the choice of limits to lease
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
use tollgate_store::{Counter, Inspection, Payment, StoreError};

use self::clock::{Moment, NodeClock};
use self::ledger_client::{LedgerClient, SentCall};
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

/// An operation on a ledger that was sent.
struct LedgerOperation {
    op: Op,
    /// The counter's key in the table of leased keys.
    key: Vec<u8>,
    shared: Arc<SharedTerms>,
    /// Permits that this node held in addition.
    held: u64,
    sent: Result<SentCall, StoreError>,
    sent_at: Moment,
    by: Instant,
}

/// A payment that has begun.
pub(crate) enum BegunPay {
    /// The lease paid, or its last news says that nothing is left.
    Done(Result<Decision, StoreError>),
    /// The part that the lease lacks is on its way to the ledger.
    Sent(Box<SentPay>),
}

/// The rest of a payment, on its way.
pub(crate) struct SentPay {
    operation: LedgerOperation,
    payment: Payment,
    had_some: bool,
    is_check: bool,
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
        let clock = NodeClock::new(client.config().time);
        let most_keys = client.config().max_leased_keys;
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

    /// Begins to count permits that are used already: first from the lease, and the rest at the ledger.
    /// `None`: the quota cannot be leased.
    pub(crate) async fn begin_pay(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        payment: Payment,
        now: Timestamp,
    ) -> Option<BegunPay> {
        let (local, moment) = (&self.local, self.local.clock.moment(now));
        let mut kept = Vec::new();
        let counter = bounded(counter, &mut kept);
        let begun = self.with(counter, moment, |key, sends| {
            let step = key.node.pay(&key.shared.terms, cost, moment.mono);
            if let Some(request) = step.send {
                local.send_ahead(key, request, moment.mono, sends);
            }
            let op = if cost.is_peek() { Op::Peek } else { Op::Charge { cost: step.rest } };
            let call = step.decision.is_none().then(|| local.call(key, op, moment.mono));
            (step, op, call, key.shared.clone(), key.node.live(moment.mono))
        })?;
        let (step, op, call, shared, held) = match begun {
            Ok(begun) => begun,
            Err(error) => return Some(BegunPay::Done(Err(error))),
        };
        let (Some(call), None) = (call, step.decision) else {
            let missing = || local.client.rejected("a payment without an answer");
            return Some(BegunPay::Done(step.decision.map(|it| as_paid(it, payment)).ok_or_else(missing)));
        };
        let by = self.deadline();
        let sent = local.client.send(Traffic::Foreground, call, by).await;
        let key = counter.key.0.to_vec();
        let operation = LedgerOperation { op, key, shared, held, sent, sent_at: moment, by };
        let is_check = cost.is_peek();
        Some(BegunPay::Sent(Box::new(SentPay { operation, payment, had_some: step.had_some, is_check })))
    }

    /// The answer to a payment that has begun.
    pub(crate) async fn finish_pay(&self, begun: BegunPay) -> Result<Decision, StoreError> {
        let SentPay { operation, payment, had_some, is_check } = match begun {
            BegunPay::Done(result) => return result,
            BegunPay::Sent(sent) => *sent,
        };
        let operated = self.finish(operation).await?;
        let decision = operated.used();
        let was_left = if is_check { decision.remaining() > 0 } else { operated.reply.admitted > 0 };
        let decision = if had_some || was_left { decision } else { decision.denied() };
        Ok(as_paid(decision, payment))
    }

    /// Counts permits that are used already. `None`: the quota cannot be leased.
    pub(crate) async fn pay(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        payment: Payment,
        now: Timestamp,
    ) -> Option<Result<Decision, StoreError>> {
        let begun = self.begin_pay(counter, cost, payment, now).await?;
        Some(self.finish_pay(begun).await)
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

    /// Gives back all permits held, and waits until the ledgers have confirmed, for at most a call's deadline
    /// per request.
    pub(crate) async fn give_all_back(&self) {
        tasks::give_all_back(&self.local).await;
    }

    /// The counts since the start.
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

    /// Runs an operation on a key. `None`: the quota cannot be leased.
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

    /// An operation that cannot be denied; the answer is the state afterwards.
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
        let operation = self.begin_operation(counter, op, now).await?;
        self.finish(operation).await
    }

    async fn begin_operation(
        &self,
        counter: Counter<'_>,
        op: Op,
        now: Timestamp,
    ) -> Result<LedgerOperation, StoreError> {
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
        Ok(LedgerOperation { op, key: counter.key.0.to_vec(), shared, held, sent, sent_at: moment, by })
    }

    async fn finish(&self, operation: LedgerOperation) -> Result<Operated, StoreError> {
        let LedgerOperation { op, key, shared, held, sent, sent_at, by } = operation;
        let reply = tasks::reply_in_window(&self.local, &key, op, sent, by).await?;
        self.local.note_reply(&key, &shared, &reply, sent_at.mono);
        Ok(Operated { shared, reply, held })
    }

    /// The instant until which a call that begins now may take.
    fn deadline(&self) -> Instant {
        Instant::now() + self.local.client.patience()
    }
}

impl Operated {
    /// The result of a peek now: from the ledger's permits and those held here.
    fn peek(&self) -> Decision {
        self.shared.terms.decision(&self.here(), 0)
    }

    /// The permits left, or owed, after a payment for permits that were used already.
    fn used(&self) -> Decision {
        self.shared.terms.used(&self.here())
    }

    /// The ledger's reply, with the permits held here added to the ledger's.
    fn here(&self) -> LedgerReply {
        let held = self.held.saturating_mul(self.shared.terms.interval());
        LedgerReply { taken: self.reply.taken.saturating_sub(held), ..self.reply }
    }
}

/// The same decision, except that permits reported as used are never denied.
fn as_paid(decision: Decision, payment: Payment) -> Decision {
    if payment == Payment::Consumed { decision.admitted() } else { decision }
}
