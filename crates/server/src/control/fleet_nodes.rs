//! What nodes said, as services and pages ask for it.

use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use tollgate_control::{NodeApp, NodeState, Nodes};
use tollgate_fleet_hub::{CommandError, Fleet};
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
        skew_ms: node.skew_ms,
        last_seen_ms: i64::try_from(node.last_seen.as_nanos() / 1_000_000).unwrap_or(i64::MAX),
        apps: node.apps.into_iter().map(app).collect(),
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
