//! The agent that runs, as the rest of the node sees it. Not here: how it starts (`node_control`).

use std::fs::File;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use tokio::sync::{oneshot, watch};
use tollgate_fleet_agent::Status;
use tollgate_http_api::ControlView;

use super::local_files::LocalFiles;
use super::metrics::ControlMetrics;

/// The running agent of a node with a control plane. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Controlled {
    pub(super) status: watch::Receiver<Status>,
    /// The node's own rule files, if there are any.
    pub(super) local: Option<LocalFiles>,
    /// Name of the control plane on the start screen and in the log.
    pub(super) name: String,
    pub(super) _stop: oneshot::Sender<()>,
    pub(super) _lock: File,
}

impl Controlled {
    /// Has the rule files read again.
    pub(crate) fn reload(&self) {
        if let Some(local) = &self.local {
            local.reload();
        }
    }

    /// Why the node's own rule files are not in force.
    pub(crate) fn last_error(&self) -> Option<Arc<str>> {
        self.local.as_ref().and_then(LocalFiles::error)
    }

    /// Status of the agent, and each change of it.
    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// State of the control plane, for readiness.
    pub(crate) fn view(&self) -> ControlView {
        let status = self.status.borrow();
        ControlView {
            connected: status.connected,
            away_since: status.away_since.filter(|_| !status.connected),
            why: status.error.clone(),
            apps: status.apps,
        }
    }

    /// Metrics of the agent.
    pub(crate) fn metrics(&self) -> Box<dyn Collector> {
        Box::new(ControlMetrics(self.status.clone()))
    }

    /// Line for the start screen.
    pub(crate) fn banner(&self) -> String {
        let status = self.status.borrow();
        let state = match (status.connected, &status.error) {
            (true, _) => "connected".to_owned(),
            (false, Some(error)) => format!("away, retrying: {error}"),
            (false, None) => "not connected yet, retrying".to_owned(),
        };
        format!("{}, {state}", self.name)
    }
}
