//! The beginning of a command whose rest has not arrived: small if it is small, and counted against what all
//! connections together may buffer.

use std::sync::Arc;

use tollgate_net::{Budget, BudgetShare, OverBudget};

/// Up to this many bytes are copied in front of what arrives next. With more, what arrives is appended to
/// them.
const SHORT: usize = 1024;

/// Bytes of an incomplete command.
#[derive(Debug)]
pub(super) struct PartialCommand {
    bytes: Vec<u8>,
    /// Bytes that the whole command has at least.
    needed: usize,
    /// Share of the budget of all connections that the bytes take.
    share: BudgetShare,
}

impl PartialCommand {
    /// No bytes yet.
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self { bytes: Vec::new(), needed: 0, share: budget.share() }
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Too long to be copied again at every read.
    #[inline]
    pub(super) const fn is_long(&self) -> bool {
        self.bytes.len() > SHORT
    }

    /// It may be complete.
    pub(super) const fn may_be_complete(&self) -> bool {
        self.bytes.len() >= self.needed
    }

    /// Copies it to the beginning of `input`, unless it is long; returns the number of bytes copied.
    #[inline]
    pub(super) fn copy_to(&self, input: &mut [u8]) -> usize {
        if self.bytes.is_empty() || self.is_long() {
            return 0;
        }
        input[..self.bytes.len()].copy_from_slice(&self.bytes);
        self.bytes.len()
    }

    /// Replaces it by `rest`, the beginning of a command of at least `needed` bytes.
    #[inline]
    pub(super) fn replace(&mut self, rest: &[u8], needed: usize) -> Result<(), OverBudget> {
        if rest.is_empty() && self.bytes.is_empty() && self.share.bytes() == 0 {
            return Ok(());
        }
        self.bytes.clear();
        if rest.len() <= SHORT {
            self.bytes.shrink_to(SHORT);
        }
        self.needed = needed;
        self.extend(rest)
    }

    /// Appends what has arrived.
    pub(super) fn extend(&mut self, more: &[u8]) -> Result<(), OverBudget> {
        self.bytes.extend_from_slice(more);
        self.share.resize(self.bytes.len())
    }

    /// Takes all of it; the caller [replaces](Self::replace) it by the bytes that it does not use.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    pub(super) fn discard(&mut self) {
        self.bytes = Vec::new();
        // Only growing fails.
        let _ = self.share.resize(0);
    }
}
