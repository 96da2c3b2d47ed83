//! Questions to one key and their answers. Not here: how they become script calls ([`call`](crate::call)).

use std::time::Duration;

use tollgate_core::{Cost, Decision, Quota};
use tollgate_store::{Inspection, Payment, Take};

/// One thing asked of one key.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The whole Redis key, prefix and braces too: see [`redis_key`](crate::keys::redis_key).
    pub key: Vec<u8>,
    /// The quota that counts it.
    pub quota: Quota,
    /// What is asked.
    pub kind: Kind,
}

/// What is asked of all keys of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchKind {
    Take,
    Reserve { max_wait: Duration },
}

impl Kind {
    /// What a take of a batch asks that is not charged together with others.
    pub(crate) const fn of(take: &Take<'_>) -> Self {
        match take.payment {
            Payment::Ahead => Self::Take(take.cost),
            Payment::After => Self::Pay(take.cost),
            Payment::Consumed => Self::Charge(take.cost),
        }
    }
}

impl BatchKind {
    /// What is asked of one of the keys.
    pub(crate) const fn of(self, cost: Cost) -> Kind {
        match self {
            Self::Take => Kind::Take(cost),
            Self::Reserve { max_wait } => Kind::Reserve(cost, max_wait),
        }
    }
}

/// What is asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As [`Store::take`](tollgate_store::Store::take).
    Take(Cost),
    /// As [`Store::reserve`](tollgate_store::Store::reserve), with the longest wait.
    Reserve(Cost, Duration),
    /// As [`Store::give_back`](tollgate_store::Store::give_back).
    GiveBack(Cost),
    /// As [`Store::charge`](tollgate_store::Store::charge).
    Charge(Cost),
    /// As a take of [`Payment::After`](tollgate_store::Payment::After).
    Pay(Cost),
    /// As [`Store::reset`](tollgate_store::Store::reset).
    Reset,
    /// As [`Store::inspect`](tollgate_store::Store::inspect).
    Inspect,
}

impl Ask {
    /// True when both may share a call: they ask the same key, by equivalent quotas. (A reset has a call of
    /// its own.)
    pub fn joins(&self, other: &Self) -> bool {
        let resets = self.kind == Kind::Reset || other.kind == Kind::Reset;
        !resets && self.key == other.key && self.quota.is_equivalent_to(&other.quota)
    }
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To a take, a reservation, a charge, and a return.
    Decision(Decision),
    /// To a reset: true when the key was tracked.
    Reset(bool),
    /// To an inspection.
    Inspection(Inspection),
}

/// Why an ask has no answer. No permit was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The key holds something that is not a counter of this store.
    #[error(
        "key {key} holds {found}, which is not a counter of Tollgate; delete it or choose another prefix"
    )]
    Foreign {
        /// The Redis key.
        key: String,
        /// What it looks like.
        found: String,
    },
    /// The numbers of this quota are beyond what a script can count.
    #[error("{algorithm} with {what} is beyond what a script counts exactly")]
    Unsupported {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// Which number is too large or too small.
        what: &'static str,
    },
    /// The reply is not one of the script's.
    #[error("an unexpected reply: {0}")]
    Reply(String),
}
