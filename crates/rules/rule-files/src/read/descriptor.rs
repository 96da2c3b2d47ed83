//! Descriptors: the values that they match, and their rules.

use std::collections::HashSet;
use std::sync::Arc;

use tollgate_human_text::clip;
use tollgate_policy::{
    DescriptorSpec, MOST_FORWARDED, OnStoreFailure, Part, RuleError, RuleSpec, Sharing, ValueSpec,
};

use super::EMPTY;
use super::addresses::{self, Addresses};
use super::known_keys::Section;
use super::limit::{LimitPlace, ReadLimits};
use super::order::{self, Level, Unreached};
use super::path::Path;
use super::queue::{OnLimit, QueueSettings};
use super::reader::{Fields, Reader};
use super::warnings::Warned;
use crate::yaml_tree::{Kind, Pos, YamlNode};

/// A rule as read, and where its parts are.
struct ReadRule<'a> {
    spec: RuleSpec,
    /// Places of the limits, in the order of the spec's.
    limits: Vec<LimitPlace<'a>>,
    /// Places of the names of replaced rules, in the order of the spec's.
    replaces: Vec<(Pos, String)>,
    /// Where it says that requests wait.
    queue: Option<QueueSettings>,
    /// Whether the limits are read without a fault.
    is_sound: bool,
    /// Values that name classes of priority; empty if it has none.
    classes: Vec<String>,
}

impl Reader<'_> {
    /// The descriptors of one level.
    pub(super) fn descriptors(&mut self, fields: &Fields<'_>, above: &Path<'_>) -> Vec<DescriptorSpec> {
        let Some(node) = fields.get("descriptors") else { return Vec::new() };
        let path = above.key("descriptors");
        let items = self.list(node, &path);
        let levels: Vec<Option<Level<'_>>> = items.iter().map(|item| Level::of(item)).collect();
        for Unreached { index, by, remedy } in order::unreached(&levels) {
            let taker = levels[by].map_or("", |level| level.key);
            let message = format!(
                "no request reaches this, because key: {} of descriptors[{by}] takes its values first; {remedy}",
                clip(taker)
            );
            self.notes.warn(Warned::Unreached, items[index].pos, path.index(index), message);
        }
        self.warn_of_texts(items, &levels, &path);
        let items = items.iter().enumerate();
        items.flat_map(|(i, item)| self.descriptor(item, &path.index(i))).collect()
    }

    /// Warns of keys whose names say that their values are addresses, and whose descriptors read texts.
    fn warn_of_texts(&mut self, items: &[Arc<YamlNode>], levels: &[Option<Level<'_>>], path: &Path<'_>) {
        let mut seen = HashSet::new();
        for (index, level) in levels.iter().enumerate() {
            let Some(Level { key, .. }) = level else { continue };
            let Some(named) = addresses::named(key).filter(|_| seen.insert(*key)) else { continue };
            let read = levels.iter().flatten().filter(|other| other.key == *key).map(|other| other.addresses);
            if read.max() >= Some(named) {
                continue;
            }
            let (kind, message) = match named {
                Addresses::OfLists => (Warned::ListsAsTexts, addresses::LISTS_AS_TEXTS),
                _ => (Warned::AddressesAsTexts, addresses::AS_TEXTS),
            };
            self.notes.warn(kind, items[index].pos, path.index(index), message);
        }
    }

    /// A descriptor, or one for each of its classes; nothing if it is too faulty to be used.
    fn descriptor(&mut self, node: &YamlNode, path: &Path<'_>) -> Vec<DescriptorSpec> {
        let Some(fields) = self.fields(node, path, Section::Descriptor) else { return Vec::new() };
        self.check_empty(&fields, path);
        let key = self.key(&fields, path);
        let value = self.value(&fields, path);
        let ipv6_prefix = fields
            .get("ipv6_prefix")
            .and_then(|node| self.number(node, &path.key("ipv6_prefix"), 1, 128))
            .and_then(|bits| u8::try_from(bits).ok());
        let forwarded = fields
            .get("forwarded")
            .and_then(|node| self.number(node, &path.key("forwarded"), 1, MOST_FORWARDED.into()))
            .and_then(|nth| u8::try_from(nth).ok());
        let mut spec = DescriptorSpec::new(key.clone().unwrap_or_default())
            .value(value.clone().unwrap_or(ValueSpec::any()))
            .share_threshold(self.flag(&fields, path, "share_threshold"))
            .value_to_metric(self.flag(&fields, path, "value_to_metric"))
            .detailed_metric(self.flag(&fields, path, "detailed_metric"))
            .written_at(self.notes.place(fields.pos), path.to_string());
        if let Some(bits) = ipv6_prefix {
            spec = spec.ipv6_prefix(bits);
        }
        if let Some(nth) = forwarded {
            spec = spec.forwarded(nth);
        }
        let rule = self.rule(&fields, path);
        let classes = rule.as_ref().map_or(&[][..], |rule| &rule.classes);
        if !classes.is_empty() {
            self.check_class_entry(&fields, path);
        }
        if let Some(rule) = &rule {
            spec = spec.rule(rule.spec.clone());
        }
        let mut is_usable = key.is_some() && value.is_some();
        let errors = spec.check(self.countable);
        if !errors.is_empty() {
            spec = spec.without_errors();
        }
        // A part that could not be read has its fault already, so a further one would only confuse.
        for (part, error) in errors {
            is_usable &= !matches!(part, Part::Key | Part::Value);
            let is_reported = match part {
                Part::Key => key.is_none(),
                Part::Value | Part::Ipv6Prefix | Part::Forwarded | Part::ShareThreshold => value.is_none(),
                Part::Limit | Part::LimitOfList(_) | Part::OnLimit => {
                    rule.as_ref().is_none_or(|rule| !rule.is_sound)
                }
                _ => false,
            };
            if !is_reported {
                self.report(&fields, path, rule.as_ref(), part, error);
            }
        }
        let children = self.descriptors(&fields, path);
        if rule.is_some() {
            self.warn_of_unlimited_values(&fields, path);
        }
        if !is_usable {
            return Vec::new();
        }
        let spec = children.into_iter().fold(spec, DescriptorSpec::child);
        if classes.is_empty() { vec![spec] } else { spec.by_class(classes) }
    }

    /// The entry that names a class has a plain key, any value, and nothing below it.
    fn check_class_entry(&mut self, fields: &Fields<'_>, path: &Path<'_>) {
        for name in ["value", "Value", "value_cidr", "value_regex", "value_file"] {
            if fields.get(name).is_some() {
                let message = "cannot be combined with classes, which are the values; remove it";
                self.notes.fault(fields.pos_of(name), path.key(name), message);
            }
        }
        if fields.get("descriptors").is_some() {
            let message = "cannot be below classes; the entry that names the class must be the last";
            self.notes.fault(fields.pos_of("descriptors"), path.key("descriptors"), message);
        }
        if let Some(YamlNode { kind: Kind::Scalar(key), pos, .. }) = fields.get("key")
            && key.text.contains('*')
        {
            let message = "a key with * cannot have classes; write the key that names the class";
            self.notes.fault(*pos, path.key("key"), message);
        }
    }

    /// A key without a value counts as left out. Where that would lift a limit it is an error, except for the
    /// one key that envoyproxy/ratelimit has too, since its files load unchanged.
    fn check_empty(&mut self, fields: &Fields<'_>, path: &Path<'_>) {
        for name in ["rate", "limits", "action", "value_file", "value_cidr", "value_regex"] {
            if fields.has_empty(name) {
                self.notes.fault(fields.pos_of(name), path.key(name), EMPTY);
            }
        }
        if fields.has_empty("rate_limit") {
            let message = "has no value, so it limits nothing; write one, or remove the key";
            self.notes.warn(Warned::EmptyLimit, fields.pos_of("rate_limit"), path.key("rate_limit"), message);
        }
    }

    /// Notes an error of a descriptor's spec at the place of the part that it is about.
    fn report(
        &mut self,
        fields: &Fields<'_>,
        path: &Path<'_>,
        rule: Option<&ReadRule<'_>>,
        part: Part,
        mut error: RuleError,
    ) {
        let limits = rule.map_or(&[][..], |rule| &rule.limits);
        let queue = rule.and_then(|rule| rule.queue.as_ref());
        if let RuleError::DuplicateLimitName { first, .. } | RuleError::BucketTwice { first, .. } = &mut error
            && let Some(limit) = limits.get(*first)
        {
            *first = limit.index;
        }
        let value_of = |name: &'static str| (fields.pos_of_value(name), path.key(name).to_string());
        let whole = (fields.pos, path.to_string());
        let (pos, path) = match part {
            Part::Key if fields.get("key").is_none() => value_of("Key"),
            Part::Key => value_of("key"),
            Part::Value if fields.get("value_cidr").is_some() => value_of("value_cidr"),
            Part::Value if fields.get("value_file").is_some() => value_of("value_file"),
            Part::Value => value_of("value_regex"),
            Part::Ipv6Prefix => value_of("ipv6_prefix"),
            Part::Forwarded => value_of("forwarded"),
            Part::ShareThreshold => {
                (fields.pos_of("share_threshold"), path.key("share_threshold").to_string())
            }
            Part::Limits => value_of("limits"),
            Part::Limit => limits.first().map_or(whole, |limit| limit.of_error(&error)),
            Part::LimitOfList(index) => limits.get(index).map_or(whole, |limit| limit.of_error(&error)),
            Part::NameOfLimit(index) => limits.get(index).map_or(whole, |limit| limit.of_name()),
            Part::Replaces(index) => rule.and_then(|rule| rule.replaces.get(index).cloned()).unwrap_or(whole),
            Part::OnLimit => queue.map_or(whole, |queue| queue.on_limit_at.clone()),
            Part::MaxWait => queue.map_or(whole, |queue| queue.max_wait_at.clone()),
            _ => whole,
        };
        self.notes.fault(pos, path, error.to_string());
    }

    fn key(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<String> {
        let Some(node) = fields.get("key").or_else(|| fields.get("Key")) else {
            self.notes.fault(fields.pos, path.key("key"), "is missing; every descriptor needs one");
            return None;
        };
        self.text(node, &path.key("key"))
    }

    fn value(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<ValueSpec> {
        let given = ["value", "Value", "value_cidr", "value_regex", "value_file"];
        let mut given = given.into_iter().filter_map(|name| Some((name, fields.get(name)?)));
        let Some((name, node)) = given.next() else { return Some(ValueSpec::any()) };
        if let Some((other, node)) = given.next() {
            let message = format!("cannot be combined with {name}; keep one of the two");
            self.notes.fault(node.pos, path.key(other), message);
            return None;
        }
        let here = path.key(name);
        let text = self.text(node, &here)?;
        let value = match name {
            "value_cidr" => ValueSpec::network(&text),
            "value_regex" => ValueSpec::regex(&text),
            "value_file" => return self.value_file(node, &here, &text),
            _ => {
                if let Some(network) = network_in(&text) {
                    let message =
                        format!("only this exact text matches; write value_cidr: {network} for the network");
                    self.notes.warn(Warned::NetworkAsText, node.pos, here, message);
                }
                Ok(ValueSpec::text(text))
            }
        };
        value.map_err(|error| self.notes.fault(node.pos, here, error.to_string())).ok()
    }

    /// The values of a list in a file.
    fn value_file(&mut self, node: &YamlNode, path: &Path<'_>, name: &str) -> Option<ValueSpec> {
        let Some(list) = self.lists.get(self.notes.file(), name) else {
            let message = format!(
                "no list of values {} was read; put it into the folder of rules, with the extension .values, and name \
                 it as it is seen from this file",
                clip(name)
            );
            self.notes.fault(node.pos, path, message);
            return None;
        };
        let values = list.values();
        let errors = match ValueSpec::list(name, values.iter().map(|(_, value)| *value)) {
            Ok(value) => {
                for (line, value) in values {
                    if let Some(message) = misread(value) {
                        let message = format!("line {line}: {} {message}", clip(value));
                        self.notes.warn(Warned::Listed, node.pos, path, message);
                    }
                }
                return Some(value);
            }
            Err(errors) => errors,
        };
        for (index, error) in errors {
            let message = match (&error, values.get(index)) {
                (RuleError::ListedPattern, Some((line, value))) => {
                    format!("line {line}: {} {error}", clip(value))
                }
                (RuleError::HostBits { .. }, Some((line, _))) => format!("line {line}: {error}"),
                _ => error.to_string(),
            };
            self.notes.fault(node.pos, path, message);
        }
        None
    }

    /// Below a limited descriptor: warns of keys that have rules for some values only, since a request with
    /// another value matches no rule.
    fn warn_of_unlimited_values(&mut self, fields: &Fields<'_>, path: &Path<'_>) {
        let Some(YamlNode { kind: Kind::List(items), .. }) = fields.get("descriptors") else { return };
        if self.denies_unmatched || is_unlimited(fields) {
            return;
        }
        let list = path.key("descriptors");
        let levels: Vec<Option<Level<'_>>> = items.iter().map(|item| Level::of(item)).collect();
        let mut seen = HashSet::new();
        for (index, level) in levels.iter().enumerate() {
            let Some(Level { key, .. }) = level else { continue };
            let is_covered = levels.iter().flatten().any(|other| other.key == *key && other.takes_all());
            // A pattern that begins in the key may take any other value.
            let is_pattern = levels.iter().flatten().any(|other| other.key.contains('*'));
            if !is_covered && !is_pattern && seen.insert(*key) {
                let message = format!(
                    "other values of {} match no rule here, so they are not limited; add a descriptor with key: {} \
                     and no value",
                    clip(key),
                    clip(key)
                );
                self.notes.warn(Warned::OtherValues, items[index].pos, list.index(index), message);
            }
        }
    }

    /// `None` for a descriptor without a limit.
    fn rule<'a>(&mut self, fields: &Fields<'a>, path: &Path<'_>) -> Option<ReadRule<'a>> {
        let shadow_mode = self.flag(fields, path, "shadow_mode");
        let quota_mode = self.flag(fields, path, "quota_mode");
        let metadata = fields.get("metadata").and_then(|node| self.metadata(node, &path.key("metadata")));
        let on_store_failure = self.on_store_failure(fields, path);
        let sharing = self.sharing(fields, path);
        let on_limit = self.on_limit(fields, path);
        let response = fields.get("response").and_then(|node| self.response(node, &path.key("response")));
        let before = self.notes.faults.len();
        let action = fields.get("action").map(|node| {
            let choices = [("allow", RuleSpec::unlimited as fn() -> RuleSpec), ("deny", RuleSpec::denied)];
            self.choice(node, &path.key("action"), &choices)
        });
        // `action`, `rate`, `rate_limit` and `limits` exclude each other.
        let limits = match (fields.get("rate_limit"), fields.get("limits")) {
            (None, None) if action.is_some() && fields.get("rate").is_none() => ReadLimits {
                spec: action.flatten().unwrap_or(RuleSpec::unlimited)(),
                limits: Vec::new(),
                replaces: Vec::new(),
                on_store_failure: None,
                sharing: None,
                on_limit: None,
                classes: Vec::new(),
            },
            _ if action.is_some() => {
                let message = "counts nothing, so it cannot be combined with a limit; remove one of the two";
                self.notes.fault(fields.pos_of("action"), path.key("action"), message);
                return None;
            }
            (None, None) if fields.get("rate").is_some() => self.rate_of_descriptor(*fields, path),
            (None, None) => return None,
            _ if fields.get("rate").is_some() => {
                let message = "means rate_limit: {rate: …}; keep one of them, or move it there";
                self.notes.fault(fields.pos_of("rate"), path.key("rate"), message);
                return None;
            }
            (Some(_), Some(node)) => {
                let message =
                    "cannot be combined with rate_limit; move that one into the list, or remove the list";
                self.notes.fault(node.pos, path.key("limits"), message);
                return None;
            }
            (Some(node), None) => self.rate_limit(node, &path.key("rate_limit"))?,
            (None, Some(node)) => self.limits(node, &path.key("limits"))?,
        };
        let is_sound = self.notes.faults.len() == before;
        let ReadLimits {
            spec,
            limits,
            replaces,
            on_store_failure: own_choice,
            sharing: own_sharing,
            on_limit: own_on_limit,
            classes,
        } = limits;
        let mut spec = spec
            .shadow_mode(shadow_mode)
            .quota_mode(quota_mode)
            .on_store_failure(own_choice.or(on_store_failure).unwrap_or_default())
            .sharing(own_sharing.or(sharing).unwrap_or_default());
        let queue = match own_on_limit.or(on_limit) {
            Some(OnLimit::Queue(queue)) => Some(queue),
            Some(OnLimit::Reject) | None => None,
        };
        if let Some(queue) = &queue {
            spec = spec.queue(queue.max_wait);
        }
        if let Some(metadata) = metadata {
            spec = spec.metadata(metadata);
        }
        if let Some(response) = response {
            spec = spec.response(response);
        }
        Some(ReadRule { spec, limits, replaces, queue, is_sound, classes })
    }

    pub(super) fn on_store_failure(
        &mut self,
        fields: &Fields<'_>,
        path: &Path<'_>,
    ) -> Option<OnStoreFailure> {
        let node = fields.get("on_store_failure")?;
        let choices = [
            ("deny", OnStoreFailure::Deny),
            ("allow", OnStoreFailure::Allow),
            ("local", OnStoreFailure::Local),
        ];
        self.choice(node, &path.key("on_store_failure"), &choices)
    }

    pub(super) fn sharing(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<Sharing> {
        let node = fields.get("sharing")?;
        let choices = [("exact", Sharing::Exact), ("leased", Sharing::Leased), ("local", Sharing::Local)];
        self.choice(node, &path.key("sharing"), &choices)
    }

    fn metadata(
        &mut self,
        node: &YamlNode,
        path: &Path<'_>,
    ) -> Option<serde_json::Map<String, serde_json::Value>> {
        if let serde_json::Value::Object(map) = json(node) {
            return Some(map);
        }
        self.wrong_kind(node, path, "a map");
        None
    }
}

/// The network that a text is written as, if it is one with a prefix length.
fn network_in(text: &str) -> Option<String> {
    match ValueSpec::network(text) {
        _ if !text.contains('/') => None,
        Ok(_) => Some(text.to_owned()),
        Err(RuleError::HostBits { network, .. }) => Some(network.to_string()),
        Err(_) => None,
    }
}

/// Warning for a line of a list that is hardly meant as this very text.
fn misread(value: &str) -> Option<&'static str> {
    if value.contains(" #") || value.contains("\t#") {
        return Some("matches only as a whole, with what follows #; write the comment on a line of its own");
    }
    let (address, _) = value.split_once('/')?;
    let is_meant_as_network = address.trim_end().parse::<std::net::IpAddr>().is_ok();
    (is_meant_as_network && ValueSpec::network(value).is_err()).then_some(
        "is not a network, so only this exact text matches; write it as 10.0.0.0/8 or 2001:db8::/32",
    )
}

/// Whether a descriptor says that it has no limit.
fn is_unlimited(fields: &Fields<'_>) -> bool {
    let allows = |node: &YamlNode| matches!(&node.kind, Kind::Scalar(scalar) if scalar.text == "allow");
    if fields.get("action").is_some_and(allows) {
        return true;
    }
    let Some(YamlNode { kind: Kind::Map(limit), .. }) = fields.get("rate_limit") else { return false };
    limit.entries.iter().any(|(key, node)| key.text == "unlimited" && !node.is_null())
}

/// Free data, taken as written.
fn json(node: &YamlNode) -> serde_json::Value {
    use serde_json::Value;
    match &node.kind {
        Kind::Broken => Value::Null,
        Kind::List(items) => items.iter().map(|item| json(item)).collect(),
        Kind::Map(map) => {
            let entries = map.entries.iter().map(|(key, value)| (key.text.clone(), json(value)));
            Value::Object(entries.collect())
        }
        Kind::Scalar(scalar) if scalar.quoted => Value::String(scalar.text.clone()),
        Kind::Scalar(scalar) if scalar.is_null() => Value::Null,
        Kind::Scalar(scalar) => match scalar.text.as_str() {
            "true" | "True" | "TRUE" => Value::Bool(true),
            "false" | "False" | "FALSE" => Value::Bool(false),
            text => {
                text.parse::<serde_json::Number>().map_or_else(|_| Value::String(text.into()), Value::Number)
            }
        },
    }
}
