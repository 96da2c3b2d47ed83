//! From the rows of an app to the rule document of its domain. Pure.

use std::collections::HashMap;
use std::fmt::Write as _;

use tollgate_fleet_proto::published::Document;
use tollgate_rule_files::{YamlKind, YamlValue, parse_text, read_large_yaml};

use crate::faults::ModelError;
use crate::table_rule::{TableRule, TableRuleInput, Trial};

/// Largest document that a node takes.
pub const MAX_DOCUMENT: usize = 4 * 1024 * 1024;

/// The documents of an app: one for its domain, or none without rules. `rows` are in the order of their keys.
///
/// # Errors
/// [`ModelError::Document`] when it would be larger than nodes take.
///
/// # Example
/// ```
/// # use tollgate_model::{table_rule::TableRuleInput, compile::documents};
/// let (key, rate, max_permits) = ("push".into(), "5".into(), "10".into());
/// let input = TableRuleInput { key, rate, max_permits, ..TableRuleInput::default() };
/// let documents = documents("SIP_HOTEL", &[input.check()?])?;
/// let policy = tollgate_rule_files::parse_text("SIP_HOTEL", documents[0].yaml())?;
/// let rule = policy.rules().next().expect("one rule");
/// assert_eq!((&*rule.path, rule.limits[0].requests_per_unit), ("key=push", 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn documents(app: &str, rows: &[TableRule]) -> Result<Vec<Document>, ModelError> {
    let mut yaml = format!("domain: {}\ndescriptors:\n", quoted(app));
    let head = yaml.len();
    for row in rows.iter().filter(|row| row.state != "off") {
        write_row(&mut yaml, row);
    }
    if yaml.len() == head {
        return Ok(Vec::new());
    }
    if yaml.len() > MAX_DOCUMENT {
        let reason = format!("its rules take {} bytes, and nodes take {MAX_DOCUMENT}", yaml.len());
        return Err(ModelError::Document { app: app.to_owned(), reason });
    }
    Ok(vec![Document::new(app, yaml)])
}

/// The rows of a document that [`documents`] wrote, in the order of their keys. A field that documents do not
/// have is that of the same row in `known`, or its default.
///
/// # Errors
/// [`ModelError::Document`] when the text is of another form.
pub fn read(app: &str, yaml: &str, known: &[TableRule]) -> Result<Vec<TableRule>, ModelError> {
    let foreign = |line: u32| {
        let line = yaml.lines().nth(line.saturating_sub(1) as usize).unwrap_or_default();
        let reason = format!("{line:?} was not written by a control plane; force what the database has");
        ModelError::Document { app: app.to_owned(), reason }
    };
    let root = read_large_yaml("rules.yaml".as_ref(), yaml, yaml.len())
        .map_err(|faults| foreign(faults.first().map_or(1, |it| it.place.line)))?;
    let known: HashMap<&str, &TableRule> = known.iter().map(|it| (&*it.key, it)).collect();
    let row = |item: &YamlValue| {
        let key = text(item, "value")?;
        let before = known.get(key).map(|it| it.to_input()).unwrap_or_default();
        read_row(key, item, before).check().ok()
    };
    items(&root, "descriptors").iter().map(|item| row(item).ok_or_else(|| foreign(item.place.line))).collect()
}

/// The row of a descriptor as [`write_row`] wrote it.
fn read_row(key: &str, item: &YamlValue, before: TableRuleInput) -> TableRuleInput {
    let inner = items(item, "descriptors").first();
    let rule = inner.unwrap_or(item);
    // With a trial, the limit in force is the first of two, and what both share is beside them.
    let limits = items(rule, "limits");
    let limit = limits.first().or(member(rule, "rate_limit"));
    let trial = limits.get(1);
    let field = |name| limit.and_then(|it| text(it, name)).or_else(|| text(rule, name));
    let or = |name, default: &str| field(name).unwrap_or(default).to_owned();
    let tried = |name| trial.and_then(|it| text(it, name)).unwrap_or_default().to_owned();
    let is_shadow = text(rule, "shadow_mode") == Some("true");
    TableRuleInput {
        key: key.to_owned(),
        rate: or("requests_per_unit", ""),
        max_permits: or("burst", ""),
        pre_permits: or("overdraft", "0"),
        need_permits: or("cost", "1"),
        post_paid: or("post_paid", ""),
        bucket: or("bucket", ""),
        sharing: or("sharing", "exact"),
        on_store_failure: or("on_store_failure", "allow"),
        per: inner.and_then(|it| text(it, "key")).unwrap_or_default().to_owned(),
        // Documents have the trial of a row only while it runs.
        trial_rate: if is_shadow { before.trial_rate.clone() } else { tried("requests_per_unit") },
        trial_max_permits: if is_shadow { before.trial_max_permits.clone() } else { tried("burst") },
        state: if is_shadow { "shadow" } else { "on" }.to_owned(),
        ..before
    }
}

fn member<'v>(value: &'v YamlValue, name: &str) -> Option<&'v YamlValue> {
    let YamlKind::Map(members) = &value.kind else { return None };
    members.iter().find(|(it, _)| it == name).map(|(_, value)| value)
}

fn text<'v>(value: &'v YamlValue, name: &str) -> Option<&'v str> {
    match &member(value, name)?.kind {
        YamlKind::Text(text) => Some(text),
        _ => None,
    }
}

/// The items of a list; none if it is missing.
fn items<'v>(value: &'v YamlValue, name: &str) -> &'v [YamlValue] {
    match member(value, name).map(|it| &it.kind) {
        Some(YamlKind::List(items)) => items,
        _ => &[],
    }
}

/// The paths of the rules of a document that [`documents`] wrote, as nodes name them; `None` if it is of
/// another form.
#[must_use]
pub fn paths(yaml: &str) -> Option<Vec<String>> {
    let rows = yaml.lines().skip(2);
    rows.map(|line| {
        let line = line.strip_prefix("  - {key: key, value: ")?;
        let (key, rest) = line.strip_prefix('"')?.split_once('"')?;
        let path = path_of(key);
        Some(match rest.strip_prefix(", descriptors: [{key: \"") {
            Some(per) => format!("{path} \u{2192} {}", per.split_once('"')?.0),
            None => path,
        })
    })
    .collect()
}

/// The path of the rule that a row of this key makes, as nodes name it.
#[must_use]
pub fn path_of(key: &str) -> String {
    format!("key={key}")
}

/// Whether the parser of the nodes accepts this row. The rows of an app do not depend on each other, except
/// that their keys differ, and that those of one bucket agree ([`buckets`](crate::buckets)).
///
/// # Errors
/// [`ModelError::Document`].
pub fn check(app: &str, row: &TableRule) -> Result<(), ModelError> {
    for document in documents(app, std::slice::from_ref(row))? {
        if let Err(faults) = parse_text(document.domain(), document.yaml()) {
            return Err(ModelError::Document { app: app.to_owned(), reason: faults.to_string() });
        }
    }
    Ok(())
}

/// The beginning of the limit of a trial.
const TRIAL: &str = "{name: trial, shadow: true, ";

fn write_row(yaml: &mut String, row: &TableRule) {
    let limit = numbers(row, row.rate, row.max_permits);
    let mut common = String::new();
    for (key, value, default) in
        [("sharing", &row.sharing, "exact"), ("on_store_failure", &row.on_store_failure, "allow")]
    {
        if value != default {
            let _ = write!(common, ", {key}: {value}");
        }
    }
    let limit = match row.trial.filter(|_| row.state == "on") {
        // The limit in force has no name, so its counter is that of a row without a trial.
        Some(Trial { rate, max_permits }) => {
            let trial = numbers(row, rate, max_permits);
            let common = common.strip_prefix(", ").map(|it| format!("{it}, ")).unwrap_or_default();
            format!("{common}limits: [{{{limit}}}, {TRIAL}{trial}}}]")
        }
        None => format!("rate_limit: {{{limit}{common}}}"),
    };
    let shadow = if row.state == "shadow" { ", shadow_mode: true" } else { "" };
    let key = quoted(&row.key);
    // Writing to a string does not fail.
    let _ = if row.per.is_empty() {
        writeln!(yaml, "  - {{key: key, value: {key}{shadow}, {limit}}}")
    } else {
        let per = quoted(&row.per);
        writeln!(yaml, "  - {{key: key, value: {key}, descriptors: [{{key: {per}{shadow}, {limit}}}]}}")
    };
}

/// The members of a limit with this rate and burst.
fn numbers(row: &TableRule, rate: i64, burst: i64) -> String {
    let mut limit =
        format!("algorithm: token_bucket, unit: second, requests_per_unit: {rate}, burst: {burst}");
    if row.pre_permits > 0 {
        let _ = write!(limit, ", overdraft: {}", row.pre_permits);
    }
    if row.need_permits > 1 {
        let _ = write!(limit, ", cost: {}", row.need_permits);
    }
    if row.post_paid {
        limit.push_str(", post_paid: true");
    }
    if !row.bucket.is_empty() {
        let _ = write!(limit, ", bucket: {}", quoted(&row.bucket));
    }
    limit
}

/// A name between quotes. Names have no character that YAML escapes.
fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
