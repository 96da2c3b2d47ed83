//! The rules in force.

use std::sync::Arc;

use tollgate_policy::Policy;

use crate::observe::meters::Meters;

/// The rules in force, and what was made ready for them.
#[derive(Debug)]
pub struct Rules {
    pub(crate) policy: Policy,
    pub(crate) meters: Arc<Meters>,
    /// Counts the policies of one limiter.
    pub(crate) generation: u64,
}

impl Rules {
    /// The rules.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }
}
