//! States of nodes, as services and pages need them.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use tollgate_control::{InForce, NodeApp, NodeState, Nodes, Published};
use tollgate_core::Timestamp;
use tollgate_fleet_hub::KnownNode;
use tollgate_fleet_hub::{CommandError, Fleet};
use tollgate_fleet_proto::{Fault, Label};

/// The nodes of the streams. The fleet comes when the database is open, since that names the epoch.
#[derive(Debug, Default)]
pub(crate) struct FleetNodes(pub(crate) OnceLock<Fleet>);

impl Nodes for FleetNodes {
    fn nodes(&self) -> Vec<NodeState> {
        by_name(self.0.get().map(Fleet::nodes))
    }

    fn lagging(&self) -> Vec<NodeState> {
        by_name(self.0.get().map(Fleet::nodes_lagging))
    }

    fn nodes_of(&self, app: &str) -> Vec<NodeState> {
        by_name(self.0.get().map(|fleet| fleet.nodes_of(app)))
    }

    fn may_be_local(&self, domain: &str) -> bool {
        self.0.get().is_some_and(|fleet| fleet.has_local(domain))
    }

    fn in_force(&self, _: &Published, _: i64) -> InForce {
        let (have, live, offline) = self.0.get().map(Fleet::nodes_in_force).unwrap_or_default();
        InForce { have, live, offline }
    }

    fn remove(&self, id: &str) {
        if let Some(fleet) = self.0.get() {
            fleet.remove(id);
        }
    }

    fn below(&self, level: u32, _: i64) -> Vec<(String, u32)> {
        self.0.get().map(|fleet| fleet.nodes_below(level)).unwrap_or_default()
    }

    fn ahead(&self, app: &str, _: i64) -> Vec<u64> {
        self.0.get().map(|fleet| fleet.nodes_ahead(app)).unwrap_or_default()
    }

    fn missing(&self, ids: &BTreeSet<String>) -> usize {
        self.0.get().map_or(ids.len(), |fleet| fleet.nodes_missing(ids))
    }

    fn command<'a>(
        &'a self,
        node: &'a str,
        kind: &'static str,
        body: String,
        patience: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'a>> {
        Box::pin(async move {
            let fleet = self.0.get().ok_or_else(|| CommandError::Away.to_string())?;
            let reply = fleet.command(node, kind, body, patience).await.map_err(|error| error.to_string())?;
            if reply.error.is_empty() { Ok(reply.body) } else { Err(reply.error) }
        })
    }
}

fn by_name(nodes: Option<Vec<tollgate_fleet_hub::NodeState>>) -> Vec<NodeState> {
    let mut nodes: Vec<_> = nodes.unwrap_or_default().into_iter().map(state).collect();
    nodes.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
    nodes
}

fn state(node: tollgate_fleet_hub::NodeState) -> NodeState {
    let app = |app: tollgate_fleet_hub::AppState| NodeApp {
        app: app.app.to_string(),
        wanted: app.wanted.unwrap_or_default(),
        acked: app.acked.unwrap_or_default(),
        fault_version: app.fault.as_ref().map_or(0, |fault| fault.version),
        fault: app.fault.map(|fault| shown(&fault)),
        is_ahead: app.is_ahead,
    };
    NodeState {
        id: node.id,
        name: node.name,
        address: node.address,
        software: node.software,
        labels: node.labels.into_iter().map(|it| (it.key, it.value)).collect(),
        language: node.language,
        local_domains: node.local_domains,
        is_connected: node.connected,
        is_bound: node.is_bound,
        is_new: node.is_new,
        skew_ms: node.skew_ms,
        claim: node.claim.map(|it| (it.address, millis(it.at))),
        last_seen_ms: millis(node.last_seen),
        apps: node.apps.into_iter().map(app).collect(),
    }
}

/// A node of the database, as the hub takes it.
pub(crate) fn known(node: NodeState) -> KnownNode {
    let label = |(key, value)| Label { key, value };
    KnownNode {
        id: node.id,
        name: node.name,
        labels: node.labels.into_iter().map(label).collect(),
        address: node.address,
        software: node.software,
        language: node.language,
        local_domains: node.local_domains,
        last_seen: Timestamp::ZERO + Duration::from_millis(node.last_seen_ms.max(0).unsigned_abs()),
    }
}

fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanos() / 1_000_000).unwrap_or(i64::MAX)
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
