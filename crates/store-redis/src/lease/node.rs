//! One key on one node: spends what was leased, asks for more before it runs out. No I/O, no clock, no task.
//!
//! What may be spent, and until when, follows from replies alone: a lease ends tau after its request was *sent*, permits promised
//! ahead of their refill become valid after a delay counted from the reply's *receipt*, both stretched by the most that clocks may
//! differ in speed. So both err on the safe side, however long messages take.
//!
//! Not here: when requests go out and what a caller does meanwhile (`leased`).

use std::time::Duration;

use tollgate_core::{Cost, Decision};

#[cfg(feature = "faults")]
use super::Fault;
use super::demand::Demand;
use super::{Reply, Request, Terms};

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
/// # use tollgate_store_redis::lease::*;
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
    /// What is held may be spent before this instant.
    expires: Mono,
    flight: Option<Flight>,
    /// The ledger's last word, and when it came.
    word: Option<(Reply, Mono)>,
    /// The ledger has nothing to grant before this instant.
    dry_until: Mono,
    /// How long a request takes.
    round_trip_ns: u64,
    demand: Demand,
    /// Permits that callers wait for.
    unmet: u64,
    /// The last take.
    busy_at: Mono,
    leases: bool,
}

/// The request under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    seq: u64,
    sent: Mono,
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
            expires: Mono(0),
            flight: None,
            word: None,
            dry_until: Mono(0),
            round_trip_ns: 1_000_000,
            demand: Demand::default(),
            unmet: 0,
            busy_at: Mono(0),
            leases: false,
        }
    }

    /// Takes `cost` permits from the lease, or says how else the answer is to be had.
    pub fn take(&mut self, terms: &Terms, cost: Cost, now: Mono) -> Step {
        let cost = cost.permits();
        self.lapse(now);
        let horizon_ns = terms.horizon_us * 1_000;
        self.demand.observe(cost, now.0, horizon_ns);
        self.busy_at = now;
        if cost > terms.burst && terms.windows.is_none() {
            let (left, reset_ns) = self.left(terms, now);
            return Step::decided(Decision::never(terms.limit, left, reset_ns), None);
        }
        let valid = self.valid(terms, now);
        if cost > 0 && cost <= valid {
            self.held -= cost;
            self.spent += cost;
            let (left, reset_ns) = self.left(terms, now);
            return Step::decided(Decision::admit(terms.limit, left, reset_ns), self.ask_ahead(terms, now));
        }
        if !self.worth_leasing(terms, now) || cost == 0 {
            return Step { verdict: Verdict::Central, send: None };
        }
        let is_promised = valid < self.held && cost <= self.held;
        if is_promised || now < self.dry_until {
            return Step::decided(self.deny(terms, cost, now), None);
        }
        self.unmet += cost;
        let send = self.flight.is_none().then(|| self.request(terms, now));
        Step { verdict: Verdict::Wait, send }
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
        if reply.refused {
            return true; // no window could be begun: the next request names another end
        }
        let elapsed_ns = now.0.saturating_sub(flight.sent.0);
        self.round_trip_ns = (self.round_trip_ns * 7 + elapsed_ns) / 8;
        if !reply.renewed {
            (self.held, self.promised) = (0, 0);
        }
        self.expires = self.expiry(terms, reply, flight.sent, now);
        let waits_us = reply.taken.saturating_sub(terms.full()).checked_div(terms.per_us).unwrap_or(0);
        if reply.granted > 0 {
            self.promised = self.promised(terms, now) + reply.granted;
            self.clear = now.after(terms.stretched(waits_us + u64::from(waits_us > 0)));
        }
        self.held += reply.granted;
        self.word = Some((*reply, now));
        if self.unmet > self.held && reply.granted < self.unmet {
            self.dry_until = self.dry(terms, reply, now);
        }
        self.unmet = 0;
        self.lapse(now);
        true
    }

    /// No reply will come to request `seq`, or none is waited for any longer. What it may have granted is given back by the next.
    pub fn on_lost(&mut self, seq: u64) {
        if self.flight.is_some_and(|flight| flight.seq == seq) {
            self.flight = None;
            self.word = None;
            self.unmet = 0;
        }
    }

    /// The ledger's reply to a central take of this node.
    pub fn on_central(&mut self, reply: &Reply, now: Mono) {
        if !reply.refused {
            self.word = Some((*reply, now));
        }
    }

    /// To be called when [`Node::wakes_at`] has come: gives back what is not needed, and reports what was spent.
    pub fn on_time(&mut self, terms: &Terms, now: Mono) -> Option<Request> {
        self.lapse(now);
        let is_due = self.wakes_at(terms).is_some_and(|at| at <= now);
        if is_due { self.give_up(now) } else { None }
    }

    /// When nobody will have asked for long enough to give back what is held; `None` when nothing is held or unreported.
    #[must_use]
    pub fn wakes_at(&self, terms: &Terms) -> Option<Mono> {
        let has_news = self.held > 0 || self.spent != self.reported;
        (has_news && self.flight.is_none())
            .then(|| self.busy_at.after(Duration::from_micros(terms.tau_us / 2)))
    }

    /// Gives back all that is held, and reports what was spent: at shutdown, or when nobody asks any more. A request that is
    /// under way is given up: its reply would come too late.
    pub fn give_up(&mut self, now: Mono) -> Option<Request> {
        if self.held == 0 && self.spent == self.reported && self.flight.is_none() {
            return None;
        }
        (self.held, self.promised) = (0, 0);
        Some(self.send(0, 0, now))
    }

    /// Forgets the lease, because the key was reset.
    pub fn forget(&mut self) {
        (self.held, self.promised) = (0, 0);
        self.flight = None;
        self.word = None;
        self.dry_until = Mono(0);
    }

    /// Permits that could be spent at `now`, if nothing more came.
    #[must_use]
    pub fn spendable(&self, terms: &Terms, now: Mono) -> u64 {
        if now < self.expires { self.valid(terms, now) } else { 0 }
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

    /// True while the key is worth leasing here.
    #[must_use]
    pub const fn leases(&self) -> bool {
        self.leases
    }

    /// Drops what is held when its time is up.
    fn lapse(&mut self, now: Mono) {
        if self.held > 0 && now >= self.expires {
            (self.held, self.promised) = (0, 0);
        }
    }

    /// Of the permits held, those that are not valid yet.
    fn promised(&self, terms: &Terms, now: Mono) -> u64 {
        if now >= self.clear || self.promised == 0 {
            return 0;
        }
        let waits_us = (self.clear.0 - now.0).div_ceil(1_000);
        waits_us.saturating_mul(terms.per_us).div_ceil(terms.interval).min(self.promised)
    }

    fn valid(&self, terms: &Terms, now: Mono) -> u64 {
        self.held.saturating_sub(self.promised(terms, now))
    }

    /// Until when a lease may be spent, from when it was asked for.
    fn expiry(&self, terms: &Terms, reply: &Reply, sent: Mono, _received: Mono) -> Mono {
        let lives_us = if terms.windows.is_some() {
            reply.ends_us.saturating_sub(reply.now_us).saturating_sub(terms.skew_us)
        } else {
            terms.tau_us
        };
        let million = u64::from(terms.drift_ppm) + 1_000_000;
        Mono(sent.0.saturating_add((u128::from(lives_us) * 1_000_000_000 / u128::from(million)) as u64))
    }

    /// Until when the ledger can grant nothing of use.
    fn dry(&self, terms: &Terms, reply: &Reply, now: Mono) -> Mono {
        let short = self.unmet.saturating_sub(self.held).clamp(1, terms.burst);
        now.after(Duration::from_micros(terms.wait_us(reply, short).min(terms.horizon_us).max(1)))
    }

    /// Room for a request ahead of exhaustion, or to keep alive what is still needed.
    fn ask_ahead(&mut self, terms: &Terms, now: Mono) -> Option<Request> {
        if self.flight.is_some() || now < self.dry_until || self.promised(terms, now) > 0 {
            return None;
        }
        let low = self.demand.covering(2 * self.round_trip_ns, terms.horizon_us * 1_000);
        let ends_soon = self.expires.0.saturating_sub(now.0) < 2 * self.round_trip_ns;
        (self.held <= low || ends_soon).then(|| self.request(terms, now))
    }

    /// A request for a horizon's worth, and for those who wait.
    fn request(&mut self, terms: &Terms, now: Mono) -> Request {
        let horizon_ns = terms.horizon_us * 1_000;
        let need = self.unmet.saturating_sub(self.held).min(terms.burst);
        let wish = self.demand.covering(horizon_ns, horizon_ns).saturating_sub(self.held);
        self.send(wish.clamp(need, terms.burst), need, now)
    }

    fn send(&mut self, want: u64, need: u64, now: Mono) -> Request {
        self.seq += 1;
        self.flight = Some(Flight { seq: self.seq, sent: now });
        self.reported = self.spent;
        Request { node: self.id, seq: self.seq, held: self.held, spent: self.spent, want, need }
    }

    /// The gate: a lease must be worth its message, and the quota large enough to be shared out. It closes at half of what opens it.
    fn worth_leasing(&mut self, terms: &Terms, _now: Mono) -> bool {
        let horizon_ns = terms.horizon_us * 1_000;
        let (active, room) = match &self.word {
            Some((reply, _)) => {
                (reply.active.max(1), terms.full().saturating_sub(reply.taken) / terms.interval)
            }
            None => (1, terms.burst),
        };
        let factor = if self.leases { 1 } else { 2 };
        let supply = terms.ration >= 2 * factor * active || room >= 128 * factor * active;
        let wanted = self.demand.expected(horizon_ns, horizon_ns) >= (2 * factor) as f64;
        self.leases = supply && wanted;
        self.leases
    }

    /// What an immediate take could still get, and nanoseconds until all is there again, by the ledger's last word.
    fn left(&self, terms: &Terms, now: Mono) -> (u64, u64) {
        let held = self.valid(terms, now);
        let Some((reply, at)) = &self.word else { return (held, 0) };
        let elapsed_us = now.0.saturating_sub(at.0) / 1_000;
        let floor = (reply.out + reply.out_before) * terms.interval;
        let back = elapsed_us.min(reply.taken / terms.per_us.max(1) + 1) * terms.per_us;
        let taken = reply.taken.saturating_sub(back).max(floor.min(reply.taken));
        let there = terms.full().saturating_sub(taken) / terms.interval;
        let owed = taken.saturating_sub(self.held * terms.interval);
        let reset_us = if terms.windows.is_some() {
            reply.ends_us.saturating_sub(reply.now_us + elapsed_us)
        } else {
            owed.div_ceil(terms.per_us)
        };
        (held + there, reset_us * 1_000)
    }

    fn deny(&self, terms: &Terms, cost: u64, now: Mono) -> Decision {
        let (left, reset_ns) = self.left(terms, now);
        if cost > terms.burst {
            return Decision::never(terms.limit, left, reset_ns);
        }
        let until = if cost <= self.held { self.clear } else { self.dry_until };
        Decision::deny(terms.limit, left.min(cost.saturating_sub(1)), until.0.saturating_sub(now.0), reset_ns)
    }
}

impl Step {
    const fn decided(decision: Decision, send: Option<Request>) -> Self {
        Self { verdict: Verdict::Decided(decision), send }
    }
}
