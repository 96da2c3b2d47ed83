//! A schema of the few resources that we write: their fields, the required ones, and the types of values. It
//! lists the fields that our files use, so that a field which is misspelt or at the wrong place is found.
//!
//! In a shape, `{"name!": …}` is a map with a required field, `{"*": …}` one with any names, `[…]` a list,
//! `#name` another shape, and any other text a kind of scalar, or a choice of words.

use serde_json::Value;

/// Differences between `value` and the shape `shape`, a line each.
pub(crate) fn faults(shapes: &Value, shape: &Value, value: &Value, path: &str) -> Vec<String> {
    match (shape, value) {
        (Value::String(name), _) if name.starts_with('#') => faults(shapes, &shapes[name], value, path),
        (Value::String(kind), _) if is_a(kind, value) => Vec::new(),
        (Value::String(kind), _) => vec![format!("{path}: {value} is not a {kind}")],
        (Value::Array(item), Value::Array(items)) => {
            let numbered = items.iter().enumerate();
            numbered.flat_map(|(at, it)| faults(shapes, &item[0], it, &format!("{path}[{at}]"))).collect()
        }
        (Value::Object(fields), Value::Object(given)) => {
            let missing = fields.keys().filter_map(|name| name.strip_suffix('!'));
            let missing = missing.filter(|name| !given.contains_key(*name));
            let mut found: Vec<String> = missing.map(|name| format!("{path}.{name}: is missing")).collect();
            for (name, value) in given {
                let required = format!("{name}!");
                let shape = [name, &required, "*"].into_iter().find_map(|it: &str| fields.get(it));
                match shape {
                    Some(shape) => found.extend(faults(shapes, shape, value, &format!("{path}.{name}"))),
                    None => found.push(format!("{path}.{name}: unknown field")),
                }
            }
            found
        }
        _ => vec![format!("{path}: {value} is neither a map nor a list as expected")],
    }
}

/// Whether a scalar is of this kind.
fn is_a(kind: &str, value: &Value) -> bool {
    let text = value.as_str();
    let is_name = |text: &str| {
        let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let inside = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        text.len() <= 63 && inside && ends(text.chars().next()) && ends(text.chars().next_back())
    };
    let number_and = |units: &[&str]| {
        text.is_some_and(|text| {
            let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
            digits.parse::<f64>().is_ok() && units.contains(&&text[digits.len()..])
        })
    };
    match kind {
        "string" => text.is_some(),
        "bool" => value.is_boolean(),
        "natural" => value.is_u64(),
        "name" => text.is_some_and(is_name),
        "path" => text.is_some_and(|text| text.starts_with('/')),
        "port" => value.as_u64().is_some_and(|port| port <= 65_535) || text.is_some_and(is_name),
        "count" => value.is_u64() || number_and(&["%"]),
        "quantity" => value.is_u64() || number_and(&["", "m", "k", "M", "G", "Ki", "Mi", "Gi"]),
        "duration" => number_and(&["ms", "s", "m", "h"]),
        choice => text.is_some_and(|text| choice.split('|').any(|it| it == text)),
    }
}

#[test]
fn a_shape_finds_what_is_missing_unknown_or_of_another_kind() {
    let shapes = serde_json::json!({
        "#port": {"port!": "natural", "name": "name"},
        "A": {"metadata!": {"*": "string"}, "ports": ["#port"], "size": "quantity", "mode": "On|Off"}
    });
    for (value, want) in [
        (
            serde_json::json!({"metadata": {"a": "b"}, "ports": [{"port": 1}], "size": "1Gi", "mode": "Off"}),
            "",
        ),
        (serde_json::json!({}), "A.metadata: is missing"),
        (serde_json::json!({"metadata": {"a": true}}), "A.metadata.a: true is not a string"),
        (
            serde_json::json!({"metadata": {}, "ports": [{"prot": 1, "port": 1}]}),
            "A.ports[0].prot: unknown field",
        ),
        (
            serde_json::json!({"metadata": {}, "ports": [{"port": "1"}]}),
            "A.ports[0].port: \"1\" is not a natural",
        ),
        (serde_json::json!({"metadata": {}, "size": "1Gb"}), "A.size: \"1Gb\" is not a quantity"),
        (serde_json::json!({"metadata": {}, "mode": "on"}), "A.mode: \"on\" is not a On|Off"),
        (serde_json::json!({"metadata": []}), "A.metadata: [] is neither a map nor a list as expected"),
    ] {
        assert_eq!(faults(&shapes, &shapes["A"], &value, "A").join("; "), want);
    }
}
