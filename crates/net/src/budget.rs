//! A cap on the bytes of half-arrived requests over all connections of a surface.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The bytes that all connections of a surface may hold of requests that have not arrived whole.
///
/// # Example
/// ```
/// # use std::sync::Arc;
/// # use tollgate_net::Budget;
/// let budget = Arc::new(Budget::new(100));
/// let (mut one, mut other) = (budget.share(), budget.share());
/// one.grow(90)?;
/// other.grow(20).expect_err("110 bytes are more than 100");
/// drop(one);
/// assert_eq!(budget.held(), 20);
/// # Ok::<(), tollgate_net::OverBudget>(())
/// ```
#[derive(Debug)]
pub struct Budget {
    held: AtomicUsize,
    max: usize,
}

/// What one connection or call holds of a [`Budget`]. Dropping it gives the bytes back.
#[derive(Debug)]
pub struct BudgetShare {
    budget: Arc<Budget>,
    bytes: usize,
}

/// All connections together hold more bytes of half-arrived requests than the surface allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes of half-arrived requests")]
pub struct OverBudget;

impl Budget {
    /// A budget of `max` bytes.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        Self { held: AtomicUsize::new(0), max }
    }

    /// Bytes held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// A share of no bytes yet.
    #[must_use]
    pub fn share(self: &Arc<Self>) -> BudgetShare {
        BudgetShare { budget: Arc::clone(self), bytes: 0 }
    }
}

impl BudgetShare {
    /// Bytes of this share.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds `bytes`.
    ///
    /// # Errors
    /// [`OverBudget`] when all shares together are above the budget. The bytes count until the share is
    /// dropped.
    pub fn grow(&mut self, bytes: usize) -> Result<(), OverBudget> {
        self.bytes += bytes;
        let before = self.budget.held.fetch_add(bytes, Relaxed);
        if before.saturating_add(bytes) > self.budget.max { Err(OverBudget) } else { Ok(()) }
    }

    /// Makes it a share of `bytes`, more or fewer than before.
    ///
    /// # Errors
    /// As [`grow`](Self::grow). Shrinking never fails.
    pub fn resize(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if bytes > self.bytes {
            return self.grow(bytes - self.bytes);
        }
        self.budget.held.fetch_sub(self.bytes - bytes, Relaxed);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_together_and_come_back_when_dropped() {
        let budget = Arc::new(Budget::new(10));
        let (mut one, mut other) = (budget.share(), budget.share());
        assert_eq!((one.grow(6), other.grow(4), budget.held()), (Ok(()), Ok(()), 10));
        assert_eq!((one.grow(1), one.bytes(), budget.held()), (Err(OverBudget), 7, 11));
        assert_eq!((one.resize(2), other.resize(8), budget.held()), (Ok(()), Ok(()), 10));
        assert_eq!((other.resize(9), other.resize(0), budget.held()), (Err(OverBudget), Ok(()), 2));
        drop((one, other));
        assert_eq!(budget.held(), 0);
    }
}
