//! Rules and domains that a set of rules no longer has, compared with an earlier one.

use std::collections::HashSet;

use crate::domain::Domain;
use crate::policy::Policy;
use crate::rule::Rule;

/// Domains and rules of one policy that a later one no longer has.
///
/// # Example
/// ```
/// # use tollgate_policy::*;
/// let limit = Limit::per(5, Unit::Minute)?;
/// let rule = |key: &str| DescriptorSpec::new(key).rule(RuleSpec::new(limit.clone()));
/// let shop = || DomainSpec::new("shop");
/// let old = PolicyBuilder::new().domain(shop().descriptor(rule("user")).descriptor(rule("plan"))).build()?;
/// let new = PolicyBuilder::new().domain(shop().descriptor(rule("user"))).build()?;
/// let removed = Removed::between(&old, &new);
/// assert_eq!((removed.domains.len(), removed.rules.len(), removed.before), (0, 1, 2));
/// assert_eq!(removed.rules[0].to_string(), "shop: plan");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Removed<'a> {
    /// Domains that are gone with all of their rules.
    pub domains: Vec<&'a Domain>,
    /// Rules that are gone, including those of [`domains`](Self::domains).
    pub rules: Vec<RemovedRule<'a>>,
    /// Number of rules before.
    pub before: usize,
}

/// A rule that is gone. Displays its domain and its path.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RemovedRule<'a> {
    /// Domain of the rule, in the earlier set.
    pub domain: &'a Domain,
    /// The rule, as it was in the earlier set.
    pub rule: &'a Rule,
}

impl<'a> Removed<'a> {
    /// Compares `old` with `new`. A rule is kept if its domain has one of the same path or of the same name.
    #[must_use]
    pub fn between(old: &'a Policy, new: &Policy) -> Self {
        let mut removed = Self { domains: Vec::new(), rules: Vec::new(), before: old.rules().count() };
        for domain in old.domains() {
            let after = new.domain(domain.name());
            if after.is_none() {
                removed.domains.push(domain);
            }
            let kept = || after.into_iter().flat_map(Domain::rules);
            let paths: HashSet<u64> = kept().map(Rule::identity).collect();
            let names: HashSet<&str> =
                kept().map(|rule| rule.name.as_str()).filter(|name| !name.is_empty()).collect();
            let is_gone =
                |rule: &&Rule| !paths.contains(&rule.identity()) && !names.contains(rule.name.as_str());
            let gone = domain.rules().iter().filter(is_gone);
            removed.rules.extend(gone.map(|rule| RemovedRule { domain, rule }));
        }
        removed
    }

    /// Whether more than `percent` of the rules are gone.
    #[must_use]
    pub fn is_above(&self, percent: u8) -> bool {
        self.rules.len() * 100 > self.before * usize::from(percent)
    }
}

impl std::fmt::Display for RemovedRule<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.domain.name(), self.rule.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::PolicyBuilder;
    use crate::limit::{Limit, Unit};
    use crate::spec::{DescriptorSpec, DomainSpec, RuleSpec};

    /// Domains with the keys of their rules; `key=name` is a rule with a name.
    fn policy(domains: &[(&str, &[&str])]) -> Policy {
        let mut builder = PolicyBuilder::new();
        for (name, rules) in domains {
            let mut domain = DomainSpec::new(*name);
            for rule in *rules {
                let (key, name) = rule.split_once('=').unwrap_or((rule, ""));
                let limit = Limit::per(5, Unit::Minute).expect("a limit");
                domain = domain.descriptor(DescriptorSpec::new(key).rule(RuleSpec::new(limit).named(name)));
            }
            builder = builder.domain(domain);
        }
        builder.build().expect("rules without errors")
    }

    #[test]
    fn rules_and_domains_that_are_gone_are_named_and_renamed_ones_are_kept() {
        let old = policy(&[("app", &["a"]), ("shop", &["a", "b", "c=gold"])]);
        for (new, domains, rules) in [
            (policy(&[("app", &["a"]), ("shop", &["c=gold", "b", "a", "d"])]), "", ""),
            (policy(&[("app", &["a"]), ("shop", &["b", "d=gold"])]), "", "shop: a"),
            (policy(&[("shop", &["a", "b", "c=silver"])]), "app", "app: a"),
            (policy(&[("app", &["b"])]), "shop", "app: a, shop: a, shop: b, shop: c"),
            (Policy::empty(), "app, shop", "app: a, shop: a, shop: b, shop: c"),
        ] {
            let removed = Removed::between(&old, &new);
            let found: Vec<&str> = removed.domains.iter().map(|domain| domain.name()).collect();
            assert_eq!(found.join(", "), domains);
            let found: Vec<String> = removed.rules.iter().map(ToString::to_string).collect();
            assert_eq!((found.join(", ").as_str(), removed.before), (rules, 4));
        }
        assert!(Removed::between(&Policy::empty(), &old).rules.is_empty());
    }

    #[test]
    fn a_share_is_above_only_what_is_smaller_than_it() {
        let old = policy(&[("shop", &["a", "b", "c", "d"])]);
        let new = policy(&[("shop", &["a", "b", "c"])]);
        let removed = Removed::between(&old, &new);
        for (percent, want) in [(0, true), (24, true), (25, false), (100, false)] {
            assert_eq!(removed.is_above(percent), want, "{percent} %");
        }
        assert!(
            !Removed::between(&old, &old).is_above(0)
                && !Removed::between(&Policy::empty(), &old).is_above(0)
        );
    }
}
