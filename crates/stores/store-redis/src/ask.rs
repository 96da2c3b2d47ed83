//! Questions to one key and their answers. Not here: their conversion to script calls
//! ([`call`](crate::call)).

use std::time::Duration;

use tollgate_core::{Cost, Decision, Quota};
use tollgate_store::{Inspection, Payment, Take};

/// One question to one key.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The whole Redis key, prefix and braces too: see [`redis_key`](crate::keys::redis_key).
    pub key: Vec<u8>,
    /// The quota that counts it.
    pub quota: Quota,
    /// The operation on the key.
    pub kind: KeyOperation,
}

/// The operation on all keys of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchKind {
    Take,
    Reserve { max_wait: Duration },
}

impl KeyOperation {
    /// The operation of a take that is not charged together with others.
    pub(crate) const fn of(take: &Take<'_>) -> Self {
        match take.payment {
            Payment::Ahead => Self::Take(take.cost),
            Payment::After => Self::Pay(take.cost),
            Payment::Consumed => Self::Charge(take.cost),
        }
    }
}

impl BatchKind {
    /// The operation on one of the keys.
    pub(crate) const fn of(self, cost: Cost) -> KeyOperation {
        match self {
            Self::Take => KeyOperation::Take(cost),
            Self::Reserve { max_wait } => KeyOperation::Reserve(cost, max_wait),
        }
    }
}

/// An operation on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOperation {
    /// A take, as [`Store::take`](tollgate_store::Store::take).
    Take(Cost),
    /// A reservation with its longest wait, as [`Store::reserve`](tollgate_store::Store::reserve).
    Reserve(Cost, Duration),
    /// A return, as [`Store::give_back`](tollgate_store::Store::give_back).
    GiveBack(Cost),
    /// A charge, as [`Store::charge`](tollgate_store::Store::charge).
    Charge(Cost),
    /// A take of [`Payment::After`](tollgate_store::Payment::After).
    Pay(Cost),
    /// A reset, as [`Store::reset`](tollgate_store::Store::reset).
    Reset,
    /// A look at the state, as [`Store::inspect`](tollgate_store::Store::inspect).
    Inspect,
}

impl Ask {
    /// True when both may share a call: they ask the same key, by equivalent quotas. (A reset has a call of
    /// its own.)
    pub fn joins(&self, other: &Self) -> bool {
        let resets = self.kind == KeyOperation::Reset || other.kind == KeyOperation::Reset;
        !resets && self.key == other.key && self.quota.is_equivalent_to(&other.quota)
    }
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer to a take, a reservation, a charge, and a return.
    Decision(Decision),
    /// The answer to a reset: true when the key was tracked.
    Reset(bool),
    /// The answer to an inspection.
    Inspection(Inspection),
}

/// The reason why an ask has no answer. No permit was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The key holds something that is not a counter of this store.
    #[error(
        "key {key} holds {found}, which is not a counter of Tollgate; delete it or choose another prefix"
    )]
    Foreign {
        /// The Redis key.
        key: String,
        /// A description of the value.
        found: String,
    },
    /// The numbers of this quota are beyond what a script can count.
    #[error("{algorithm} with {what} is beyond what a script counts exactly")]
    Unsupported {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// The number that is too large or too small.
        what: &'static str,
    },
    /// The reply is not one of the script's.
    #[error("an unexpected reply: {0}")]
    Reply(String),
}
