//! One key's account, where all nodes meet. A plain value: no clock, no I/O; the script repeats it number by number.

use std::collections::BTreeMap;

#[cfg(feature = "faults")]
use crate::Fault;
use crate::terms::DEEPEST;
use crate::{Call, Op, Reply, Request, Terms};

/// Nodes that may lease from one key at a time; any further one takes centrally.
pub const MOST_NODES: usize = 1_024;
/// A clock that went back by no more than this is waited for; beyond it, the account goes on from the new time.
pub const LONGEST_WAIT_US: u64 = 60_000_000;

/// How many epochs a silent node's permits of a window are kept for it.
const HELD_EPOCHS: u64 = 8;
/// How long nothing is promised after a node found all of the burst out.
const CROWDED_US: u64 = 3_000_000;

/// The account of one key: what it owes, and who may still spend how much.
///
/// An unseen key is [`Ledger::default`], and so is one that is full with nothing out: forgetting that loses nothing.
///
/// # Clock
/// Time is the ledger's own: the store's. It never goes back by less than a minute: such a step is waited out, so that nothing
/// comes back twice. After a greater one the account goes on from the new time, and nothing comes back for the step itself.
///
/// # Example
/// ```
/// # use tollgate_lease::*;
/// # use tollgate_core::Quota;
/// # use std::time::Duration;
/// let terms = Terms::of(&Quota::token_bucket(1_000, Duration::from_secs(1))?).ok_or("not leased")?;
/// let (mut ledger, noon_us) = (Ledger::default(), 1_700_000_000_000_000);
/// let ask = Request { node: 7, seq: 1, held: 0, spent: 0, want: 100, need: 1, least: 1 };
/// let reply = ledger.apply(&terms, Call { op: Op::Lease(ask), window_ends_us: 0 }, noon_us);
/// assert_eq!((reply.granted, reply.out), (100, 100));
/// let again = ledger.apply(&terms, Call { op: Op::Lease(ask), window_ends_us: 0 }, noon_us);
/// assert!(again.refused); // it came twice
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The [`Terms::interval`] in whose units `taken` is written; 0 when nothing was written yet.
    pub interval: u64,
    /// What the key owes, in units: full is 0. Never below what is out.
    pub taken: u64,
    /// Permits leased out: of entries of this epoch.
    pub out: u64,
    /// Permits leased out: of entries of the epoch before.
    pub out_before: u64,
    /// Time of the account, in microseconds.
    pub at_us: u64,
    /// When the epoch ends.
    pub ends_us: u64,
    /// When the window ends; 0 of a bucket.
    pub window_ends_us: u64,
    /// Until then nothing is promised ahead: somebody found that the burst is out.
    pub crowded_until_us: u64,
    /// How many nodes asked then.
    pub crowd: u64,
    /// Counts epochs, so that entries can say which is theirs.
    pub epoch: u64,
    /// What each node that leases was last known to hold, by [`Request::node`].
    pub entries: BTreeMap<u64, Entry>,
}

/// What is known of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its newest request.
    pub seq: u64,
    /// Permits that it may hold, in all.
    pub held: u64,
    /// Permits that it had spent when it sent that request.
    pub spent: u64,
    /// Epoch in which that request came.
    pub epoch: u64,
}

impl Ledger {
    /// Does `call` at `now_us`, microseconds of the ledger's clock, and says how things stand afterwards.
    pub fn apply(&mut self, terms: &Terms, call: Call, now_us: u64) -> Reply {
        self.rescale(terms);
        let now_us = self.clock(terms, now_us);
        if terms.windows.is_none() {
            self.advance(terms, now_us);
        } else if !self.in_window(terms, call.window_ends_us, now_us) {
            let seq = if let Op::Lease(request) = call.op { request.seq } else { 0 };
            return Reply { now_us, refused: true, seq, ..Reply::default() };
        }
        let full = terms.full();
        let mut reply = Reply { admitted: u64::from(self.taken <= full), ..Reply::default() };
        match call.op {
            Op::Lease(request) => reply = self.lease(terms, request, now_us),
            Op::Take { cost, times } => {
                reply.admitted = self.take(terms, cost, times, terms.windows.is_some())
            }
            Op::Try { cost, times } => reply.admitted = self.take(terms, cost, times, false),
            Op::GiveBack { cost } => {
                let floor = self.floor(terms);
                self.taken = self.taken.saturating_sub(terms.units(cost)).max(floor);
            }
            Op::Charge { cost } => self.taken = (self.taken + terms.units(cost)).min(DEEPEST),
            Op::Peek => {}
        }
        reply.now_us = now_us;
        reply.taken = self.taken;
        reply.out = self.out;
        reply.out_before = self.out_before;
        reply.ends_us = if terms.windows.is_some() { self.window_ends_us } else { self.ends_us };
        reply.active = self.entries.len() as u64;
        reply.crowd = if self.crowded_until_us > now_us { self.crowd } else { 0 };
        if self.is_fresh() {
            *self = Self::default();
        }
        reply
    }

    /// True when the state equals that of an unseen key, so that nothing need be kept.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.taken == 0 && self.entries.is_empty()
    }

    /// From when on the state may be forgotten, in microseconds of the ledger's clock: it then equals that of an unseen key,
    /// whatever the nodes did.
    #[must_use]
    pub fn forget_at_us(&self, terms: &Terms) -> u64 {
        if terms.windows.is_some() {
            return self.window_ends_us;
        }
        let refilled = self.taken.div_ceil(terms.per_us);
        #[cfg(feature = "faults")]
        if terms.has(Fault::ForgetsEarly) {
            return self.at_us + refilled;
        }
        if self.entries.is_empty() { self.at_us + refilled } else { self.ends_us + terms.tau_us + refilled }
    }

    /// After a change of the rate, what is owed stays the same in permits: also the part of a permit, or callers of two rates that
    /// take turns would round away all that comes back. Rounded up by two units at most, as doubles do it.
    fn rescale(&mut self, terms: &Terms) {
        let (of, to) = (self.interval, terms.interval);
        if of != to {
            if let Some(whole) = self.taken.checked_div(of) {
                let rest = self.taken % of;
                #[cfg(feature = "faults")]
                let rest = if terms.has(Fault::RoundsDebtUp) && rest > 0 { of } else { rest };
                let part = (rest as f64 / of as f64 * to as f64).ceil() as u64 + u64::from(rest > 0);
                self.taken = whole.saturating_mul(to).saturating_add(part.min(to)).min(DEEPEST);
            }
            self.interval = to;
        }
    }

    /// The time to go on at: never earlier than the account's, unless its clock went back too far to be waited for.
    fn clock(&mut self, terms: &Terms, now_us: u64) -> u64 {
        let back_us = self.at_us.saturating_sub(now_us);
        #[cfg(feature = "faults")]
        if terms.has(Fault::ClockStepMints) && back_us > 0 {
            self.at_us = now_us;
            return now_us;
        }
        if back_us > LONGEST_WAIT_US {
            self.at_us = now_us;
            self.ends_us = now_us + terms.tau_us;
        }
        now_us.max(self.at_us)
    }

    /// What is owed never falls below this: what may still be spent is not handed out again.
    fn floor(&self, terms: &Terms) -> u64 {
        #[cfg(feature = "faults")]
        if terms.has(Fault::OverfillsOnGiveBack) {
            return 0;
        }
        terms.units(self.out + self.out_before)
    }

    /// What is owed without the hits that a window refused when it was full, and counted: they would swallow what comes back unspent.
    /// What was admitted and what is out never pass a full window together, so that no more is forgiven than was never had; but for
    /// what was charged beyond it.
    fn without_refused(&self, terms: &Terms) -> u64 {
        #[cfg(feature = "faults")]
        if terms.has(Fault::SwallowsWhatComesBack) {
            return self.taken;
        }
        if terms.windows.is_some() { self.taken.min(terms.full()) } else { self.taken }
    }

    /// A bucket at `now_us`: what came back, and what was not heard of for an epoch.
    fn advance(&mut self, terms: &Terms, now_us: u64) {
        self.window_ends_us = 0;
        self.turn_epochs(terms, now_us);
        self.refill(terms, now_us);
    }

    /// Begins the epochs that are due: what a node held that was silent for all of the last one counts as spent.
    fn turn_epochs(&mut self, terms: &Terms, now_us: u64) {
        #[cfg(feature = "faults")]
        if terms.has(Fault::KeepsEntries) && terms.windows.is_some() {
            return;
        }
        while !self.entries.is_empty() && self.ends_us <= now_us {
            // First what comes back until the epoch's end, under the floor that held until then: what was lost is lost.
            #[cfg(feature = "faults")]
            let skips = terms.has(Fault::CreditsLostRefill);
            #[cfg(not(feature = "faults"))]
            let skips = false;
            if !skips && terms.windows.is_none() {
                self.refill(terms, self.ends_us);
            }
            self.epoch += 1;
            self.ends_us += terms.tau_us;
            if terms.windows.is_some() {
                // Nothing comes back by time, so that there is no hurry: what lapsed at a node can be told for some epochs more.
                let epoch = self.epoch;
                let kept = |entry: &Entry| if entry.held > 0 { HELD_EPOCHS } else { 1 };
                self.entries.retain(|_, entry| entry.epoch + kept(entry) >= epoch);
                self.out = self.entries.values().map(|entry| entry.held).sum();
                continue;
            }
            self.out_before = std::mem::take(&mut self.out);
            #[cfg(feature = "faults")]
            let kept = if terms.has(Fault::CreditsWrittenOff) { 8 } else { 1 };
            #[cfg(not(feature = "faults"))]
            let kept = 1;
            self.entries.retain(|_, entry| entry.epoch + kept >= self.epoch);
        }
        if self.entries.is_empty() {
            self.ends_us = now_us + terms.tau_us;
        }
    }

    fn refill(&mut self, terms: &Terms, to_us: u64) {
        let elapsed_us = to_us.saturating_sub(self.at_us).min(self.taken / terms.per_us + 1);
        let floor = terms.units(self.out + self.out_before);
        self.taken = self.taken.saturating_sub(elapsed_us * terms.per_us).max(floor.min(self.taken));
        self.at_us = self.at_us.max(to_us);
    }

    /// A window at `now_us`: goes on with the one in force, or begins the next. False where the caller's end of it is not possible.
    fn in_window(&mut self, terms: &Terms, ends_us: u64, now_us: u64) -> bool {
        let longest_us = terms.longest_us();
        let ends_us = if terms.begins_with_first_hit() { now_us + longest_us } else { ends_us };
        let is_possible = now_us < ends_us && ends_us - now_us <= longest_us;
        // A clock that went back too far to wait for the window's end: what was counted stays counted, until a nearer end, but not
        // nearer than that of the leases that are out.
        let is_beyond = self.window_ends_us.saturating_sub(now_us) > longest_us + LONGEST_WAIT_US;
        let has_ended = self.window_ends_us <= now_us;
        if (has_ended || is_beyond) && !is_possible {
            return false;
        }
        if has_ended {
            *self = Self { interval: terms.interval, ends_us: self.ends_us, ..Self::default() };
            self.window_ends_us = ends_us;
        } else if is_beyond {
            self.window_ends_us = ends_us.max(now_us + terms.tau_us);
        }
        self.turn_epochs(terms, now_us);
        self.at_us = now_us;
        true
    }

    /// `counts_all`: what is refused, too, as windows do.
    fn take(&mut self, terms: &Terms, cost: u64, times: u64, counts_all: bool) -> u64 {
        let room = terms.full().saturating_sub(self.taken);
        if cost == 0 {
            return if self.taken <= terms.full() { times } else { 0 };
        }
        let fit = if cost > terms.burst { 0 } else { room / (cost * terms.interval) };
        let admitted = fit.min(times);
        let counted = if counts_all { times } else { admitted };
        self.taken = (self.taken + terms.units(cost.saturating_mul(counted))).min(DEEPEST);
        admitted
    }

    fn lease(&mut self, terms: &Terms, request: Request, now_us: u64) -> Reply {
        let Request { node, seq, held, spent, .. } = request;
        let refused = Reply { seq, refused: true, ..Reply::default() };
        let known = self.entries.get(&node).copied();
        let mut kept = 0;
        if let Some(known) = known {
            let is_old = seq <= known.seq;
            #[cfg(feature = "faults")]
            let is_old = is_old && !terms.has(Fault::SettlesTwice);
            if is_old {
                return refused;
            }
            if known.epoch == self.epoch || terms.windows.is_some() {
                self.out -= known.held.min(self.out);
            } else if known.epoch + 1 == self.epoch {
                self.out_before -= known.held.min(self.out_before);
            }
            // Holding more than was granted: the store has lost writes, and what it does not know of is dropped.
            if held <= known.held {
                kept = held;
                let unspent = (known.held - held).saturating_sub(spent.saturating_sub(known.spent));
                if unspent > 0 {
                    self.taken = self.without_refused(terms).saturating_sub(terms.units(unspent));
                }
            }
        } else if self.entries.len() >= MOST_NODES {
            return Reply { seq, ..Reply::default() };
        }
        let renewed = known.is_some_and(|known| held <= known.held);
        let active = self.entries.len() as u64 + u64::from(known.is_none());
        let granted = self.grant(terms, request, kept, active, now_us);
        self.taken += granted * terms.interval;
        self.out += kept + granted;
        self.entries.insert(node, Entry { seq, held: kept + granted, spent, epoch: self.epoch });
        Reply { seq, renewed, granted, ..Reply::default() }
    }

    /// How many permits a request gets: for callers that wait, what is there; beyond that its share of it; and where not enough is
    /// there, its share of what will be, behind what others were promised. Never less than is of use: parts that no caller can take
    /// would lie with the nodes, and all of the burst with them.
    fn grant(&mut self, terms: &Terms, request: Request, kept: u64, active: u64, now_us: u64) -> u64 {
        let Request { want, need, least, .. } = request;
        #[cfg(feature = "faults")]
        let least = if terms.has(Fault::GrantsParts) { 0 } else { least };
        let out = self.out + self.out_before + kept;
        let room = terms.room(self.taken);
        let ration = (terms.ration / active).max(1);
        // With half of the burst out, rations end, or those who take centrally would find nothing.
        let spare = (terms.burst / 2).saturating_sub(out);
        let ahead_of_need = ration.min(spare).max(room / (2 * active));
        let share = need.max(least).max(ahead_of_need).min(want);
        let granted = if share <= room || terms.windows.is_some() {
            share.min(room)
        } else {
            // A place in the queue for what comes back: one for each node, and at its end.
            let turn = terms.turn(active);
            let queued = self.taken.saturating_sub(terms.full());
            let has_place = queued < turn * active * terms.interval;
            // Out never exceeds the burst, so that the refill that pays for a promise is never held up.
            let uncommitted = terms.burst.saturating_sub(out);
            #[cfg(feature = "faults")]
            let uncommitted = if terms.has(Fault::NoCapOnPromises) { u64::MAX } else { uncommitted };
            // Nodes hold all that is owed, unspent, so that refill is held up: they are asked too seldom for what they hold. Or there are
            // fewer places than nodes, and whoever has one keeps it. Then all take from the ledger, as they come.
            let is_held_up = need > 0 && room < least && self.taken < terms.units(out + 1);
            let is_full = uncommitted < least && active.saturating_mul(least) > terms.burst;
            #[cfg(feature = "faults")]
            let (is_held_up, is_full) =
                if terms.has(Fault::NoCapOnPromises) { (false, false) } else { (is_held_up, is_full) };
            if has_place && (is_held_up || is_full) {
                (self.crowd, self.crowded_until_us) = (active, now_us + CROWDED_US);
            }
            if has_place && self.crowded_until_us <= now_us {
                turn.max(room).max(least).min(want).min(uncommitted)
            } else {
                room
            }
        };
        if granted < least { 0 } else { granted }
    }
}
