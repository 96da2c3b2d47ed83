//! What nodes said, as services and pages ask for it.

use std::sync::OnceLock;

use tollgate_control::{NodeApp, NodeState, Nodes};
use tollgate_fleet_hub::Fleet;
use tollgate_fleet_proto::Fault;

/// The nodes of the streams. The fleet comes when the database is open, since that names the epoch.
#[derive(Debug, Default)]
pub(crate) struct FleetNodes(pub(crate) OnceLock<Fleet>);

impl Nodes for FleetNodes {
    fn nodes(&self) -> Vec<NodeState> {
        let mut nodes: Vec<_> =
            self.0.get().map(Fleet::nodes).unwrap_or_default().into_iter().map(state).collect();
        nodes.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        nodes
    }
}

#[allow(clippy::needless_update, reason = "what is not known of a node here has a default")]
fn state(node: tollgate_fleet_hub::NodeState) -> NodeState {
    let app = |app: tollgate_fleet_hub::AppState| NodeApp {
        app: app.app.to_string(),
        wanted: app.wanted.unwrap_or_default(),
        acked: app.acked.unwrap_or_default(),
        fault: app.fault.map(|fault| shown(&fault)),
        ..NodeApp::default()
    };
    NodeState {
        id: node.id,
        name: node.name,
        address: node.address,
        software: node.software,
        last_seen_ms: i64::try_from(node.last_seen.as_nanos() / 1_000_000).unwrap_or(i64::MAX),
        apps: node.apps.into_iter().map(app).collect(),
        ..NodeState::default()
    }
}

/// A fault with its place.
fn shown(fault: &Fault) -> String {
    let Fault { domain, line, column, path, message, .. } = fault;
    match (domain.is_empty(), line, path.is_empty()) {
        (true, ..) => message.clone(),
        (false, 0, _) => format!("{domain}: {message}"),
        (false, _, true) => format!("{domain}:{line}:{column}: {message}"),
        (false, _, false) => format!("{domain}:{line}:{column}: {path}: {message}"),
    }
}
