//! The words in which bodies and replies of the API are described: JSON Schema.

use serde_json::{Map, Value, json};
use tollgate_http_kit::openapi::{Description, parameter};

/// Statuses that any operation may fail with.
pub(super) const ERRORS: &[u16] = &[400, 401, 403, 404, 409, 412, 413, 422, 428, 429, 503, 507];

/// A problem of the documented form.
pub(super) fn problem() -> Value {
    let fault = object(
        &[("pointer", text()), ("message", text())],
        &[("line", int()), ("column", int()), ("hint", text())],
    );
    object(
        &[("type", text()), ("title", text()), ("status", int()), ("detail", text()), ("request_id", text())],
        &[("errors", list(fault))],
    )
}

pub(super) fn text() -> Value {
    json!({"type": "string"})
}

pub(super) fn int() -> Value {
    json!({"type": "integer"})
}

pub(super) fn flag() -> Value {
    json!({"type": "boolean"})
}

/// This, or null.
pub(super) fn maybe(schema: &Value) -> Value {
    let mut schema = schema.clone();
    schema["type"] = json!([schema["type"], "null"]);
    schema
}

pub(super) fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

pub(super) fn one_of(texts: &[&str]) -> Value {
    json!({"type": "string", "enum": texts})
}

/// An object with these members and no others.
pub(super) fn object(required: &[(&str, Value)], optional: &[(&str, Value)]) -> Value {
    let members = required.iter().chain(optional);
    let properties: Map<String, Value> = members.map(|(name, it)| ((*name).to_owned(), it.clone())).collect();
    let names: Vec<&str> = required.iter().map(|(name, _)| *name).collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

/// Replies with JSON of this schema.
pub(super) fn replies(schema: Value) -> Description {
    Description::json(schema).fails(ERRORS)
}

/// Replies 201 with JSON of this schema.
pub(super) fn creates(schema: Value) -> Description {
    Description::default().answers(201, "application/json", schema).fails(ERRORS)
}

/// Also 412 with the newer object.
pub(super) fn or_stale(description: Description, schema: Value) -> Description {
    description.answers(412, "application/json", schema)
}

/// Also takes what becomes of nodes that cannot read what it publishes.
pub(super) fn publishes(description: Description) -> Description {
    let about =
        "`leave`: publish also where a live node cannot read the rules; it keeps the version that it has";
    description.with([parameter("old_nodes", false, one_of(&["leave"]), None, about)])
}

/// `cursor` of a list.
pub(super) fn cursor() -> Value {
    parameter("cursor", false, text(), None, "`next` of the reply before")
}

/// `limit` of a list.
pub(super) fn limit() -> Value {
    parameter("limit", false, int(), Some(json!(10)), "Entries of the reply, 1 to 500; 100 unless given")
}
