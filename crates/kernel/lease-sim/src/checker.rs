//! The laws, checked against the events of a run, by arithmetic of their own: nothing here comes from the
//! code under test except the numbers it shows.
//!
//! Time is the ledger's clock, since a quota counts by that. Two lines are drawn: one along that clock as it
//! runs by itself; one along its highest time so far, since a clock that went back must admit no more than
//! one that stops, except for earlier promises. Where it was set forward, or lost the key, the law's own
//! allowance is added.

use std::collections::VecDeque;

use tollgate_lease::{Ledger, Terms};

use crate::plan::{Plan, Trouble};

/// The broken law, and how.
pub type Broken = String;

pub(crate) struct Checker {
    limit: i128,
    period_ns: i128,
    burst: i128,
    is_window: bool,
    has_charges: bool,
    /// Net permits admitted.
    admitted: i128,
    /// The ledger's clock when it was last looked at, and at its highest, in microseconds.
    last_us: u64,
    high_us: u64,
    /// The account along the clock as it runs, and along its highest time so far.
    ran: BoundCheck,
    rose: BoundCheck,
    /// Along the clock as it runs: permits used, reported and held.
    owed: BoundCheck,
    pays: bool,
    /// The most permits that may be promised ahead of their refill, in permits × ns; counts where the clock
    /// was set back.
    ahead: i128,
    was_set_back: bool,
    was_set: bool,
    /// An allowance counts twice until this true instant: in the refill, and in the permits that nodes still
    /// hold from before.
    held_over: Vec<(u64, i128)>,
    window: (u64, i128),
    windows: Vec<Window>,
    /// The ledger after each recent operation; and the time for which a denial without asking may rest on
    /// that.
    stood: VecDeque<Stood>,
    believed_ns: u64,
}

/// One window, from when it was first seen until the next.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// By the ledger's clock.
    ends_us: u64,
    /// In true time.
    since_ns: u64,
    pub(crate) admitted: i128,
    /// True time at which the ledger was first empty.
    pub(crate) dry_at: Option<u64>,
    /// Permits that the ledger had, and permits leased out, when it was last asked.
    pub(crate) rest: i128,
}

/// The content of the ledger, in its units, at a true instant.
struct Stood {
    at_ns: u64,
    free: i128,
    /// The content never rises above this by time alone.
    most: i128,
    per_us: i128,
    permit: i128,
    ends_us: u64,
}

impl Stood {
    /// The least that it had at a later instant, if nobody asked: clocks may be slow by 1 in 1000.
    fn free_at(&self, at_ns: u64) -> i128 {
        let elapsed_us = i128::from(at_ns.saturating_sub(self.at_ns) / 1_000) * 998 / 1_000;
        (self.free + self.per_us * elapsed_us).min(self.most)
    }
}

/// A − r·t along one kind of time, in permits × ns of the period.
#[derive(Default)]
struct BoundCheck {
    elapsed_us: i128,
    /// For the clock's steps and lost keys.
    allowed: i128,
    /// Its least before any admission so far, and when that was in true time.
    line: tollgate_exact::Line,
}

impl BoundCheck {
    /// `now`: A times the period. Returns the height of the line above its least after `more` was admitted.
    fn admit(&mut self, now: i128, more: i128, limit: i128, held_over: i128, true_ns: u64) -> i128 {
        let refilled = limit * self.elapsed_us * 1_000 + self.allowed;
        let before = now - refilled + held_over;
        self.line.step(before, now + more - refilled, true_ns)
    }
}

/// The most that can be promised ahead of its refill, in permits × ns: a queue with a turn for each node, the
/// refill of half of tau in all, and one grant behind it: another turn, or a caller's cost. Never more than
/// the burst, since it is out.
fn most_promised(plan: &Plan) -> i128 {
    let burst = i128::from(plan.burst) * i128::from(plan.period_ns);
    let queue = (i128::from(plan.limit) * i128::from(plan.tau_ns() / 2)).min(burst / 2);
    let hoards =
        plan.troubles.iter().any(|(_, trouble)| matches!(trouble, Trouble::Hoard | Trouble::Edge { .. }));
    let largest = plan.phases.iter().map(|phase| phase.costs.largest()).max().unwrap_or(1);
    let largest = if hoards || plan.pays > 0 { plan.burst } else { largest };
    let rest = (2 * plan.hosts as u64 + largest) * plan.period_ns;
    2 * queue + i128::from(rest)
}

impl Checker {
    pub(crate) fn new(plan: &Plan, clock_us: u64) -> Self {
        Self {
            limit: i128::from(plan.limit),
            period_ns: i128::from(plan.period_ns),
            burst: i128::from(plan.burst),
            is_window: plan.is_window(),
            has_charges: plan.charges > 0 || plan.pays > 0,
            admitted: 0,
            last_us: clock_us,
            high_us: clock_us,
            ran: BoundCheck::default(),
            rose: BoundCheck::default(),
            owed: BoundCheck::default(),
            pays: plan.pays > 0,
            ahead: most_promised(plan),
            was_set_back: false,
            was_set: false,
            held_over: Vec::new(),
            window: (0, 0),
            windows: Vec::new(),
            stood: VecDeque::new(),
            // Three quarters of tau since the answer came, a late one included; and a thousandth for the
            // clocks.
            believed_ns: (plan.tau_ns() / 4 * 3 + plan.patience_ns()) * 1_005 / 1_000,
        }
    }

    /// The ledger did something, or was lost.
    pub(crate) fn stood(&mut self, ledger: &Ledger, terms: &Terms, true_ns: u64) {
        let permit = i128::from(terms.interval());
        let out = i128::from(ledger.out + ledger.out_before);
        let full = i128::from(terms.full());
        let per_us = i128::from(terms.per_us());
        let there = full - i128::from(ledger.taken);
        if let Some(window) = self.windows.last_mut().filter(|window| window.ends_us == ledger.window_ends_us)
        {
            window.rest = there.max(0) + out;
            if there <= 0 {
                window.dry_at.get_or_insert(true_ns);
            }
        }
        self.stood.push_back(Stood {
            at_ns: true_ns,
            free: full - i128::from(ledger.taken),
            most: if self.is_window { full - i128::from(ledger.taken) } else { full - out * permit },
            per_us,
            permit,
            ends_us: if self.is_window { ledger.window_ends_us } else { u64::MAX },
        });
        while self.stood.get(1).is_some_and(|next| next.at_ns + self.believed_ns < true_ns) {
            self.stood.pop_front();
        }
    }

    /// I5: a node denies by itself only permits that the ledger did not have a moment ago.
    pub(crate) fn denied_here(
        &self,
        cost: u64,
        clock_us: u64,
        true_ns: u64,
        awake_since: u64,
    ) -> Result<(), Broken> {
        let since_ns = true_ns.saturating_sub(self.believed_ns);
        if self.was_set || awake_since > since_ns || cost > self.burst as u64 {
            return Ok(());
        }
        let had_none = self.stood.iter().any(|stood| {
            let then_ns = stood.at_ns.max(since_ns);
            let has_ended = clock_us.saturating_sub((true_ns - then_ns) / 1_000 + 1_000) >= stood.ends_us;
            !has_ended && stood.free_at(then_ns) < i128::from(cost) * stood.permit
        });
        if had_none || self.stood.is_empty() {
            return Ok(());
        }
        Err(format!("I5: {cost} denied by a node alone, and there all the time for 3/4 of tau"))
    }

    /// The ledger's clock, as it runs. Without a key, nothing remembers that it was ever later.
    pub(crate) fn clock(&mut self, clock_us: u64, has_key: bool) {
        let ran_us = clock_us.saturating_sub(self.last_us);
        self.last_us = clock_us;
        self.ran.elapsed_us += i128::from(ran_us);
        self.owed.elapsed_us += i128::from(ran_us);
        if self.is_window && !has_key && self.window.0 > 0 && clock_us >= self.window.0 {
            self.window = (0, 0); // it has ended; a clock that then goes back over its end begins another
        }
        let is_too_far = self.high_us.saturating_sub(clock_us) > 60_000_000;
        if clock_us >= self.high_us {
            self.rose.elapsed_us += i128::from(clock_us - self.high_us);
            self.high_us = clock_us;
        } else if !has_key || is_too_far {
            self.high_us = clock_us;
        }
    }

    /// I6: a step forward may admit min(B + D, r·step) more, D being the permits promised ahead. A step back
    /// is measured from the latest time that the key's account was asked at (`seen_us`): the clock's readings
    /// since then are unknown.
    pub(crate) fn stepped(
        &mut self,
        after_us: u64,
        seen_us: u64,
        has_key: bool,
        true_ns: u64,
        lease_ns: u64,
    ) {
        self.was_set = true;
        if after_us < self.last_us {
            self.was_set_back = true;
            let is_too_far = seen_us.saturating_sub(after_us) > 60_000_000;
            self.high_us = if is_too_far { after_us } else { self.high_us.min(seen_us.max(after_us)) };
        }
        let gained_us = after_us.saturating_sub(self.high_us);
        let gained = (self.limit * i128::from(gained_us) * 1_000).min(self.whole());
        self.rose.allowed += gained;
        self.ran.allowed += gained;
        self.hold_over(gained, true_ns, lease_ns);
        self.last_us = after_us;
        if self.is_window && gained_us > 0 && after_us >= self.window.0 {
            self.window = (0, -self.limit);
        }
        if gained_us > 0 {
            self.high_us = after_us;
        }
        self.clock(after_us, has_key);
    }

    /// B + D, in permits × ns.
    const fn whole(&self) -> i128 {
        self.burst * self.period_ns + if self.is_window { 0 } else { self.ahead }
    }

    /// A lost key: at most B + D more, and earlier leases are still out.
    pub(crate) fn lost_key(&mut self, true_ns: u64, lease_ns: u64) {
        let whole = self.whole();
        self.rose.allowed += whole;
        self.ran.allowed += whole;
        self.hold_over(whole, true_ns, lease_ns);
        self.window.1 -= if self.is_window { self.burst } else { 0 };
    }

    /// Permits that nodes still hold from before are spent beside the new account: at most those leased out,
    /// which are never above B.
    fn hold_over(&mut self, allowance: i128, true_ns: u64, lease_ns: u64) {
        if allowance > 0 {
            let out = allowance.min(self.burst * self.period_ns);
            self.held_over.push((true_ns + lease_ns, out));
        }
    }

    /// I1: A(s,t] ≤ B + r(t − s) for every s before now, by the running least of A − r·t. `cost` permits are
    /// admitted now, on the ledger's clock as [`Checker::clock`] last got it.
    pub(crate) fn admit(&mut self, cost: u64, true_ns: u64) -> Result<(), Broken> {
        if self.pays {
            self.charge(cost); // `leaves` has the law
            return Ok(());
        }
        if self.is_window {
            return self.admit_in_window(cost);
        }
        let held_over =
            self.held_over.iter().filter(|(until, _)| true_ns < *until).map(|(_, most)| most).sum();
        let now = self.admitted * self.period_ns;
        let more = i128::from(cost) * self.period_ns;
        self.admitted += i128::from(cost);
        let ran = self.ran.admit(now, more, self.limit, held_over, true_ns);
        let rose = self.rose.admit(now, more, self.limit, held_over, true_ns);
        let ahead = if self.was_set_back { self.ahead } else { 0 };
        for (above, most, which, since) in
            [(ran, 0, "I1", self.ran.line.lowest_at()), (rose, ahead, "I6", self.rose.line.lowest_at())]
        {
            let over = above - self.burst * self.period_ns - most;
            if over > 0 {
                let permits = over as f64 / self.period_ns as f64;
                let since_ms = since as f64 / 1e6;
                return Err(format!(
                    "{which}: {permits:.2} permits more than burst + rate·t since {since_ms:.3} ms"
                ));
            }
        }
        Ok(())
    }

    /// `cost` permits are used already, whether they were there or not.
    pub(crate) fn charge(&mut self, cost: u64) {
        self.admitted += i128::from(cost);
        self.window.1 += i128::from(cost);
        if let Some(window) = self.windows.last_mut() {
            window.admitted += i128::from(cost);
        }
    }

    /// P2: the `more` permits that the ledger lets pass or leases are left of one exact bucket that has
    /// counted all permits used and reported, and those that nodes hold (`held`). Nodes may spend these
    /// whatever is reported meanwhile. `ahead`: promises are on top.
    pub(crate) fn leaves(
        &mut self,
        more: u64,
        held: u64,
        is_promise: bool,
        true_ns: u64,
    ) -> Result<(), Broken> {
        let more = i128::from(more);
        let held = i128::from(held);
        if self.is_window {
            let taken = self.window.1 + held + more;
            return if taken > self.limit && more > 0 {
                Err(format!("P2: {taken} permits in a window of {}", self.limit))
            } else {
                Ok(())
            };
        }
        let now = (self.admitted + held) * self.period_ns;
        let above = self.owed.admit(now, more * self.period_ns, self.limit, 0, true_ns);
        let most = self.burst * self.period_ns + if is_promise { self.ahead } else { 0 };
        if above > most && more > 0 {
            let permits = (above - most) as f64 / self.period_ns as f64;
            return Err(format!("P2: {permits:.2} permits more than what is left of a burst and the rate"));
        }
        Ok(())
    }

    /// The most that was above the least, as a share of the burst.
    pub(crate) fn peak(&self) -> f64 {
        self.ran.line.highest() as f64 / (self.burst * self.period_ns) as f64
    }

    /// I2: at most L in a window. Allowances of windows are whole windows' worth.
    fn admit_in_window(&mut self, cost: u64) -> Result<(), Broken> {
        self.window.1 += i128::from(cost);
        if let Some(window) = self.windows.last_mut() {
            window.admitted += i128::from(cost);
        }
        if self.window.1 > self.limit {
            return Err(format!("I2: {} permits in a window of {}", self.window.1, self.limit));
        }
        Ok(())
    }

    /// Another window is in force, which ends at `ends_us`. Leases of a window that a step cut short may
    /// still be spent.
    pub(crate) fn window(&mut self, ends_us: u64, true_ns: u64) {
        if ends_us > 0 && self.windows.last().is_none_or(|window| window.ends_us != ends_us) {
            let admitted = 0;
            let dry_at = None;
            let rest = 0;
            self.windows.push(Window { ends_us, since_ns: true_ns, admitted, dry_at, rest });
        }
        if self.is_window && self.window.0 != ends_us {
            let held_over = self.held_over.iter().any(|(until, _)| true_ns < *until);
            self.window = (ends_us, if held_over { -self.limit } else { 0 });
        }
    }

    /// The windows that lie within a true span as a whole, and when each was over.
    pub(crate) fn windows_within(&self, from_ns: u64, until_ns: u64) -> impl Iterator<Item = (Window, u64)> {
        let pairs = self.windows.windows(2).map(|pair| (pair[0], pair[1].since_ns));
        pairs.filter(move |(window, over_at)| window.since_ns > from_ns && *over_at <= until_ns)
    }

    /// I8: given back at most once, and at most as many as were taken.
    pub(crate) fn give_back(&mut self, cost: u64) {
        self.admitted -= i128::from(cost);
        self.window.1 -= i128::from(cost);
    }

    /// I3 on the ledger's book: level + outstanding ≤ B, outstanding ≤ B, debts no deeper than promised,
    /// entries add up; and the permits that a node truly holds are on the book (`truth`: by node).
    pub(crate) fn book(
        &self,
        ledger: &Ledger,
        terms: &Terms,
        truth: &[(u64, u64)],
        true_ns: u64,
    ) -> Result<(), Broken> {
        if ledger.interval == 0 {
            return self.unbooked(truth, true_ns);
        }
        let out = ledger.out + ledger.out_before;
        let entries: u64 = ledger.entries.values().map(|entry| entry.held).sum();
        if entries != out {
            return Err(format!("I3: entries hold {entries}, the book says {out}"));
        }
        if !self.is_window && ledger.taken < out * ledger.interval {
            return Err(format!(
                "I3: level + outstanding > B: {} units owed with {out} permits out",
                ledger.taken
            ));
        }
        if out > terms.burst() {
            return Err(format!("I3: {out} permits are out of {}", terms.burst()));
        }
        let deepest = (self.burst * self.period_ns + self.ahead) * i128::from(ledger.interval);
        if !self.is_window
            && !self.has_charges
            && i128::from(ledger.taken) * self.period_ns > deepest + self.period_ns
        {
            return Err(format!("I3: {} units owed, more than was promised", ledger.taken));
        }
        if self.held_over.iter().any(|(until, _)| true_ns < *until) {
            return Ok(()); // a step or a loss made the ledger forget what is out
        }
        for (node, held) in truth {
            let booked = ledger.entries.get(node).map_or(0, |entry| entry.held);
            if booked < *held {
                return Err(format!(
                    "I3: node {node:x} holds {held} permits, of which the book knows {booked}"
                ));
            }
        }
        Ok(())
    }

    fn unbooked(&self, truth: &[(u64, u64)], true_ns: u64) -> Result<(), Broken> {
        let is_excused = self.held_over.iter().any(|(until, _)| true_ns < *until);
        match truth.iter().find(|(_, held)| *held > 0) {
            Some((node, held)) if !is_excused => {
                Err(format!("I3: node {node:x} holds {held} permits of an unknown key"))
            }
            _ => Ok(()),
        }
    }

    pub(crate) const fn admitted(&self) -> i128 {
        self.admitted
    }

    pub(crate) const fn is_behind(&self, clock_us: u64) -> bool {
        clock_us < self.high_us
    }
}
