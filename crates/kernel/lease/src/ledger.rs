//! One key's account, where all nodes meet. A plain value: no clock, no I/O; `ledger.lua` repeats it number
//! by number.

mod grant;

use std::collections::BTreeMap;

use crate::terms::{LATEST_US, MAX_TAKEN};
use crate::{LeaseRequest, LedgerCall, LedgerReply, Mistake, Op, Terms};

/// Nodes that may lease from one key at a time; any further one takes centrally.
pub const MOST_NODES: usize = 1_024;
/// When the clock goes back by no more than this, the ledger waits until it has caught up. After a greater
/// step, the account continues from the new time.
pub const LONGEST_WAIT_US: u64 = 60_000_000;

/// The most hits that takes count in a window of a smaller limit: 2^34 - 1.
const MOST_HITS: u64 = (1 << 34) - 1;
/// A window with a greater count ends at a multiple of this.
const STEP_US: u64 = 20_000;
/// Number of epochs for which a window keeps the permits of a node that sends nothing.
const HELD_EPOCHS: u64 = 8;

/// The account of one key: its debt, and the permits that each node may still spend.
///
/// An unseen key is [`Ledger::default`], and so is a key that is full with nothing out: forgetting it loses
/// nothing.
///
/// # Clock
/// Time is the ledger's own: the store's. A step back by up to a minute is waited out, so that nothing comes
/// back twice. After a greater one the account continues from the new time, and the step itself brings
/// nothing back.
///
/// # Example
/// ```
/// # use tollgate_lease::*;
/// # use tollgate_core::Quota;
/// # use std::time::Duration;
/// let terms = Terms::of(&Quota::token_bucket(1_000, Duration::from_secs(1))?).ok_or("not leased")?;
/// let (mut ledger, noon_us) = (Ledger::default(), 1_700_000_000_000_000);
/// let request = LeaseRequest { node: 7, seq: 1, held: 0, spent: 0, want: 100, need: 1, least: 1 };
/// let call = LedgerCall { op: Op::Lease(request), window_ends_us: 0 };
/// let reply = ledger.apply(&terms, call, noon_us);
/// assert_eq!((reply.granted, reply.out), (100, 100));
/// assert!(ledger.apply(&terms, call, noon_us).rejected, "the request came twice");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The [`Terms::interval`] in whose units `taken` is written; 0 when nothing was written yet.
    pub interval: u64,
    /// Debt of the key, in units: 0 when it is full. Never below the permits leased out.
    pub taken: u64,
    /// Permits leased out, as reported in this epoch.
    pub out: u64,
    /// Permits leased out, as last reported in the epoch before.
    pub out_before: u64,
    /// Time of the account, in microseconds.
    pub at_us: u64,
    /// When the epoch ends.
    pub ends_us: u64,
    /// When the window ends; 0 of a bucket.
    pub window_ends_us: u64,
    /// Until then nothing is promised ahead: a node found that the burst is out.
    pub crowded_until_us: u64,
    /// Number of nodes that asked then.
    pub crowd: u64,
    /// Counts epochs; entries name theirs.
    pub epoch: u64,
    /// Nothing comes back before this instant, since a bucket owes more than `taken` can hold; otherwise 0.
    pub dry_until_us: u64,
    /// The [`Terms::per_us`] by which that instant was computed.
    pub dry_per_us: u64,
    /// Permits of `taken` that were charged to this window; 0 for a bucket.
    pub charged: u64,
    /// The last known account of each node that leases, by [`LeaseRequest::node`].
    pub entries: BTreeMap<u64, NodeEntry>,
}

/// The account of one node in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEntry {
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
    /// Does `call` at `now_us`, microseconds of the ledger's clock.
    pub fn apply(&mut self, terms: &Terms, call: LedgerCall, now_us: u64) -> LedgerReply {
        self.rescale(terms);
        let now_us = self.clock(terms, now_us);
        if !terms.is_window() {
            (self.window_ends_us, self.charged) = (0, 0);
            self.turn_epochs(terms, now_us);
            self.refill(terms, now_us);
        } else if !self.enter_window(terms, call.window_ends_us, now_us) {
            let seq = if let Op::Lease(request) = call.op { request.seq } else { 0 };
            return LedgerReply { now_us, rejected: true, seq, ..LedgerReply::default() };
        }
        let result = self.operate(terms, call.op, now_us);
        if terms.is_window() && self.taken > MOST_HITS {
            // As in core, which has no room for a finer end beside a great count.
            self.window_ends_us = self.window_ends_us.div_ceil(STEP_US) * STEP_US;
        }
        let reply = LedgerReply {
            now_us,
            taken: self.taken,
            out: self.out,
            out_before: self.out_before,
            ends_us: if terms.is_window() { self.window_ends_us } else { self.ends_us },
            dry_us: self.dry_us(now_us),
            active: self.entries.len() as u64,
            crowd: if self.crowded_until_us > now_us { self.crowd } else { 0 },
            ..result
        };
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

    /// The time from which the state may be forgotten, in microseconds of the ledger's clock: it then equals
    /// that of an unseen key, whatever the nodes did.
    #[must_use]
    pub fn forget_at_us(&self, terms: &Terms) -> u64 {
        if terms.is_window() {
            return self.window_ends_us;
        }
        let refilled = self.taken.div_ceil(terms.per_us) + self.dry_us(self.at_us);
        if self.entries.is_empty() || terms.has(Mistake::ForgetsEarly) {
            self.at_us + refilled
        } else {
            self.ends_us + terms.tau_us + refilled
        }
    }

    /// After a change of the rate, a debt stays the same in permits, including the part of a permit:
    /// otherwise callers of two rates that take turns would round away all refill. Rounded up by two units at
    /// most, computed in doubles.
    fn rescale(&mut self, terms: &Terms) {
        let of = self.interval;
        let to = terms.interval;
        if self.dry_until_us > 0 && (of, self.dry_per_us) != (to, terms.per_us) {
            let then = of as f64 / self.dry_per_us as f64;
            let stretch = if terms.is_window() { 0.0 } else { to as f64 / terms.per_us as f64 / then };
            let dry_us = (self.dry_us(self.at_us) as f64 * stretch).ceil() as u64;
            self.stay_dry(terms, self.at_us, dry_us);
        }
        if of == to {
            return;
        }
        if let Some(whole) = self.taken.checked_div(of) {
            let rest = self.taken % of;
            let rest = if terms.has(Mistake::RoundsDebtUp) && rest > 0 { of } else { rest };
            let part = (rest as f64 / of as f64 * to as f64).ceil() as u64 + u64::from(rest > 0);
            self.taken = whole.saturating_mul(to).saturating_add(part.min(to)).min(MAX_TAKEN);
        }
        self.interval = to;
    }

    /// The time to continue from: never earlier than the account's, unless its clock went back too far to be
    /// waited for.
    fn clock(&mut self, terms: &Terms, now_us: u64) -> u64 {
        let back_us = self.at_us.saturating_sub(now_us);
        if terms.has(Mistake::ClockStepMints) && back_us > 0 {
            self.at_us = now_us;
            return now_us;
        }
        if back_us > LONGEST_WAIT_US {
            self.dry_until_us = self.dry_until_us.saturating_sub(back_us);
            self.at_us = now_us;
            self.ends_us = now_us + terms.tau_us;
        }
        now_us.max(self.at_us)
    }

    /// Brings the refill until `to_us`. The debt never falls below the permits leased out.
    fn refill(&mut self, terms: &Terms, to_us: u64) {
        if self.dry_until_us > 0 {
            // First the debt that is written as time.
            self.at_us = self.at_us.max(to_us.min(self.dry_until_us));
            if to_us >= self.dry_until_us {
                (self.dry_until_us, self.dry_per_us) = (0, 0);
            }
        }
        let elapsed_us = to_us.saturating_sub(self.at_us).min(self.taken / terms.per_us + 1);
        let floor = self.out_units(terms).min(self.taken);
        self.taken = self.taken.saturating_sub(elapsed_us * terms.per_us).max(floor);
        self.at_us = self.at_us.max(to_us);
    }

    /// Microseconds from `now_us` on in which nothing comes back.
    const fn dry_us(&self, now_us: u64) -> u64 {
        self.dry_until_us.saturating_sub(now_us)
    }

    /// Lets nothing come back for `dry_us` from `now_us` on.
    fn stay_dry(&mut self, terms: &Terms, now_us: u64, dry_us: u64) {
        self.dry_until_us = now_us.saturating_add(dry_us).min(LATEST_US).max(now_us);
        self.dry_per_us = terms.per_us;
        if dry_us == 0 {
            (self.dry_until_us, self.dry_per_us) = (0, 0);
        }
    }

    /// Owes `cost` permits more, even if they are not available.
    fn owe(&mut self, terms: &Terms, cost: u64, now_us: u64) {
        let cost = cost.min(1 << 53);
        if terms.is_window() || terms.has(Mistake::ForgetsDeepDebt) {
            self.taken = (self.taken + terms.units(cost)).min(MAX_TAKEN);
            self.charged = (self.charged + if terms.is_window() { cost } else { 0 }).min(MAX_TAKEN);
            return;
        }
        let fit = cost.min((MAX_TAKEN - self.taken.min(MAX_TAKEN)) / terms.interval);
        self.taken += fit * terms.interval;
        if cost > fit {
            let dry_us = self.dry_us(now_us).saturating_add(terms.span_us(cost - fit));
            self.stay_dry(terms, now_us, dry_us);
        }
    }

    /// Owes `cost` permits less, but not less than the permits leased out: first of the debt that is written
    /// as time.
    fn repay(&mut self, terms: &Terms, cost: u64, now_us: u64) {
        let mut cost = cost.min(1 << 53);
        let dry_us = self.dry_us(now_us);
        if dry_us > 0 {
            let permits = terms.permits_in_us(dry_us);
            if cost <= permits {
                let back_us = terms.span_us(cost).saturating_sub(1).min(dry_us);
                return self.stay_dry(terms, now_us, dry_us - back_us);
            }
            // A part of a permit is left, in units from here on.
            cost -= permits;
            let rest_us = dry_us.saturating_sub(terms.span_us(permits)) + 1;
            self.taken = (self.taken + rest_us * terms.per_us).min(MAX_TAKEN);
            self.stay_dry(terms, now_us, 0);
        }
        let floor = if terms.has(Mistake::OverfillsOnGiveBack) { 0 } else { self.out_units(terms) };
        self.taken = self.taken.saturating_sub(terms.units(cost)).max(floor);
    }

    /// Permits leased out, in units.
    fn out_units(&self, terms: &Terms) -> u64 {
        terms.units(self.out + self.out_before)
    }

    /// Begins the epochs that are due: the permits of a node that sent nothing in all of the last one count
    /// as spent.
    fn turn_epochs(&mut self, terms: &Terms, now_us: u64) {
        if terms.is_window() && terms.has(Mistake::KeepsEntries) {
            return;
        }
        while !self.entries.is_empty() && self.ends_us <= now_us {
            if !terms.is_window() && !terms.has(Mistake::CreditsLostRefill) {
                // First what comes back until the epoch's end, under the floor that held until then: lost
                // refill stays lost.
                self.refill(terms, self.ends_us);
            }
            self.epoch += 1;
            self.ends_us += terms.tau_us;
            if terms.is_window() {
                self.write_off_in_window();
            } else {
                self.write_off(if terms.has(Mistake::CreditsWrittenOff) { 8 } else { 1 });
            }
        }
        if self.entries.is_empty() {
            self.ends_us = now_us + terms.tau_us;
        }
    }

    /// Removes the entries of a bucket that are older than `kept` epochs.
    fn write_off(&mut self, kept: u64) {
        self.out_before = std::mem::take(&mut self.out);
        self.entries.retain(|_, entry| entry.epoch + kept >= self.epoch);
    }

    /// The same in a window: nothing comes back by time, so there is no hurry, and nodes can report lapsed
    /// permits for some more epochs.
    fn write_off_in_window(&mut self) {
        let kept = |entry: &NodeEntry| if entry.held > 0 { HELD_EPOCHS } else { 1 };
        self.entries.retain(|_, entry| entry.epoch + kept(entry) >= self.epoch);
        self.out = self.entries.values().map(|entry| entry.held).sum();
    }

    /// A window at `now_us`: continues the current one, or begins the next. False where the caller's end of
    /// it is not possible.
    fn enter_window(&mut self, terms: &Terms, ends_us: u64, now_us: u64) -> bool {
        let longest_us = terms.longest_us();
        let ends_us = if terms.begins_with_first_hit() { now_us + longest_us } else { ends_us };
        let is_possible = now_us < ends_us && ends_us - now_us <= longest_us;
        let has_ended = self.window_ends_us <= now_us;
        // The clock went back too far to wait for the window's end.
        let is_beyond = self.window_ends_us.saturating_sub(now_us) > longest_us + LONGEST_WAIT_US;
        if (has_ended || is_beyond) && !is_possible {
            return false;
        }
        if has_ended {
            *self = Self { interval: terms.interval, ends_us: self.ends_us, ..Self::default() };
            self.window_ends_us = ends_us;
        } else if is_beyond {
            // The count stays until a nearer end, but not nearer than that of the current leases.
            self.window_ends_us = ends_us.max(now_us + terms.tau_us);
        }
        self.turn_epochs(terms, now_us);
        self.at_us = now_us;
        true
    }

    /// The operation itself; returns only the fields of its own result.
    fn operate(&mut self, terms: &Terms, op: Op, now_us: u64) -> LedgerReply {
        let admitted = match op {
            Op::Lease(request) => return self.lease(terms, request, now_us),
            Op::Take { cost, times } => self.take(terms, cost, times, terms.is_window()),
            Op::Try { cost, times } => self.take(terms, cost, times, false),
            Op::Charge { .. } => u64::from(terms.room(self.taken) > 0),
            Op::GiveBack { .. } | Op::Peek => u64::from(self.taken <= terms.full()),
        };
        match op {
            Op::GiveBack { cost } => self.repay(terms, cost, now_us),
            Op::Charge { cost } if terms.has(Mistake::ChargesWhatFits) => {
                self.owe(terms, cost.min(terms.room(self.taken)), now_us);
            }
            Op::Charge { cost } => self.owe(terms, cost, now_us),
            _ => {}
        }
        LedgerReply { admitted, ..LedgerReply::default() }
    }

    /// Takes `cost` permits `times` times; returns the number that fit. `counts_denied`: hits that are denied
    /// count too.
    fn take(&mut self, terms: &Terms, cost: u64, times: u64, counts_denied: bool) -> u64 {
        if cost == 0 {
            return if self.taken <= terms.full() { times } else { 0 };
        }
        let free = terms.full().saturating_sub(self.taken);
        let fit = if cost > terms.burst { 0 } else { free / (cost * terms.interval) };
        let admitted = fit.min(times);
        let counted = if counts_denied { times } else { admitted };
        // Hits above a small limit say nothing more, as in core.
        let most = if terms.is_window() && terms.burst < MOST_HITS { MOST_HITS } else { MAX_TAKEN };
        let taken = (self.taken + terms.units(cost.saturating_mul(counted))).min(most);
        self.taken = taken.max(self.taken);
        admitted
    }

    /// Settles a node's report, then grants its request.
    fn lease(&mut self, terms: &Terms, request: LeaseRequest, now_us: u64) -> LedgerReply {
        let LeaseRequest { node, seq, held, spent, .. } = request;
        let known = self.entries.get(&node).copied();
        if known.is_some_and(|known| seq <= known.seq) && !terms.has(Mistake::SettlesTwice) {
            return LedgerReply { seq, rejected: true, ..LedgerReply::default() };
        }
        if known.is_none() && self.entries.len() >= MOST_NODES {
            return LedgerReply { seq, ..LedgerReply::default() };
        }
        // Holding more than was granted: the store has lost writes, and permits that it does not know of are
        // dropped.
        let renewed = known.is_some_and(|known| held <= known.held);
        let kept = if renewed { held } else { 0 };
        if let Some(known) = known {
            self.settle(terms, known, renewed.then_some(request));
        }
        let active = self.entries.len() as u64 + u64::from(known.is_none());
        let granted = self.grant(terms, request, kept, active, now_us);
        self.taken += granted * terms.interval;
        self.out += kept + granted;
        self.entries.insert(node, NodeEntry { seq, held: kept + granted, spent, epoch: self.epoch });
        LedgerReply { seq, renewed, granted, ..LedgerReply::default() }
    }

    /// Removes a node's known permits from those leased out, and credits the permits that it reports as
    /// neither held nor spent.
    fn settle(&mut self, terms: &Terms, known: NodeEntry, report: Option<LeaseRequest>) {
        if known.epoch == self.epoch || terms.is_window() {
            self.out -= known.held.min(self.out);
        } else if known.epoch + 1 == self.epoch {
            self.out_before -= known.held.min(self.out_before);
        }
        let Some(LeaseRequest { held, spent, .. }) = report else { return };
        let unspent = (known.held - held).saturating_sub(spent.saturating_sub(known.spent));
        if unspent > 0 {
            self.taken = self.without_denied(terms).saturating_sub(terms.units(unspent));
        }
    }

    /// The debt without the hits that a full window denied and counted: they would swallow the unspent
    /// permits that come back. Admitted and leased permits together never exceed a full window, so nothing
    /// else is forgiven; of the charges, nothing is.
    fn without_denied(&self, terms: &Terms) -> u64 {
        if terms.is_window() && !terms.has(Mistake::SwallowsWhatComesBack) {
            let charged = if terms.has(Mistake::ForgivesCharges) { 0 } else { self.charged };
            self.taken.min(terms.full() + charged)
        } else {
            self.taken
        }
    }
}
