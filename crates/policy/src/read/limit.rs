//! `rate_limit` and `limits`: how much, over what period, counted how.

mod algorithm;
mod period;

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{Algorithm, Quota, QuotaError};

use super::descriptor::RuleText;
use super::spelling::Section;
use super::{Fields, Path, Reader};
use crate::fault::clip;
use crate::key;
use crate::rule::Limit;
use crate::tree::{Node, Pos};

/// A limit as read, and the names that it replaces.
struct LimitText {
    limit: Option<Limit>,
    name: String,
    replaces: Vec<(Pos, String)>,
}

impl Reader<'_> {
    /// `rate_limit`; `None` for one that is not even a map.
    pub(super) fn rate_limit(&mut self, node: &Node, path: &Path<'_>, rule: &mut RuleText) -> Option<()> {
        let fields = self.fields(node, path, Section::RateLimit)?;
        if let Some(choice) = self.on_store_failure(&fields, path) {
            rule.on_store_failure = choice;
        }
        if let Some(choice) = self.sharing(&fields, path) {
            rule.sharing = choice;
        }
        let told = self.notes.faults.len();
        // A faulty flag is fault enough: what it would have asked for is not missed.
        rule.unlimited = self.flag(&fields, path, "unlimited") || self.notes.faults.len() > told;
        let text = if rule.unlimited { self.unlimited(&fields, path) } else { self.limit(&fields, path) };
        for (pos, name) in &text.replaces {
            if *name == text.name {
                let message = "names this rule itself; name another";
                self.notes.fault(*pos, path.key("replaces"), message);
            }
        }
        rule.replaces = text.replaces.into_iter().map(|(_, name)| name).collect();
        rule.name = text.name;
        rule.limits.extend(text.limit);
        Some(())
    }

    /// `limits`: several on one descriptor, told apart by their names.
    pub(super) fn limits(&mut self, node: &Node, path: &Path<'_>, rule: &mut RuleText) {
        let mut seen = HashMap::new();
        let mut replaces = Vec::new();
        let items = self.list(node, path);
        if items.is_empty() {
            if matches!(node.kind, crate::tree::Kind::List(_)) {
                self.notes.fault(node.pos, path, "is empty; write a limit, or leave it out");
            }
            return;
        }
        for (i, item) in items.iter().enumerate() {
            let here = path.index(i);
            let Some(fields) = self.fields(item, &here, Section::LimitsEntry) else { continue };
            let mut text = self.limit(&fields, &here);
            if text.name.is_empty() {
                let message = "is missing; its counter is kept under it, so write one, such as name: short";
                self.notes.fault(fields.pos, here.key("name"), message);
            } else if let Some(earlier) = seen.insert(text.name.clone(), i) {
                let message =
                    format!("{} is the name of limits[{earlier}] already; write another", clip(&text.name));
                self.notes.fault(fields.pos_of("name"), here.key("name"), message);
            }
            if let Some(limit) = &mut text.limit {
                limit.key_tail = self.tail(key::named_tail(&limit.key_tail, &limit.name));
            }
            rule.limits.extend(text.limit);
            replaces.extend(text.replaces.into_iter().map(|(pos, name)| (pos, name, i)));
        }
        for (pos, name, i) in replaces {
            if seen.contains_key(&name) {
                let here = path.index(i);
                self.notes.fault(
                    pos,
                    here.key("replaces"),
                    "names a limit of this list; name another rule's",
                );
            }
            rule.replaces.push(name);
        }
    }

    /// Rules share the few tails that there are: less memory to touch when a key is written.
    fn tail(&mut self, tail: String) -> Arc<str> {
        Arc::clone(self.tails.entry(tail).or_insert_with_key(|tail| tail.as_str().into()))
    }

    fn unlimited(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> LimitText {
        for (key, node) in &fields.map.entries {
            let message = match key.text.as_str() {
                "unlimited" | "name" | "replaces" | "sharing" | "on_store_failure" => continue,
                name if !Section::RateLimit.allows(name) || node.is_null() => continue,
                "requests_per_unit" => {
                    self.notes.warn(
                        key.pos,
                        path.key(&key.text),
                        "has no effect beside unlimited; leave one out",
                    );
                    continue;
                }
                "unit" if !period::is_unit(node) => {
                    self.notes.warn(
                        key.pos,
                        path.key(&key.text),
                        "has no effect beside unlimited; leave one out",
                    );
                    continue;
                }
                _ => "stands beside unlimited, which counts nothing; leave one of the two out",
            };
            self.notes.fault(key.pos, path.key(&key.text), message);
        }
        LimitText { limit: None, name: self.name(fields, path), replaces: self.replaces(fields, path) }
    }

    fn limit(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> LimitText {
        let told = self.notes.faults.len();
        let name = self.name(fields, path);
        let replaces = self.replaces(fields, path);
        let algorithm = self.algorithm(fields, path);
        let is_total = matches!(algorithm, Some(Algorithm::Total));
        let length = self.length(fields, path, is_total);
        let requests = self.requests(fields, path, is_total);
        let limit = match (algorithm, length, requests) {
            (Some(algorithm), Some(length), Some(requests)) => {
                let key_tail = self.tail(key::tail(&algorithm, &length.shown, requests == 0));
                match Quota::new(u64::from(requests), length.period, algorithm) {
                    Ok(quota) => Some(Limit {
                        name: name.clone(),
                        quota,
                        requests_per_unit: requests,
                        unit: length.unit,
                        period: length.span,
                        key_tail,
                    }),
                    // Two keys that do not go together are told already.
                    Err(QuotaError::Unsupported { .. }) if self.notes.faults.len() > told => None,
                    Err(error) => {
                        let (key, message) = explain(&error, fields);
                        let pos = fields.get(key).map_or(fields.pos, |node| node.pos);
                        self.notes.fault(pos, path.key(key), message);
                        None
                    }
                }
            }
            _ => None,
        };
        LimitText { limit, name, replaces }
    }

    fn name(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> String {
        fields.get("name").and_then(|node| self.text(node, &path.key("name"))).unwrap_or_default()
    }

    fn requests(&mut self, fields: &Fields<'_>, path: &Path<'_>, is_total: bool) -> Option<u32> {
        const MOST: u64 = u32::MAX as u64;
        let has_limit = fields.get("limit").is_some();
        let name = if is_total && has_limit { "limit" } else { "requests_per_unit" };
        if has_limit && !is_total {
            let message = "belongs to algorithm: total; write requests_per_unit";
            self.notes.fault(fields.pos_of("limit"), path.key("limit"), message);
        } else if has_limit && fields.get("requests_per_unit").is_some() {
            let message = "says the same as limit; leave one of the two out";
            self.notes.fault(fields.pos_of("requests_per_unit"), path.key("requests_per_unit"), message);
        }
        let Some(node) = fields.get(name) else {
            let message = "is missing, so it is 0 and everything is refused; write how many";
            self.notes.warn(fields.pos, path.key(name), message);
            return Some(0);
        };
        u32::try_from(self.number(node, &path.key(name), 0, MOST)?).ok()
    }

    /// The names under `replaces`, each with its place.
    fn replaces(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Vec<(Pos, String)> {
        let Some(node) = fields.get("replaces") else { return Vec::new() };
        let path = path.key("replaces");
        let mut names = Vec::new();
        for (i, item) in self.list(node, &path).iter().enumerate() {
            let here = path.index(i);
            let Some(fields) = self.fields(item, &here, Section::ReplacesEntry) else { continue };
            match fields.get("name").map(|node| (node, self.text(node, &here.key("name")))) {
                Some((node, Some(name))) if !name.is_empty() => names.push((node.pos, name)),
                Some((_, None)) => {}
                _ => {
                    self.notes.fault(fields.pos, here.key("name"), "is empty; write the name of another rule")
                }
            }
        }
        names
    }
}

/// Which key an error is about, and what to say of it.
fn explain(error: &QuotaError, fields: &Fields<'_>) -> (&'static str, String) {
    let first =
        |keys: [&'static str; 3]| keys.into_iter().find(|key| fields.get(key).is_some()).unwrap_or(keys[2]);
    match error {
        QuotaError::EmptyPeriod => ("period", "0 has no rate; the shortest is 1ns".to_owned()),
        QuotaError::LongPeriod(_) => (
            first(["period", "unit_multiplier", "unit"]),
            "is too long; the longest period is 3650d".to_owned(),
        ),
        QuotaError::Empty(name) => (name, "0 admits nothing; the smallest is 1".to_owned()),
        QuotaError::SlowBucket { .. } => (first(["overdraft", "capacity", "burst"]), error.to_string()),
        QuotaError::InitialAboveBurst { burst, .. } => {
            ("initial", format!("is above the burst of {burst}; write {burst} or less"))
        }
        QuotaError::UnevenCells { cells, .. } => {
            ("cells", format!("the period does not divide into {cells}; write a number that divides it"))
        }
        QuotaError::ManyCells { .. } => ("cells", error.to_string()),
        _ => ("requests_per_unit", error.to_string()),
    }
}
