//! `rate_limit` and `limits`: numbers, periods and algorithms.

mod algorithm;
mod classes;
mod concurrency;
mod period;
mod rate;

use tollgate_core::{Algorithm, Quota, QuotaError};
use tollgate_human_text::whole_number;
use tollgate_policy::{Limit, LimitError, OnStoreFailure, RuleError, RuleSpec, Sharing, Unit};

use super::known_keys::Section;
use super::path::Path;
use super::queue::OnLimit;
use super::reader::{Fields, Reader};
use super::scalar::quoted;
use super::warnings::Warned;
use crate::yaml_tree::{Kind, Pos, YamlNode};

/// Limits as read, and the other settings of `rate_limit`.
pub(super) struct ReadLimits<'a> {
    pub(super) spec: RuleSpec,
    /// Places of the limits, in the order of the spec's.
    pub(super) limits: Vec<LimitPlace<'a>>,
    /// Places of the names of replaced rules, in the order of the spec's.
    pub(super) replaces: Vec<(Pos, String)>,
    pub(super) on_store_failure: Option<OnStoreFailure>,
    pub(super) sharing: Option<Sharing>,
    pub(super) on_limit: Option<OnLimit>,
    /// Values that name classes of priority; empty if it has none.
    pub(super) classes: Vec<String>,
}

/// Where one limit is.
pub(super) struct LimitPlace<'a> {
    fields: Fields<'a>,
    path: String,
    /// Index in the list of the file.
    pub(super) index: usize,
}

impl LimitPlace<'_> {
    /// Place for an error about how the limit is counted: the value of the key that decides it, or else the
    /// limit.
    pub(super) fn of_error(&self, error: &RuleError) -> (Pos, String) {
        let keys: &[&str] = match error {
            RuleError::NotLeasable { .. } => &["sharing", "algorithm"],
            RuleError::OnlyShadow => &["shadow"],
            RuleError::EmptyBucket | RuleError::BucketTwice { .. } | RuleError::BucketOfClasses => {
                &["bucket"]
            }
            _ => &["algorithm"],
        };
        match keys.iter().find_map(|key| Some((key, self.fields.get(key)?))) {
            Some((key, node)) => (node.pos, format!("{}.{key}", self.path)),
            None => (self.fields.pos, self.path.clone()),
        }
    }

    /// Place of the name, or of the limit if it has none.
    pub(super) fn of_name(&self) -> (Pos, String) {
        (self.fields.pos_of("name"), format!("{}.name", self.path))
    }
}

/// One limit as read, and the names that it replaces.
struct ReadLimit {
    limit: Option<Limit>,
    name: String,
    replaces: Vec<Replaced>,
}

struct Replaced {
    name: String,
    pos: Pos,
    path: String,
}

impl Reader<'_> {
    /// `rate_limit`; `None` if it is not even a map.
    pub(super) fn rate_limit<'a>(&mut self, node: &'a YamlNode, path: &Path<'_>) -> Option<ReadLimits<'a>> {
        let fields = self.fields(node, path, Section::RateLimit)?;
        let on_store_failure = self.on_store_failure(&fields, path);
        let sharing = self.sharing(&fields, path);
        let on_limit = self.on_limit(&fields, path);
        let before = self.notes.faults.len();
        // If the flag itself is faulty, the keys that it excludes are not reported as well.
        let is_unlimited = self.flag(&fields, path, "unlimited") || self.notes.faults.len() > before;
        let is_concurrency = !is_unlimited && concurrency::is_meant(&fields);
        let slots = if is_concurrency { self.concurrency(&fields, path) } else { None };
        let read = match (is_unlimited, is_concurrency) {
            (true, _) => self.unlimited(&fields, path),
            (_, true) => ReadLimit {
                limit: None,
                name: self.name(&fields, path),
                replaces: self.replaces(&fields, path),
            },
            _ => self.limit(&fields, path),
        };
        let spec = match slots {
            Some(slots) => RuleSpec::concurrency(slots),
            None => read.limit.map_or_else(RuleSpec::unlimited, RuleSpec::new),
        };
        let spec = spec.named(read.name);
        let names: Vec<String> = read.replaces.iter().map(|replaced| replaced.name.clone()).collect();
        Some(ReadLimits {
            spec: spec.replaces(names),
            classes: classes::names(&fields),
            limits: vec![LimitPlace { fields, path: path.to_string(), index: 0 }],
            replaces: read.replaces.into_iter().map(|replaced| (replaced.pos, replaced.path)).collect(),
            on_store_failure,
            sharing,
            on_limit,
        })
    }

    /// `rate` in a descriptor: its only limit, with nothing else to say about it.
    pub(super) fn rate_of_descriptor<'a>(&mut self, fields: Fields<'a>, path: &Path<'_>) -> ReadLimits<'a> {
        let limit = self.limit(&fields, path).limit;
        ReadLimits {
            spec: limit.map_or_else(RuleSpec::unlimited, RuleSpec::new),
            limits: vec![LimitPlace { fields, path: path.to_string(), index: 0 }],
            replaces: Vec::new(),
            on_store_failure: None,
            sharing: None,
            on_limit: None,
            classes: Vec::new(),
        }
    }

    /// `limits`: several on one descriptor, distinguished by their names. `None` if it is not a list.
    pub(super) fn limits<'a>(&mut self, node: &'a YamlNode, path: &Path<'_>) -> Option<ReadLimits<'a>> {
        let mut limits = Vec::new();
        let mut places = Vec::new();
        let mut replaced = Vec::new();
        let items = self.list(node, path);
        if !matches!(node.kind, Kind::List(_)) {
            return None;
        }
        for (index, item) in items.iter().enumerate() {
            let here = path.index(index);
            let Some(fields) = self.fields(item, &here, Section::LimitsEntry) else { continue };
            if classes::is_meant(&fields) {
                let message =
                    "priority_buckets cannot be combined with other limits; write it under rate_limit";
                self.notes.fault(fields.pos_of_value("algorithm"), here.key("algorithm"), message);
                continue;
            }
            let read = self.limit(&fields, &here);
            replaced.extend(read.replaces);
            // Any valid limit replaces a faulty one, so that its name is checked all the same.
            let Some(limit) = read.limit.or_else(|| Limit::per(1, Unit::Second).ok()) else { continue };
            limits.push(limit.named(read.name));
            places.push(LimitPlace { fields, path: here.to_string(), index });
        }
        if limits.is_empty() && !items.is_empty() {
            return None; // not one of them is a map, which is reported
        }
        let names: Vec<String> = replaced.iter().map(|replaced| replaced.name.clone()).collect();
        Some(ReadLimits {
            spec: RuleSpec::all_of(limits).replaces(names),
            limits: places,
            replaces: replaced.into_iter().map(|replaced| (replaced.pos, replaced.path)).collect(),
            on_store_failure: None,
            sharing: None,
            on_limit: None,
            classes: Vec::new(),
        })
    }

    fn unlimited(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> ReadLimit {
        for (key, node) in &fields.map.entries {
            let has_no_effect = match key.text.as_str() {
                "unlimited" | "name" | "replaces" | "sharing" | "on_store_failure" => continue,
                name if !Section::RateLimit.allows(name) || node.is_null() => continue,
                "requests_per_unit" => true,
                "unit" => !period::is_unit(node),
                _ => false,
            };
            let here = path.key(&key.text);
            if has_no_effect {
                self.notes.warn(
                    Warned::Uncounted,
                    key.pos,
                    here,
                    "has no effect with unlimited; remove one of the two",
                );
            } else {
                let message =
                    "cannot be combined with unlimited, which counts nothing; remove one of the two";
                self.notes.fault(key.pos, here, message);
            }
        }
        ReadLimit { limit: None, name: self.name(fields, path), replaces: self.replaces(fields, path) }
    }

    fn limit(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> ReadLimit {
        let before = self.notes.faults.len();
        let name = self.name(fields, path);
        let replaces = self.replaces(fields, path);
        if concurrency::is_meant(fields) {
            // Under `rate_limit` it is read as a rule of its own.
            let message = "concurrency cannot be combined with other limits; write it under rate_limit, in a descriptor of its own";
            self.notes.fault(fields.pos_of_value("algorithm"), path.key("algorithm"), message);
            return ReadLimit { limit: None, name, replaces };
        }
        let Ok(rate) = self.rate(fields, path) else { return ReadLimit { limit: None, name, replaces } };
        let algorithm = self.algorithm(fields, path, rate.as_ref());
        let is_total = matches!(algorithm, Some(Algorithm::Total));
        let period = self.period(fields, path, rate.as_ref(), is_total);
        let requests = match rate {
            Some(rate) => Some(rate.requests),
            None => self.requests(fields, path, is_total),
        };
        let excess = requests.and_then(|requests| self.excess(fields, path, requests));
        let cost = fields.get("cost").and_then(|node| self.number(node, &path.key("cost"), 1, u64::MAX));
        let bucket = fields.get("bucket").and_then(|node| self.text(node, &path.key("bucket")));
        let is_shadow = self.flag(fields, path, "shadow");
        let is_post_paid = self.flag(fields, path, "post_paid");
        let limit = match (algorithm, period, requests) {
            (Some(algorithm), Some(period), Some(requests)) => {
                let limit = Limit::new(requests, period, algorithm);
                let limit = match excess {
                    Some(excess) => limit.and_then(|limit| limit.with_excess(excess)),
                    None => limit,
                };
                let limit = limit.and_then(|limit| limit.with_cost(cost.unwrap_or(1)));
                let limit = match bucket {
                    Some(name) => limit.map(|limit| limit.in_bucket(name)),
                    None => limit,
                };
                let limit = match is_post_paid {
                    true => limit.map(Limit::post_paid),
                    false => limit,
                };
                match limit {
                    Ok(limit) if is_shadow => Some(limit.in_shadow()),
                    Ok(limit) => Some(limit),
                    // Two keys that cannot be combined are reported already.
                    Err(LimitError::Quota(QuotaError::Unsupported { .. }))
                        if self.notes.faults.len() > before =>
                    {
                        None
                    }
                    Err(error) => {
                        let (mut key, message) = explain(&error, fields);
                        if fields.get(key).is_none() && rate.is_some() {
                            key = "rate";
                        }
                        self.notes.fault(fields.pos_of_value(key), path.key(key), message);
                        None
                    }
                }
            }
            _ => None,
        };
        ReadLimit { limit, name, replaces }
    }

    fn name(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> String {
        fields.get("name").and_then(|node| self.text(node, &path.key("name"))).unwrap_or_default()
    }

    fn requests(&mut self, fields: &Fields<'_>, path: &Path<'_>, is_total: bool) -> Option<u64> {
        let has_limit = fields.get("limit").is_some();
        let name = if is_total && has_limit { "limit" } else { "requests_per_unit" };
        if has_limit && !is_total {
            let message = "belongs to algorithm: total; write requests_per_unit";
            self.notes.fault(fields.pos_of("limit"), path.key("limit"), message);
        } else if has_limit && fields.get("requests_per_unit").is_some() {
            let message = "means the same as limit; remove one of the two";
            self.notes.fault(fields.pos_of("requests_per_unit"), path.key("requests_per_unit"), message);
        }
        let Some(node) = fields.get(name) else {
            let message = "is missing, so it is 0 and everything is denied; write the number of requests";
            self.notes.warn(Warned::NoRequests, fields.pos, path.key(name), message);
            return Some(0);
        };
        self.number(node, &path.key(name), 0, Quota::LARGEST_LIMIT)
    }

    /// `excess`: a number of requests, or a percentage of the limit.
    fn excess(&mut self, fields: &Fields<'_>, path: &Path<'_>, requests: u64) -> Option<u64> {
        let node = fields.get("excess")?;
        let here = path.key("excess");
        let scalar = self.scalar(node, &here, "a percentage such as 10 %")?;
        let (number, is_percentage) = match scalar.text.strip_suffix('%') {
            Some(number) => (number.trim_end(), true),
            None => (scalar.text.as_str(), false),
        };
        let Some(number) = whole_number(number).filter(|number| *number <= Quota::LARGEST_LIMIT) else {
            let message = format!("invalid excess {}: expected something like 10 % or 20", quoted(scalar));
            self.notes.fault(node.pos, here, message);
            return None;
        };
        if is_percentage && number > 100 {
            let message = format!("{number} % is out of range; write 1 % to 100 %");
            self.notes.fault(node.pos, here, message);
            return None;
        }
        let excess = if is_percentage {
            requests * number / 100 // at most the number of requests itself
        } else {
            number
        };
        if excess == 0 && number > 0 && requests > 0 {
            let message =
                format!("{number} % of {requests} is less than one request; write excess: 1, or remove it");
            self.notes.fault(node.pos, here, message);
            return None;
        }
        Some(excess)
    }

    /// The names under `replaces`. A missing one is an empty name, which the rule's own check reports.
    fn replaces(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Vec<Replaced> {
        let Some(node) = fields.get("replaces") else { return Vec::new() };
        let list = path.key("replaces");
        let mut replaced = Vec::new();
        for (i, item) in self.list(node, &list).iter().enumerate() {
            let item_path = list.index(i);
            let here = item_path.key("name");
            let Some(fields) = self.fields(item, &item_path, Section::ReplacesEntry) else { continue };
            let name = match fields.get("name") {
                Some(node) => self.text(node, &here),
                None => Some(String::new()),
            };
            let Some(name) = name else { continue };
            let pos = if name.is_empty() { fields.pos } else { fields.pos_of_value("name") };
            replaced.push(Replaced { name, pos, path: here.to_string() });
        }
        replaced
    }
}

/// The key that an error is about, and the message.
fn explain(error: &LimitError, fields: &Fields<'_>) -> (&'static str, String) {
    let error = match error {
        LimitError::Quota(error) => error,
        LimitError::ExcessOfBucket(_) | LimitError::LargeExcess { .. } => {
            return ("excess", error.to_string());
        }
        LimitError::Cost { .. } => return ("cost", error.to_string()),
        _ => return ("time_zone", error.to_string()),
    };
    let first =
        |keys: [&'static str; 3]| keys.into_iter().find(|key| fields.get(key).is_some()).unwrap_or(keys[2]);
    match error {
        QuotaError::EmptyPeriod => ("period", "0 has no rate; the shortest is 1ns".to_owned()),
        QuotaError::LongPeriod(_) => (
            first(["period", "unit_multiplier", "unit"]),
            "is too long; the longest period is 3650d".to_owned(),
        ),
        QuotaError::Empty(name) => (name, format!("0 admits nothing; the smallest {name} is 1")),
        QuotaError::SlowBucket { .. } => (first(["overdraft", "capacity", "burst"]), error.to_string()),
        QuotaError::InitialAboveBurst { burst, .. } => {
            ("initial", format!("is above the burst of {burst}; write {burst} or less"))
        }
        QuotaError::UnevenCells { cells, .. } => {
            ("cells", format!("the period does not divide into {cells}; write a number that divides it"))
        }
        QuotaError::WarmUp(_) => {
            ("warm_up", "is out of bounds; write a duration above zero, up to 365d".to_owned())
        }
        QuotaError::UncountableWarmUp { .. } => ("warm_up", error.to_string()),
        QuotaError::ManyCells { .. } => ("cells", error.to_string()),
        QuotaError::Classes(_) => ("classes", error.to_string()),
        QuotaError::FewForClasses { .. } => {
            (first(["burst", "rate", "requests_per_unit"]), error.to_string())
        }
        _ => ("requests_per_unit", error.to_string()),
    }
}
