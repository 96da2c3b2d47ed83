//! Nodes as JSON: what each has in force, and what its last report said.

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde_json::{Value, json};
use tollgate_control::actor::EVERY_APP;
use tollgate_control::{ControlError, Figures, NodeState, Role, Who};
use tollgate_http_kit::openapi::{Description, schema};
use tollgate_http_kit::{Reply, reply};

use super::lists;
use super::schema::{flag, int, limit, list as list_of, maybe, object, one_of, replies, text};
use crate::console::Console;
use crate::web::{Failure, Visit};

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let most = lists::limit(visit)?;
    let after = visit.parameter("cursor");
    let (who, now_ms) = console.who(visit).await?;
    let (mut nodes, figures) = (console.control.nodes().nodes(), console.control.live().figures());
    let total = nodes.len();
    nodes.sort_by(|a, b| a.id.cmp(&b.id));
    nodes.retain(|it| *it.id > *after);
    nodes.truncate(usize::try_from(most).unwrap_or_default());
    let next = lists::next(&nodes, most, |it| it.id.clone());
    let nodes: Vec<Value> = nodes.iter().map(|it| shown(&who, it, figures.get(&it.id), now_ms)).collect();
    Ok(reply::json(StatusCode::OK, &json!({"nodes": nodes, "total": total, "next": next})))
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let id = visit.segment(3);
    let (who, now_ms) = console.who(visit).await?;
    let node = console.control.nodes().nodes().into_iter().find(|it| it.id == id);
    let node = node.ok_or_else(|| ControlError::NotFound { what: "node", name: id.clone() })?;
    let figures = console.control.live().figures();
    Ok(reply::json(StatusCode::OK, &shown(&who, &node, figures.get(&id), now_ms)))
}

pub(super) async fn remove(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let removed = console.control.remove_node(&visit.claim()?, &visit.segment(3)).await?;
    let (who, now_ms) = console.who(visit).await?;
    Ok(reply::json(StatusCode::OK, &shown(&who, &removed, None, now_ms)))
}

/// Apps that the actor may not see are not named.
fn shown(who: &Who, node: &NodeState, figures: Option<&Figures>, now_ms: i64) -> Value {
    let apps = node.apps.iter().filter(|it| who.may(Role::Viewer, &it.app));
    let apps: Vec<Value> = apps
        .map(|it| {
            json!({
                "app": it.app, "wanted": it.wanted, "acked": it.acked, "fault": it.fault,
                "is_ahead": it.is_ahead,
            })
        })
        .collect();
    let labels: BTreeMap<&str, &str> = node.labels.iter().map(|(key, value)| (&**key, &**value)).collect();
    let state = node.health(now_ms).name();
    let store = figures.and_then(|it| it.store.as_ref()).filter(|_| !who.roles.is_empty());
    let mut shown = json!({
        "id": node.id, "name": node.name, "software": node.software,
        "language": node.language, "labels": labels, "state": state, "connected": node.is_connected,
        "bound": node.is_bound, "new": node.is_new,
        "last_seen": node.last_seen_ms, "skew_ms": node.skew_ms, "apps": apps,
        "store": store.map(|it| &it.0), "store_available": store.map(|it| it.1),
        "table_bytes": figures.map(|it| it.table_bytes),
    });
    // What may name machines, domains and files of others.
    if who.may(Role::Viewer, EVERY_APP) {
        shown["address"] = json!(node.address);
        shown["local_domains"] = json!(node.local_domains);
        shown["state_error"] = json!(figures.map_or("", |it| &it.state_error));
        shown["rules_error"] = json!(figures.map_or("", |it| &it.rules_error));
    }
    shown
}

fn node() -> Value {
    let app = object(
        &[
            ("app", text()),
            ("wanted", int()),
            ("acked", int()),
            ("fault", maybe(&text())),
            ("is_ahead", flag()),
        ],
        &[],
    );
    let mut labels = object(&[], &[]);
    labels["additionalProperties"] = text();
    if let Some(labels) = labels.as_object_mut() {
        labels.retain(|name: &String, _| name != "properties" && name != "required");
    }
    object(
        &[
            ("id", text()),
            ("name", text()),
            ("software", text()),
            ("language", int()),
            ("labels", labels),
            ("state", one_of(&["live", "unresponsive", "lost"])),
            ("connected", flag()),
            ("bound", flag()),
            ("new", flag()),
            ("last_seen", int()),
            ("skew_ms", int()),
            ("apps", list_of(app)),
            ("store", maybe(&text())),
            ("store_available", maybe(&flag())),
            ("table_bytes", maybe(&int())),
        ],
        &[
            ("address", text()),
            ("local_domains", list_of(text())),
            ("state_error", text()),
            ("rules_error", text()),
        ],
    )
}

/// The schemas that others refer to, by name.
pub(super) fn named() -> [(&'static str, Value); 1] {
    [("Node", node())]
}

pub(super) fn described_list() -> Description {
    let members = [("nodes", list_of(schema("Node"))), ("total", int()), ("next", maybe(&text()))];
    replies(object(&members, &[])).with([super::schema::cursor(), limit()])
}

pub(super) fn described() -> Description {
    replies(schema("Node"))
}
