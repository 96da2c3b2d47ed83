//! From the rows of an app to the rule document of its domain. Pure.

use std::fmt::Write as _;

use tollgate_fleet_proto::published::Document;
use tollgate_rule_files::parse_text;

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
    let foreign = |line: &str| {
        let reason = format!("{line:?} was not written by a control plane; force what the database has");
        ModelError::Document { app: app.to_owned(), reason }
    };
    let rows = yaml.lines().filter(|line| line.starts_with("  - "));
    rows.map(|line| {
        let text = |name: &str| field(line, name).map(str::to_owned);
        let or = |name: &str, default: &str| text(name).unwrap_or_else(|| default.to_owned());
        let key = text("value").ok_or_else(|| foreign(line))?;
        let before = known.iter().find(|it| it.key == key).map(TableRule::to_input);
        let is_shadow = field(line, "shadow_mode") == Some("true");
        let trial = line.split_once(TRIAL).map(|(_, trial)| trial);
        let tried = |name: &str| trial.and_then(|it| field(it, name)).unwrap_or("").to_owned();
        let before = before.unwrap_or_default();
        let input = TableRuleInput {
            key,
            rate: or("requests_per_unit", ""),
            max_permits: or("burst", ""),
            pre_permits: or("overdraft", "0"),
            need_permits: or("cost", "1"),
            post_paid: or("post_paid", ""),
            bucket: or("bucket", ""),
            sharing: or("sharing", "exact"),
            on_store_failure: or("on_store_failure", "allow"),
            per: line
                .split_once("descriptors: [")
                .and_then(|(_, of)| field(of, "key"))
                .unwrap_or("")
                .to_owned(),
            // Documents have the trial of a row only while it runs.
            trial_rate: if is_shadow { before.trial_rate.clone() } else { tried("requests_per_unit") },
            trial_max_permits: if is_shadow { before.trial_max_permits.clone() } else { tried("burst") },
            state: if is_shadow { "shadow" } else { "on" }.to_owned(),
            ..before
        };
        input.check().map_err(|_| foreign(line))
    })
    .collect()
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

/// The value after `name: ` in a line of a document, without quotes. Names and values have no `,` and no
/// braces.
fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let named = |start: &str| line.split_once(&format!("{start}{name}: ")).map(|(_, value)| value);
    let value = named("{").or_else(|| named(" "))?;
    value.split([',', '}']).next().map(|value| value.trim_matches('"'))
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
