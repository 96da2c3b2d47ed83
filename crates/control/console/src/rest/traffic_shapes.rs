//! What the replies about traffic hold: history, keys, overrides, problems.

use serde_json::{Value, json};
use tollgate_http_kit::openapi::{Description, parameter, schema};

use super::schema::{ERRORS, creates, flag, int, list, maybe, object, one_of, replies, text};

fn counts(more: &[(&str, Value)]) -> Value {
    let counts =
        ["admitted", "denied", "shadow_denied", "both_denied", "degraded", "near"].map(|name| (name, int()));
    object(&[&counts, more].concat(), &[])
}

fn an_override() -> Value {
    object(
        &[
            ("id", text()),
            ("domain", text()),
            ("entries", list(text())),
            ("action", one_of(&["block", "allow"])),
            ("until", int()),
            ("reason", text()),
            ("author", text()),
            ("created_at", int()),
        ],
        &[("rules", list(text())), ("rules_met", int())],
    )
}

/// What nodes count for a key.
fn key() -> Value {
    let counter = object(
        &[
            ("limit", maybe(&text())),
            ("counter", maybe(&text())),
            ("max", maybe(&int())),
            ("tokens", maybe(&int())),
            ("reset_after_ms", maybe(&int())),
            ("tracked", flag()),
            ("local", flag()),
            ("degraded", maybe(&text())),
        ],
        &[],
    );
    let node = object(&[("node", text())], &[("limits", list(counter)), ("error", text())]);
    object(
        &[
            ("rule", maybe(&text())),
            ("none", maybe(&text())),
            ("override", maybe(&object(&[("action", text()), ("left_ms", int())], &[]))),
            ("local", flag()),
            ("app_disabled", flag()),
            ("live_nodes", int()),
            ("nodes", list(node)),
        ],
        &[],
    )
}

/// The schemas that others refer to, by name.
pub(super) fn named() -> [(&'static str, Value); 2] {
    [("Override", an_override()), ("Key", key())]
}

pub(super) fn history() -> Description {
    let points = list(counts(&[("at", int()), ("ms", int())]));
    let members = [("step", int()), ("as_of", maybe(&int())), ("sum", counts(&[])), ("points", points)];
    replies(object(&members, &[])).with(super::history::parameters())
}

pub(super) fn top_keys() -> Description {
    let key = object(&[("domain", text()), ("rule", text()), ("key", text()), ("denied", int())], &[]);
    replies(object(&[("keys", list(key))], &[])).with(super::history::parameters())
}

pub(super) fn suggestion() -> Description {
    let numbers = [("rate", int()), ("max_permits", int()), ("seconds", int()), ("peak_per_second", text())];
    replies(object(&[("suggestion", maybe(&object(&numbers, &[])))], &[]))
}

pub(super) fn trial() -> Description {
    let trial = [
        ("rate", int()),
        ("max_permits", int()),
        ("is_running", flag()),
        ("since", int()),
        ("offered", int()),
        ("denied", int()),
        ("trial_denied", int()),
        ("both_denied", int()),
    ];
    replies(object(&[("trial", maybe(&object(&trial, &[])))], &[]))
}

pub(super) fn problems() -> Description {
    let problem = object(
        &[
            ("kind", text()),
            ("app", text()),
            ("node", text()),
            ("node_name", text()),
            ("since", maybe(&int())),
            ("value", int()),
            ("detail", text()),
        ],
        &[],
    );
    replies(object(&[("problems", list(problem)), ("total", int())], &[]))
}

pub(super) fn unlimited() -> Description {
    let request =
        object(&[("domain", text()), ("what", text()), ("admitted", int()), ("denied", int())], &[]);
    let fault = object(&[("node", text()), ("fault", text())], &[]);
    let more = [("unknown_domains", list(text())), ("rule_faults", list(fault))];
    let span = parameter("span", false, int(), None, "How far back, in ms; a day by default");
    replies(object(&[("requests", list(request))], &more)).with([span])
}

pub(super) fn events() -> Description {
    let topics = "Some of history, nodes, changes, rollouts, problems, with commas; all by default";
    let after = "What was seen, for readers that cannot send Last-Event-ID";
    Description::text("text/event-stream").fails(ERRORS).with([
        parameter("topics", false, text(), None, topics),
        parameter("after", false, text(), None, after),
    ])
}

pub(super) fn live_keys() -> Description {
    let bucket = object(
        &[
            ("key", text()),
            ("tokens", maybe(&int())),
            ("tokens_most", maybe(&int())),
            ("nodes", int()),
            ("local", flag()),
            ("last_used", maybe(&int())),
        ],
        &[],
    );
    let of = parameter("key", true, text(), None, "A rule's key, once for each of up to 100");
    replies(object(&[("app", text()), ("keys", list(bucket))], &[])).with([of])
}

pub(super) fn scan_keys() -> Description {
    let key = object(
        &[
            ("key", text()),
            ("kept", one_of(&["counter", "leased", "slots"])),
            ("counted", maybe(&text())),
            ("entries", maybe(&list(text()))),
        ],
        &[],
    );
    let members =
        [("keys", list(key)), ("next", maybe(&text())), ("none", maybe(&text())), ("live_nodes", int())];
    replies(object(&members, &[])).with([
        parameter("domain", true, text(), None, "The domain"),
        parameter("entry", false, text(), None, "key=value of the first entries, once per entry"),
        super::schema::cursor(),
    ])
}

pub(super) fn one_key() -> Description {
    replies(schema("Key")).with([
        parameter("domain", true, text(), None, "The domain"),
        parameter("entry", true, text(), None, "key=value, once per entry"),
    ])
}

pub(super) fn overrides() -> Description {
    let search = parameter("search", false, text(), None, "Part of domain, entries or reason");
    replies(object(&[("overrides", list(schema("Override"))), ("total", int())], &[]))
        .with([search, super::schema::limit()])
}

pub(super) fn create_override() -> Description {
    let body = object(
        &[("domain", text()), ("action", one_of(&["block", "allow"])), ("reason", text())],
        &[("entries", list(text())), ("minutes", maybe(&int())), ("whole_domain", flag())],
    );
    let example = json!({
        "domain": "SIP_HOTEL", "entries": ["key=pushGeoHotelList"], "action": "block", "minutes": 60,
        "reason": "floods the supplier",
    });
    creates(schema("Override")).takes(body, example)
}

pub(super) fn end_override() -> Description {
    replies(schema("Override"))
}
