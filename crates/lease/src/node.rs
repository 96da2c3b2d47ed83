//! One key on one node: spends what was leased, asks for more before it runs out. No I/O, no clock, no task.
//!
//! What may be spent, and until when, follows from replies alone: a lease ends tau after its request was *sent*, permits promised
//! ahead of their refill become valid after a delay counted from the reply's *receipt*, both stretched by the most that clocks may
//! differ in speed. So both err on the safe side, however long messages take.
//!
//! Not here: when requests go out and what a caller does meanwhile (`leased`).

mod ask;
mod told;

use std::time::Duration;

use tollgate_core::{Cost, Decision};

#[cfg(feature = "faults")]
use crate::Fault;
use crate::demand::Demand;
use crate::{Reply, Request, Terms};

/// An instant of a node's own monotonic clock, in nanoseconds since whenever. Wall clocks that are set do not matter to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mono(pub u64);

impl Mono {
    /// The instant `span` later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// What a take came to, and what is to be sent because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Step {
    /// The answer, or how to get it.
    pub verdict: Verdict,
    /// A request to send now, as [`Op::Lease`](super::Op::Lease). Its reply goes to [`Node::on_grant`]; without one,
    /// [`Node::on_lost`].
    pub send: Option<Request>,
}

/// The answer to a take, or how to get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Admitted from the lease, or denied by what the ledger said last.
    Decided(Decision),
    /// It depends on the request under way: ask again after [`Node::on_grant`] or [`Node::on_lost`].
    Wait,
    /// Not worth a lease: take it centrally, as [`Op::Take`](super::Op::Take), and hand the reply to [`Node::on_central`].
    Central,
}

/// What one node knows of one key.
///
/// At most one request is under way at a time. Callers that hear [`Verdict::Wait`] ask again when it ends; each such round brings
/// permits or a denial.
///
/// # Example
/// ```
/// # use tollgate_lease::*;
/// # use tollgate_core::{Cost, Quota};
/// # use std::time::Duration;
/// let terms = Terms::of(&Quota::token_bucket(1_000, Duration::from_secs(1))?).ok_or("not leased")?;
/// let (mut node, mut ledger, noon_us) = (Node::new(7), Ledger::default(), 1_700_000_000_000_000);
/// let mut central = 0;
/// for at in 0..100 {
///     let now = Mono(at * 1_000_000);
///     let mut step = node.take(&terms, Cost::ONE, now);
///     if step.verdict == Verdict::Central {
///         central += 1; // until the node has seen that leasing is worth it
///     }
///     if let Some(request) = step.send {
///         let reply = ledger.apply(&terms, Call { op: Op::Lease(request), window_ends_us: 0 }, noon_us + at * 1_000);
///         node.on_grant(&terms, &reply, now);
///     }
/// }
/// assert!(central < 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Node {
    id: u64,
    seq: u64,
    /// Permits held, those not yet valid included.
    held: u64,
    /// Permits spent in all.
    spent: u64,
    /// Of those, what the newest request reported.
    reported: u64,
    /// Of the permits held, at most so many are not valid yet: all are at `clear`.
    promised: u64,
    clear: Mono,
    /// What the ledger owed beyond a full bucket, in units, when its word of that came: as it is paid, promises become valid.
    ahead: (u64, Mono),
    /// What is held may be spent before this instant.
    expires: Mono,
    flight: Option<Flight>,
    word: Option<Word>,
    /// Until then the ledger surely has an entry of this node.
    listed_until: Mono,
    /// Others are promised what comes back, as the ledger said lately: until then, takes queue for it too.
    contended_until: Mono,
    /// The ledger has nothing to grant before this instant.
    dry_until: Mono,
    /// It had little for those who do not wait yet, and is not asked ahead again before this instant.
    ahead_after: Mono,
    /// How long a request takes.
    round_trip_ns: u64,
    demand: Demand,
    /// Permits that callers wait for.
    unmet: u64,
    /// The last take.
    busy_at: Mono,
    leases: bool,
    /// The last request had no reply.
    silent: bool,
    /// Permits that ran out of time, or that the ledger did not know of.
    lapsed: u64,
    /// Some ran out of time since the newest request was sent: the ledger takes them for held until it hears of it.
    has_lapsed: bool,
    /// A request was lost: until then the ledger may still count as held what it would have settled.
    unheard_until: Mono,
    given_back: u64,
}

/// The request under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    seq: u64,
    sent: Mono,
    want: u64,
    need: u64,
}

/// What a request asks for: see [`Request`].
#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    want: u64,
    need: u64,
    least: u64,
}

/// The ledger's last word.
#[derive(Clone, Copy, Debug)]
struct Word {
    reply: Reply,
    /// When it was asked for, and when it came: it was said in between.
    asked: Mono,
    heard: Mono,
}

impl Node {
    /// A node that holds nothing yet. `id` is drawn at random below 2^53, for each key and each start of a process anew.
    #[must_use]
    pub fn new(id: u64) -> Self {
        Self {
            id,
            seq: 0,
            held: 0,
            spent: 0,
            reported: 0,
            promised: 0,
            clear: Mono(0),
            ahead: (0, Mono(0)),
            expires: Mono(0),
            flight: None,
            word: None,
            listed_until: Mono(0),
            contended_until: Mono(0),
            dry_until: Mono(0),
            ahead_after: Mono(0),
            round_trip_ns: 1_000_000,
            demand: Demand::default(),
            unmet: 0,
            busy_at: Mono(0),
            leases: false,
            silent: false,
            lapsed: 0,
            has_lapsed: false,
            unheard_until: Mono(0),
            given_back: 0,
        }
    }

    /// Takes `cost` permits from the lease, or says how else the answer is to be had.
    pub fn take(&mut self, terms: &Terms, cost: Cost, now: Mono) -> Step {
        if cost.permits() <= terms.burst {
            // What never fits is no demand that permits could meet.
            self.demand.observe(cost.permits(), now.0, terms.horizon_ns());
        }
        self.busy_at = now;
        self.retake(terms, cost, now)
    }

    /// As [`Node::take`], for a caller that was told to wait and now asks again: it is not counted as further demand.
    pub fn retake(&mut self, terms: &Terms, cost: Cost, now: Mono) -> Step {
        let cost = cost.permits();
        self.lapse(now);
        let valid = self.valid(terms, now);
        if cost <= valid && valid > 0 {
            self.held -= cost;
            self.spent += cost;
            let (left, reset_ns) = self.left(terms, now);
            return Step::decided(Decision::admit(terms.limit, left, reset_ns), self.ask_ahead(terms, now));
        }
        if cost == 0 || cost > terms.burst {
            return self.known_or_central(terms, cost, now, None);
        }
        if !self.worth_leasing(terms, cost, now) {
            // What is held, or spent and not reported, would be denied to those who take centrally.
            let send = if self.has_news() && self.flight.is_none() { self.give_up(terms, now) } else { None };
            return self.known_or_central(terms, cost, now, send);
        }
        if valid < self.held || self.is_dry(terms, cost, now) {
            return Step::decided(self.deny(terms, cost, now), self.ask_ahead(terms, now));
        }
        self.unmet = self.unmet.saturating_add(cost);
        let send = self.flight.is_none().then(|| self.request_for(terms, cost, now));
        Step { verdict: Verdict::Wait, send }
    }

    /// The denial of `cost` that the ledger need not be asked for again, since it said so lately: for a take whose denial is not counted
    /// in a window, as [`Op::Try`](super::Op::Try).
    #[must_use]
    pub fn denies(&self, terms: &Terms, cost: Cost, now: Mono) -> Option<Decision> {
        self.known(terms, cost.permits(), now, false)
    }

    fn known(&self, terms: &Terms, cost: u64, now: Mono, is_hit: bool) -> Option<Decision> {
        if cost > terms.burst {
            // A window counts what it refuses.
            let is_known = terms.windows.is_none() && self.has_heard(terms, now);
            let (left, reset_ns) = self.left(terms, now);
            return is_known.then(|| Decision::never(terms.limit, left, reset_ns));
        }
        (cost > 0 && self.is_known_short(terms, cost, now, is_hit)).then(|| self.deny(terms, cost, now))
    }

    /// Counts a take that has to wait behind others, in order of arrival, while a request is under way: its caller asks by
    /// [`Node::retake`] when that has ended.
    pub fn queue(&mut self, terms: &Terms, cost: Cost, now: Mono) {
        self.demand.observe(cost.permits(), now.0, terms.horizon_ns());
        self.busy_at = now;
        self.unmet = self.unmet.saturating_add(cost.permits());
    }

    /// Takes permits back that were spent here and turned out not to be needed.
    ///
    /// # Errors
    /// So many are not taken back: the ledger has heard already that they are spent, or their lease has ended. It must be told of them,
    /// as [`Op::GiveBack`](super::Op::GiveBack), and of no more: those that it has not heard of are out by its book, and stay so.
    pub fn give_back(&mut self, terms: &Terms, cost: Cost, now: Mono) -> Result<Decision, Cost> {
        if now >= self.expires {
            return Err(cost);
        }
        let unreported = self.spent - self.reported;
        #[cfg(feature = "faults")]
        let unreported =
            if terms.has(Fault::GivesBackPart) && unreported > 0 { self.spent } else { unreported };
        let here = cost.permits().min(unreported);
        self.spent -= here;
        #[cfg(feature = "faults")]
        {
            self.reported = self.reported.min(self.spent);
        }
        self.held += here;
        if here < cost.permits() {
            return Err(Cost(cost.permits() - here));
        }
        let (left, reset_ns) = self.left(terms, now);
        Ok(Decision::admit(terms.limit, left, reset_ns))
    }

    /// The ledger's reply to a request of this node. True when it was news: not when it is late, or came twice.
    pub fn on_grant(&mut self, terms: &Terms, reply: &Reply, now: Mono) -> bool {
        self.lapse(now);
        let Some(flight) = self.flight else { return false };
        let is_late = flight.seq != reply.seq;
        #[cfg(feature = "faults")]
        let is_late = is_late && !terms.has(Fault::TakesLateReplies);
        if is_late {
            return false;
        }
        self.flight = None;
        let unmet = std::mem::take(&mut self.unmet);
        if reply.refused {
            return true; // no window could be begun: the next request names another end
        }
        self.silent = false;
        self.note_round_trip(flight.sent, now);
        if !reply.renewed {
            self.lapsed += self.held;
            (self.held, self.promised, self.has_lapsed) = (0, 0, false);
            let reported = self.spent; // nothing of that lease can be given back
            #[cfg(feature = "faults")]
            let reported = if terms.has(Fault::GivesBackDropped) { self.reported } else { reported };
            self.reported = reported;
        }
        self.expires = self.expiry(terms, reply, flight.sent, now);
        self.listed_until = flight.sent.after(Duration::from_micros(terms.tau_us));
        self.promised = self.promised(terms, now) + reply.granted;
        self.held += reply.granted;
        // All that was promised is there once the ledger's debt is down to what a full bucket may owe.
        let ahead = reply.taken.saturating_sub(terms.full());
        let clear = Self::paid_at(terms, ahead, now);
        if reply.granted > 0 || clear < self.clear {
            (self.ahead, self.clear) = ((ahead, now), clear);
        }
        let pause_us = Self::dry_us(terms, reply);
        // Also callers that came since it was sent: where nothing more is there, they are not to ask one after another.
        let lacks = reply.granted < flight.need || reply.granted < unmet && terms.room(reply.taken) == 0;
        if lacks {
            self.dry_until = now.after(Duration::from_micros(pause_us));
        }
        if reply.granted <= flight.want / 4 {
            self.ahead_after = now.after(Duration::from_micros(pause_us));
        }
        self.word = Some(Word { reply: *reply, asked: flight.sent, heard: now });
        self.note_contention(terms, now);
        self.lapse(now);
        true
    }

    /// No reply will come to request `seq`, or none is waited for any longer. What it may have granted is given back by the next, and
    /// what it settled is settled by the next: until the ledger has written off this node's lease, there is one.
    pub fn on_lost(&mut self, terms: &Terms, seq: u64) {
        if let Some(flight) = self.flight.take_if(|flight| flight.seq == seq) {
            self.silent = true;
            self.unmet = 0;
            self.unheard_until = flight.sent.after(Duration::from_micros(2 * terms.tau_us));
            #[cfg(feature = "faults")]
            if terms.has(Fault::ForgetsLostNews) {
                self.unheard_until = Mono(0);
            }
        }
    }

    /// The ledger's reply to a central take of this node, or to anything else that is no lease, which was `asked` for then.
    pub fn on_central(&mut self, terms: &Terms, reply: &Reply, asked: Mono, now: Mono) {
        if !reply.refused {
            self.silent = false;
            self.note_round_trip(asked, now);
            self.word = Some(Word { reply: *reply, asked, heard: now });
            self.note_contention(terms, now);
        }
    }

    fn note_round_trip(&mut self, sent: Mono, now: Mono) {
        self.round_trip_ns = (self.round_trip_ns * 7 + now.0.saturating_sub(sent.0)) / 8;
    }

    /// How long the ledger takes to answer, on average.
    #[must_use]
    pub const fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip_ns)
    }

    /// To be called when [`Node::wakes_at`] has come: gives back what is not needed, reports what was spent, and keeps alive what is
    /// held for the next take of a node that is seldom asked.
    pub fn on_time(&mut self, terms: &Terms, now: Mono) -> Option<Request> {
        self.lapse(now);
        if self.wakes_at(terms).is_none_or(|at| at > now) {
            return None;
        }
        if now < self.idle_at(terms) { Some(self.request(terms, now)) } else { self.give_up(terms, now) }
    }

    /// When nobody will have asked for long enough to give back what is held, or when its lease is to be prolonged until then; `None`
    /// when nothing is held or unreported.
    #[must_use]
    pub fn wakes_at(&self, terms: &Terms) -> Option<Mono> {
        if !self.has_news() || self.flight.is_some() {
            return None;
        }
        let idle_at = self.idle_at(terms);
        if self.held == 0 || self.busy_at >= self.contended_until {
            return Some(idle_at);
        }
        // Where others queue, the lease is prolonged, and the next turn asked for when the last one has come, also when nobody asks.
        let asked =
            self.word.map_or(Mono(0), |word| word.asked.after(Duration::from_micros(terms.tau_us / 2)));
        let ends_soon = Mono(self.expires.0.saturating_sub(terms.tau_us * 250 + 2 * self.round_trip_ns));
        let next_turn =
            if self.is_low(terms, self.clear) { self.clear.max(self.ahead_after) } else { idle_at };
        Some(idle_at.min(ends_soon.min(next_turn).max(asked)))
    }

    /// Gives back all that is held, and reports what was spent: at shutdown, or when nobody asks any more. A request that is
    /// under way is given up: its reply would come too late.
    #[cfg_attr(
        not(feature = "faults"),
        allow(unused_variables, reason = "the terms say only which fault to make")
    )]
    pub fn give_up(&mut self, terms: &Terms, now: Mono) -> Option<Request> {
        if !self.has_news() && self.flight.is_none() {
            return None;
        }
        let held = std::mem::take(&mut self.held);
        self.promised = 0;
        self.given_back += held;
        let request = self.send(Wish::default(), now);
        #[cfg(feature = "faults")]
        if terms.has(Fault::SpendsWhatItGaveBack) {
            self.held = held;
        }
        Some(request)
    }

    /// Forgets the lease, because the key was reset.
    pub fn forget(&mut self) {
        self.lapsed += self.held;
        (self.held, self.promised, self.has_lapsed) = (0, 0, false);
        self.reported = self.spent;
        self.flight = None;
        self.word = None;
        self.dry_until = Mono(0);
    }

    /// Switches to other terms of the key: held permits return to the ledger, by the new terms.
    pub fn change(&mut self, terms: &Terms, now: Mono) -> Option<Request> {
        let request = self.give_up(terms, now);
        (self.word, self.dry_until, self.ahead_after) = (None, Mono(0), Mono(0));
        request
    }

    /// Permits held at `now` whose time is not up, those included that are not valid yet.
    #[must_use]
    pub fn live(&self, now: Mono) -> u64 {
        if now < self.expires { self.held } else { 0 }
    }

    /// Permits held, those included that are not valid yet.
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Permits spent from leases, in all.
    #[must_use]
    pub const fn spent(&self) -> u64 {
        self.spent
    }

    /// Permits that were held when their time was up, or of which the ledger knew nothing; they count as spent until it hears of it.
    #[must_use]
    pub const fn lapsed(&self) -> u64 {
        self.lapsed
    }

    /// Permits given back unspent, in all.
    #[must_use]
    pub const fn given_back(&self) -> u64 {
        self.given_back
    }

    /// True while request `seq` is under way.
    #[must_use]
    pub fn is_waiting_for(&self, seq: u64) -> bool {
        self.flight.is_some_and(|flight| flight.seq == seq)
    }

    /// True while the key is worth leasing here.
    #[must_use]
    pub const fn leases(&self) -> bool {
        self.leases
    }

    /// Something is out on the ledger that need not be.
    fn has_news(&self) -> bool {
        self.held > 0 || self.spent != self.reported || self.has_lapsed || self.unheard_until > Mono(0)
    }

    /// Drops what is held when its time is up, and what need not be said any more.
    fn lapse(&mut self, now: Mono) {
        if now >= self.unheard_until {
            self.unheard_until = Mono(0);
        }
        if self.held > 0 && now >= self.expires {
            self.lapsed += self.held;
            (self.held, self.promised, self.has_lapsed) = (0, 0, true);
        }
    }

    fn known_or_central(&self, terms: &Terms, cost: u64, now: Mono, send: Option<Request>) -> Step {
        let known = self.known(terms, cost, now, true).filter(|_| send.is_none());
        Step { verdict: known.map_or(Verdict::Central, Verdict::Decided), send }
    }

    /// Of the permits held, those that are not valid yet.
    fn promised(&self, terms: &Terms, now: Mono) -> u64 {
        #[cfg(feature = "faults")]
        if terms.has(Fault::SpendsPromises) {
            return 0;
        }
        if now >= self.clear || self.promised == 0 {
            return 0;
        }
        let (ahead, since) = self.ahead;
        let elapsed_us = terms.shrunk_us(now.0.saturating_sub(since.0));
        let left = ahead.saturating_sub(elapsed_us.saturating_mul(terms.per_us));
        left.div_ceil(terms.interval).min(self.promised)
    }

    /// When `units` of the refill have come since `from`, on a clock that may be faster than the ledger's.
    fn paid_at(terms: &Terms, units: u64, from: Mono) -> Mono {
        if units == 0 { from } else { from.after(terms.stretched(units.div_ceil(terms.per_us.max(1)))) }
    }

    fn valid(&self, terms: &Terms, now: Mono) -> u64 {
        self.held.saturating_sub(self.promised(terms, now))
    }

    /// Until when a lease may be spent, from when it was asked for.
    fn expiry(&self, terms: &Terms, reply: &Reply, sent: Mono, _received: Mono) -> Mono {
        #[cfg(feature = "faults")]
        let sent = if terms.has(Fault::ExpiryFromReceipt) { _received } else { sent };
        let lives_us = if terms.windows.is_some() {
            reply.ends_us.saturating_sub(reply.now_us).saturating_sub(terms.skew_us).min(terms.tau_us)
        } else {
            terms.tau_us
        };
        #[cfg(feature = "faults")]
        let lives_us = if terms.has(Fault::OutlivesWindow) { terms.tau_us } else { lives_us };
        let million = u128::from(terms.drift_ppm) + 1_000_000;
        #[cfg(feature = "faults")]
        let million = if terms.has(Fault::IgnoresDrift) { 1_000_000 } else { million };
        Mono(sent.0.saturating_add((u128::from(lives_us) * 1_000_000_000 / million) as u64))
    }

    fn send(&mut self, wish: Wish, now: Mono) -> Request {
        let Wish { want, need, least } = wish;
        self.seq += 1;
        self.flight = Some(Flight { seq: self.seq, sent: now, want, need });
        (self.reported, self.has_lapsed) = (self.spent, false);
        self.unheard_until = Mono(0);
        Request { node: self.id, seq: self.seq, held: self.held, spent: self.spent, want, need, least }
    }
}

impl Step {
    const fn decided(decision: Decision, send: Option<Request>) -> Self {
        Self { verdict: Verdict::Decided(decision), send }
    }
}
