//! Where a node is in a rollout, for people.

use super::machine::{Progress, SeenNode, labels};

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It rejected the candidate, or crashed while applying it.
    Rejected,
    /// It should have the candidate, and has yet to acknowledge it.
    Waiting,
    /// It has the candidate.
    Candidate,
    /// It has the version before, as it should.
    Before,
    /// It is unresponsive, too old, or ahead of the database. It gets the outcome when it returns.
    LeftOut,
}

impl Stage {
    pub const ALL: [Self; 5] = [Self::Rejected, Self::Waiting, Self::Candidate, Self::Before, Self::LeftOut];

    /// Its name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Waiting => "waiting",
            Self::Candidate => "candidate",
            Self::Before => "before",
            Self::LeftOut => "left_out",
        }
    }

    /// Where `node` is in a rollout of `candidate`. The version `withdrawn` has the previous content again.
    #[must_use]
    pub fn of(node: &SeenNode, candidate: u64, withdrawn: Option<u64>, progress: &Progress) -> Self {
        if node.is_left_out || !node.is_live {
            Self::LeftOut
        } else if node.has_rejected {
            Self::Rejected
        } else if withdrawn.is_some_and(|it| node.acked >= it) {
            Self::Before
        } else if node.acked >= candidate {
            Self::Candidate
        } else if progress.reach.includes(&node.id, labels(node)) {
            Self::Waiting
        } else {
            Self::Before
        }
    }
}
