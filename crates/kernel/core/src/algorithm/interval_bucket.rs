//! Token bucket that gets a period's worth back at the end of each period, counted from the key's first take.
//!
//! Over any span t at most burst + overdraft + limit·(whole periods in t, plus one) are admitted. A key that
//! is full again is equivalent to an unseen one: its next take begins a new count of periods. So a state may
//! be dropped once it is full.
//!
//! The cells: a tag, the instant at which the current period began, in ns; permits that are missing from a
//! full bucket.

use crate::bounds::MAX_COUNT;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::state::{Expiry, Wide};
use crate::time::Timestamp;

/// First cell of every state of this algorithm.
pub(crate) const TAG: u64 = 1;

#[derive(Clone, Debug)]
pub(crate) struct IntervalBucket {
    pub(crate) limit: u64,
    pub(crate) period_ns: u64,
    pub(crate) burst: u64,
    pub(crate) initial: u64,
    pub(crate) overdraft: u64,
}

impl IntervalBucket {
    pub(crate) fn take(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let (began, missing) = self.refilled(state, now);
        let capacity = self.burst + self.overdraft;
        if cost.permits() > capacity {
            self.remember_start(state, began, missing, cost);
            return Decision::never(self.limit, self.left(missing), self.wait_ns(began, missing, now));
        }
        let highest = (capacity - cost.permits()).min(self.burst);
        if missing > highest {
            self.remember_start(state, began, missing, cost);
            let retry_ns = self.wait_ns(began, missing - highest, now);
            return Decision::deny(
                self.limit,
                self.left(missing),
                retry_ns,
                self.wait_ns(began, missing, now),
            );
        }
        self.set_missing(state, began, missing, missing + cost.permits(), now)
    }

    pub(crate) fn give_back(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let (began, missing) = self.refilled(state, now);
        self.set_missing(state, began, missing, missing.saturating_sub(cost.permits()), now)
    }

    pub(crate) fn charge(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let (began, was) = self.refilled(state, now);
        let missing = was.saturating_add(cost.permits()).min(MAX_COUNT).max(was);
        let reset_ns = self.set_missing(state, began, was, missing, now).reset_ns;
        let remaining = self.left(missing);
        let owed = missing.saturating_sub(self.burst);
        let until_one_ns = self.wait_ns(began, (missing + 1).saturating_sub(self.burst), now);
        Decision::used(self.limit, remaining, owed, until_one_ns, reset_ns)
    }

    /// The state of a key that lacks `missing` permits in a period that began at `began`.
    pub(crate) fn state(&self, began: u64, missing: u64) -> Wide {
        let mut state = Wide::default();
        self.write(&mut state, began, missing);
        state
    }

    pub(crate) const fn starts_partial(&self) -> bool {
        self.initial < self.burst
    }

    /// The beginning of the current period, and the permits that are missing at `now`.
    fn refilled(&self, state: &Wide, now: Timestamp) -> (u64, u64) {
        let [_, began, missing] = state.cells[..] else {
            return (now.as_nanos(), self.burst - self.initial);
        };
        let periods = now.as_nanos().saturating_sub(began) / self.period_ns;
        let missing = missing.saturating_sub(periods.saturating_mul(self.limit));
        if missing == 0 {
            (now.as_nanos().max(began), 0)
        } else {
            (began + periods * self.period_ns, missing)
        }
    }

    fn set_missing(&self, state: &mut Wide, began: u64, was: u64, missing: u64, now: Timestamp) -> Decision {
        let reset_ns = self.wait_ns(began, missing, now);
        if missing != was {
            self.write(state, began, missing);
        }
        Decision::admit(self.limit, self.left(missing), reset_ns)
    }

    /// A key that does not start full begins to fill at its first take, also when that is denied.
    fn remember_start(&self, state: &mut Wide, began: u64, missing: u64, cost: Cost) {
        if state.cells.is_empty() && self.starts_partial() && !cost.is_peek() {
            self.write(state, began, missing);
        }
    }

    fn write(&self, state: &mut Wide, began: u64, missing: u64) {
        state.cells.clear();
        state.cells.extend([TAG, began, missing]);
        let full_again = Timestamp::from_nanos(began.saturating_add(self.span_ns(missing)));
        let expires = Expiry::at(full_again);
        state.expires = if self.starts_partial() { expires.sticky() } else { expires };
    }

    /// Time from the beginning of the period until `permits` have come back.
    fn span_ns(&self, permits: u64) -> u64 {
        permits.div_ceil(self.limit).saturating_mul(self.period_ns)
    }

    fn wait_ns(&self, began: u64, permits: u64, now: Timestamp) -> u64 {
        if permits == 0 {
            0
        } else {
            began.saturating_add(self.span_ns(permits)).saturating_sub(now.as_nanos())
        }
    }

    const fn left(&self, missing: u64) -> u64 {
        self.burst.saturating_sub(missing)
    }
}
