//! Nodes, and frozen apps.

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate_control::actor::EVERY_APP;
use tollgate_control::{Figures, NodeState, Role, Who};
use utoipa::ToSchema;

use crate::words;

/// A node. `address`, `local_domains` and the errors are there for those who may see every app.
#[derive(Debug, Serialize, ToSchema)]
pub struct Node {
    pub id: String,
    pub name: String,
    pub software: String,
    /// The level of the rule language that it reads.
    pub language: u32,
    pub labels: BTreeMap<String, String>,
    #[schema(schema_with = words::node_state)]
    pub state: &'static str,
    pub connected: bool,
    /// Its id is bound to a secret of its own.
    pub bound: bool,
    /// It has yet to show that it takes rules and reports, or it claims to hold what was never published.
    pub new: bool,
    pub last_seen: i64,
    /// Its clock less that of the control plane.
    pub skew_ms: i64,
    /// Apps that the caller may see.
    pub apps: Vec<NodeApp>,
    /// The name of its store; null before its first report.
    #[schema(required)]
    pub store: Option<String>,
    #[schema(required)]
    pub store_available: Option<bool>,
    #[schema(required)]
    pub table_bytes: Option<u64>,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Domains of its own rule files.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_domains: Option<Vec<String>>,
    /// Why it could not save its rules; empty if it could.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_error: Option<String>,
    /// Why its own rule files as they are now are not in force; empty if they are.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules_error: Option<String>,
}

impl Node {
    /// `node` as `who` may see it.
    #[must_use]
    pub fn new(who: &Who, node: &NodeState, figures: Option<&Figures>, now_ms: i64) -> Self {
        let apps = node.apps.iter().filter(|it| who.may(Role::Viewer, &it.app));
        let app = |it: &tollgate_control::NodeApp| NodeApp {
            app: it.app.clone(),
            wanted: it.wanted,
            acked: it.acked,
            fault: it.fault.clone(),
            is_ahead: it.is_ahead,
        };
        let store = figures.and_then(|it| it.store.as_ref()).filter(|_| !who.roles.is_empty());
        // Some members may name machines, domains and files of other apps.
        let is_over_all = who.may(Role::Viewer, EVERY_APP);
        let error = |of: fn(&Figures) -> &String| figures.map(of).cloned().unwrap_or_default();
        Self {
            id: node.id.clone(),
            name: node.name.clone(),
            software: node.software.clone(),
            language: node.language,
            labels: node.labels.iter().cloned().collect(),
            state: node.health(now_ms).name(),
            connected: node.is_connected,
            bound: node.is_bound,
            new: node.is_new,
            last_seen: node.last_seen_ms,
            skew_ms: node.skew_ms,
            apps: apps.map(app).collect(),
            store: store.map(|it| it.0.clone()),
            store_available: store.map(|it| it.1),
            table_bytes: figures.map(|it| it.table_bytes),
            address: is_over_all.then(|| node.address.clone()),
            local_domains: is_over_all.then(|| node.local_domains.clone()),
            state_error: is_over_all.then(|| error(|it| &it.state_error)),
            rules_error: is_over_all.then(|| error(|it| &it.rules_error)),
        }
    }
}

/// The rules of an app on a node.
#[derive(Debug, Serialize, ToSchema)]
pub struct NodeApp {
    pub app: String,
    /// The version that it should have.
    pub wanted: u64,
    /// The version that it has.
    pub acked: u64,
    /// Why it rejected the version that it should have; null where it did not.
    #[schema(required)]
    pub fault: Option<String>,
    /// It has a newer version than the database.
    pub is_ahead: bool,
}

/// A list of nodes by id.
#[derive(Debug, Serialize, ToSchema)]
pub struct Nodes {
    pub nodes: Vec<Node>,
    pub total: usize,
    /// The cursor of the next part; null after the last.
    #[schema(required)]
    pub next: Option<String>,
}

/// The versions of a frozen app.
#[derive(Debug, Serialize, ToSchema)]
pub struct Frozen {
    pub app: String,
    /// The highest version on nodes.
    pub held: i64,
    /// The version in the database.
    pub version: i64,
}

/// An app that is not frozen any more, and its version.
#[derive(Debug, Serialize, ToSchema)]
pub struct Thawed {
    pub app: String,
    pub version: i64,
}
