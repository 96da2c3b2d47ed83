//! What goes into a store and what comes out.

use tollgate_core::{Cost, Decision};

use crate::{Counter, StoreError};

/// One take of a batch ([`Counter::take`]).
#[derive(Clone, Copy, Debug)]
pub struct Take<'a> {
    /// From which counter.
    pub counter: Counter<'a>,
    /// How many permits; zero peeks.
    pub cost: Cost,
}

impl<'a> Counter<'a> {
    /// The take of `cost` permits from this counter, for a batch of [`Store::take`](crate::Store::take).
    #[must_use]
    pub const fn take(self, cost: Cost) -> Take<'a> {
        Take { counter: self, cost }
    }
}

/// What becomes of the other takes of a batch when one is denied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charge {
    /// Every take is charged on its own.
    #[default]
    Each,
    /// All or nothing: if one is denied, none is charged.
    Together,
}

/// The answers to a batch, in its order. Kept by the caller and used again, so that a decision allocates
/// nothing.
pub type Verdicts = Vec<Result<Decision, StoreError>>;

/// What a store keeps of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// What a peek would answer.
    pub decision: Decision,
    /// False when nothing is kept, so that the answer is that of a fresh quota.
    pub is_tracked: bool,
}
