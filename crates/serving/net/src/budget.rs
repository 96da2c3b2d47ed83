//! A cap on the bytes that all connections of a surface hold for slow peers, over all workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The bytes that all connections of a surface may hold for peers that are slow: of requests that have not
/// arrived whole, or of replies that are not taken.
///
/// Each worker has a value of its own, made by [`for_worker`](Self::for_worker), of the one budget of all:
/// only shares that hold bytes touch the memory that the workers share.
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
#[repr(align(128))] // no worker's count of references lies on the cache line of another's
pub struct Budget(Arc<Total>);

/// Bytes held by all workers together, and their bound.
#[derive(Debug)]
struct Total {
    held: AtomicUsize,
    max: usize,
}

/// Bytes of a [`Budget`] that one connection or call holds. Dropping it gives the bytes back.
#[derive(Debug)]
pub struct BudgetShare {
    budget: Arc<Budget>,
    bytes: usize,
}

/// All connections together hold more bytes for slow peers than the surface allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes are held for slow peers")]
pub struct OverBudget;

impl Budget {
    /// A budget of `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Total { held: AtomicUsize::new(0), max }))
    }

    /// The same budget, for another worker.
    #[must_use]
    pub fn for_worker(&self) -> Arc<Self> {
        Arc::new(Self(Arc::clone(&self.0)))
    }

    /// Bytes held now, by all workers.
    #[must_use]
    pub fn held(&self) -> usize {
        self.0.held.load(Relaxed)
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

    /// Whether no other share holds any bytes: a single slow peer may then exceed the budget.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.budget.held() <= self.bytes
    }

    /// Adds `bytes` to this share.
    ///
    /// # Errors
    /// [`OverBudget`] when all shares together are above the budget. The bytes count until the share is
    /// dropped.
    pub fn grow(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if bytes == 0 {
            return Ok(());
        }
        self.bytes += bytes;
        let total = &*self.budget.0;
        let before = total.held.fetch_add(bytes, Relaxed);
        if before.saturating_add(bytes) > total.max { Err(OverBudget) } else { Ok(()) }
    }

    /// Makes it a share of `bytes`, more or fewer than before.
    ///
    /// # Errors
    /// As [`grow`](Self::grow). Shrinking never fails.
    pub fn resize(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if bytes >= self.bytes {
            return self.grow(bytes - self.bytes);
        }
        self.budget.0.held.fetch_sub(self.bytes - bytes, Relaxed);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.0.held.fetch_sub(self.bytes, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_together_and_come_back_when_dropped() {
        let budget = Arc::new(Budget::new(10));
        let mut one = budget.share();
        let mut other = budget.share();
        assert_eq!((one.grow(6), other.grow(4), budget.held()), (Ok(()), Ok(()), 10));
        assert_eq!((one.grow(1), one.bytes(), budget.held()), (Err(OverBudget), 7, 11));
        assert_eq!((one.resize(2), other.resize(8), budget.held()), (Ok(()), Ok(()), 10));
        assert_eq!((other.resize(9), other.resize(0), budget.held()), (Err(OverBudget), Ok(()), 2));
        drop((one, other));
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn workers_share_one_budget() {
        let budget = Budget::new(10);
        let mut one = budget.for_worker().share();
        let mut other = budget.for_worker().share();
        assert_eq!((one.grow(10), other.grow(0), budget.held()), (Ok(()), Ok(()), 10));
        assert_eq!((other.grow(1), budget.held()), (Err(OverBudget), 11));
        assert!(!one.is_alone() && !other.is_alone());
        drop(other);
        assert!(one.is_alone());
        assert_eq!((one.resize(10), one.resize(9), budget.held()), (Ok(()), Ok(()), 9));
        drop(one);
        assert_eq!((budget.held(), budget.for_worker().held()), (0, 0));
    }
}
