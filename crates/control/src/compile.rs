//! From the rows of an app to the rule document of its domain. Pure.

use std::fmt::Write as _;

use tollgate_rule_files::parse_text;

use crate::car::Car;
use crate::error::ControlError;
use crate::published::Document;

/// Largest document that a node takes.
pub const MAX_DOCUMENT: usize = 4 * 1024 * 1024;

/// The documents of an app: one for its domain, or none without rules. `rows` are in the order of their keys.
///
/// # Errors
/// [`ControlError::Document`] when it would be larger than nodes take.
///
/// # Example
/// ```
/// # use tollgate_control::{car::CarInput, compile::documents};
/// let (key, rate, max_permits) = ("push".into(), "5".into(), "10".into());
/// let input = CarInput { key, rate, max_permits, ..CarInput::default() };
/// let documents = documents("SIP_HOTEL", &[input.check()?])?;
/// let policy = tollgate_rule_files::parse_text("SIP_HOTEL", documents[0].yaml())?;
/// let rule = policy.rules().next().expect("one rule");
/// assert_eq!((&*rule.path, rule.limits[0].requests_per_unit), ("key=push", 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn documents(app: &str, rows: &[Car]) -> Result<Vec<Document>, ControlError> {
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
        return Err(ControlError::Document { app: app.to_owned(), reason });
    }
    Ok(vec![Document::new(app, yaml)])
}

/// Whether the parser of the nodes accepts this row. The rows of an app do not depend on each other, except
/// that their keys differ, and that those of one bucket agree ([`buckets`](crate::buckets)).
///
/// # Errors
/// [`ControlError::Document`].
pub fn check(app: &str, row: &Car) -> Result<(), ControlError> {
    for document in documents(app, std::slice::from_ref(row))? {
        if let Err(faults) = parse_text(document.domain(), document.yaml()) {
            return Err(ControlError::Document { app: app.to_owned(), reason: faults.to_string() });
        }
    }
    Ok(())
}

fn write_row(yaml: &mut String, row: &Car) {
    let mut limit = format!(
        "{{algorithm: token_bucket, unit: second, requests_per_unit: {}, burst: {}",
        row.rate, row.max_permits
    );
    // Writing to a string does not fail.
    if row.pre_permits > 0 {
        let _ = write!(limit, ", overdraft: {}", row.pre_permits);
    }
    if row.need_permits > 1 {
        let _ = write!(limit, ", cost: {}", row.need_permits);
    }
    if !row.bucket.is_empty() {
        let _ = write!(limit, ", bucket: {}", quoted(&row.bucket));
    }
    for (key, value, default) in
        [("sharing", &row.sharing, "exact"), ("on_store_failure", &row.on_store_failure, "allow")]
    {
        if value != default {
            let _ = write!(limit, ", {key}: {value}");
        }
    }
    limit.push('}');
    let shadow = if row.state == "shadow" { ", shadow_mode: true" } else { "" };
    let key = quoted(&row.key);
    let _ = if row.per.is_empty() {
        writeln!(yaml, "  - {{key: key, value: {key}{shadow}, rate_limit: {limit}}}")
    } else {
        let per = quoted(&row.per);
        writeln!(
            yaml,
            "  - {{key: key, value: {key}, descriptors: [{{key: {per}{shadow}, rate_limit: {limit}}}]}}"
        )
    };
}

/// A name between quotes. Names have no character that YAML escapes.
fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
