//! The takes of one key within the last window, exactly: every instant and its permits.

use std::collections::VecDeque;

/// The takes of one key that are younger than a window, oldest first. Takes of one instant are one entry.
///
/// # Example
/// ```
/// # use tollgate_exact::ExactLog;
/// let mut log = ExactLog::default();
/// assert!(log.take(0, 2, 10, 3)); // 2 permits at 0, of 3 in any window of 10
/// assert!(!log.take(9, 2, 10, 3));
/// assert!(log.take(10, 2, 10, 3)); // those of 0 have left
/// assert_eq!(log.sum(), 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExactLog {
    taken: VecDeque<(u64, u64)>,
    sum: u64,
}

impl ExactLog {
    /// Forgets the takes made `window` before `now` or earlier.
    #[inline]
    pub fn forget(&mut self, now: u64, window: u64) {
        while let Some(&(at, cost)) = self.taken.front()
            && at.saturating_add(window) <= now
        {
            self.sum -= cost;
            self.taken.pop_front();
        }
    }

    /// Adds a take at `now`, which is not before any other.
    #[inline]
    pub fn push(&mut self, now: u64, cost: u64) {
        let cost = cost.min(u64::MAX - self.sum);
        self.sum += cost;
        match self.taken.back_mut() {
            Some((at, taken)) if *at == now => *taken += cost,
            _ => self.taken.push_back((now, cost)),
        }
    }

    /// Takes `cost` if no window then has more than `limit`; returns whether it did.
    #[inline]
    pub fn take(&mut self, now: u64, cost: u64, window: u64, limit: u64) -> bool {
        self.forget(now, window);
        let fits = self.sum.checked_add(cost).is_some_and(|sum| sum <= limit);
        if fits {
            self.push(now, cost);
        }
        fits
    }

    /// Permits in the window.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// The instant of the oldest take in the window.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.taken.front().map(|&(at, _)| at)
    }

    /// The instant of the newest take.
    #[must_use]
    pub fn newest(&self) -> Option<u64> {
        self.taken.back().map(|&(at, _)| at)
    }

    /// Bytes that its entries take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.taken.capacity() * size_of::<(u64, u64)>()
    }

    /// Gives memory back that it no longer needs.
    pub fn shrink(&mut self) {
        self.taken.shrink_to_fit();
    }
}
