//! All rules in force.

use hashbrown::HashMap;
use tollgate_core::Timestamp;

use crate::domain::Domain;
use crate::limit::Limit;
use crate::rule::Rule;

/// All rules in force. Made by [`PolicyBuilder`](crate::PolicyBuilder), and checked, so that no decision can
/// fail.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    domains: Vec<Domain>,
    by_name: HashMap<String, usize>,
    version: String,
}

impl Policy {
    /// A policy without rules.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    pub(crate) fn new(domains: Vec<Domain>, version: String) -> Self {
        let by_name = domains.iter().map(|domain| (domain.name.clone(), domain.index)).collect();
        Self { domains, by_name, version }
    }

    /// Twelve hexadecimal digits: the first 48 bits of a SHA-256 of the rules.
    ///
    /// Equal rules have equal versions in every process, on every machine and in every release, whether they
    /// were read from files or built. Comments, the form of a text and the order of domains make no
    /// difference. Empty for [`Policy::empty`].
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether rules were loaded, perhaps none at all: this is not [`Policy::empty`].
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        !self.version.is_empty()
    }

    /// The domain of that name.
    #[must_use]
    pub fn domain(&self, name: &str) -> Option<&Domain> {
        self.by_name.get(name).and_then(|index| self.domains.get(*index))
    }

    /// The domains, in index order.
    #[must_use]
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// All rules of all domains, in index order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.domains.iter().flat_map(Domain::rules)
    }

    /// This policy as the successor of `old` from `at` on: counters of rules that are in both keep their
    /// counts.
    ///
    /// A rule follows the old one of the same domain and path, or else the one of the same domain and name.
    /// Counter keys contain neither, so counts survive if the algorithm and the unit stay. This method adds
    /// that a token bucket's state, written under the old rate, is read in permits under the new one.
    ///
    /// Limits that share a bucket all follow the old bucket of that name, whichever rules it had.
    #[must_use]
    pub fn migrated_from(mut self, old: &Self, at: Timestamp) -> Self {
        for domain in &mut self.domains {
            let Some(before) = old.domain(&domain.name) else { continue };
            let by_path: HashMap<u64, &Rule> =
                before.rules.iter().map(|rule| (rule.identity, rule)).collect();
            let named = before.rules.iter().filter(|rule| !rule.name.is_empty());
            let by_name: HashMap<&str, &Rule> = named.map(|rule| (rule.name.as_str(), rule)).collect();
            let limits = before.rules.iter().flat_map(|rule| &rule.limits);
            let shared: Vec<&Limit> = limits.filter(|limit| limit.bucket.is_some()).collect();
            let buckets: HashMap<&str, &Limit> =
                shared.iter().map(|limit| (&*limit.key_tail, *limit)).collect();
            for rule in &mut domain.rules {
                let before = by_path.get(&rule.identity).or_else(|| by_name.get(rule.name.as_str()));
                for limit in &mut rule.limits {
                    let mut limits = before.iter().flat_map(|rule| &rule.limits);
                    let before = match limit.bucket {
                        Some(_) => buckets.get(&*limit.key_tail).copied(),
                        None => limits.find(|before| before.key_tail == limit.key_tail),
                    };
                    if let Some(before) = before {
                        limit.quota = limit.quota.clone().migrated_from(&before.quota, at);
                    }
                }
            }
            for limit in &shared {
                limit.quota.share_successors_of(&buckets[&*limit.key_tail].quota);
            }
        }
        self
    }
}
