//! The rules in force.

use tollgate_observe::{Metrics, Observer};
use tollgate_policy::Policy;

/// The rules in force, and what was made ready for them.
pub struct Rules<O: Observer = Metrics> {
    pub(crate) policy: Policy,
    /// What the observer has made ready for them.
    pub(crate) observed: O::Rules,
    /// Counts the policies of one limiter.
    pub(crate) generation: u64,
}

impl<O: Observer> Rules<O> {
    /// The rules.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }
}

impl<O: Observer> std::fmt::Debug for Rules<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").field("policy", &self.policy).finish_non_exhaustive()
    }
}
