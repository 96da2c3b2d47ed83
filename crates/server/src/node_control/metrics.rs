//! Metrics of the stream to the control plane.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::watch;
use tollgate_fleet_agent::Status;

use crate::family::Family;

/// Metrics of the agent's status.
#[derive(Debug)]
pub(super) struct ControlMetrics(pub(super) watch::Receiver<Status>);

impl Collector for ControlMetrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let (connected, apps) = {
            let status = self.0.borrow();
            (u64::from(status.connected), status.apps as u64)
        };
        let gauges = [
            (
                "tollgate_control_connected",
                "Whether the stream to the control plane is open: 1 or 0",
                connected,
            ),
            ("tollgate_control_apps", "Apps of the control plane whose rules are in force", apps),
        ];
        Family::gauges(&mut to, gauges)
    }
}
