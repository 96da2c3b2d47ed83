//! The nearest rule to a descriptor that matches none, for people who look for the difference.
//!
//! Looks at a bounded number of descriptors per level, since requests cause it. Not here: matching
//! (`domain`).

use tollgate_human_text::nearest;

use crate::domain::{Domain, Entry, MatchNode, MatchTarget, Values};
use crate::rule::Rule;

/// The most descriptors of one level that are compared.
const MOST: usize = 64;

impl Domain {
    /// The rule that is nearest to a descriptor which no rule matches: it has the same entries up to the
    /// first that differs. `None` if none begins alike.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let five = || RuleSpec::new(Limit::per(5, Unit::Minute).expect("a limit"));
    /// let gold = DescriptorSpec::new("plan").value(ValueSpec::text("gold")).rule(five());
    /// let user = DescriptorSpec::new("user").rule(five()).child(gold);
    /// let policy = PolicyBuilder::new().domain(DomainSpec::new("shop").descriptor(user)).build()?;
    /// let entries = [Entry::new("user", "ann"), Entry::new("plan", "silver")];
    /// let rule = policy.domain("shop").and_then(|shop| shop.nearest(&entries));
    /// assert_eq!(rule.map(|rule| rule.path.as_str()), Some("user → plan=gold"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn nearest(&self, entries: &[Entry<'_>]) -> Option<&Rule> {
        let mut node = self.nodes.first()?;
        let mut above = None;
        for entry in entries {
            let Some((next, _)) = node.next(entry, &self.rules) else {
                return self.beside(node, entry).or(above);
            };
            above = self.rules.get(next.rule as usize).or(above);
            // The rules end here, but the descriptor has further entries.
            let Some(below) = self.nodes.get(next.node as usize) else { return above };
            node = below;
        }
        // The rules have further levels below the last entry.
        self.first_of(first(all(node))?).or(above)
    }

    /// A rule of this level for other values of the entry's key, or for a key that is spelt alike.
    fn beside(&self, node: &MatchNode, entry: &Entry<'_>) -> Option<&Rule> {
        let values = node.keys.get(entry.key).or_else(|| {
            let names: Vec<&str> = node.keys.iter().take(MOST).map(|(name, _)| name).collect();
            nearest(&String::from_utf8_lossy(entry.key), &names)
                .filter(|found| found.is_near)
                .and_then(|found| node.keys.get(found.name.as_bytes()))
        })?;
        self.first_of(first(of_key(values))?)
    }

    /// The rule of `next`, or else the first of the first descriptors below.
    fn first_of(&self, mut next: MatchTarget) -> Option<&Rule> {
        loop {
            if let Some(rule) = self.rules.get(next.rule as usize) {
                return Some(rule);
            }
            next = first(all(self.nodes.get(next.node as usize)?))?;
        }
    }
}

/// Targets of the descriptors of a level.
fn all(node: &MatchNode) -> impl Iterator<Item = MatchTarget> {
    let keys = node.keys.iter().take(MOST).flat_map(|(_, values)| of_key(values));
    keys.chain(node.joined.iter().map(|(.., next)| *next))
}

/// Targets of the values of a key.
fn of_key(values: &Values) -> impl Iterator<Item = MatchTarget> {
    let some = values.some.as_deref().into_iter().flat_map(|some| {
        let exact = some.exact.iter().take(MOST).map(|(_, next)| *next);
        let networks = some.networks.iter().flat_map(|table| table.nodes.values().take(MOST).copied());
        exact.chain(networks).chain(some.patterns.iter().map(|(.., next)| *next))
    });
    values.any.into_iter().chain(some)
}

/// The first in the order of the rules, whatever the order of the tables.
fn first(nexts: impl Iterator<Item = MatchTarget>) -> Option<MatchTarget> {
    let leads_on = |next: &MatchTarget| next.rule != MatchTarget::NONE || next.node != MatchTarget::NONE;
    nexts.filter(leads_on).take(MOST).min_by_key(|next| (next.rule, next.node))
}
