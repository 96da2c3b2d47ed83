//! As much of JSON Schema as the description of the API uses.

use serde_json::Value;

/// The first violation of `schema` in `value`, if there is one.
pub(crate) fn fault(document: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let Some(schema) = document.pointer(reference.trim_start_matches('#')) else {
            return Some(format!("{at}: nothing at {reference}"));
        };
        return fault(document, schema, value, at);
    }
    if let Some(choices) = schema.get("oneOf").and_then(Value::as_array) {
        let faults: Vec<_> = choices.iter().map(|it| fault(document, it, value, at)).collect();
        let fitting = faults.iter().filter(|it| it.is_none()).count();
        return (fitting != 1).then(|| format!("{at}: {fitting} of oneOf fit: {faults:?}"));
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        return Some(format!("{at}: {value} is not among {allowed:?}"));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(some) => some.iter().filter_map(Value::as_str).collect(),
        other => return Some(format!("{at}: a schema of type {other}")),
    };
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !types.contains(&is) {
        return Some(format!("{at}: {value} is {is}, not {types:?}"));
    }
    match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| fault(document, &schema["items"], item, &format!("{at}/{index}"))),
        Value::Object(members) => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let missing = required.into_iter().find(|name| !members.contains_key(*name));
            let missing = missing.map(|name| format!("{at}: `{name}` is missing"));
            missing.or_else(|| {
                members.iter().find_map(|(name, value)| match schema["properties"].get(name) {
                    Some(property) => fault(document, property, value, &format!("{at}/{name}")),
                    None => Some(format!("{at}: `{name}` is not described")),
                })
            })
        }
        _ => None,
    }
}
