//! A domain: its rules, and which of them a descriptor falls under.
//!
//! Cost of finding: one or two hash lookups a level, whatever the number of rules, plus one step for each pattern of that
//! key. Nothing is allocated, but by a regular expression's first use. Not here: how the tree is made (`build`).

use std::net::IpAddr;

use hashbrown::HashMap;
use ipnet::IpNet;

use crate::name_table::NameTable;
use crate::pattern::{ValueRegex, Wildcard, address, network_of};
use crate::response::Response;
use crate::rule::Rule;

/// One entry of a request's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a str,
    /// The value; may be empty.
    pub value: &'a str,
}

/// What becomes of a request's other charges when one limit denies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Charge {
    /// Every matched limit is charged on its own.
    #[default]
    Each,
    /// All or nothing: if one denies, none is charged.
    Together,
}

/// The rules of one domain.
///
/// # How a descriptor finds its rule
/// The entries of a request's descriptor are walked in their order, each one level down the tree of the file. On a level
/// the first of these that there is takes the entry:
///
/// 1. the same key and the same value;
/// 2. the same key and the narrowest `value_cidr` that the value lies in; an IPv4 address written as IPv6 is IPv4;
/// 3. the first in file order of the `*` patterns and the `value_regex`es that match, the latter the whole value; a `*` in
///    a key makes a pattern for `key_value` together;
/// 4. the same key without a value. An empty value of a request comes here too, unless a pattern takes it.
///
/// Where nothing takes an entry, nothing limits the descriptor. There is no way back: a value that has a node of its own
/// never falls to the node without a value, even when its own node lacks what comes next. A rule counts only where the
/// last entry ends; what lies deeper in the file or in the request finds nothing.
///
/// Cost: one or two hash lookups a level, whatever the number of rules, plus one step for each pattern of that key.
#[derive(Clone, Debug)]
pub struct Domain {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) charge: Charge,
    pub(crate) response: Option<Response>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) nodes: Vec<Node>,
}

/// Where an entry leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    /// Index in [`Domain::nodes`] of what follows; [`Next::NONE`] for a leaf.
    pub(crate) node: u32,
    /// Index in [`Domain::rules`], or [`Next::NONE`].
    pub(crate) rule: u32,
}

impl Next {
    pub(crate) const NONE: u32 = u32::MAX;
}

impl Default for Next {
    fn default() -> Self {
        Self { node: Self::NONE, rule: Self::NONE }
    }
}

/// One level: what may come next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) keys: NameTable<Values>,
    /// Patterns that begin in the key, each with its place among all patterns of the level.
    pub(crate) joined: Vec<(u32, Wildcard, Next)>,
}

/// What one key's values lead to. Small, so that a lookup among many keys touches little memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// Any value, where none of `some` matches.
    pub(crate) any: Option<Next>,
    pub(crate) some: Option<Box<SomeValues>>,
}

/// What some of one key's values lead to.
#[derive(Clone, Debug, Default)]
pub(crate) struct SomeValues {
    pub(crate) exact: NameTable<Next>,
    /// Longest prefix first.
    pub(crate) networks: Vec<NetworkTable>,
    pub(crate) patterns: Vec<(u32, ValuePattern, Next)>,
}

/// The networks of one family and one length.
#[derive(Clone, Debug)]
pub(crate) struct NetworkTable {
    pub(crate) is_ipv4: bool,
    pub(crate) prefix: u8,
    pub(crate) nodes: HashMap<IpNet, Next>,
}

#[derive(Clone, Debug)]
pub(crate) enum ValuePattern {
    Wildcard(Wildcard),
    Regex(ValueRegex),
}

impl ValuePattern {
    fn matches(&self, value: &str) -> bool {
        match self {
            Self::Wildcard(wildcard) => wildcard.matches(value),
            Self::Regex(regex) => regex.matches(value),
        }
    }
}

/// How an entry was taken on its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matched {
    /// By its key and its value.
    Exact,
    /// By a network that its value lies in.
    Network,
    /// By a pattern.
    Pattern,
    /// By its key alone.
    Default,
}

impl Domain {
    /// Dense number among the domains of a policy, from 0.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether limits are charged each on its own or together.
    #[must_use]
    pub const fn charge(&self) -> Charge {
        self.charge
    }

    /// How an HTTP surface answers a denied request, where the rule does not say.
    #[must_use]
    pub const fn response(&self) -> Option<&Response> {
        self.response.as_ref()
    }

    /// The rules, in file order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule that a descriptor falls under, or `None`: then nothing limits it. Allocates nothing.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let user = DescriptorSpec::new("user").rule(RuleSpec::new(Limit::per(5, Unit::Minute)?));
    /// let staff = DescriptorSpec::new("user").value(ValueSpec::text("staff*")).rule(RuleSpec::unlimited());
    /// let shop = DomainSpec::new("shop").descriptor(user).descriptor(staff);
    /// let policy = PolicyBuilder::new().domain(shop).build()?;
    /// let find = |value| policy.domain("shop").and_then(|shop| shop.find(&[Entry { key: "user", value }]));
    /// assert_eq!(find("ann").map(|rule| rule.limits[0].requests_per_unit), Some(5));
    /// assert!(find("staff-ann").is_some_and(|rule| rule.unlimited));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn find(&self, entries: &[Entry<'_>]) -> Option<&Rule> {
        let (last, above) = entries.split_last()?;
        let mut node = self.nodes.first()?;
        for entry in above {
            node = self.nodes.get(node.next(entry)?.0.node as usize)?;
        }
        self.rules.get(node.next(last)?.0.rule as usize)
    }

    /// How each entry of a descriptor is taken, up to the first that is not: what `find` does, told step by step.
    #[must_use]
    pub fn trace(&self, entries: &[Entry<'_>]) -> Vec<Matched> {
        let mut steps = Vec::new();
        let mut node = self.nodes.first();
        for entry in entries {
            let Some((next, matched)) = node.and_then(|node| node.next(entry)) else { break };
            steps.push(matched);
            node = self.nodes.get(next.node as usize);
        }
        steps
    }
}

impl Node {
    #[inline]
    fn next(&self, entry: &Entry<'_>) -> Option<(Next, Matched)> {
        let values = self.keys.get(entry.key);
        let mut patterns: &[_] = &[];
        if let Some(some) = values.and_then(|values| values.some.as_deref()) {
            if !some.exact.is_empty()
                && let Some(next) = some.exact.get(entry.value)
            {
                return Some((*next, Matched::Exact));
            }
            if !some.networks.is_empty()
                && let Some(address) = address(entry.value)
                && let Some(next) = some.network(address)
            {
                return Some((next, Matched::Network));
            }
            patterns = &some.patterns;
        }
        if !(patterns.is_empty() && self.joined.is_empty())
            && let Some(next) = self.pattern(patterns, entry)
        {
            return Some((next, Matched::Pattern));
        }
        Some((values?.any?, Matched::Default))
    }

    /// The first in file order of a key's patterns and of those that begin in the key.
    #[inline]
    fn pattern(&self, of_key: &[(u32, ValuePattern, Next)], entry: &Entry<'_>) -> Option<Next> {
        let own = of_key.iter().find(|(_, pattern, _)| pattern.matches(entry.value));
        let before = own.map_or(u32::MAX, |(order, ..)| *order);
        let mut joined = self.joined.iter().take_while(|(order, ..)| *order < before);
        let joined = joined.find(|(_, wildcard, _)| wildcard.matches_joined(entry.key, entry.value));
        joined.map(|(.., next)| *next).or(own.map(|(.., next)| *next))
    }
}

impl SomeValues {
    /// Of the networks that `address` lies in, the narrowest.
    fn network(&self, address: IpAddr) -> Option<Next> {
        let tables = self.networks.iter().filter(|table| table.is_ipv4 == address.is_ipv4());
        tables.filter_map(|table| table.nodes.get(&network_of(address, table.prefix))).next().copied()
    }
}
