//! Counts in words, for people.

use tollgate_policy::Policy;

/// `1 rule`, `2 rules`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `2 domains, 7 rules`.
pub(crate) fn summary(policy: &Policy) -> String {
    format!("{}, {}", count(policy.domains().len(), "domain"), count(policy.rules().count(), "rule"))
}
