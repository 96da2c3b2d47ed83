//! A domain: its rules, and the matcher that finds the rule of a descriptor.
//!
//! Cost of a match: one or two hash lookups per level, whatever the number of rules, plus one step for each
//! pattern of that key. Nothing is allocated, except by the first use of a regular expression. Not here: how
//! the tree is made (`builder`).

use std::fmt;
use std::net::IpAddr;

use hashbrown::HashMap;
use ipnet::IpNet;
use tollgate_human_text::{lossy, show_bytes};

use crate::name_table::NameTable;
use crate::pattern::{ValueRegex, Wildcard, network_of};
use crate::reading::{Reading, ValueRoom};
use crate::response::Response;
use crate::rule::Rule;

/// One entry of a request's descriptor: any bytes, since clients choose them.
///
/// Shown as `key=value`, in the spelling of [`show_bytes`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key, such as `user`; any bytes.
    pub key: &'a [u8],
    /// The value; may be empty.
    pub value: &'a [u8],
}

impl<'a> Entry<'a> {
    /// An entry of texts or bytes.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::Entry;
    /// let (text, bytes) = (Entry::new("user", "ann"), Entry::new("user", b"caf\xe9"));
    /// assert_eq!((text.to_string(), bytes.to_string()), ("user=ann".into(), r"user=caf\xE9".into()));
    /// ```
    #[inline]
    #[must_use]
    pub fn new<K, V>(key: &'a K, value: &'a V) -> Self
    where
        K: AsRef<[u8]> + ?Sized,
        V: AsRef<[u8]> + ?Sized,
    {
        Self { key: key.as_ref(), value: value.as_ref() }
    }
}

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", show_bytes(self.key), show_bytes(self.value))
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&show_bytes(self.key)).field(&show_bytes(self.value)).finish()
    }
}

/// Whether the other limits of a request are charged if one denies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Charge {
    /// Every limit is charged separately.
    #[default]
    Each,
    /// All or nothing: if one limit denies, no limit is charged.
    Together,
    /// If limits deny, the others are not charged. Fixed windows that deny are: as under `Each`, they count
    /// the hits that they deny.
    SpareOthers,
}

impl Charge {
    /// All choices, in the order in which messages list them.
    pub const ALL: [Self; 3] = [Self::Each, Self::Together, Self::SpareOthers];

    /// The name in rule files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Each => "each",
            Self::Together => "together",
            Self::SpareOthers => "spare_others",
        }
    }
}

/// Treatment of a request for which no rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unmatched {
    /// It is admitted.
    #[default]
    Admit,
    /// It is denied.
    Deny,
}

impl Unmatched {
    /// The name in rule files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Deny => "deny",
        }
    }
}

/// The rules of one domain.
///
/// # How a descriptor finds its rule
/// Each entry of a request's descriptor, in order, selects a node one level down the tree. The first of these
/// that exists on the level is selected:
///
/// 1. the node with the same key and the same value;
/// 2. the node with the same key and the narrowest network that contains the value;
/// 3. the first node, in the order of the rules, whose `*` pattern matches the value, or whose regular
///    expression matches the whole value. A `*` in a key makes a pattern for `key_value`;
/// 4. the node with the same key and no value. It also matches an empty value, unless a pattern does.
///
/// Keys and values are any bytes. Patterns read a value that is not UTF-8 with `U+FFFD` in place of each
/// invalid sequence, so an odd byte evades no pattern. A network contains no such value.
///
/// Where a node of a level takes addresses (networks, values that are addresses, `ipv6_prefix`), values of
/// its key are read as addresses: with or without a port, brackets, quotes and a zone, and IPv4 also as IPv6.
/// With `forwarded` the value is a list, and one of its addresses counts. Of a list for which no rule says
/// which one counts, the last address counts, but lifts nothing: an unlimited rule for it is passed over.
///
/// If no node matches an entry, the descriptor is not limited. Matching never backtracks: once a node with a
/// value is selected, the node without a value is not considered, even if nothing below the selected node
/// matches the next entry. A rule applies only if it matches the whole descriptor.
///
/// Cost: one or two hash lookups per level, whatever the number of rules, plus one step for each pattern of
/// that key.
#[derive(Clone, Debug)]
pub struct Domain {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) charge: Charge,
    pub(crate) unmatched: Option<Unmatched>,
    pub(crate) response: Option<Response>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) has_slots: bool,
    pub(crate) nodes: Vec<MatchNode>,
}

/// Target of a matched entry: the next level, a rule, or both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatchTarget {
    /// Index in [`Domain::nodes`] of the next level; [`MatchTarget::NONE`] for a leaf.
    pub(crate) node: u32,
    /// Index in [`Domain::rules`], or [`MatchTarget::NONE`].
    pub(crate) rule: u32,
}

impl MatchTarget {
    pub(crate) const NONE: u32 = u32::MAX;
}

impl Default for MatchTarget {
    fn default() -> Self {
        Self { node: Self::NONE, rule: Self::NONE }
    }
}

/// One level: the keys and patterns that can match the next entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct MatchNode {
    pub(crate) keys: NameTable<Values>,
    /// Patterns that begin in the key, each with its place among all descriptors of the domain.
    pub(crate) joined: Vec<(u32, Wildcard, MatchTarget)>,
}

/// Targets of the values of one key. Small, so that a lookup among many keys touches little memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// Any value that `some` does not match.
    pub(crate) any: Option<MatchTarget>,
    pub(crate) reading: Reading,
    pub(crate) some: Option<Box<SomeValues>>,
}

/// Targets of the particular values of one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct SomeValues {
    pub(crate) exact: NameTable<MatchTarget>,
    /// The addresses among `exact`, by their canonical form.
    pub(crate) addresses: HashMap<IpAddr, MatchTarget>,
    /// Longest prefix first.
    pub(crate) networks: Vec<NetworkTable>,
    pub(crate) patterns: Vec<(u32, ValuePattern, MatchTarget)>,
}

/// The networks of one family and one length.
#[derive(Clone, Debug)]
pub(crate) struct NetworkTable {
    pub(crate) is_ipv4: bool,
    pub(crate) prefix: u8,
    pub(crate) nodes: HashMap<IpNet, MatchTarget>,
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

/// Kind of match of an entry on its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matched {
    /// By its key and its value.
    Exact,
    /// By a network that contains its value.
    Network,
    /// By a pattern.
    Pattern,
    /// By its key alone.
    Default,
}

impl Domain {
    /// Index among the domains of a policy, from 0.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// The name, as requests and rule files write it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether any of its rules has [`slots`](Rule::slots).
    #[must_use]
    pub const fn has_slots(&self) -> bool {
        self.has_slots
    }

    /// Whether limits are charged separately or together.
    #[must_use]
    pub const fn charge(&self) -> Charge {
        self.charge
    }

    /// Treatment of a request for which no rule matches; `None` if the rules do not say.
    #[must_use]
    pub const fn unmatched(&self) -> Option<Unmatched> {
        self.unmatched
    }

    /// Reply of HTTP surfaces to a denied request if the rule has no response of its own.
    #[must_use]
    pub const fn response(&self) -> Option<&Response> {
        self.response.as_ref()
    }

    /// The rules, in their order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule that a descriptor matches; `None` if nothing limits it. Allocates nothing.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let user = DescriptorSpec::new("user").rule(RuleSpec::new(Limit::per(5, Unit::Minute)?));
    /// let staff = DescriptorSpec::new("user").value(ValueSpec::text("staff*")).rule(RuleSpec::unlimited());
    /// let shop = DomainSpec::new("shop").descriptor(user).descriptor(staff);
    /// let policy = PolicyBuilder::new().domain(shop).build()?;
    /// let find = |value| policy.domain("shop").and_then(|shop| shop.find(&[Entry::new("user", value)]));
    /// assert_eq!(find("ann").map(|rule| rule.limits[0].requests_per_unit), Some(5));
    /// assert!(find("staff-ann").is_some_and(|rule| rule.unlimited));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn find(&self, entries: &[Entry<'_>]) -> Option<&Rule> {
        self.rules.get(self.end(entries)?.rule as usize)
    }

    /// Whether a descriptor ends where the rules have neither a limit nor a further level: an exception that
    /// was written on purpose, such as `user=operator` beside `user`. Where the rules only have a further
    /// level, no rule matches.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let five = || RuleSpec::new(Limit::per(5, Unit::Minute).expect("a limit"));
    /// let plan = DescriptorSpec::new("plan").child(DescriptorSpec::new("user").rule(five()));
    /// let operator = DescriptorSpec::new("user").value(ValueSpec::text("operator"));
    /// let shop = DomainSpec::new("shop").descriptor(plan).descriptor(operator);
    /// let policy = PolicyBuilder::new().domain(shop).build()?;
    /// let shop = policy.domain("shop").expect("a domain");
    /// assert!(shop.is_exception(&[Entry::new("user", "operator")]));
    /// assert!(!shop.is_exception(&[Entry::new("user", "ann")]));
    /// assert!(!shop.is_exception(&[Entry::new("plan", "gold")]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_exception(&self, entries: &[Entry<'_>]) -> bool {
        self.end(entries).is_some_and(|next| next.rule == MatchTarget::NONE && next.node == MatchTarget::NONE)
    }

    /// Target of the last entry.
    #[inline]
    fn end(&self, entries: &[Entry<'_>]) -> Option<MatchTarget> {
        let (last, above) = entries.split_last()?;
        let mut node = self.nodes.first()?;
        for entry in above {
            node = self.nodes.get(node.next(entry, &self.rules)?.0.node as usize)?;
        }
        Some(node.next(last, &self.rules)?.0)
    }

    /// Kind of match of each entry of a descriptor, up to the first unmatched one: the steps of `find`.
    #[must_use]
    pub fn trace(&self, entries: &[Entry<'_>]) -> Vec<Matched> {
        let mut steps = Vec::new();
        let mut node = self.nodes.first();
        for entry in entries {
            let Some((next, matched)) = node.and_then(|node| node.next(entry, &self.rules)) else { break };
            steps.push(matched);
            node = self.nodes.get(next.node as usize);
        }
        steps
    }
}

impl MatchNode {
    /// Target of an entry. `rules` are the domain's.
    #[inline]
    pub(crate) fn next(&self, entry: &Entry<'_>, rules: &[Rule]) -> Option<(MatchTarget, Matched)> {
        let values = self.keys.get(entry.key);
        if let Some(values) = values.filter(|values| !values.reading.is_text()) {
            return self.next_of_address(values, entry, rules);
        }
        let mut patterns: &[_] = &[];
        if let Some(some) = values.and_then(|values| values.some.as_deref()) {
            if !some.exact.is_empty()
                && let Some(next) = some.exact.get(entry.value)
            {
                return Some((*next, Matched::Exact));
            }
            patterns = &some.patterns;
        }
        if !(patterns.is_empty() && self.joined.is_empty())
            && let Some(next) = self.pattern(patterns, entry, |_| true)
        {
            return Some((next, Matched::Pattern));
        }
        Some((values?.any?, Matched::Default))
    }

    /// Reading of the values of a key on this level.
    pub(crate) fn reading_of(&self, key: &[u8]) -> Reading {
        self.keys.get(key).map_or(Reading::Text, |values| values.reading)
    }

    /// As [`Self::next`], of a key whose values are addresses.
    #[inline(never)]
    fn next_of_address(
        &self,
        values: &Values,
        entry: &Entry<'_>,
        rules: &[Rule],
    ) -> Option<(MatchTarget, Matched)> {
        let (address, is_unnamed) = values.reading.address(entry.value);
        let may_be = |next: &MatchTarget| !is_unnamed || !next.lifts(rules);
        let some = values.some.as_deref();
        if let Some(some) = some {
            // `10.0.0.1:80` may be the exact value of a rule too, but not as one of a list.
            let is_alone = values.reading == Reading::Address;
            let written = if is_alone { some.exact.get(entry.value) } else { None };
            let exact = written.or_else(|| some.addresses.get(&address?));
            if let Some(next) = exact.filter(|next| may_be(next)) {
                return Some((*next, Matched::Exact));
            }
            if let Some(next) = address.and_then(|address| some.network(address, may_be)) {
                return Some((next, Matched::Network));
            }
        }
        let patterns = some.map_or(&[][..], |some| &some.patterns);
        if !(patterns.is_empty() && self.joined.is_empty()) {
            let mut room = ValueRoom::new();
            let value = values.reading.read(entry.value, &mut room).text;
            if let Some(next) = self.pattern(patterns, &Entry { key: entry.key, value }, may_be) {
                return Some((next, Matched::Pattern));
            }
        }
        Some((values.any?, Matched::Default))
    }

    /// The first, in the order of the rules, of a key's patterns and of those that begin in the key, that
    /// `may_be`.
    #[inline]
    fn pattern(
        &self,
        of_key: &[(u32, ValuePattern, MatchTarget)],
        entry: &Entry<'_>,
        may_be: impl Fn(&MatchTarget) -> bool,
    ) -> Option<MatchTarget> {
        // Copies only values that are not UTF-8. A client could send U+FFFD itself, so this reading lets no
        // further value match a pattern.
        let value = lossy(entry.value);
        let own = of_key.iter().find(|(_, pattern, next)| may_be(next) && pattern.matches(&value));
        let before = own.map_or(u32::MAX, |(order, ..)| *order);
        let mut joined = self.joined.iter().take_while(|(order, ..)| *order < before);
        let joined =
            joined.find(|(_, wildcard, next)| may_be(next) && wildcard.matches_joined(entry.key, &value));
        joined.map(|(.., next)| *next).or(own.map(|(.., next)| *next))
    }
}

impl MatchTarget {
    /// Whether a request that ends here is not limited on purpose: by `unlimited`, or as an exception.
    fn lifts(self, rules: &[Rule]) -> bool {
        match rules.get(self.rule as usize) {
            Some(rule) => rule.unlimited,
            None => self.node == Self::NONE,
        }
    }
}

impl SomeValues {
    /// The narrowest network that contains `address` and `may_be`.
    fn network(&self, address: IpAddr, may_be: impl Fn(&MatchTarget) -> bool) -> Option<MatchTarget> {
        let tables = self.networks.iter().filter(|table| table.is_ipv4 == address.is_ipv4());
        let found = tables.filter_map(|table| table.nodes.get(&network_of(address, table.prefix)));
        found.copied().find(may_be)
    }
}
