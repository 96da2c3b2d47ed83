//! One key on one node: spends its lease, asks for more before it runs out. No I/O, no clock, no task.
//!
//! Safety rests on the code here and in `holding`: the permits that may be spent, and their expiry. `gate`
//! decides whether a key is worth a lease; `requests` decides the time and size of requests, `idle` the time
//! of returns, and `answers` the answers without a message. Not here: sending requests, and the waits of
//! callers (`leased` of `store-redis`).

mod answers;
mod gate;
mod holding;
mod idle;
mod last_reply;
mod requests;

use std::time::Duration;

use tollgate_core::{Cost, Decision};

use self::holding::Holding;
use self::last_reply::LastReply;
use crate::demand::Demand;
use crate::{LeaseRequest, LedgerReply, Mistake, Mono, Terms};

/// The outcome of a take, and the request to send because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct TakeStep {
    /// The answer, or how to get it.
    pub verdict: Verdict,
    /// A request to send now, as [`Op::Lease`](crate::Op::Lease). Its reply goes to [`Node::on_grant`]; where
    /// none comes, [`Node::on_lost`] is called.
    pub send: Option<LeaseRequest>,
}

/// The answer to a take, or how to get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Admitted from the lease, or denied by the ledger's last reply.
    Decided(Decision),
    /// It depends on the request in flight: ask again after [`Node::on_grant`] or [`Node::on_lost`].
    Wait,
    /// Not worth a lease: take it centrally, as [`Op::Take`](crate::Op::Take), and hand the reply to
    /// [`Node::on_central`].
    Central,
}

/// One node's account of one key.
///
/// At most one request is in flight at a time. Callers that get [`Verdict::Wait`] ask again when it ends;
/// each such round brings permits or a denial.
///
/// # Example
/// ```
/// # use tollgate_lease::*;
/// # use tollgate_core::{Cost, Quota};
/// # use std::time::Duration;
/// let terms = Terms::of(&Quota::token_bucket(1_000, Duration::from_secs(1))?).ok_or("not leased")?;
/// let (mut node, mut ledger, noon_us) = (Node::new(7), Ledger::default(), 1_700_000_000_000_000);
/// let mut central = 0;
/// for ms in 0..100 {
///     let now = Mono(ms * 1_000_000);
///     let step = node.take(&terms, Cost::ONE, now);
///     if step.verdict == Verdict::Central {
///         central += 1; // until the node has seen that leasing is worth it
///     }
///     if let Some(request) = step.send {
///         let call = LedgerCall { op: Op::Lease(request), window_ends_us: 0 };
///         let reply = ledger.apply(&terms, call, noon_us + ms * 1_000);
///         node.on_grant(&terms, &reply, now);
///     }
/// }
/// assert!(central < 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Node {
    id: u64,
    /// Number of the newest request.
    seq: u64,
    holding: Holding,
    /// Permits spent in all.
    spent: u64,
    /// The part of `spent` that the newest request reported.
    reported: u64,
    /// Permits that ran out of time, or that the ledger did not know of.
    lapsed: u64,
    /// Some ran out of time since the newest request was sent: the ledger counts them as held until a request
    /// reports it.
    has_lapsed: bool,
    given_back: u64,
    in_flight: Option<InFlight>,
    /// The newest request had no reply.
    was_lost: bool,
    /// A request was lost: until then the ledger may still count as held the permits that it would have
    /// settled.
    lost_until: Mono,
    last_reply: Option<LastReply>,
    /// Until then the ledger surely has an entry of this node.
    listed_until: Mono,
    /// The refill is promised to others, as the ledger reported lately: until then, takes queue for it too.
    contended_until: Mono,
    /// The ledger has nothing to grant before this instant.
    no_grant_before: Mono,
    /// It had little to grant ahead of need, and is not asked ahead again before this instant.
    no_ahead_before: Mono,
    /// Average time until a request is answered.
    round_trip_ns: u64,
    demand: Demand,
    /// Permits that callers wait for.
    unmet: u64,
    last_take: Mono,
    leases: bool,
}

/// The request in flight.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    seq: u64,
    sent: Mono,
    want: u64,
    need: u64,
}

/// The outcome of a charge, and the request to send because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct PayStep {
    /// The answer; `None` where the ledger has it.
    pub decision: Option<Decision>,
    /// Without an answer: permits that the lease did not pay, to be sent as
    /// [`Op::Charge`](crate::Op::Charge), with the reply to [`Node::on_central`]. 0 only asks, as
    /// [`Op::Peek`](crate::Op::Peek).
    pub rest: u64,
    /// A permit was left here before, in any state of the ledger.
    pub had_some: bool,
    /// A request to send now, as in [`TakeStep::send`].
    pub send: Option<LeaseRequest>,
}

impl Node {
    /// A node that holds nothing yet. `id` is drawn at random below 2^53, anew for each key and each start of
    /// a process.
    #[must_use]
    pub fn new(id: u64) -> Self {
        Self {
            id,
            seq: 0,
            holding: Holding::default(),
            spent: 0,
            reported: 0,
            lapsed: 0,
            has_lapsed: false,
            given_back: 0,
            in_flight: None,
            was_lost: false,
            lost_until: Mono(0),
            last_reply: None,
            listed_until: Mono(0),
            contended_until: Mono(0),
            no_grant_before: Mono(0),
            no_ahead_before: Mono(0),
            round_trip_ns: 1_000_000,
            demand: Demand::default(),
            unmet: 0,
            last_take: Mono(0),
            leases: false,
        }
    }

    /// Takes `cost` permits from the lease, or says how else to get the answer.
    pub fn take(&mut self, terms: &Terms, cost: Cost, now: Mono) -> TakeStep {
        if cost.permits() <= terms.burst {
            // A cost that never fits is not demand that permits could meet.
            self.demand.observe(cost.permits(), now.0, terms.horizon_ns());
        }
        self.last_take = now;
        self.step(terms, cost, now, true)
    }

    /// As [`Node::take`], for a caller that had to wait and asks again: it is not counted as further demand,
    /// and nothing is asked for ahead of need. [`Node::dealt`] does that when all that waited have asked.
    pub fn retake(&mut self, terms: &Terms, cost: Cost, now: Mono) -> TakeStep {
        self.step(terms, cost, now, terms.has(Mistake::GivesBackWhatOthersWaitFor))
    }

    /// To be called when all callers that waited have been dealt to, and the last one was answered here.
    /// Before, a request would return the permits that are held for those behind the first.
    pub fn dealt(&mut self, terms: &Terms, now: Mono) -> Option<LeaseRequest> {
        self.ask_ahead(terms, now)
    }

    #[inline]
    fn step(&mut self, terms: &Terms, cost: Cost, now: Mono, asks_ahead: bool) -> TakeStep {
        let cost = cost.permits();
        self.lapse(now);
        let valid = self.holding.valid(terms, now);
        if cost <= valid && valid > 0 {
            self.holding.permits -= cost;
            self.spent += cost;
            let left = self.left(terms, now);
            let admission = Decision::admit(terms.limit, left.permits, left.reset_ns);
            return TakeStep::decided(admission, if asks_ahead { self.ask_ahead(terms, now) } else { None });
        }
        if cost == 0 || cost > terms.burst {
            return self.known_or_central(terms, cost, now, None);
        }
        if !self.worth_leasing(terms, cost, now) {
            // Permits that are held, or spent and not reported, would be denied to central takes.
            let reports = self.has_news() && self.in_flight.is_none();
            let send = if reports { self.give_up(terms, now) } else { None };
            return self.known_or_central(terms, cost, now, send);
        }
        if valid < self.holding.permits || self.no_grant_for(terms, cost, now) {
            let denial = self.deny(terms, cost, now);
            return TakeStep::decided(denial, if asks_ahead { self.ask_ahead(terms, now) } else { None });
        }
        self.unmet = self.unmet.saturating_add(cost);
        let send = self.in_flight.is_none().then(|| self.request_for(terms, cost, now));
        TakeStep { verdict: Verdict::Wait, send }
    }

    /// Counts a take that waits behind others, in order of arrival, while a request is in flight: its caller
    /// asks by [`Node::retake`] when that has ended.
    pub fn queue(&mut self, terms: &Terms, cost: Cost, now: Mono) {
        self.demand.observe(cost.permits(), now.0, terms.horizon_ns());
        self.last_take = now;
        self.unmet = self.unmet.saturating_add(cost.permits());
    }

    /// Counts `cost` permits that are used already, even if they are not held here: first from the lease, and
    /// the rest at the ledger. A cost of 0 asks whether any is left.
    pub fn pay(&mut self, terms: &Terms, cost: Cost, now: Mono) -> PayStep {
        let cost = cost.permits();
        if cost > 0 {
            self.demand.observe(cost.min(terms.burst), now.0, terms.horizon_ns());
        }
        self.last_take = now;
        self.lapse(now);
        let valid = self.holding.valid(terms, now);
        let here = cost.min(valid);
        let had_some = valid > 0;
        if !terms.has(Mistake::PaysFromNothing) {
            self.holding.permits -= here;
        }
        self.spent += here;
        let is_paid = here == cost || here > 0 && terms.has(Mistake::ForgetsTheRest);
        if had_some && is_paid || cost == 0 && self.leases && terms.has(Mistake::ChecksNothing) {
            let decision = Some(self.used(terms, now));
            return PayStep { decision, rest: 0, had_some: true, send: self.ask_ahead(terms, now) };
        }
        if cost == 0 && self.denies(terms, Cost::ONE, now).is_some() {
            let decision = Some(self.used(terms, now).denied());
            return PayStep { decision, rest: 0, had_some, send: None };
        }
        // A lease ahead, so that the next charges find one.
        let asks = cost > 0 && self.in_flight.is_none() && now >= self.no_grant_before;
        let send = (asks && self.worth_leasing(terms, self.demand.typical_cost(), now))
            .then(|| self.request(terms, now));
        PayStep { decision: None, rest: cost - here, had_some, send }
    }

    /// Takes permits back that were spent here and turned out not to be needed.
    ///
    /// # Errors
    /// The permits that are not taken back: the ledger knows already that they are spent, or their lease has
    /// ended. The caller must give these back as [`Op::GiveBack`](crate::Op::GiveBack), and no others: the
    /// ledger counts permits that it does not know of as out.
    pub fn give_back(&mut self, terms: &Terms, cost: Cost, now: Mono) -> Result<Decision, Cost> {
        if now >= self.holding.expires {
            return Err(cost);
        }
        let mut unreported = self.spent - self.reported;
        if terms.has(Mistake::GivesBackPart) && unreported > 0 {
            unreported = self.spent;
        }
        let here = cost.permits().min(unreported);
        self.spent -= here;
        self.reported = self.reported.min(self.spent); // changes nothing, except for the mistake above
        self.holding.permits += here;
        if here < cost.permits() {
            return Err(Cost(cost.permits() - here));
        }
        let left = self.left(terms, now);
        Ok(Decision::admit(terms.limit, left.permits, left.reset_ns))
    }

    /// The ledger's reply to a request of this node. True when it was news: not when it is late, or came
    /// twice.
    pub fn on_grant(&mut self, terms: &Terms, reply: &LedgerReply, now: Mono) -> bool {
        self.lapse(now);
        let Some(request) = self.in_flight else { return false };
        if request.seq != reply.seq && !terms.has(Mistake::TakesLateReplies) {
            return false;
        }
        self.in_flight = None;
        let unmet = std::mem::take(&mut self.unmet);
        if reply.rejected {
            return true; // no window could be begun: the next request names another end
        }
        self.was_lost = false;
        self.note_round_trip(request.sent, now);
        if !reply.renewed {
            self.drop_lease();
            if !terms.has(Mistake::GivesBackDropped) {
                self.reported = self.spent; // nothing of that lease can be given back
            }
        }
        let began = if terms.has(Mistake::ExpiryFromReceipt) { now } else { request.sent };
        self.holding.grant(terms, reply, began, now);
        self.listed_until = request.sent.after_us(terms.tau_us);
        self.note_shortage(terms, reply, request, unmet, now);
        self.last_reply = Some(LastReply { reply: *reply, asked: request.sent, received: now });
        self.note_contention(terms, now);
        self.lapse(now);
        true
    }

    /// No reply to request `seq` will come, or none is waited for any longer. The next request gives back the
    /// permits that it may have granted, and settles the rest: until the ledger has written off this node's
    /// lease, there is a next request.
    pub fn on_lost(&mut self, terms: &Terms, seq: u64) {
        if let Some(request) = self.in_flight.take_if(|request| request.seq == seq) {
            self.was_lost = true;
            self.unmet = 0;
            if !terms.has(Mistake::ForgetsLostNews) {
                self.lost_until = request.sent.after_us(2 * terms.tau_us);
            }
        }
    }

    /// The ledger's reply to a central take of this node, or to any other operation that is not a lease.
    /// `asked`: when it was sent.
    pub fn on_central(&mut self, terms: &Terms, reply: &LedgerReply, asked: Mono, now: Mono) {
        if !reply.rejected {
            self.was_lost = false;
            self.note_round_trip(asked, now);
            self.last_reply = Some(LastReply { reply: *reply, asked, received: now });
            self.note_contention(terms, now);
        }
    }

    /// Gives back all permits held, and reports those spent: at shutdown, or when no takes arrive. A request
    /// in flight is given up: its reply would come too late.
    pub fn give_up(&mut self, terms: &Terms, now: Mono) -> Option<LeaseRequest> {
        if !self.has_news() && self.in_flight.is_none() {
            return None;
        }
        let held = self.holding.drop_all();
        self.given_back += held;
        let request = self.report(now);
        if terms.has(Mistake::SpendsWhatItGaveBack) {
            self.holding.permits = held;
        }
        Some(request)
    }

    /// Forgets the lease, because the key was reset.
    pub fn forget(&mut self) {
        self.drop_lease();
        self.reported = self.spent;
        self.in_flight = None;
        self.last_reply = None;
        self.no_grant_before = Mono(0);
    }

    /// Switches to other terms of the key: held permits return to the ledger, by the new terms.
    pub fn change(&mut self, terms: &Terms, now: Mono) -> Option<LeaseRequest> {
        let request = self.give_up(terms, now);
        self.last_reply = None;
        (self.no_grant_before, self.no_ahead_before) = (Mono(0), Mono(0));
        request
    }

    /// The average time until the ledger answers.
    #[must_use]
    pub const fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip_ns)
    }

    /// Permits held at `now` that have not expired, including those not yet valid.
    #[must_use]
    pub fn live(&self, now: Mono) -> u64 {
        if now < self.holding.expires { self.holding.permits } else { 0 }
    }

    /// Permits held, including those not yet valid.
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.holding.permits
    }

    /// Permits spent from leases, in all.
    #[must_use]
    pub const fn spent(&self) -> u64 {
        self.spent
    }

    /// Permits that were held when their time was up, or of which the ledger knew nothing; the ledger counts
    /// them as spent until a request reports them.
    #[must_use]
    pub const fn lapsed(&self) -> u64 {
        self.lapsed
    }

    /// Permits given back unspent, in all.
    #[must_use]
    pub const fn given_back(&self) -> u64 {
        self.given_back
    }

    /// True while request `seq` is in flight.
    #[must_use]
    pub fn is_waiting_for(&self, seq: u64) -> bool {
        self.in_flight.is_some_and(|request| request.seq == seq)
    }

    /// True while the key is worth leasing here.
    #[must_use]
    pub const fn leases(&self) -> bool {
        self.leases
    }

    /// The ledger counts something as out that need not be.
    fn has_news(&self) -> bool {
        self.holding.permits > 0
            || self.spent != self.reported
            || self.has_lapsed
            || self.lost_until > Mono(0)
    }

    /// Drops permits that have expired, and news that need not be reported any more.
    fn lapse(&mut self, now: Mono) {
        if now >= self.lost_until {
            self.lost_until = Mono(0);
        }
        if self.holding.permits > 0 && now >= self.holding.expires {
            self.drop_lease();
            self.has_lapsed = true;
        }
    }

    /// Drops all permits held and counts them as lapsed.
    fn drop_lease(&mut self) {
        self.lapsed += self.holding.drop_all();
        self.has_lapsed = false;
    }

    fn note_round_trip(&mut self, sent: Mono, now: Mono) {
        self.round_trip_ns = (self.round_trip_ns * 7 + now.ns_since(sent)) / 8;
    }
}

impl TakeStep {
    const fn decided(decision: Decision, send: Option<LeaseRequest>) -> Self {
        Self { verdict: Verdict::Decided(decision), send }
    }
}
