//! What bodies and replies of the API hold, as JSON Schema.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tollgate_http_kit::openapi::{Description, parameter, schema};

use super::Call;

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

/// `limit` of a list.
pub(super) fn limit() -> Value {
    parameter("limit", false, int(), Some(json!(10)), "Entries of the reply, 1 to 500; 100 unless given")
}

fn app() -> Value {
    object(
        &[
            ("app", text()),
            ("description", text()),
            ("version", int()),
            ("state", one_of(&["active", "disabled"])),
            ("rules", int()),
            ("updated_at", int()),
        ],
        &[],
    )
}

fn rule() -> Value {
    object(
        &[
            ("app", text()),
            ("key", text()),
            ("rate", int()),
            ("max_permits", int()),
            ("need_permits", int()),
            ("pre_permits", int()),
            ("g", text()),
            ("u", text()),
            ("extras", text()),
            ("description", text()),
            ("per", text()),
            ("sharing", one_of(&["exact", "leased", "local"])),
            ("on_store_failure", one_of(&["allow", "deny", "local"])),
            ("state", one_of(&["on", "shadow", "off"])),
            ("version", int()),
            ("updated_at", int()),
            ("updated_by", text()),
        ],
        &[],
    )
}

/// What a rule is written as: numbers as numbers, `g` and `u` also as text, and what a reply has besides.
fn rule_body() -> Value {
    let decimal = json!({"type": ["number", "integer", "string"]});
    let whole = maybe(&int());
    object(
        &[],
        &[
            ("key", text()),
            ("rate", whole.clone()),
            ("max_permits", whole.clone()),
            ("need_permits", whole.clone()),
            ("pre_permits", whole),
            ("g", decimal.clone()),
            ("u", decimal),
            ("extras", json!({"type": ["object", "string", "null"]})),
            ("description", text()),
            ("per", text()),
            ("sharing", text()),
            ("on_store_failure", text()),
            ("state", text()),
            ("app", text()),
            ("version", int()),
            ("updated_at", int()),
            ("updated_by", text()),
        ],
    )
}

/// The schemas that others refer to, by name.
pub(super) fn named() -> BTreeMap<String, Value> {
    let mut named = super::access::schemas();
    named.extend([("Problem", problem()), ("App", app()), ("Rule", rule()), ("RuleBody", rule_body())]);
    named.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// What a call of the main table takes and replies.
pub(super) fn described(call: Call) -> Description {
    let app_body = || object(&[], &[("app", text()), ("description", text()), ("state", text())]);
    let app_example = || json!({"app": "SIP_HOTEL", "description": "hotel supplier interface"});
    let rule_example = || json!({"key": "pushGeoHotelList", "max_permits": 100, "rate": 50});
    let rules = || {
        let page = [("page", int()), ("size", int()), ("matching", int()), ("total", int())];
        let mut members = vec![("rules", list(schema("Rule")))];
        members.extend(page);
        replies(object(&members, &[])).with([
            parameter("search", false, text(), None, "Part of app, key or description"),
            parameter("sort", false, one_of(&["key", "rate", "updated"]), None, "The order"),
            parameter("page", false, int(), None, "From 1"),
            parameter("size", false, int(), None, "Rows of a page, 1 to 500"),
        ])
    };
    match call {
        Call::LogIn => {
            let example = json!({"name": "ann", "password": "a long passphrase"});
            let body = object(&[("name", text()), ("password", text())], &[]);
            replies(object(&[("name", text())], &[])).takes(body, example)
        }
        Call::LogOut => replies(object(&[], &[])),
        Call::Apps => replies(object(&[("apps", list(schema("App"))), ("total", int())], &[])),
        Call::CreateApp => creates(schema("App")).takes(app_body(), app_example()),
        Call::App => replies(schema("App")),
        Call::ChangeApp => or_stale(replies(schema("App")), schema("App")).takes(app_body(), app_example()),
        Call::DisableApp => or_stale(replies(schema("App")), schema("App")),
        Call::Rules | Call::AppRules => rules(),
        Call::CreateRule => creates(schema("Rule")).takes(schema("RuleBody"), rule_example()),
        Call::Rule => replies(schema("Rule")),
        Call::ChangeRule => {
            or_stale(replies(schema("Rule")), schema("Rule")).takes(schema("RuleBody"), rule_example())
        }
        Call::DeleteRule => or_stale(replies(object(&[("version", int())], &[])), schema("Rule")),
        _ => replies(json!({"type": "object"})),
    }
}
