//! Settings of the hub, and the nodes that it knows when it starts.

use std::collections::HashMap;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_fleet_proto::{Hello, Label, Sha256Bytes};
use tollgate_mistakes::Mistakes;

use crate::missing_apps::MissingApps;
use crate::mistake::Mistake;
use crate::node::{Database, NodeRecord};
use crate::past::Past;

/// Bounds and intervals.
#[derive(Clone, Debug)]
pub struct HubSettings {
    /// Names the database; versions of different epochs do not compare.
    pub epoch: String,
    /// Names this replica.
    pub replica: String,
    /// Interval of the nodes' reports.
    pub report_every: Duration,
    /// Most hellos per second of known nodes, and as many of others; the rest is sent away for a while.
    pub hellos_per_second: u32,
    /// Most nodes; a lost one gives its place to a new one.
    pub max_nodes: usize,
    /// A node is unresponsive after this silence.
    pub unresponsive_after: Duration,
    /// A node is lost after this silence.
    pub lost_after: Duration,
    /// Treatment of apps that nodes hold and that are not published.
    pub missing_apps: MissingApps,
    /// Digests of the secrets of nodes that have attached before, by id.
    pub bindings: HashMap<String, Sha256Bytes>,
    /// Versions that the database has published so far.
    pub past: Past,
    /// Nodes that have attached before, and were not removed.
    pub known: Vec<KnownNode>,
    /// The level of the rule language that a document needs.
    pub level: fn(&str) -> u32,
    /// The mistake that the simulation must find.
    pub mistakes: Mistakes<Mistake>,
}

impl HubSettings {
    /// Reports every 5 s, 200 hellos per second, 10,000 nodes, unresponsive after 15 s, lost after 60 s.
    #[must_use]
    pub fn new(epoch: impl Into<String>, replica: impl Into<String>) -> Self {
        Self {
            epoch: epoch.into(),
            replica: replica.into(),
            report_every: Duration::from_secs(5),
            hellos_per_second: 200,
            max_nodes: 10_000,
            unresponsive_after: Duration::from_secs(15),
            lost_after: Duration::from_secs(60),
            missing_apps: MissingApps::Removed,
            bindings: HashMap::new(),
            past: Past::default(),
            known: Vec::new(),
            level: |_| 1,
            mistakes: Mistakes::none(),
        }
    }
}

/// A node that has attached before. The versions that it holds are known when it attaches again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownNode {
    /// Its id, from its state folder.
    pub id: String,
    /// Name for people.
    pub name: String,
    pub labels: Vec<Label>,
    /// Address of its last stream.
    pub address: String,
    /// Such as `tollgate 0.1.0`.
    pub software: String,
    /// Highest language level of rules that it reads.
    pub language: u32,
    /// Domains of its own rule files.
    pub local_domains: Vec<String>,
    /// When its last message came.
    pub last_seen: Timestamp,
}

impl KnownNode {
    pub(super) fn node(self, missing_apps: MissingApps) -> NodeRecord {
        let hello = Hello {
            node: self.id,
            name: self.name,
            labels: self.labels,
            software: self.software,
            language: self.language,
            local_domains: self.local_domains,
            ..Hello::default()
        };
        let database = Database { epoch: "", missing_apps, past: &Past::default() };
        NodeRecord::new(hello, database, self.address, self.last_seen)
    }
}
