//! What the bodies and replies of apps and rules hold.

use serde_json::{Value, json};
use tollgate_http_kit::openapi::{Description, parameter, schema};

use super::schema::{
    creates, flag, int, list, maybe, object, one_of, or_stale, problem, publishes, replies, text,
};

fn app() -> Value {
    object(
        &[
            ("app", text()),
            ("description", text()),
            ("version", int()),
            ("state", one_of(&["active", "disabled"])),
            ("rules", int()),
            ("approvals", int()),
            ("updated_at", int()),
            ("rollout", schema("Plan")),
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
            ("post_paid", flag()),
            ("g", text()),
            ("u", text()),
            ("extras", text()),
            ("description", text()),
            ("per", text()),
            ("bucket", text()),
            ("sharing", one_of(&["exact", "leased", "local"])),
            ("on_store_failure", one_of(&["allow", "deny", "local"])),
            ("state", one_of(&["on", "shadow", "off"])),
            ("app_disabled", flag()),
            ("trial_rate", maybe(&int())),
            ("trial_max_permits", maybe(&int())),
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
            ("pre_permits", whole.clone()),
            ("post_paid", maybe(&flag())),
            ("trial_rate", whole.clone()),
            ("trial_max_permits", whole),
            ("g", decimal.clone()),
            ("u", decimal),
            ("extras", json!({"type": ["object", "string", "null"]})),
            ("description", text()),
            ("per", text()),
            ("bucket", text()),
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
pub(super) fn named() -> [(&'static str, Value); 4] {
    [("Problem", problem()), ("App", app()), ("Rule", rule()), ("RuleBody", rule_body())]
}

pub(super) fn log_in() -> Description {
    let example = json!({"name": "ann", "password": "a long passphrase"});
    let body = object(&[("name", text()), ("password", text())], &[]);
    replies(object(&[("name", text())], &[])).takes(body, example)
}

pub(super) fn log_out() -> Description {
    replies(object(&[], &[]))
}

pub(super) fn apps() -> Description {
    replies(object(&[("apps", list(schema("App"))), ("total", int())], &[]))
}

fn takes_app(description: Description) -> Description {
    let members = [
        ("app", text()),
        ("description", text()),
        ("state", text()),
        ("approvals", int()),
        ("rollout", schema("Plan")),
    ];
    // What a reply has besides, so that it can be sent back.
    let more = [("version", int()), ("rules", int()), ("updated_at", int())];
    let body = object(&[], &[&members[..], &more].concat());
    description.takes(body, json!({"app": "SIP_HOTEL", "description": "hotel supplier interface"}))
}

pub(super) fn create_app() -> Description {
    takes_app(creates(schema("App")))
}

pub(super) fn one_app() -> Description {
    replies(schema("App"))
}

pub(super) fn disable_app() -> Description {
    or_stale(one_app(), schema("App"))
}

pub(super) fn change_app() -> Description {
    takes_app(disable_app())
}

pub(super) fn rules() -> Description {
    let page = [("page", int()), ("size", int()), ("matching", int()), ("total", int())];
    let mut members = vec![("rules", list(schema("Rule")))];
    members.extend(page);
    replies(object(&members, &[])).with([
        parameter("search", false, text(), None, "Part of app, key or description"),
        parameter("state", false, one_of(&["on", "shadow", "off"]), None, "Rules in this state only"),
        parameter("sort", false, one_of(&["key", "rate", "updated"]), None, "The order"),
        parameter("page", false, int(), None, "From 1"),
        parameter("size", false, int(), None, "Rows of a page, 1 to 500"),
    ])
}

/// Also 202 with the change set, where the app needs approvals or a draft was asked for.
fn or_waits(description: Description) -> Description {
    description.answers(202, "application/json", json!({"type": "object"}))
}

fn takes_rule(description: Description) -> Description {
    let example = json!({"key": "pushGeoHotelList", "max_permits": 100, "rate": 50});
    description.takes(schema("RuleBody"), example)
}

pub(super) fn create_rule() -> Description {
    publishes(takes_rule(or_waits(creates(schema("Rule")))))
}

pub(super) fn one_rule() -> Description {
    replies(schema("Rule"))
}

pub(super) fn change_rule() -> Description {
    publishes(takes_rule(or_waits(or_stale(one_rule(), schema("Rule")))))
}

pub(super) fn delete_rule() -> Description {
    publishes(or_waits(or_stale(replies(object(&[("version", int())], &[])), schema("Rule"))))
}
