//! Metrics of the control plane: a registry that every part adds its families to.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use tollgate_console::Console;
use tollgate_control::Control;
use tollgate_control::rollout::State;
use tollgate_fleet_hub::Fleet;
use tollgate_net::ConnectionStats;

use crate::family::Family;

/// Everything that `/metrics` shows.
#[derive(Debug, Default)]
pub(crate) struct PlaneMetrics {
    pub(crate) registry: Mutex<Registry>,
}

impl PlaneMetrics {
    /// Adds metric families, which every scrape collects.
    pub(crate) fn add(&self, families: impl Collector) {
        self.registry.lock().register_collector(Box::new(families));
    }
}

/// Metrics of nodes and of the rules published to them.
#[derive(Debug)]
pub(crate) struct FleetMetrics {
    pub(crate) fleet: Fleet,
    pub(crate) publications: Arc<AtomicU64>,
}

impl Collector for FleetMetrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut to;
        let nodes = self.fleet.node_counts();
        let by_state: BTreeMap<&str, u64> =
            [("live", nodes.live), ("unresponsive", nodes.unresponsive), ("lost", nodes.lost)].into();
        let help = "Known nodes, by whether they report";
        Family::gauge("tollgate_control_nodes", help).write_by(to, "state", by_state)?;
        let gauges = [
            ("tollgate_control_node_streams", "Nodes whose stream is open", nodes.streams),
            ("tollgate_control_nodes_rejecting", "Nodes that rejected a version of an app", nodes.rejecting),
            (
                "tollgate_control_nodes_behind",
                "Nodes without the version of an app that they should have",
                nodes.behind,
            ),
        ];
        Family::gauges(to, gauges)?;
        let counters = [
            (
                "tollgate_control_publications",
                "Changes of what is published to nodes since the start",
                self.publications.load(Relaxed),
            ),
            (
                "tollgate_control_hellos_deferred",
                "Nodes that were sent away for a while because too many came at once",
                self.fleet.hellos_deferred(),
            ),
        ];
        Family::counters(to, counters)
    }
}

/// The consoles of all ports.
pub(crate) type Consoles = Mutex<Vec<Arc<Console>>>;

/// Everything that has a cap.
#[derive(Debug)]
pub(crate) struct LoadMetrics {
    pub(crate) control: Arc<Control>,
    pub(crate) consoles: Arc<Consoles>,
    pub(crate) fleet: Fleet,
}

impl Collector for LoadMetrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut to;
        let load = self.control.load();
        let gauges = [
            ("tollgate_control_apps", "Apps", load.apps as u64),
            ("tollgate_control_overrides", "Blocks and allowances in force", load.overrides as u64),
            (
                "tollgate_control_reports_waiting",
                "Reports of nodes that wait to be stored",
                load.reports_waiting as u64,
            ),
            (
                "tollgate_control_event_readers",
                "Programs and pages that wait for events",
                self.consoles.lock().iter().map(|it| it.event_readers() as u64).sum(),
            ),
            (
                "tollgate_control_commands_waiting",
                "Commands to nodes that wait for a reply",
                self.fleet.commands_waiting() as u64,
            ),
            ("tollgate_control_attempts_remembered", "Windows of login attempts", load.attempts as u64),
            (
                "tollgate_control_history_rules",
                "Rules with rows of history in this hour",
                load.counted.history_rules,
            ),
            (
                "tollgate_control_history_domains",
                "Domains with rows of history in this hour",
                load.counted.history_domains,
            ),
            (
                "tollgate_control_rules_of_largest_app",
                "Rules of the app that has most",
                load.counted.most_rules,
            ),
            ("tollgate_control_audit_entries", "Number of the last entry of the audit", load.audit_entries),
            (
                "tollgate_control_nodes_bound",
                "Nodes whose id is bound to a secret of their own",
                self.fleet.nodes_bound() as u64,
            ),
        ];
        Family::gauges(to, gauges)?;
        let open = self.control.open_rollouts();
        let open = State::ALL
            .into_iter()
            .filter(|state| state.is_open())
            .map(|state| (state.name(), open.get(&state).copied().unwrap_or_default()));
        Family::gauge("tollgate_control_rollouts", "Open rollouts, by their state")
            .write_by(to, "state", open)?;
        let waiting = [("read", load.reads_waiting as u64), ("write", load.writes_waiting as u64)];
        Family::gauge("tollgate_control_transactions_waiting", "Transactions that wait for the database")
            .write_by(to, "kind", waiting)?;
        if let Some(free) = load.disk_free {
            Family::gauge("tollgate_control_disk_free_bytes", "Free bytes of the disk with the data")
                .write(to, free)?;
        }
        let counters = [
            (
                "tollgate_control_history_left_out",
                "Counts of rules that got no row of their own, since a cap is reached",
                load.history_left_out,
            ),
            (
                "tollgate_control_audit_rejections_left_out",
                "Rejected changes and nodes that are not in the audit, since too many came in a minute",
                load.rejections_left_out,
            ),
        ];
        Family::counters(to, counters)
    }
}

/// Connections of the port.
#[derive(Debug)]
pub(crate) struct PortMetrics(pub(crate) Arc<ConnectionStats>);

impl Collector for PortMetrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = &self.0;
        let to = &mut to;
        Family::gauge("tollgate_control_connections", "Open connections of browsers, programs and nodes")
            .write(to, stats.open())?;
        let counters = [
            ("tollgate_control_connections_accepted", "Connections accepted", stats.accepted.get()),
            (
                "tollgate_control_connections_refused",
                "Connections closed at once because there were too many",
                stats.rejected.get(),
            ),
            (
                "tollgate_control_tls_handshakes_failed",
                "Connections that ended in the TLS handshake",
                stats.tls_failed.get(),
            ),
        ];
        Family::counters(to, counters)
    }
}
