//! What goes into a store and what comes out.

use tollgate_core::{Cost, Decision, Quota, State, Timestamp};

use crate::{Counter, StoreError};

/// One take of a batch ([`Counter::take`], [`Counter::pay`]).
#[derive(Clone, Copy, Debug)]
pub struct Take<'a> {
    /// From which counter.
    pub counter: Counter<'a>,
    /// How many permits; zero peeks.
    pub cost: Cost,
    /// Whether they are for what comes, or are used already.
    pub payment: Payment,
}

/// When permits are paid for: before they are used, or after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Payment {
    /// Before: all of them, or none ([`Quota::take`]).
    #[default]
    Ahead,
    /// After: all of them, whatever is left; denied if nothing was left before ([`Quota::pay`]). Zero asks
    /// whether anything is left.
    After,
    /// After, and never denied ([`Quota::charge`]).
    Consumed,
}

impl Payment {
    /// The step of `cost` permits that are paid for so.
    pub fn step(self, quota: &Quota, state: &mut State, cost: Cost, now: Timestamp) -> Decision {
        match self {
            Self::Ahead => quota.take(state, cost, now),
            Self::After => quota.pay(state, cost, now),
            Self::Consumed => quota.charge(state, cost, now),
        }
    }

    /// Whether the permits are used already.
    #[must_use]
    pub const fn is_after(self) -> bool {
        !matches!(self, Self::Ahead)
    }
}

impl<'a> Counter<'a> {
    /// The take of `cost` permits from this counter, for a batch of [`Store::take`](crate::Store::take).
    #[must_use]
    pub const fn take(self, cost: Cost) -> Take<'a> {
        Take { counter: self, cost, payment: Payment::Ahead }
    }

    /// Permits of this counter that are paid for after they were used, for a batch that is charged
    /// [each](Charge::Each).
    #[must_use]
    pub const fn pay(self, cost: Cost) -> Take<'a> {
        Take { counter: self, cost, payment: Payment::After }
    }
}

/// What becomes of the other takes of a batch when one is denied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charge {
    /// Every take is charged on its own.
    #[default]
    Each,
    /// All or nothing: if one is denied, none is charged. Only of takes that are paid for
    /// [ahead](Payment::Ahead).
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
