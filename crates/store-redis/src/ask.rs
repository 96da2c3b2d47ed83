//! What is asked of one key, and what is answered: the words of the seam between scripts and connections.

use std::time::Duration;

use tollgate_core::{Cost, Decision, Quota};
use tollgate_store::Inspection;

/// One thing asked of one key.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// The whole Redis key, prefix and braces too: see [`redis_key`](crate::keys::redis_key).
    pub(crate) key: Vec<u8>,
    /// By which quota.
    pub(crate) quota: Quota,
    /// What is asked.
    pub(crate) kind: Kind,
}

/// What is asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As [`Store::take`](tollgate_store::Store::take).
    Take(Cost),
    /// As [`Store::hold`](tollgate_store::Store::hold), with the longest wait.
    Hold(Cost, Duration),
    /// As [`Store::give_back`](tollgate_store::Store::give_back).
    GiveBack(Cost),
    /// As [`Store::charge`](tollgate_store::Store::charge).
    Charge(Cost),
    /// As [`Store::reset`](tollgate_store::Store::reset).
    Reset,
    /// As [`Store::inspect`](tollgate_store::Store::inspect).
    Inspect,
}

impl Ask {
    /// True when both may share a call: they are about the same key, by quotas that count alike. (A reset is
    /// alone.)
    pub(crate) fn joins(&self, other: &Self) -> bool {
        let resets = self.kind == Kind::Reset || other.kind == Kind::Reset;
        !resets && self.key == other.key && self.quota.is_equivalent_to(&other.quota)
    }
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// To a take, a hold, a charge, and permits given back.
    Decision(Decision),
    /// To a reset: was there something to forget?
    Reset(bool),
    /// To an inspection.
    Inspection(Inspection),
}

/// Why there is no answer. No permit was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// The key holds what no store of this kind has written.
    #[error(
        "key {key} holds {found}, which is not a counter of Tollgate; delete it or choose another prefix"
    )]
    Foreign { key: String, found: String },
    /// The numbers of this quota are beyond what a script can count.
    #[error("{algorithm} with {what} is beyond what a script counts exactly")]
    Unsupported { algorithm: &'static str, what: &'static str },
    /// What came back is not what a script of ours answers.
    #[error("an unexpected reply: {0}")]
    Reply(String),
}
