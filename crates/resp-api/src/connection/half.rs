//! The beginning of a command whose rest is still on its way: kept small where it is small, and counted against what all
//! connections together may hold.

use std::sync::atomic::Ordering::Relaxed;

use crate::figures::Figures;
use crate::parse::Fault;

/// So many bytes are copied in front of what comes next. More stay where they are, and what comes is copied behind them.
const SHORT: usize = 1024;

/// Bytes that are no whole command yet.
#[derive(Debug, Default)]
pub(super) struct Half {
    bytes: Vec<u8>,
    /// Before there are so many, it cannot be whole.
    needed: usize,
    /// What of them [`Figures::buffered`] counts.
    counted: usize,
}

impl Half {
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Too long to be copied again at every read.
    #[inline]
    pub(super) const fn is_long(&self) -> bool {
        self.bytes.len() > SHORT
    }

    /// It may be whole.
    pub(super) const fn is_enough(&self) -> bool {
        self.bytes.len() >= self.needed
    }

    /// Copies it to the beginning of `input`, unless it is long; answers how many bytes that are.
    #[inline]
    pub(super) fn put_back(&self, input: &mut [u8]) -> usize {
        if self.bytes.is_empty() || self.is_long() {
            return 0;
        }
        input[..self.bytes.len()].copy_from_slice(&self.bytes);
        self.bytes.len()
    }

    /// Makes it `rest`, which must have `needed` bytes to be whole.
    #[inline]
    pub(super) fn keep(
        &mut self,
        rest: &[u8],
        needed: usize,
        figures: &Figures,
        most: usize,
    ) -> Result<(), Fault> {
        if rest.is_empty() && self.bytes.is_empty() && self.counted == 0 {
            return Ok(());
        }
        self.bytes.clear();
        if rest.len() <= SHORT {
            self.bytes.shrink_to(SHORT);
        }
        self.needed = needed;
        self.extend(rest, figures, most)
    }

    /// Adds what has come.
    pub(super) fn extend(&mut self, more: &[u8], figures: &Figures, most: usize) -> Result<(), Fault> {
        self.bytes.extend_from_slice(more);
        let (before, now) = (self.counted, self.bytes.len());
        self.counted = now;
        if now <= before {
            figures.buffered.fetch_sub(before - now, Relaxed);
            return Ok(());
        }
        let all = figures.buffered.fetch_add(now - before, Relaxed) + (now - before);
        if all <= most {
            return Ok(());
        }
        figures.over_budget.fetch_add(1, Relaxed);
        Err(Fault::Budget)
    }

    /// All of it; what of it is left is to be [kept](Self::keep) again.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// It is not waited for any more.
    pub(super) fn forget(&mut self, figures: &Figures) {
        figures.buffered.fetch_sub(self.counted, Relaxed);
        *self = Self::default();
    }
}
