//! The answer that each algorithm must give, worked out from the whole history.

use tollgate_core::{Algorithm, Align, LeavingCell, Refill};

use crate::any::Plain;

/// The expected decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedDecision {
    pub(crate) admitted: bool,
    pub(crate) remaining: u64,
}

/// The expected decision on permits that are used already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paid {
    pub(crate) admitted: bool,
    pub(crate) remaining: u64,
    pub(crate) owed: u64,
}

/// Remembers every take.
pub(crate) struct Oracle {
    plain: Plain,
    /// (instant, cost, admitted), oldest first.
    history: Vec<(i128, i128, bool)>,
    /// When the key began to fill.
    begun: Option<i128>,
}

impl Oracle {
    pub(crate) fn new(plain: &Plain) -> Self {
        Self { plain: plain.clone(), history: Vec::new(), begun: None }
    }

    pub(crate) fn take(&mut self, now_ns: u64, cost: u64) -> ExpectedDecision {
        let now = i128::from(now_ns);
        let cost = i128::from(cost);
        let limit = i128::from(self.plain.limit);
        let period = i128::from(self.plain.period_ns);
        let before = self.used(now);
        // (fits, left before, left after), in permits
        let (admitted, left, left_after) = match &self.plain.algorithm {
            Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } => {
                let level = self.level(now); // in permits × period
                let overdraft = i128::from(self.plain.overdraft()) * period;
                let after = level - cost * period;
                let fits = level >= 0 && after >= -overdraft;
                (fits, level.max(0) / period, after.max(0) / period)
            }
            Algorithm::FixedWindow { .. } => {
                let after = before + cost;
                (after <= limit, limit - after, limit - after) // denied hits count too
            }
            _ => (before + cost <= limit, limit - before, limit - before - cost),
        };
        self.history.push((now, cost, admitted));
        if cost > 0 {
            self.begun.get_or_insert(now);
        }
        let remaining = if admitted { left_after } else { left };
        ExpectedDecision { admitted, remaining: u64::try_from(remaining.max(0)).expect("small") }
    }

    /// Counts all of `cost`; admitted if a permit was left before.
    pub(crate) fn pay(&mut self, now_ns: u64, cost: u64) -> Paid {
        let now = i128::from(now_ns);
        let before = self.left(now);
        if cost > 0 {
            self.history.push((now, i128::from(cost), true));
        }
        if cost > 0 || before <= 0 {
            self.begun.get_or_insert(now);
        }
        let after = self.left(now);
        let part = |permits: i128| u64::try_from(permits.max(0)).expect("less than 2^64");
        Paid { admitted: before > 0, remaining: part(after), owed: part(-after) }
    }

    /// Whole permits that are available; negative where some are owed, also a part of one.
    fn left(&self, now: i128) -> i128 {
        match &self.plain.algorithm {
            Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } => {
                self.level(now).div_euclid(i128::from(self.plain.period_ns))
            }
            _ => i128::from(self.plain.limit) - self.used(now),
        }
    }

    fn admitted(&self) -> impl Iterator<Item = (i128, i128)> + '_ {
        self.history.iter().filter(|(_, _, admitted)| *admitted).map(|&(at, cost, _)| (at, cost))
    }

    /// Permits counted against the window at `now`.
    fn used(&self, now: i128) -> i128 {
        let period = i128::from(self.plain.period_ns);
        let sum_since =
            |first: i128| self.admitted().filter(|&(at, _)| at >= first).map(|(_, cost)| cost).sum();
        match &self.plain.algorithm {
            Algorithm::SlidingWindow { cells, leaving } => {
                let cell = period / i128::from(*cells);
                let before = i128::from(*cells) - i128::from(*leaving == LeavingCell::Drops);
                sum_since((now / cell - before) * cell)
            }
            Algorithm::SlidingWindowLog { log_denied: false } => sum_since(now - period + 1),
            Algorithm::SlidingWindowLog { log_denied: true } => {
                self.history.iter().filter(|&&(at, ..)| at > now - period).map(|&(_, cost, _)| cost).sum()
            }
            Algorithm::SlidingWindowCounter => {
                let begins = now / period * period;
                let current: i128 = sum_since(begins);
                let previous: i128 = sum_since(begins - period) - current;
                previous * (period - (now - begins)) / period + current
            }
            Algorithm::FixedWindow { align } => {
                let mut ends = i128::MIN;
                let mut count = 0;
                for (at, cost) in self.history.iter().map(|&(at, cost, _)| (at, cost)).chain([(now, 0)]) {
                    if at >= ends {
                        count = 0;
                    }
                    if at >= ends && (cost > 0 || at == now) {
                        ends = match align {
                            Align::Calendar => at / period * period + period,
                            Align::FirstHit => at + period,
                        };
                    }
                    count += cost;
                }
                count
            }
            Algorithm::Total => sum_since(i128::MIN),
            _ => 0,
        }
    }

    /// Level of a bucket at `now`, in permits × period: filled step by step through the history.
    fn level(&self, now: i128) -> i128 {
        let limit = i128::from(self.plain.limit);
        let period = i128::from(self.plain.period_ns);
        let full = i128::from(self.plain.burst()) * period;
        let mut level = i128::from(self.plain.at_once()) * period;
        // A key begins to fill at its first take; peeks do not count as one, except for a denied check of a
        // payment afterwards.
        let Some(mut last) = self.begun else { return level };
        let refill = match self.plain.algorithm {
            Algorithm::TokenBucket { refill, .. } => refill,
            _ => Refill::Continuous,
        };
        let takes = self.history.iter().skip_while(|&&(_, cost, _)| cost == 0);
        for (at, cost) in
            takes.map(|&(at, cost, admitted)| (at, if admitted { cost } else { 0 })).chain([(now, 0)])
        {
            match refill {
                Refill::Continuous => {
                    level = full.min(level + limit * (at - last));
                    last = at;
                }
                Refill::Interval => {
                    let periods = (at - last) / period;
                    level = full.min(level + periods * limit * period);
                    // A key that is full begins to count anew.
                    last = if level == full { at } else { last + periods * period };
                }
            }
            level -= cost * period;
        }
        level
    }
}
