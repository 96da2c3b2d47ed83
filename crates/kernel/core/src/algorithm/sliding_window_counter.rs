//! Sliding window counter: two windows on the grid, the older weighted by its overlap and rounded down.
//!
//! `floor(previous × (window - elapsed) / window) + current + cost ≤ limit`. Three numbers per key for any
//! limit; it assumes that the previous window was even, so an adversary gets just under twice the limit in a
//! window, and an even client is sometimes denied early. A denied take changes nothing.
//!
//! The cells: a tag, length of a window in ns, number of the window since the Unix epoch, its count, the
//! count of the window before it.

use alloc::vec;

use crate::bounds::MAX_COUNT;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::state::{Expiry, Wide};
use crate::time::Timestamp;

/// First cell of every state of this algorithm.
pub(crate) const TAG: u64 = 3;

#[derive(Clone, Debug)]
pub(crate) struct SlidingWindowCounter {
    pub(crate) limit: u64,
    pub(crate) window_ns: u64,
}

/// A key's counts at one instant.
#[derive(Clone, Copy)]
struct Counts {
    window: u64,
    current: u64,
    previous: u64,
    /// Nanoseconds since the window began.
    elapsed_ns: u64,
}

impl SlidingWindowCounter {
    pub(crate) fn take(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let counts = self.counts(state, now);
        let estimate = self.estimate(counts);
        if estimate.saturating_add(cost.permits()) <= self.limit {
            let counts = Counts { current: counts.current + cost.permits(), ..counts };
            return self.set_counts(state, cost, counts, now);
        }
        let left = self.limit.saturating_sub(estimate);
        let reset_ns = self.reset_ns(counts, now);
        let Some(room) = self.limit.checked_sub(cost.permits()) else {
            return Decision::never(self.limit, left, reset_ns);
        };
        Decision::deny(self.limit, left, self.fits_ns(counts, room, now), reset_ns)
    }

    pub(crate) fn charge(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let counts = self.counts(state, now);
        let current = counts.current.saturating_add(cost.permits()).min(MAX_COUNT).max(counts.current);
        let counts = Counts { current, ..counts };
        let reset_ns = self.set_counts(state, cost, counts, now).reset_ns;
        let estimate = self.estimate(counts);
        let remaining = self.limit.saturating_sub(estimate);
        let owed = estimate.saturating_sub(self.limit);
        let until_one_ns = match self.limit.checked_sub(1) {
            None => u64::MAX,
            Some(_) if remaining > 0 => 0,
            Some(room) => self.fits_ns(counts, room, now),
        };
        Decision::used(self.limit, remaining, owed, until_one_ns, reset_ns)
    }

    pub(crate) fn give_back(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let counts = self.counts(state, now);
        let from_current = counts.current.min(cost.permits());
        let previous = counts.previous.saturating_sub(cost.permits() - from_current);
        let counts = Counts { current: counts.current - from_current, previous, ..counts };
        self.set_counts(state, cost, counts, now)
    }

    /// The state of a key with these counts.
    pub(crate) fn state(&self, window: u64, current: u64, previous: u64) -> Wide {
        let began = window.saturating_mul(self.window_ns);
        let counts = Counts { window, current, previous, elapsed_ns: 0 };
        let zero = self.reset_ns(counts, Timestamp::from_nanos(began));
        let cells = vec![TAG, self.window_ns, window, current, previous];
        Wide { cells, expires: Expiry::at(Timestamp::from_nanos(began.saturating_add(zero))) }
    }

    /// The permits that keep counting of a state that another length of window wrote.
    pub(crate) fn carried(&self, state: &Wide, now: Timestamp) -> u64 {
        self.counts(state, now).current
    }

    fn counts(&self, state: &Wide, now: Timestamp) -> Counts {
        let window = now.as_nanos() / self.window_ns;
        let elapsed_ns = now.as_nanos() % self.window_ns;
        let none = Counts { window, current: 0, previous: 0, elapsed_ns };
        let [_, window_ns, stored, current, previous] = state.cells[..] else { return none };
        if state.expires.is_past(now) {
            return none; // its estimate is zero by now; a store may have dropped it
        }
        if window_ns != self.window_ns {
            // The rule had another window: its estimate counts as taken in this one.
            let current = Self { limit: self.limit, window_ns }.estimate_of(state, now).min(MAX_COUNT);
            return Counts { window, current, previous: 0, elapsed_ns };
        }
        match window.checked_sub(stored) {
            // For a clock that stepped back, time stops at the beginning of the window.
            None => Counts { window: stored, current, previous, elapsed_ns: 0 },
            Some(0) => Counts { window, current, previous, elapsed_ns },
            Some(1) => Counts { window, current: 0, previous: current, elapsed_ns },
            Some(_) => none,
        }
    }

    fn estimate_of(&self, state: &Wide, now: Timestamp) -> u64 {
        self.estimate(self.counts(state, now))
    }

    fn estimate(&self, counts: Counts) -> u64 {
        let overlap = u128::from(counts.previous) * u128::from(self.window_ns - counts.elapsed_ns);
        let weighted = match u64::try_from(overlap) {
            Ok(overlap) => overlap / self.window_ns,
            Err(_) => (overlap / u128::from(self.window_ns)) as u64, // not above the count
        };
        weighted.saturating_add(counts.current)
    }

    fn set_counts(&self, state: &mut Wide, cost: Cost, counts: Counts, now: Timestamp) -> Decision {
        let reset_ns = self.reset_ns(counts, now);
        if !cost.is_peek() && counts.current == 0 && counts.previous == 0 {
            *state = Wide::default(); // nothing is counted: as an unseen key
        } else if !cost.is_peek() {
            state.cells.clear();
            state.cells.extend([TAG, self.window_ns, counts.window, counts.current, counts.previous]);
            state.expires = Expiry::at(Timestamp::from_nanos(now.as_nanos().saturating_add(reset_ns)));
        }
        Decision::admit(self.limit, self.limit.saturating_sub(self.estimate(counts)), reset_ns)
    }

    /// The time until the estimate is zero.
    fn reset_ns(&self, counts: Counts, now: Timestamp) -> u64 {
        if counts.current == 0 && counts.previous == 0 { 0 } else { self.fits_ns(counts, 0, now) }
    }

    /// The time until the estimate is at most `room`.
    fn fits_ns(&self, counts: Counts, room: u64, now: Timestamp) -> u64 {
        let begins = counts.window.saturating_mul(self.window_ns);
        let at = if counts.current <= room {
            let elapsed = self.elapsed_when(counts.previous, room - counts.current);
            begins.saturating_add(elapsed.max(counts.elapsed_ns))
        } else {
            begins.saturating_add(self.window_ns).saturating_add(self.elapsed_when(counts.current, room))
        };
        at.saturating_sub(now.as_nanos())
    }

    /// The time from the beginning of a window until the weighted `previous` is at most `room`.
    fn elapsed_when(&self, previous: u64, room: u64) -> u64 {
        if previous <= room {
            return 0;
        }
        // floor(previous × overlap / window) ≤ room  ⟺  overlap < (room + 1) × window / previous
        let overlap = (u128::from(room) + 1) * u128::from(self.window_ns);
        self.window_ns - (overlap.div_ceil(u128::from(previous)) as u64 - 1)
    }
}
