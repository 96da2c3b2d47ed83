//! A row of the table of committed rates as YAML, and back: every field, `extras` byte for byte. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};
use tollgate_rule_files::read_flat_yaml;

use crate::faults::{DocFault, ModelError};
use crate::table_rule::TableRuleInput;

/// The order of the fields; others follow.
const ORDER: [&str; 17] = [
    "key",
    "rate",
    "max_permits",
    "need_permits",
    "pre_permits",
    "post_paid",
    "g",
    "u",
    "state",
    "trial_rate",
    "trial_max_permits",
    "per",
    "bucket",
    "sharing",
    "on_store_failure",
    "description",
    "extras",
];

/// Fields that are written without quotes.
const PLAIN: [&str; 12] = [
    "rate",
    "max_permits",
    "need_permits",
    "pre_permits",
    "post_paid",
    "g",
    "u",
    "state",
    "trial_rate",
    "trial_max_permits",
    "sharing",
    "on_store_failure",
];

/// Fields that are left out where they are empty.
const OPTIONAL: [&str; 3] = ["post_paid", "trial_rate", "trial_max_permits"];

/// The fields of a row, one on each line; optional ones only if they have a value.
///
/// # Example
/// ```
/// # use tollgate_model::{table_rule::TableRuleInput, table_rule_yaml};
/// let (key, max_permits, extras) = ("push".into(), "10".into(), "{\"a\":  1}".into());
/// let input = TableRuleInput { key, max_permits, extras, ..TableRuleInput::default() }.check()?.to_input();
/// let yaml = table_rule_yaml::write(&input);
/// assert!(yaml.starts_with("key: \"push\"\nrate: 1\nmax_permits: 10\n"));
/// assert_eq!(table_rule_yaml::read(&yaml)?, input);
/// # Ok::<(), tollgate_model::ModelError>(())
/// ```
#[must_use]
pub fn write(input: &TableRuleInput) -> String {
    let mut yaml = String::new();
    for (name, value) in fields(input) {
        if value.is_empty() && OPTIONAL.contains(&&*name) {
            continue;
        }
        // Writing to a string does not fail.
        let _ = if PLAIN.contains(&&*name) && is_plain(&value) {
            writeln!(yaml, "{name}: {value}")
        } else {
            writeln!(yaml, "{name}: {}", quoted(&value))
        };
    }
    yaml
}

/// The fields of a row in their order, as texts.
pub(crate) fn fields(input: &TableRuleInput) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = members(input)
        .into_iter()
        .map(|(name, value)| (name, value.as_str().unwrap_or_default().to_owned()))
        .collect();
    let place = |name: &str| ORDER.iter().position(|it| *it == name).unwrap_or(ORDER.len());
    fields.sort_by_key(|(name, _)| place(name));
    fields
}

fn members(input: &TableRuleInput) -> Map<String, Value> {
    match serde_json::to_value(input) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(), // texts cannot fail
    }
}

fn is_plain(value: &str) -> bool {
    let is_word = value.bytes().all(|it| it.is_ascii_alphanumeric() || b"._".contains(&it));
    // `on` and `off` stay texts: YAML 1.2 has no such booleans.
    is_word && !value.is_empty()
}

/// Between double quotes, with escapes that both JSON and YAML know.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        let _ = match character {
            '"' => write!(quoted, "\\\""),
            '\\' => write!(quoted, "\\\\"),
            '\n' => write!(quoted, "\\n"),
            '\r' => write!(quoted, "\\r"),
            '\t' => write!(quoted, "\\t"),
            // Not printable in YAML, or a line break there.
            '\0'..='\u{1f}'
            | '\u{7f}'..='\u{a0}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => write!(quoted, "\\u{:04x}", u32::from(character)),
            '\u{10000}'.. if u32::from(character) & 0xfffe == 0xfffe => {
                write!(quoted, "\\U{:08x}", u32::from(character))
            }
            _ => write!(quoted, "{character}"),
        };
    }
    quoted.push('"');
    quoted
}

/// The row of these fields; those that are missing are empty.
///
/// # Errors
/// [`ModelError::Faulty`] for a field that rows do not have.
pub fn of_texts(texts: &BTreeMap<&str, &str>) -> Result<TableRuleInput, ModelError> {
    let mut all = members(&TableRuleInput::default());
    for (name, value) in texts {
        let Some(slot) = all.get_mut(*name) else {
            let message = format!("unknown field; expected one of {}", ORDER.join(", "));
            let path = (*name).to_owned();
            let fault = DocFault { domain: String::new(), line: 1, column: 1, path, message };
            return Err(ModelError::Faulty(vec![fault]));
        };
        *slot = Value::from(*value);
    }
    from_members(all)
}

fn from_members(all: Map<String, Value>) -> Result<TableRuleInput, ModelError> {
    serde_json::from_value(Value::Object(all))
        .map_err(|error| ModelError::Document { app: String::new(), reason: error.to_string() })
}

/// Reads what [`write()`] wrote, or a person. Fields may be missing and in any order.
///
/// # Errors
/// [`ModelError::Faulty`] with the place of each line that is not a field of a row.
pub fn read(yaml: &str) -> Result<TableRuleInput, ModelError> {
    let (entries, faults) = read_flat_yaml("rule.yaml".as_ref(), yaml);
    let mut faults: Vec<DocFault> = faults.iter().map(|it| DocFault::of("", it)).collect();
    let mut all = members(&TableRuleInput::default());
    for entry in entries {
        let mut fault = |message: String| {
            faults.push(DocFault {
                domain: String::new(),
                line: entry.place.line,
                column: entry.place.column,
                path: entry.name.clone(),
                message,
            });
        };
        match (all.get_mut(&entry.name), &*entry.values) {
            (Some(slot), [(value, _)]) => *slot = Value::from(value.clone()),
            (Some(_), []) => {} // null: the default
            (Some(_), _) => fault("expected one value, not a list".to_owned()),
            (None, _) => fault(format!("unknown field; expected one of {}", ORDER.join(", "))),
        }
    }
    if !faults.is_empty() {
        return Err(ModelError::Faulty(faults));
    }
    from_members(all)
}
