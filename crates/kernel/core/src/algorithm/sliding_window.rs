//! Sliding window of cells, strict: never more than the limit in any window, wherever it begins.
//!
//! The window has N cells. The current cell, the N - 1 before it and the leaving one count; the leaving one
//! counts whole until all of it is outside. That makes the window strict; the price is a sustained throughput
//! of at least N/(N+1) of the limit. A denied take changes nothing. Giving back empties the oldest cells
//! first: the bound then holds whichever take is undone.
//!
//! Where the cell that is leaving does not count, the ring has one counter less: no more than the limit
//! passes in any N cells, and all of it does. A window that begins within a cell lies in two such rings, so
//! it may have twice the limit; a span of N - 1 cells lies in one.
//!
//! The cells of the state: a tag, length of a cell in ns, number of the newest cell since the Unix epoch, sum
//! of the ring, numbers of the newest cell that is not empty and of one before which all are, then a ring of
//! N + 1 counters, or N.

use alloc::vec::Vec;
use core::time::Duration;

use crate::algorithm::LeavingCell;
use crate::bounds::{LARGEST_SLIDING_WINDOW, MAX_CELLS, MAX_SLIDING_COUNT};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::QuotaError;
use crate::state::{Expiry, Wide};
use crate::time::{Timestamp, nanos};

/// First cell of every state of this algorithm.
pub(crate) const TAG: u64 = 2;
const CELL_NS: usize = 1;
const NEWEST: usize = 2;
const SUM: usize = 3;
/// Number of the newest cell with something in it; nothing empties it before the others.
const LAST: usize = 4;
/// Number of a cell before which all are empty: cells once passed are not looked at again.
const FIRST: usize = 5;
const RING: usize = 6;

#[derive(Clone, Debug)]
pub(crate) struct SlidingWindow {
    limit: u64,
    cell_ns: u64,
    /// Counters in the ring: the window's cells, and the one that is leaving where it counts.
    ring: u64,
}

impl SlidingWindow {
    pub(crate) fn new(
        limit: u64,
        window: Duration,
        cells: u32,
        leaving: LeavingCell,
    ) -> Result<Self, QuotaError> {
        let window_ns = nanos(window);
        if limit > LARGEST_SLIDING_WINDOW {
            return Err(QuotaError::LargeSlidingWindow(limit));
        }
        if cells > MAX_CELLS {
            return Err(QuotaError::ManyCells { cells });
        }
        if cells == 0 {
            return Err(QuotaError::Empty("cells"));
        }
        if !window_ns.is_multiple_of(u64::from(cells)) {
            return Err(QuotaError::UnevenCells { window, cells });
        }
        let ring = u64::from(cells) + u64::from(leaving == LeavingCell::Counts);
        Ok(Self { limit, cell_ns: window_ns / u64::from(cells), ring })
    }

    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) const fn cell_ns(&self) -> u64 {
        self.cell_ns
    }

    pub(crate) const fn ring(&self) -> u64 {
        self.ring
    }

    /// The state of a key with these permits in cells of these numbers.
    pub(crate) fn state(cell_ns: u64, ring: u64, newest: u64, taken: &[(u64, u64)]) -> Wide {
        let this = Self { limit: 0, cell_ns, ring };
        let mut state = Wide::default();
        this.begin(&mut state, newest);
        for &(number, permits) in
            taken.iter().filter(|(number, _)| *number <= newest && number + ring > newest)
        {
            let place = this.place(number);
            state.cells[place] = state.cells[place].saturating_add(permits);
            state.cells[SUM] = state.cells[SUM].saturating_add(permits);
            state.cells[LAST] = number;
        }
        let gone = state.cells[LAST].saturating_add(ring).saturating_mul(cell_ns);
        state.expires = Expiry::at(Timestamp::from_nanos(gone));
        state
    }

    /// Number of the latest cell and the permits in each, oldest first, as of `now`.
    pub(crate) fn taken(&self, mut state: Wide, now: Timestamp) -> (u64, Vec<(u64, u64)>) {
        self.advance(&mut state, now);
        if state.cells.is_empty() {
            return (now.as_nanos() / self.cell_ns, Vec::new());
        }
        let numbers = self.oldest(&state)..=state.cells[NEWEST];
        let taken = numbers.map(|number| (number, state.cells[self.place(number)]));
        (state.cells[NEWEST], taken.filter(|(_, permits)| *permits > 0).collect())
    }

    pub(crate) fn take(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let sum = self.advance(state, now);
        let after = sum.saturating_add(cost.permits());
        if after <= self.limit {
            return self.add(state, cost.permits(), now);
        }
        let left = self.limit.saturating_sub(sum);
        let reset_ns = self.reset_ns(state, now);
        if cost.permits() > self.limit {
            return Decision::never(self.limit, left, reset_ns);
        }
        let retry_ns = self.wait_ns(state, after - self.limit, now);
        Decision::deny(self.limit, left, retry_ns, reset_ns)
    }

    pub(crate) fn charge(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let room = MAX_SLIDING_COUNT.saturating_sub(self.advance(state, now));
        let reset_ns = self.add(state, cost.permits().min(room), now).reset_ns;
        let sum = state.cells.get(SUM).copied().unwrap_or(0);
        let remaining = self.limit.saturating_sub(sum);
        let owed = sum.saturating_sub(self.limit);
        let until_one_ns = match (sum + 1).checked_sub(self.limit) {
            _ if self.limit == 0 => u64::MAX,
            Some(excess) if excess > 0 => self.wait_ns(state, excess, now),
            _ => 0,
        };
        Decision::used(self.limit, remaining, owed, until_one_ns, reset_ns)
    }

    pub(crate) fn give_back(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let sum = self.advance(state, now);
        let mut left = cost.permits().min(sum);
        if left > 0 {
            state.cells[SUM] -= left;
            for number in self.oldest(state)..=state.cells[NEWEST] {
                let cell = &mut state.cells[self.place(number)];
                let taken = left.min(*cell);
                *cell -= taken;
                left -= taken;
            }
        }
        let sum = sum.saturating_sub(cost.permits());
        Decision::admit(self.limit, self.limit.saturating_sub(sum), self.reset_ns(state, now))
    }

    /// Empties the cells that have left by `now`; returns the sum of the others.
    fn advance(&self, state: &mut Wide, now: Timestamp) -> u64 {
        if state.cells.is_empty() {
            return 0;
        }
        if state.cells[CELL_NS] != self.cell_ns || state.cells.len() != RING + self.ring as usize {
            self.recut(state, now);
        }
        let number = now.as_nanos() / self.cell_ns;
        let newest = state.cells[NEWEST];
        // For a clock that stepped back, time stops here.
        if number > newest {
            if number - newest >= self.ring {
                state.cells[SUM] = 0;
                state.cells[RING..].fill(0);
            } else {
                for passed in newest + 1..=number {
                    let place = self.place(passed);
                    state.cells[SUM] = state.cells[SUM].saturating_sub(state.cells[place]);
                    state.cells[place] = 0;
                }
            }
            state.cells[NEWEST] = number;
        }
        state.cells[SUM]
    }

    /// The rule had other cells: each counts in the cell of this rule that contains its last instant.
    #[cold]
    fn recut(&self, state: &mut Wide, now: Timestamp) {
        let mut old = core::mem::take(&mut state.cells);
        let old_ring = (old.len() - RING) as u64;
        let old_cell_ns = old[CELL_NS];
        let old_newest = old[NEWEST];
        let newest = now.as_nanos().max(old_newest.saturating_mul(old_cell_ns)) / self.cell_ns;
        self.begin(state, newest);
        for number in old_newest.saturating_add(1).saturating_sub(old_ring)..=old_newest {
            let permits = core::mem::take(&mut old[RING + (number % old_ring) as usize]);
            let last_ns = number.saturating_add(1).saturating_mul(old_cell_ns) - 1;
            let place = (last_ns / self.cell_ns).min(newest);
            if permits > 0 && place + self.ring > newest {
                state.cells[LAST] = place;
                let place = self.place(place);
                state.cells[place] = state.cells[place].saturating_add(permits);
                state.cells[SUM] = state.cells[SUM].saturating_add(permits);
            }
        }
    }

    fn begin(&self, state: &mut Wide, newest: u64) {
        state.cells.clear();
        state.cells.resize(RING + self.ring as usize, 0);
        state.cells[..RING].copy_from_slice(&[TAG, self.cell_ns, newest, 0, newest, 0]);
    }

    fn add(&self, state: &mut Wide, permits: u64, now: Timestamp) -> Decision {
        if permits > 0 {
            if state.cells.is_empty() {
                self.begin(state, now.as_nanos() / self.cell_ns);
            }
            let place = self.place(state.cells[NEWEST]);
            state.cells[place] = state.cells[place].saturating_add(permits);
            state.cells[LAST] = state.cells[NEWEST];
            state.cells[SUM] = state.cells[SUM].saturating_add(permits);
        }
        let reset_ns = self.reset_ns(state, now);
        if permits > 0 {
            state.expires = Expiry::at(Timestamp::from_nanos(now.as_nanos().saturating_add(reset_ns)));
        }
        let sum = state.cells.get(SUM).copied().unwrap_or(0);
        Decision::admit(self.limit, self.limit.saturating_sub(sum), reset_ns)
    }

    /// The time until `permits` have left the window.
    fn wait_ns(&self, state: &mut Wide, permits: u64, now: Timestamp) -> u64 {
        let (older, newer) = state.cells[RING..].split_at(self.place(self.oldest(state)) - RING);
        let mut left = 0_u64;
        let mut first = None;
        for (number, cell) in (self.oldest(state)..=state.cells[NEWEST]).zip(newer.iter().chain(older)) {
            left = left.saturating_add(*cell);
            if left > 0 && first.is_none() {
                first = Some(number);
            }
            if left >= permits {
                state.cells[FIRST] = first.unwrap_or(number);
                return self.gone_ns(number, now);
            }
        }
        self.gone_ns(state.cells[NEWEST], now)
    }

    fn reset_ns(&self, state: &Wide, now: Timestamp) -> u64 {
        if state.cells.is_empty() || state.cells[SUM] == 0 { 0 } else { self.gone_ns(state.cells[LAST], now) }
    }

    /// The time until all of the cell with this number is outside the window.
    fn gone_ns(&self, number: u64, now: Timestamp) -> u64 {
        number.saturating_add(self.ring).saturating_mul(self.cell_ns).saturating_sub(now.as_nanos())
    }

    fn oldest(&self, state: &Wide) -> u64 {
        state.cells[NEWEST].saturating_add(1).saturating_sub(self.ring).max(state.cells[FIRST])
    }

    const fn place(&self, number: u64) -> usize {
        RING + (number % self.ring) as usize
    }
}
