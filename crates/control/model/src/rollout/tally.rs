//! Decisions of nodes during a step, and the shares that a gate compares. Whole numbers only.

use serde::{Deserialize, Serialize};

/// Decisions on both sides without which shares are not compared.
pub const LEAST_DECISIONS: u64 = 500;
/// The denied share of the chosen nodes may be this much higher, in hundredths of a percent.
pub const MOST_DENIED_MORE: u64 = 500;

/// Decisions of some nodes about one app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub decisions: u64,
    /// Those that denied.
    pub denied: u64,
    /// Those made without the store.
    pub degraded: u64,
}

impl Tally {
    /// Adds those of another.
    pub const fn add(&mut self, other: Self) {
        self.decisions = capped(self.decisions, other.decisions);
        self.denied = capped(self.denied, other.denied);
        self.degraded = capped(self.degraded, other.degraded);
    }

    /// Denied of all, in hundredths of a percent.
    #[must_use]
    pub fn denied_share(&self) -> Option<u64> {
        share(self.denied, self.decisions)
    }

    /// Degraded of all, in hundredths of a percent.
    #[must_use]
    pub fn degraded_share(&self) -> Option<u64> {
        share(self.degraded, self.decisions)
    }
}

/// A node may report any number; below this cap, the products that are compared fit.
const fn capped(a: u64, b: u64) -> u64 {
    const MOST: u64 = 1 << 50;
    let sum = a.saturating_add(b);
    if sum < MOST { sum } else { MOST }
}

fn share(part: u64, all: u64) -> Option<u64> {
    u64::try_from(u128::from(part) * 10_000 / u128::from((all > 0).then_some(all)?)).ok()
}

/// Decisions of both sides of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sides {
    /// Nodes with the candidate.
    pub chosen: Tally,
    /// Nodes with the version before.
    pub others: Tally,
}

/// The result of comparing both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Fewer than 500 decisions on a side.
    TooFew,
    /// The chosen nodes are no worse.
    Good,
    /// They deny more.
    DeniesMore,
    /// More of their decisions are made without the store.
    DegradesMore,
}

impl Sides {
    /// Compares exactly, without rounded shares.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let Self { chosen, others } = self;
        if chosen.decisions.min(others.decisions) < LEAST_DECISIONS {
            return Verdict::TooFew;
        }
        // chosen.part / chosen.all > others.part / others.all + more / 10,000
        let is_more = |part: fn(&Tally) -> u64, more: u64| {
            let of_chosen = u128::from(part(chosen));
            let of_others = u128::from(part(others));
            let all_chosen = u128::from(chosen.decisions);
            let all_others = u128::from(others.decisions);
            let allowed = u128::from(more) * all_chosen * all_others;
            of_chosen * all_others * 10_000 > of_others * all_chosen * 10_000 + allowed
        };
        if is_more(|it| it.denied, MOST_DENIED_MORE) {
            Verdict::DeniesMore
        } else if is_more(|it| it.degraded, 0) {
            Verdict::DegradesMore
        } else {
            Verdict::Good
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_compared_exactly_and_only_with_enough_decisions() {
        let tally = |decisions, denied, degraded| Tally { decisions, denied, degraded };
        for (chosen, others, verdict) in [
            (tally(499, 499, 0), tally(1_000, 0, 0), Verdict::TooFew),
            (tally(1_000, 1_000, 0), tally(499, 0, 0), Verdict::TooFew),
            (tally(500, 25, 0), tally(500, 0, 0), Verdict::Good), // 5 points exactly
            (tally(500, 26, 0), tally(500, 0, 0), Verdict::DeniesMore),
            (tally(1_000, 150, 0), tally(1_000, 100, 0), Verdict::Good),
            (tally(1_000, 151, 0), tally(1_000, 100, 0), Verdict::DeniesMore),
            (tally(1_000, 0, 0), tally(1_000, 900, 0), Verdict::Good),
            (tally(1_000, 0, 1), tally(1_000, 0, 0), Verdict::DegradesMore),
            (tally(1_000, 0, 10), tally(2_000, 0, 20), Verdict::Good),
            (tally(1_000, 0, 11), tally(2_000, 0, 20), Verdict::DegradesMore),
            (tally(u64::MAX, u64::MAX, 0), tally(u64::MAX, 0, 0), Verdict::DeniesMore),
        ] {
            let capped = |tally| {
                let mut sum = Tally::default();
                sum.add(tally);
                sum
            };
            let chosen = capped(chosen);
            let others = capped(others);
            assert_eq!(Sides { chosen, others }.verdict(), verdict, "{chosen:?} {others:?}");
        }
        assert_eq!(tally(3, 1, 0).denied_share(), Some(3_333));
        assert_eq!(Tally::default().denied_share(), None);
    }
}
