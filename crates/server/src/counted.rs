//! Number of rules, in words.

use tollgate_human_text::counted;
use tollgate_policy::Policy;

/// `2 domains, 7 rules`.
pub(crate) fn summary(policy: &Policy) -> String {
    format!("{}, {}", counted(policy.domains().len(), "domain"), counted(policy.rules().count(), "rule"))
}
