//! From what files say to domains: same names together, doubles found, rules numbered.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crate::domain::{Domain, NetworkTable, Next, Node, SomeValues, ValuePattern};
use crate::fault::{clip, clip_to};
use crate::read::{Descriptor, File, Notes, ValueMatch};
use crate::rule::{Counted, Level, Rule};
use crate::stat;
use crate::words::LEVEL;

/// The longest path for people, in characters.
const LONGEST_PATH: usize = 240;

/// Files in their order, each with the place for its faults.
pub(crate) fn domains(files: Vec<(Option<File>, Notes)>, merge: bool) -> (Vec<Domain>, Vec<Notes>) {
    let mut builders: Vec<Builder> = Vec::new();
    let mut names: HashMap<String, usize> = HashMap::new();
    let mut all_notes: Vec<Notes> = Vec::new();
    for (file, mut notes) in files {
        if let Some(file) = file {
            let place = notes.place(file.pos);
            let at = match names.get(&file.domain) {
                Some(&at) => {
                    if !merge {
                        let message = format!(
                            "{} is the domain of {} already; write another, or allow merging with MERGE_DOMAIN_CONFIG=true",
                            clip(&file.domain),
                            builders[at].place
                        );
                        notes.fault(file.pos, "domain", message);
                    }
                    at
                }
                None => {
                    names.insert(file.domain.clone(), builders.len());
                    builders.push(Builder::new(&file.domain, place));
                    builders.len() - 1
                }
            };
            builders[at].add(file, &mut notes, merge);
        }
        all_notes.push(notes);
    }
    let mut rules = 0;
    let domains = builders.into_iter().enumerate().map(|(index, builder)| {
        let mut domain = builder.domain;
        domain.index = index;
        for rule in &mut domain.rules {
            rule.index = rules;
            rules += 1;
        }
        domain
    });
    (domains.collect(), all_notes)
}

struct Builder {
    domain: Domain,
    place: crate::Place,
    /// What each level has already: its node, the key, the kind of match and its text.
    /// Descriptors so far: their place orders patterns.
    patterns: u32,
    seen: HashSet<(u32, String, u8, String)>,
}

/// What leads to a node.
#[derive(Default)]
struct Trail {
    levels: Vec<Arc<Level>>,
    /// For people.
    text: String,
    identity: u64,
}

impl Builder {
    fn new(name: &str, place: crate::Place) -> Self {
        let domain = Domain {
            index: 0,
            name: name.to_owned(),
            charge: Default::default(),
            response: None,
            rules: Vec::new(),
            nodes: vec![Node::default()],
        };
        Self { domain, place, patterns: 0, seen: HashSet::new() }
    }

    fn add(&mut self, file: File, notes: &mut Notes, merge: bool) {
        if let Some(charge) = file.charge {
            self.domain.charge = charge;
        }
        if file.response.is_some() {
            self.domain.response = file.response;
        }
        // Where a domain stands twice by mistake, its descriptors are no further mistakes.
        let is_double = self.place != notes.place(file.pos);
        if !is_double || merge {
            self.level(0, file.descriptors, &Trail::default(), notes);
        }
    }

    fn level(&mut self, node: u32, descriptors: Vec<Descriptor>, trail: &Trail, notes: &mut Notes) {
        for mut descriptor in descriptors {
            self.patterns += 1;
            let order = self.patterns;
            let (kind, value) = identity_of(&descriptor.value);
            let trail = trail.below(&descriptor, kind, &value);
            let seen = (node, descriptor.key.clone(), kind, value.into_owned());
            if !self.seen.insert(seen) {
                let shown = clip(&text_of(&descriptor));
                let message = format!(
                    "{shown} stands twice on this level; merge the two, or write several limits under limits"
                );
                notes.fault(descriptor.pos, &descriptor.path, message);
                continue;
            }
            let mut next = Next::default();
            if let Some(text) = descriptor.rule.take() {
                next.rule = count(self.domain.rules.len());
                self.domain.rules.push(Rule {
                    index: 0,
                    path: trail.text.clone(),
                    name: text.name,
                    limits: text.limits,
                    unlimited: text.unlimited,
                    shadow_mode: text.shadow_mode,
                    quota_mode: text.quota_mode,
                    replaces: text.replaces,
                    metadata: text.metadata,
                    on_store_failure: text.on_store_failure,
                    sharing: text.sharing,
                    response: text.response,
                    place: notes.place(descriptor.pos),
                    counts_values: trail.levels.iter().all(|level| level.counted == Counted::Value),
                    levels: trail.levels.clone(),
                    detailed_metric: descriptor.detailed_metric,
                    identity: trail.identity,
                });
            }
            let children = std::mem::take(&mut descriptor.children);
            if !children.is_empty() {
                next.node = count(self.domain.nodes.len());
                self.domain.nodes.push(Node::default());
            }
            // In the order of the file: patterns take the number of their place.
            if let Some(node) = self.domain.nodes.get_mut(node as usize) {
                node.insert(descriptor, next, order);
            }
            self.level(next.node, children, &trail, notes);
        }
    }
}

/// Files are too small for more.
fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(Next::NONE)
}

impl Trail {
    fn below(&self, descriptor: &Descriptor, kind: u8, value: &str) -> Self {
        let mut levels = self.levels.clone();
        levels.push(Arc::new(level_of(descriptor)));
        let text = text_of(descriptor);
        let text = if self.text.is_empty() { text } else { format!("{}{LEVEL}{text}", self.text) };
        // Its keys are fixed: the same trail is the same number in another process.
        let mut hasher = DefaultHasher::new();
        (self.identity, &descriptor.key, kind, value).hash(&mut hasher);
        Self { levels, text: clip_to(&text, LONGEST_PATH), identity: hasher.finish() }
    }
}

impl Node {
    fn insert(&mut self, descriptor: Descriptor, next: Next, order: u32) {
        if let ValueMatch::Joined(wildcard) = descriptor.value {
            return self.joined.push((order, wildcard, next));
        }
        let Some(values) = self.keys.entry(&descriptor.key) else { return };
        match descriptor.value {
            ValueMatch::Any => values.any = Some(next),
            value => values.some.get_or_insert_default().insert(value, next, order),
        }
    }
}

impl SomeValues {
    fn insert(&mut self, value: ValueMatch, next: Next, order: u32) {
        match value {
            ValueMatch::Any | ValueMatch::Joined(_) => {} // not of one key's values
            ValueMatch::Exact(value) => {
                if let Some(place) = self.exact.entry(&value) {
                    *place = next;
                }
            }
            ValueMatch::Network(network) => {
                let (prefix, is_ipv4) = (network.prefix(), network.is_ipv4());
                let found =
                    self.networks.iter().position(|table| (table.prefix, table.is_ipv4) == (prefix, is_ipv4));
                let at = found.unwrap_or_else(|| {
                    let at = self.networks.partition_point(|table| table.prefix > prefix);
                    self.networks.insert(at, NetworkTable { is_ipv4, prefix, nodes: Default::default() });
                    at
                });
                self.networks[at].nodes.insert(network, next);
            }
            ValueMatch::Wildcard(wildcard) => {
                self.patterns.push((order, ValuePattern::Wildcard(wildcard), next))
            }
            ValueMatch::Regex(_, regex) => self.patterns.push((order, ValuePattern::Regex(regex), next)),
        }
    }
}

/// What tells two values of one key on one level apart: the kind of match, and its text.
fn identity_of(value: &ValueMatch) -> (u8, Cow<'_, str>) {
    match value {
        ValueMatch::Any => (b' ', Cow::Borrowed("")),
        ValueMatch::Exact(value) => (b'=', Cow::Borrowed(value)),
        ValueMatch::Wildcard(wildcard) => (b'~', Cow::Borrowed(wildcard.text())),
        ValueMatch::Joined(wildcard) => (b'*', Cow::Borrowed(wildcard.text())),
        ValueMatch::Network(network) => (b'@', Cow::Owned(network.to_string())),
        ValueMatch::Regex(text, _) => (b'^', Cow::Borrowed(text)),
    }
}

fn level_of(descriptor: &Descriptor) -> Level {
    let (mark, value) = identity_of(&descriptor.value);
    let is_pattern = matches!(mark, b'~' | b'*' | b'^' | b'@');
    let counted = match &descriptor.value {
        _ if is_pattern && descriptor.share_threshold => {
            Counted::Shared { mark, pattern: value.clone().into_owned() }
        }
        ValueMatch::Network(_) => Counted::Address(descriptor.ipv6_prefix),
        ValueMatch::Any if descriptor.ipv6_prefix.is_some() => Counted::Address(descriptor.ipv6_prefix),
        _ => Counted::Value,
    };
    let stat = if mark == b'*' { stat::clean(&value, "") } else { stat::clean(&descriptor.key, &value) };
    Level { counted, stat, stat_shows_value: descriptor.value_to_metric }
}

/// A descriptor as people read it: `key=value`, `key in network`, `key=/regex/`, or `key` for any value.
fn text_of(descriptor: &Descriptor) -> String {
    let key = &descriptor.key;
    match &descriptor.value {
        ValueMatch::Any => key.clone(),
        ValueMatch::Exact(value) => format!("{key}={value}"),
        ValueMatch::Wildcard(wildcard) => format!("{key}={}", wildcard.text()),
        ValueMatch::Joined(wildcard) => wildcard.text().to_owned(),
        ValueMatch::Network(network) => format!("{key} in {network}"),
        ValueMatch::Regex(text, _) => format!("{key}=/{text}/"),
    }
}
