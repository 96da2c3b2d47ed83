//! Descriptors: what they match, and the rule that stands in them.

use regex::Regex;
use tollgate_core::Sharing;

use super::scalar::shown;
use super::spelling::Section;
use super::{Fields, Path, Reader};
use crate::pattern::{Network, NotANetwork, Wildcard, whole_value_regex};
use crate::rule::{Limit, OnStoreFailure, Response};
use crate::tree::{Kind, Node, Pos};

/// What one descriptor of a file says, and those below it.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(crate) pos: Pos,
    /// As in faults, such as `descriptors[2]`.
    pub(crate) path: String,
    pub(crate) key: String,
    pub(crate) value: ValueMatch,
    /// Addresses count by their network of this many bits.
    pub(crate) ipv6_prefix: Option<u8>,
    pub(crate) share_threshold: bool,
    pub(crate) value_to_metric: bool,
    pub(crate) detailed_metric: bool,
    pub(crate) rule: Option<RuleText>,
    pub(crate) children: Vec<Descriptor>,
}

/// Which values a descriptor is for.
#[derive(Clone, Debug)]
pub(crate) enum ValueMatch {
    /// Any, where nothing else on the level matches.
    Any,
    Exact(String),
    /// A pattern for the value.
    Wildcard(Wildcard),
    /// A pattern for `key_value`, because the key holds a `*` itself.
    Joined(Wildcard),
    Network(Network),
    Regex(String, Regex),
}

/// A rule before it knows its number and its path.
#[derive(Debug)]
pub(crate) struct RuleText {
    pub(crate) name: String,
    pub(crate) limits: Vec<Limit>,
    pub(crate) unlimited: bool,
    pub(crate) replaces: Vec<String>,
    pub(crate) shadow_mode: bool,
    pub(crate) quota_mode: bool,
    pub(crate) metadata: Option<serde_json::Value>,
    pub(crate) on_store_failure: OnStoreFailure,
    pub(crate) sharing: Sharing,
    pub(crate) response: Option<Response>,
}

impl Reader<'_> {
    /// The descriptors of one level.
    pub(super) fn descriptors(&mut self, fields: &Fields<'_>, above: &Path<'_>) -> Vec<Descriptor> {
        let Some(node) = fields.get("descriptors") else { return Vec::new() };
        let path = above.key("descriptors");
        let items = self.list(node, &path).iter().enumerate();
        items.filter_map(|(i, item)| self.descriptor(item, &path.index(i))).collect()
    }

    fn descriptor(&mut self, node: &Node, path: &Path<'_>) -> Option<Descriptor> {
        let fields = self.fields(node, path, Section::Descriptor)?;
        let key = self.key(&fields, path);
        let value = self.value(&fields, path, key.as_deref().unwrap_or_default());
        let ipv6_prefix = self.ipv6_prefix(&fields, path, value.as_ref());
        let share_threshold = self.flag(&fields, path, "share_threshold");
        if share_threshold && matches!(value, Some(ValueMatch::Any | ValueMatch::Exact(_))) {
            let message = "has no pattern to share; write a * into value, or leave it out";
            self.notes.fault(fields.pos_of("share_threshold"), path.key("share_threshold"), message);
        }
        let value_to_metric = self.flag(&fields, path, "value_to_metric");
        let detailed_metric = self.flag(&fields, path, "detailed_metric");
        let rule = self.rule(&fields, path);
        let children = self.descriptors(&fields, path);
        Some(Descriptor {
            pos: fields.pos,
            path: path.to_string(),
            key: key?,
            value: value?,
            ipv6_prefix,
            share_threshold,
            value_to_metric,
            detailed_metric,
            rule,
            children,
        })
    }

    fn key(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<String> {
        let Some(node) = fields.get("key").or_else(|| fields.get("Key")) else {
            self.notes.fault(fields.pos, path.key("key"), "is missing; every descriptor needs one");
            return None;
        };
        let key = self.text(node, &path.key("key"))?;
        if key.is_empty() {
            self.notes.fault(node.pos, path.key("key"), "is empty; write the key of a request's entry");
            return None;
        }
        Some(key)
    }

    fn value(&mut self, fields: &Fields<'_>, path: &Path<'_>, key: &str) -> Option<ValueMatch> {
        let given = ["value", "Value", "value_cidr", "value_regex"];
        let mut given = given.into_iter().filter_map(|name| Some((name, fields.get(name)?)));
        let (name, node) = match given.next() {
            Some(first) => first,
            None if key.contains('*') => return Wildcard::new(key).map(ValueMatch::Joined),
            None => return Some(ValueMatch::Any),
        };
        if let Some((other, node)) = given.next() {
            self.notes.fault(node.pos, path.key(other), format!("stands beside {name}; keep one of the two"));
            return None;
        }
        let here = path.key(name);
        let text = self.text(node, &here)?;
        if key.contains('*') && matches!(name, "value_cidr" | "value_regex") {
            self.notes.fault(node.pos, here, "stands beside a key with a *; write the whole key");
            return None;
        }
        match name {
            "value_cidr" => self.network(node, &here, &text).map(ValueMatch::Network),
            "value_regex" => match whole_value_regex(&text) {
                Ok(regex) => Some(ValueMatch::Regex(text, regex)),
                Err(message) => {
                    self.notes.fault(node.pos, here, message);
                    None
                }
            },
            _ if text.is_empty() && !key.contains('*') => Some(ValueMatch::Any),
            _ if text.is_empty() => Wildcard::new(key).map(ValueMatch::Joined),
            _ if key.contains('*') => Wildcard::new(&format!("{key}_{text}")).map(ValueMatch::Joined),
            _ => Some(Wildcard::new(&text).map_or(ValueMatch::Exact(text), ValueMatch::Wildcard)),
        }
    }

    fn network(&mut self, node: &Node, path: &Path<'_>, text: &str) -> Option<Network> {
        let message = match Network::parse(text) {
            Ok(network) => return Some(network),
            Err(NotANetwork::HostBits(network)) => {
                format!("{text} has bits set behind its prefix; write {network}")
            }
            Err(NotANetwork::Malformed) => {
                let shown = match &node.kind {
                    Kind::Scalar(scalar) => shown(scalar),
                    _ => String::new(),
                };
                format!("{shown} is no network; write one such as 10.0.0.0/8 or 2001:db8::/32")
            }
        };
        self.notes.fault(node.pos, path, message);
        None
    }

    fn ipv6_prefix(
        &mut self,
        fields: &Fields<'_>,
        path: &Path<'_>,
        value: Option<&ValueMatch>,
    ) -> Option<u8> {
        let node = fields.get("ipv6_prefix")?;
        let here = path.key("ipv6_prefix");
        let bits = u8::try_from(self.number(node, &here, 1, 128)?).ok()?;
        match value {
            Some(ValueMatch::Network(network)) if network.is_ipv4() => {
                let message = "stands beside an IPv4 value_cidr; leave it out";
                self.notes.fault(node.pos, here, message);
                None
            }
            Some(ValueMatch::Network(network)) if network.prefix() > bits => {
                let least = network.prefix();
                let message = format!("{bits} is wider than value_cidr; write {least} or more");
                self.notes.fault(node.pos, here, message);
                None
            }
            None | Some(ValueMatch::Any | ValueMatch::Network(_)) => Some(bits),
            Some(_) => {
                let message =
                    "groups addresses, and this value is none; write it without value, or with value_cidr";
                self.notes.fault(node.pos, here, message);
                None
            }
        }
    }

    /// `None` for a descriptor without a limit.
    fn rule(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<RuleText> {
        let mut rule = RuleText {
            name: String::new(),
            limits: Vec::new(),
            unlimited: false,
            replaces: Vec::new(),
            shadow_mode: self.flag(fields, path, "shadow_mode"),
            quota_mode: self.flag(fields, path, "quota_mode"),
            metadata: fields.get("metadata").and_then(|node| self.metadata(node, &path.key("metadata"))),
            on_store_failure: self.on_store_failure(fields, path).unwrap_or_default(),
            sharing: self.sharing(fields, path).unwrap_or_default(),
            response: fields.get("response").and_then(|node| self.response(node, &path.key("response"))),
        };
        let told = self.notes.faults.len();
        let limits = match (fields.get("rate_limit"), fields.get("limits")) {
            (None, None) => return None,
            (Some(_), Some(node)) => {
                let message = "stands beside rate_limit; move that one into the list, or this list away";
                self.notes.fault(node.pos, path.key("limits"), message);
                None
            }
            (Some(node), None) => {
                self.rate_limit(node, &path.key("rate_limit"), &mut rule)?;
                Some((node, "rate_limit"))
            }
            (None, Some(node)) => {
                self.limits(node, &path.key("limits"), &mut rule);
                Some((node, "limits"))
            }
        };
        for limit in &mut rule.limits {
            limit.quota = limit.quota.clone().shared(rule.sharing);
        }
        if let Some((node, key)) = limits.filter(|_| self.notes.faults.len() == told) {
            self.check_sharing(node, &path.key(key), &rule);
        }
        Some(rule)
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

    fn metadata(&mut self, node: &Node, path: &Path<'_>) -> Option<serde_json::Value> {
        if !matches!(node.kind, Kind::Map(_)) {
            self.wrong_kind(node, path, "a map");
            return None;
        }
        Some(json(node))
    }
}

/// Free data, taken as written.
fn json(node: &Node) -> serde_json::Value {
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
