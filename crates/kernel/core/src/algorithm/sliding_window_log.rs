//! Sliding window log: every admitted instant, so exactly the limit in any window (now - window, now].
//!
//! A take exactly one window after another no longer sees it. Takes of one instant share an entry; there are
//! never more entries than the limit and one. A denied take changes nothing, except with `log_denied`, where
//! a client that does not back off stays denied. Giving back empties the oldest entries first: the bound then
//! holds whichever take is undone.
//!
//! While the younger entries alone are above the limit, nothing fits even after the oldest has left, so the
//! oldest joins the next one. Thus any number of charges keeps few entries, and no debt is lost.
//!
//! The cells: a tag, the place of the first entry, the sum of all entries, then pairs of instant in ns and
//! permits, oldest first.

use alloc::vec;

use crate::bounds::MAX_SLIDING_COUNT;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::state::{Expiry, Wide};
use crate::time::Timestamp;

/// First cell of every state of this algorithm.
pub(crate) const TAG: u64 = 4;
const HEAD: usize = 1;
const SUM: usize = 2;
const FIRST: usize = 3;

#[derive(Clone, Debug)]
pub(crate) struct SlidingWindowLog {
    pub(crate) limit: u64,
    pub(crate) window_ns: u64,
    pub(crate) log_denied: bool,
}

impl SlidingWindowLog {
    /// The state of a key with these entries: instants and permits.
    pub(crate) fn state(taken: &[(u64, u64)]) -> Wide {
        let sum = taken.iter().map(|(_, permits)| permits).sum();
        let mut cells = vec![TAG, FIRST as u64, sum];
        cells.extend(taken.iter().flat_map(|(at, permits)| [*at, *permits]));
        Wide { cells, expires: Expiry::PAST }
    }

    pub(crate) fn take(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        if state.cells.is_empty() && cost.is_peek() {
            return Decision::admit(self.limit, self.limit, 0);
        }
        let sum = self.expire(state, now);
        let after = sum.saturating_add(cost.permits());
        if after <= self.limit {
            self.log(state, cost.permits(), now);
            return Decision::admit(self.limit, self.limit - after, self.reset_ns(state, now));
        }
        if self.log_denied {
            self.log_denied_take(state, cost.permits(), now);
        }
        let left = self.limit.saturating_sub(state.cells[SUM]);
        let reset_ns = self.reset_ns(state, now);
        if cost.permits() > self.limit {
            return Decision::never(self.limit, left, reset_ns);
        }
        let too_many = state.cells[SUM] - (self.limit - cost.permits());
        Decision::deny(self.limit, left, self.wait_ns(state, too_many, now), reset_ns)
    }

    pub(crate) fn charge(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        if state.cells.is_empty() && cost.is_peek() {
            return Decision::used(self.limit, self.limit, 0, u64::MAX, 0);
        }
        self.expire(state, now);
        if !cost.is_peek() {
            self.log(state, cost.permits(), now);
            self.join_oldest(state);
        }
        let sum = state.cells[SUM];
        let remaining = self.limit.saturating_sub(sum);
        let owed = sum.saturating_sub(self.limit);
        let until_one_ns = match (sum + 1).checked_sub(self.limit) {
            _ if self.limit == 0 => u64::MAX,
            Some(excess) if excess > 0 => self.wait_ns(state, excess, now),
            _ => 0,
        };
        Decision::used(self.limit, remaining, owed, until_one_ns, self.reset_ns(state, now))
    }

    pub(crate) fn give_back(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let sum = self.expire(state, now);
        let mut left = cost.permits().min(sum);
        while left > 0 {
            let head = state.cells[HEAD] as usize;
            let taken = left.min(state.cells[head + 1]);
            state.cells[head + 1] -= taken;
            state.cells[SUM] -= taken;
            left -= taken;
            if state.cells[head + 1] == 0 {
                state.cells[HEAD] += 2;
            }
        }
        let sum = sum.saturating_sub(cost.permits());
        Decision::admit(self.limit, self.limit.saturating_sub(sum), self.reset_ns(state, now))
    }

    /// Drops the entries that have left the window by `now`; returns the sum of the rest.
    fn expire(&self, state: &mut Wide, now: Timestamp) -> u64 {
        if state.cells.len() < FIRST {
            state.cells.clear();
            state.cells.extend([TAG, FIRST as u64, 0]);
        }
        let mut head = state.cells[HEAD] as usize;
        while head < state.cells.len() && now.as_nanos().saturating_sub(state.cells[head]) >= self.window_ns {
            state.cells[SUM] -= state.cells[head + 1];
            head += 2;
        }
        self.compact(state, head);
        state.cells[SUM]
    }

    /// Closes the gap before the first entry once it is as long as the entries: on average each entry is
    /// moved once.
    fn compact(&self, state: &mut Wide, head: usize) {
        let gap = head - FIRST;
        let entries = state.cells.len() - head;
        if gap > 0 && gap >= entries {
            state.cells.copy_within(head.., FIRST);
            state.cells.truncate(FIRST + entries);
            state.cells[HEAD] = FIRST as u64;
        } else {
            state.cells[HEAD] = head as u64;
        }
    }

    /// Logs a take that does not fit: an entry grows to the limit and one at most, since a larger one has no
    /// other effect on later takes. An entry above that, by a charge or an older, higher limit, stays as it
    /// is.
    fn log_denied_take(&self, state: &mut Wide, permits: u64, now: Timestamp) {
        let newest = self.newest_at(state, now).map_or(0, |entry| state.cells[entry + 1]);
        self.log(state, permits.min((self.limit + 1).saturating_sub(newest)), now);
        self.join_oldest(state);
    }

    /// The place of the newest entry, if a take at `now` shares it. For a clock that stepped back, time stops
    /// at the newest entry.
    fn newest_at(&self, state: &Wide, now: Timestamp) -> Option<usize> {
        let newest = state.cells.len() - 2;
        let has_entries = state.cells[HEAD] <= newest as u64;
        (has_entries && state.cells[newest] >= now.as_nanos()).then_some(newest)
    }

    fn log(&self, state: &mut Wide, permits: u64, now: Timestamp) {
        let permits = permits.min(MAX_SLIDING_COUNT.saturating_sub(state.cells[SUM]));
        if permits == 0 {
            return;
        }
        let newest = self.newest_at(state, now);
        let at = newest.map_or(now.as_nanos(), |entry| state.cells[entry]);
        if let Some(entry) = newest {
            state.cells[entry + 1] += permits;
        } else {
            state.cells.extend([at, permits]);
        }
        state.cells[SUM] += permits;
        state.expires = Expiry::at(Timestamp::from_nanos(at.saturating_add(self.window_ns)));
    }

    /// Lets the oldest entry join the next one while the younger ones alone are above the limit.
    fn join_oldest(&self, state: &mut Wide) {
        let mut head = state.cells[HEAD] as usize;
        while head + 2 < state.cells.len() && state.cells[SUM] - state.cells[head + 1] > self.limit {
            state.cells[head + 3] += state.cells[head + 1];
            head += 2;
        }
        self.compact(state, head);
    }

    /// The time until `permits` have left the window.
    fn wait_ns(&self, state: &Wide, permits: u64, now: Timestamp) -> u64 {
        let mut left = 0;
        for entry in state.cells[state.cells[HEAD] as usize..].chunks_exact(2) {
            left += entry[1];
            if left >= permits {
                return entry[0].saturating_add(self.window_ns).saturating_sub(now.as_nanos());
            }
        }
        self.reset_ns(state, now)
    }

    /// The time until the newest entry has left the window.
    fn reset_ns(&self, state: &Wide, now: Timestamp) -> u64 {
        let end = state.cells.len();
        if state.cells[HEAD] >= end as u64 {
            return 0;
        }
        state.cells[end - 2].saturating_add(self.window_ns).saturating_sub(now.as_nanos())
    }
}
