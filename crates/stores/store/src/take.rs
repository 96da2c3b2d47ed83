//! The input and output of a store: takes, decisions and inspections.

use tollgate_core::{Cost, Decision, Quota, State, Timestamp};

use crate::{Counter, StoreError};

/// One take of a batch ([`Counter::take`], [`Counter::pay`]).
#[derive(Clone, Copy, Debug)]
pub struct Take<'a> {
    /// The counter that is charged.
    pub counter: Counter<'a>,
    /// Number of permits; zero peeks.
    pub cost: Cost,
    /// Whether the permits are for work to come, or are used already.
    pub payment: Payment,
}

/// The time of payment for permits: before they are used, or after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Payment {
    /// Before: all of them, or none ([`Quota::take`]).
    #[default]
    Ahead,
    /// After: all of them, even if too few are left; denied if nothing was left before ([`Quota::pay`]). Zero
    /// asks whether anything is left.
    After,
    /// After, and never denied ([`Quota::charge`]).
    Consumed,
}

impl Payment {
    /// The step of `cost` permits with this payment.
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

/// The treatment of the other takes of a batch when one is denied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charge {
    /// Every take is charged on its own.
    #[default]
    Each,
    /// All or nothing: if one is denied, none is charged. Only of takes that are paid for
    /// [ahead](Payment::Ahead).
    Together,
}

/// The answers to a batch, in its order. The caller keeps and reuses the vector, so that a decision allocates
/// nothing.
pub type Verdicts = Vec<Result<Decision, StoreError>>;

/// The stored state of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The decision that a peek would get.
    pub decision: Decision,
    /// False when no state is kept, so that the decision is that of a fresh quota.
    pub is_tracked: bool,
}
