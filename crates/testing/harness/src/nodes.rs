//! Nodes as the control plane knows them: they connect, take what they should have, and report.

use std::sync::atomic::Ordering::Relaxed;

use tollgate_control::history::IngestError;
use tollgate_control::{AppDocuments, NodeApp, NodeState, Nodes as _};
use tollgate_fleet_proto::Report;

use crate::ControlPlane;

/// A node that has just connected, and holds nothing.
#[must_use]
pub fn live_node(id: &str, now_ms: i64) -> NodeState {
    NodeState {
        id: id.to_owned(),
        name: id.to_owned(),
        is_connected: true,
        last_seen_ms: now_ms,
        ..NodeState::default()
    }
}

/// An app on a node: the version that it should have, and the one that it has.
#[must_use]
pub fn held(app: &str, wanted: u64, acked: u64) -> NodeApp {
    NodeApp { app: app.to_owned(), wanted, acked, ..NodeApp::default() }
}

impl ControlPlane {
    /// A node connects.
    pub fn connect(&self, id: &str) {
        assert!(self.nodes.report(live_node(id, self.now_ms())), "there is room for {id}");
    }

    #[must_use]
    pub fn node_ids(&self) -> Vec<String> {
        self.nodes.nodes().into_iter().map(|it| it.id).collect()
    }

    /// The last state that a node reported.
    #[must_use]
    pub fn node(&self, id: &str) -> NodeState {
        self.nodes.nodes().into_iter().find(|it| it.id == id).expect("a node of this id")
    }

    /// A node says something else than before.
    pub fn change_node(&self, id: &str, change: impl FnOnce(&mut NodeState)) {
        let mut node = self.node(id);
        change(&mut node);
        self.nodes.report(node);
    }

    /// The published versions of an app.
    #[must_use]
    pub fn published_app(&self, app: &str) -> AppDocuments {
        let published = self.published();
        let published = published.borrow();
        published.apps.iter().find(|it| it.app == app).expect("a published app").clone()
    }

    /// The version of an app that a node should have.
    #[must_use]
    pub fn wanted(&self, node: &str, app: &str) -> u64 {
        let app = self.published_app(app);
        let candidate = app.candidate.as_ref().filter(|it| it.reach.includes(node, []));
        candidate.map_or(app.version, |it| it.version)
    }

    /// The version of its only app that a node has; 0 for none.
    #[must_use]
    pub fn acknowledged(&self, node: &str) -> u64 {
        self.node(node).apps.first().map_or(0, |it| it.acked)
    }

    /// Every connected node takes the version of an app that it should have. Versions only grow.
    pub fn acknowledge(&self, app: &str) {
        for node in self.nodes.nodes().into_iter().filter(|it| it.is_connected) {
            let wanted = self.wanted(&node.id, app);
            let acked = self.acknowledged(&node.id);
            assert!(acked <= wanted, "version {acked} of {} would go down to {wanted}", node.id);
            let apps = vec![held(app, wanted, wanted)];
            self.nodes.report(NodeState { apps, last_seen_ms: self.now_ms(), ..node });
        }
    }

    /// A report arrives now, and is written.
    ///
    /// # Errors
    /// As [`tollgate_control::Control::store_report`].
    pub async fn store(&self, node: &str, incarnation: u64, report: Report) -> Result<(), IngestError> {
        let stored = self.store_report(node, incarnation, report, self.now_ms());
        let (stored, written) = tokio::join!(stored, self.write_reports());
        written.expect("reports are written");
        stored
    }

    /// As [`ControlPlane::store`], with the next number of all reports. Returns the report as it was sent.
    pub async fn report(&self, node: &str, report: Report) -> Report {
        let sequence = self.last_report.fetch_add(1, Relaxed) + 1;
        let report = Report { sequence, ..report };
        self.store(node, 1, report.clone()).await.expect("stored");
        report
    }
}
