//! The commands, one struct each: parsed by clap, writing to what they are given.

mod check;
mod explain;
mod serve;

pub use check::Check;
pub use explain::Explain;
pub use serve::Serve;

use tollgate_policy::Policy;
use tollgate_rule_files::LoadError;

/// `1 rule`, `2 rules`.
pub(crate) fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// `2 domains, 7 rules`.
pub(crate) fn summary(policy: &Policy) -> String {
    format!("{}, {}", count(policy.domains().len(), "domain"), count(policy.rules().count(), "rule"))
}

/// How many faults an error tells of, for the closing line.
pub(crate) fn fault_count(error: &LoadError) -> usize {
    match error {
        LoadError::Faulty(faults) => faults.as_slice().len(),
        _ => 1,
    }
}
