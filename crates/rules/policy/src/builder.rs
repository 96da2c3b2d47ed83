//! From specs to a policy: every error found, domains of one name merged, rules numbered, the matcher's tree
//! made.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ipnet::IpNet;
use tollgate_human_text::clip_to;

use crate::bucket::{Bucket, Member, Open};
use crate::countable::Countable;
use crate::digest::{DomainDigest, TrailDigest, VersionDigest};
use crate::domain::{Charge, Domain, MatchNode, MatchTarget, NetworkTable, SomeValues, ValuePattern};
use crate::error::{BuildError, BuildErrors, RuleError};
use crate::key_text::{bucket_tail, named_tail};
use crate::limit::Limit;
use crate::limit_text::PATH_SEPARATOR;
use crate::place::Place;
use crate::policy::Policy;
use crate::reading::{Reading, exact_address};
use crate::readings::Readings;
use crate::rule::{Counted, Level, Rule};
use crate::spec::{DescriptorSpec, DomainSpec, Limits, ListedValue, Part, RuleSpec, ValueMatch};
use crate::stat_path::clean;

/// The longest path for people, in characters.
const LONGEST_PATH: usize = 240;

/// Makes a [`Policy`] from [`DomainSpec`]s.
///
/// # Example
/// ```
/// # use tollgate_policy::*;
/// let five = RuleSpec::new(Limit::per(5, Unit::Minute)?);
/// let shop = DomainSpec::new("shop")
///     .descriptor(DescriptorSpec::new("user").rule(five))
///     .descriptor(DescriptorSpec::new("user").value(ValueSpec::text("staff*")).rule(RuleSpec::unlimited()));
/// let policy = PolicyBuilder::new().domain(shop).build()?;
/// let find = |value| policy.domain("shop").and_then(|shop| shop.find(&[Entry::new("user", value)]));
/// assert_eq!(find("ann").map(|rule| rule.limits[0].requests_per_unit), Some(5));
/// assert!(find("staff-ann").is_some_and(|rule| rule.unlimited));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// All errors are reported together:
///
/// ```
/// # use tollgate_policy::*;
/// let twice = DescriptorSpec::new("user").rule(RuleSpec::new(Limit::per(5, Unit::Minute)?));
/// let shop = DomainSpec::new("shop").descriptor(twice.clone()).descriptor(twice.ipv6_prefix(129));
/// let errors = PolicyBuilder::new().domain(shop).build().expect_err("two errors");
/// let want = "\
/// shop: descriptors[1].ipv6_prefix: 129 is out of range; write a whole number from 1 to 128
/// shop: descriptors[1]: user occurs twice on this level; merge them, or list several limits under limits";
/// assert_eq!(errors.to_string(), want);
/// # Ok::<(), LimitError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PolicyBuilder {
    domains: Vec<DomainSpec>,
    merge_domains: bool,
    default_charge: Charge,
    countable: Countable,
}

impl PolicyBuilder {
    /// A builder without domains.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether specs of one domain add up instead of being an error. Where both set an option of the whole
    /// domain, the last one applies.
    #[must_use]
    pub const fn merge_domains(mut self, merge: bool) -> Self {
        self.merge_domains = merge;
        self
    }

    /// Charge of the domains whose specs do not say it; separate by default.
    #[must_use]
    pub const fn default_charge(mut self, charge: Charge) -> Self {
        self.default_charge = charge;
        self
    }

    /// Restricts the rules to limits that the store can count; without a call, every limit is accepted.
    #[must_use]
    pub const fn countable(mut self, countable: Countable) -> Self {
        self.countable = countable;
        self
    }

    /// With the rules of a further domain.
    #[must_use]
    pub fn domain(mut self, domain: DomainSpec) -> Self {
        self.domains.push(domain);
        self
    }

    /// Checks all rules and makes a policy of them.
    ///
    /// # Errors
    /// [`BuildErrors`]: everything that is wrong, in the order of the specs.
    pub fn build(self) -> Result<Policy, BuildErrors> {
        let charge = self.default_charge;
        let mut build = Build { countable: self.countable, errors: Vec::new(), tails: HashMap::new() };
        let mut domains: Vec<DomainBuild> = Vec::new();
        let mut names: HashMap<String, usize> = HashMap::new();
        let mut tops: HashMap<String, Readings> = HashMap::new();
        for spec in &self.domains {
            tops.entry(spec.name.clone()).or_default().note(&spec.descriptors);
        }
        for spec in self.domains {
            if spec.name.is_empty() {
                build.domain_error(&spec, RuleError::EmptyDomain);
            }
            let readings = tops.get(&spec.name).cloned().unwrap_or_default();
            let earlier = names.get(&spec.name).and_then(|at| domains.get_mut(*at));
            if let Some(domain) = earlier {
                if self.merge_domains {
                    domain.add(spec, &readings, &mut build);
                } else {
                    // Its descriptors are not checked against the others: they are in the wrong domain.
                    let error =
                        RuleError::DuplicateDomain { name: spec.name.clone(), first: domain.place.clone() };
                    build.domain_error(&spec, error);
                    DomainBuild::new(&spec, charge).add(spec, &readings, &mut build);
                }
            } else {
                names.insert(spec.name.clone(), domains.len());
                let mut domain = DomainBuild::new(&spec, charge);
                domain.add(spec, &readings, &mut build);
                domains.push(domain);
            }
        }
        domains.iter_mut().for_each(|domain| domain.join_buckets(&mut build));
        match BuildErrors::new(build.errors) {
            Some(errors) => Err(errors),
            None => Ok(policy(domains)),
        }
    }
}

fn policy(builds: Vec<DomainBuild>) -> Policy {
    let mut version = VersionDigest::default();
    let mut rules = 0;
    let mut domains = Vec::with_capacity(builds.len());
    for (index, build) in builds.into_iter().enumerate() {
        let mut domain = build.domain;
        version.add(build.digest, &domain);
        domain.index = index;
        for rule in &mut domain.rules {
            rule.index = rules;
            rules += 1;
        }
        domains.push(domain);
    }
    Policy::new(domains, version.finish())
}

/// State shared by all domains while they are built.
struct Build {
    countable: Countable,
    errors: Vec<BuildError>,
    /// Last parts of counter keys, each once: less memory to touch when a key is written.
    tails: HashMap<String, Arc<str>>,
}

impl Build {
    fn domain_error(&mut self, spec: &DomainSpec, error: RuleError) {
        let domain = spec.name.clone();
        let place = spec.place.clone();
        self.errors.push(BuildError { domain, path: "domain".to_owned(), place, error });
    }

    fn tail(&mut self, tail: &str) -> Arc<str> {
        if let Some(known) = self.tails.get(tail) {
            return Arc::clone(known);
        }
        let new: Arc<str> = tail.into();
        self.tails.insert(tail.to_owned(), Arc::clone(&new));
        new
    }
}

/// A domain while it is built.
struct DomainBuild {
    domain: Domain,
    digest: DomainDigest,
    /// Place at which it was written first.
    place: Option<Place>,
    /// Number of descriptors so far: it orders patterns.
    descriptors: u32,
    /// Descriptors of each level: its node, the key, the kind of match and its text.
    seen: HashSet<(u32, String, u8, String)>,
    /// Its buckets, in the order of their first limits.
    buckets: Vec<Bucket>,
    /// Its buckets by the ends of their counter keys.
    bucket_of: HashMap<Arc<str>, usize>,
}

/// Path to a node: its levels, and their parts of counter keys.
struct Trail<'a> {
    levels: Vec<Arc<Level>>,
    /// The entries of its levels whose values are part of the key of a bucket.
    open: Vec<Open>,
    /// The levels as text, for people.
    text: String,
    digest: TrailDigest,
    /// Path of the list of descriptors for error messages, such as `descriptors[2].`.
    path: &'a str,
}

impl Trail<'_> {
    /// The text of a level below it.
    fn text_of(&self, shown: &str) -> String {
        match self.text.as_str() {
            "" => clip_to(shown, LONGEST_PATH),
            before => clip_to(&format!("{before}{PATH_SEPARATOR}{shown}"), LONGEST_PATH),
        }
    }
}

impl DomainBuild {
    fn new(spec: &DomainSpec, charge: Charge) -> Self {
        let domain = Domain {
            index: 0,
            name: spec.name.clone(),
            charge,
            unmatched: None,
            response: None,
            rules: Vec::new(),
            has_slots: false,
            nodes: vec![MatchNode::default()],
        };
        let place = spec.place.clone();
        let digest = DomainDigest::new();
        Self {
            domain,
            digest,
            place,
            descriptors: 0,
            seen: HashSet::new(),
            buckets: Vec::new(),
            bucket_of: HashMap::new(),
        }
    }

    fn add_rule(&mut self, rule: Rule) {
        self.domain.has_slots |= rule.slots.is_some();
        self.domain.rules.push(rule);
    }

    /// Notes the limits of the last rule that share a bucket; `path` is the descriptor's.
    fn note_buckets(&mut self, path: &str, open: &[Open], is_list: bool) {
        let Some((rule, at)) = self.domain.rules.last().zip(self.domain.rules.len().checked_sub(1)) else {
            return;
        };
        for (index, limit) in rule.limits.iter().enumerate().filter(|(_, limit)| limit.bucket.is_some()) {
            let part = if is_list { Part::LimitOfList(index) } else { Part::Limit };
            let place = rule.place.clone();
            let path = format!("{path}.{part}");
            let member = Member { rule: at, limit: index, open: open.to_vec(), place, path };
            let next = self.buckets.len();
            let bucket = *self.bucket_of.entry(Arc::clone(&limit.key_tail)).or_insert(next);
            match self.buckets.get_mut(bucket) {
                Some(bucket) => bucket.members.push(member),
                None => self.buckets.push(Bucket { members: vec![member] }),
            }
        }
    }

    /// Checks that the limits of each bucket fit together, and lets them count together.
    fn join_buckets(&mut self, build: &mut Build) {
        for bucket in &self.buckets {
            for (member, error) in bucket.join(&mut self.domain.rules).err().unwrap_or_default() {
                let domain = self.domain.name.clone();
                let place = member.place.clone();
                let path = format!("{}.bucket", member.path);
                build.errors.push(BuildError { domain, path, place, error });
            }
        }
    }

    /// Adds the rules of `spec`; `readings` are those of the top level, from all specs of the domain.
    fn add(&mut self, spec: DomainSpec, readings: &Readings, build: &mut Build) {
        if let Some(charge) = spec.charge {
            self.domain.charge = charge;
        }
        if spec.unmatched.is_some() {
            self.domain.unmatched = spec.unmatched;
        }
        if spec.response.is_some() {
            self.domain.response = spec.response;
        }
        spec.descriptors.iter().for_each(|descriptor| self.digest.add(descriptor));
        let top = Trail {
            levels: Vec::new(),
            open: Vec::new(),
            text: String::new(),
            digest: TrailDigest::new(),
            path: "",
        };
        self.level(0, spec.descriptors, readings, &top, build);
    }

    fn level(
        &mut self,
        node: u32,
        descriptors: Vec<DescriptorSpec>,
        readings: &Readings,
        above: &Trail<'_>,
        build: &mut Build,
    ) {
        for (index, mut spec) in descriptors.into_iter().enumerate() {
            let written = spec.written.take();
            let (place, path) = match written {
                Some(written) => (Some(written.place), written.path),
                None => (None, format!("{}descriptors[{index}]", above.path)),
            };
            let domain = self.domain.name.clone();
            let error = |path: String, error| BuildError {
                domain: domain.clone(),
                path,
                place: place.clone(),
                error,
            };
            let reading = readings.of(&spec.key);
            for (part, problem) in spec.check(build.countable).into_iter().chain(differs(&spec, reading)) {
                build.errors.push(error(format!("{path}.{part}"), problem));
            }
            self.descriptors += 1;
            let order = self.descriptors;
            let DescriptorSpec { key, value, children, rule, .. } = spec;
            let matched = ValueMatch::of(&key, value);
            let (kind, text) = matched.identity();
            let shown = shown(&key, &matched);
            // A duplicate is reported and left out with all that is below it; the others are still checked.
            if !self.seen.insert((node, key.clone(), kind, text.clone().into_owned())) {
                build.errors.push(error(path, RuleError::DuplicateDescriptor { descriptor: shown }));
                continue;
            }
            let level = self.domain.nodes.get(node as usize);
            if let Some(value) = level.and_then(|level| level.taken(&key, &matched)) {
                let descriptor = format!("{key}={value}");
                build.errors.push(error(path, RuleError::DuplicateDescriptor { descriptor }));
                continue;
            }
            let counting = Counting {
                share_threshold: spec.share_threshold,
                ipv6_prefix: spec.ipv6_prefix,
                value_to_metric: spec.value_to_metric,
                names_class: rule.as_ref().is_some_and(RuleSpec::has_classes),
                reading,
            };
            let children_path = format!("{path}.");
            let level = Arc::new(level_of(&key, &matched, counting));
            let own =
                level.is_open.then(|| Open { key: key.clone(), counted: level.counted.clone() }).into_iter();
            let trail = Trail {
                open: above.open.iter().cloned().chain(own).collect(),
                levels: above.levels.iter().cloned().chain([level]).collect(),
                text: above.text_of(&shown),
                digest: above.digest.below(&key, kind, &text),
                path: &children_path,
            };
            // The places of the rule and of the next level have to be known before the descriptor is
            // inserted.
            let mut next = MatchTarget::default();
            if let Some(rule) = rule {
                next.rule = count(self.domain.rules.len());
                let is_list = matches!(rule.limits, Limits::Named(_));
                self.add_rule(rule_of(rule, &trail, spec.detailed_metric, place, build));
                self.note_buckets(&path, &trail.open, is_list);
            }
            if !children.is_empty() {
                next.node = count(self.domain.nodes.len());
                self.domain.nodes.push(MatchNode::default());
            }
            if let Some(node) = self.domain.nodes.get_mut(node as usize) {
                node.insert(&key, matched, reading, next, order);
            }
            let mut below = Readings::default();
            below.note(&children);
            self.level(next.node, children, &below, &trail, build);
        }
    }
}

/// An entry that every request says otherwise than the level reads it.
fn differs(spec: &DescriptorSpec, reading: Reading) -> Option<(Part, RuleError)> {
    match (spec.forwarded, reading) {
        (Some(nth), Reading::Forwarded(first)) if nth != first.get() => {
            Some((Part::Forwarded, RuleError::ForwardedDiffers { nth, first: first.get() }))
        }
        _ => None,
    }
}

fn rule_of(
    spec: RuleSpec,
    trail: &Trail<'_>,
    detailed_metric: bool,
    place: Option<Place>,
    build: &mut Build,
) -> Rule {
    let unlimited = matches!(spec.limits, Limits::Unlimited);
    let denies = matches!(spec.limits, Limits::Denied);
    let slots = if let Limits::Slots(slots) = spec.limits { Some(slots) } else { None };
    let is_shadow = spec.shadow_mode;
    let tail_of = |limit: &Limit, tail: String| match &limit.bucket {
        Some(name) => bucket_tail(&limit.key_tail, name, is_shadow || limit.shadow),
        None => tail,
    };
    let limits = match spec.limits {
        Limits::Unlimited | Limits::Denied | Limits::Slots(_) => Vec::new(),
        Limits::One(limit) => {
            let tail = build.tail(&tail_of(&limit, limit.key_tail.as_ref().to_owned()));
            vec![Limit { name: spec.name.clone(), key_tail: tail, ..*limit }]
        }
        Limits::Named(limits) => {
            let named = limits.into_iter().map(|limit| {
                // Without a name, the limit keeps the counter of a rule's only limit.
                let own = match &*limit.name {
                    "" => limit.key_tail.as_ref().to_owned(),
                    name => named_tail(&limit.key_tail, name),
                };
                let tail = build.tail(&tail_of(&limit, own));
                Limit { key_tail: tail, ..limit }
            });
            named.collect()
        }
    };
    let has_bucket = limits.iter().any(|limit| limit.bucket.is_some());
    Rule {
        index: 0,
        path: trail.text.clone(),
        name: spec.name,
        limits,
        slots,
        unlimited,
        denies,
        shadow_mode: spec.shadow_mode,
        quota_mode: spec.quota_mode,
        replaces: spec.replaces,
        metadata: spec.metadata.map(serde_json::Value::Object),
        on_store_failure: spec.on_store_failure,
        sharing: spec.sharing,
        max_wait: spec.max_wait,
        response: spec.response,
        place,
        counts_values: !has_bucket
            && trail.levels.iter().all(|level| level.counted == Counted::Value && level.reading.is_text()),
        levels: trail.levels.clone(),
        detailed_metric,
        identity: trail.digest.identity(),
    }
}

/// No set of rules has that many.
fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(MatchTarget::NONE)
}

impl MatchNode {
    /// A value of `matched` that another descriptor of the level has already.
    fn taken(&self, key: &str, matched: &ValueMatch) -> Option<String> {
        let some = self.keys.get(key.as_bytes())?.some.as_deref()?;
        let has_network =
            |network: &IpNet| some.networks.iter().any(|table| table.nodes.contains_key(network));
        match matched {
            ValueMatch::Exact(value) => some.exact.get(value.as_bytes()).map(|_| value.clone()),
            ValueMatch::Network(network) => has_network(network).then(|| network.to_string()),
            ValueMatch::List(list) => list.values.iter().find_map(|value| match value {
                ListedValue::Exact(value) => some.exact.get(value.as_bytes()).map(|_| value.clone()),
                ListedValue::Network(network) => has_network(network).then(|| network.to_string()),
            }),
            _ => None,
        }
    }

    fn insert(&mut self, key: &str, value: ValueMatch, reading: Reading, next: MatchTarget, order: u32) {
        if let ValueMatch::Joined(wildcard) = value {
            return self.joined.push((order, wildcard, next));
        }
        let Some(values) = self.keys.entry(key) else { return };
        values.reading = reading;
        match value {
            ValueMatch::Any => values.any = Some(next),
            value => values.some.get_or_insert_default().insert(value, next, order),
        }
    }
}

impl SomeValues {
    fn insert(&mut self, value: ValueMatch, next: MatchTarget, order: u32) {
        match value {
            ValueMatch::Any | ValueMatch::Joined(_) => {} // not of one key's values
            ValueMatch::Exact(value) => {
                self.insert_exact(&value, next);
                if let Some(address) = exact_address(&value) {
                    self.addresses.entry(address).or_insert(next);
                }
            }
            ValueMatch::Network(network) => self.insert_network(network, next),
            ValueMatch::List(list) => {
                for value in list.values.iter() {
                    match value {
                        ListedValue::Exact(value) => self.insert_exact(value, next),
                        ListedValue::Network(network) => self.insert_network(*network, next),
                    }
                }
            }
            ValueMatch::Wildcard(wildcard) => {
                self.patterns.push((order, ValuePattern::Wildcard(wildcard), next))
            }
            ValueMatch::Regex(regex) => self.patterns.push((order, ValuePattern::Regex(regex), next)),
        }
    }

    fn insert_exact(&mut self, value: &str, next: MatchTarget) {
        if let Some(place) = self.exact.entry(value) {
            *place = next;
        }
    }

    fn insert_network(&mut self, network: IpNet, next: MatchTarget) {
        let prefix = network.prefix_len();
        let is_ipv4 = network.addr().is_ipv4();
        let found = self.networks.iter().position(|table| (table.prefix, table.is_ipv4) == (prefix, is_ipv4));
        let at = found.unwrap_or_else(|| {
            let at = self.networks.partition_point(|table| table.prefix > prefix);
            self.networks.insert(at, NetworkTable { is_ipv4, prefix, nodes: Default::default() });
            at
        });
        self.networks[at].nodes.insert(network, next);
    }
}

/// The ways in which a descriptor counts and shows the values that it matches.
#[derive(Clone, Copy)]
struct Counting {
    share_threshold: bool,
    ipv6_prefix: Option<u8>,
    value_to_metric: bool,
    /// The value names a class of priority, and all classes share a counter.
    names_class: bool,
    reading: Reading,
}

fn level_of(key: &str, matched: &ValueMatch, counting: Counting) -> Level {
    let (mark, value) = matched.identity();
    let is_pattern = matches!(mark, b'~' | b'*' | b'^' | b'@');
    let counted = match matched {
        _ if counting.names_class => Counted::Shared { mark: b'~', pattern: "*".to_owned() },
        // The name has no `*`, which every pattern with this mark has, so that no two keys are equal.
        ValueMatch::List(list) if counting.share_threshold => {
            Counted::Shared { mark: b'~', pattern: list.name.clone() }
        }
        ValueMatch::List(list)
            if list.values.iter().any(|value| matches!(value, ListedValue::Network(_))) =>
        {
            Counted::Address(None)
        }
        _ if is_pattern && counting.share_threshold => {
            Counted::Shared { mark, pattern: value.clone().into_owned() }
        }
        ValueMatch::Network(_) => Counted::Address(counting.ipv6_prefix),
        ValueMatch::Any if counting.ipv6_prefix.is_some() => Counted::Address(counting.ipv6_prefix),
        _ => Counted::Value,
    };
    let stat = if mark == b'*' { clean(&value, "") } else { clean(key, &value) };
    let is_open = !matches!(counted, Counted::Shared { .. }) && !matches!(matched, ValueMatch::Exact(_));
    let Counting { mut reading, value_to_metric, .. } = counting;
    if let (ValueMatch::Exact(value), Reading::Address) = (matched, reading)
        && exact_address(value).is_none()
    {
        reading = Reading::Text; // matched as it is, so counted as it is
    }
    Level { counted, reading, is_open, stat, stat_shows_value: value_to_metric }
}

/// A descriptor as people read it: `key=value`, `key in network`, `key=/regex/`, or `key` for any value.
fn shown(key: &str, matched: &ValueMatch) -> String {
    match matched {
        ValueMatch::Any => key.to_owned(),
        ValueMatch::Exact(value) => format!("{key}={value}"),
        ValueMatch::Wildcard(wildcard) => format!("{key}={}", wildcard.text()),
        ValueMatch::Joined(wildcard) => wildcard.text().to_owned(),
        ValueMatch::Network(network) => format!("{key} in {network}"),
        ValueMatch::Regex(regex) => format!("{key}=/{}/", regex.text()),
        ValueMatch::List(list) => format!("{key} in {}", list.name),
    }
}
