//! The nodes of the fleet, for pages, metrics and publications: the hub's answers at this time.

use std::collections::BTreeSet;

use tollgate_fleet_proto::published::Published;

use crate::counts::NodeCounts;
use crate::fleet::Fleet;
use crate::node_state::NodeState;

impl Fleet {
    /// Every known node, in the order of their ids.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeState> {
        let now = self.0.seams.clock.now();
        self.state().hub.nodes(now)
    }

    /// Numbers of nodes, for metrics.
    #[must_use]
    pub fn node_counts(&self) -> NodeCounts {
        let now = self.0.seams.clock.now();
        self.state().hub.node_counts(now)
    }

    /// As [`Fleet::nodes`], each with those apps only that are not as they should be.
    #[must_use]
    pub fn nodes_lagging(&self) -> Vec<NodeState> {
        let now = self.0.seams.clock.now();
        self.state().hub.nodes_lagging(now)
    }

    /// As [`Fleet::nodes`], each with the state of one app only.
    #[must_use]
    pub fn nodes_of(&self, app: &str) -> Vec<NodeState> {
        let now = self.0.seams.clock.now();
        self.state().hub.nodes_of(app, now)
    }

    /// Whether any known node has this domain from files of its own.
    #[must_use]
    pub fn has_local(&self, domain: &str) -> bool {
        self.state().hub.has_local(domain)
    }

    /// Versions of `app` on live nodes that are ahead of this database: see
    /// [`Hub::nodes_ahead`](crate::hub::Hub::nodes_ahead).
    #[must_use]
    pub fn nodes_ahead(&self, app: &str) -> Vec<u64> {
        let now = self.0.seams.clock.now();
        self.state().hub.nodes_ahead(app, now)
    }

    /// Number of `nodes` that are not connected.
    #[must_use]
    pub fn nodes_missing(&self, nodes: &BTreeSet<String>) -> usize {
        let state = self.state();
        nodes.iter().filter(|id| !state.hub.is_attached(id)).count()
    }

    /// Number of live nodes with the version of every app that all should have, of live nodes, and of other
    /// nodes.
    #[must_use]
    pub fn nodes_in_force(&self) -> (usize, usize, usize) {
        let now = self.0.seams.clock.now();
        self.state().hub.nodes_in_force(now)
    }

    /// Name and language of each live node that reads less than `level` of the rule language.
    #[must_use]
    pub fn nodes_below(&self, level: u32) -> Vec<(String, u32)> {
        let now = self.0.seams.clock.now();
        self.state().hub.nodes_below(level, now)
    }

    /// Number of nodes whose id is bound to a secret of their own.
    #[must_use]
    pub fn nodes_bound(&self) -> usize {
        self.state().hub.nodes_bound()
    }

    /// Number of known nodes.
    #[must_use]
    pub fn nodes_known(&self) -> usize {
        self.state().hub.nodes_known()
    }

    /// Number of nodes that are connected and have all of `published`, as far as they can; 0 while other
    /// rules are sent.
    #[must_use]
    pub fn nodes_with(&self, published: &Published) -> usize {
        self.state().hub.nodes_with(published)
    }

    /// Hellos that were deferred since too many nodes came at once.
    #[must_use]
    pub fn hellos_deferred(&self) -> u64 {
        self.state().hub.deferred()
    }

    /// Commands that wait for a reply.
    #[must_use]
    pub fn commands_waiting(&self) -> usize {
        let mut state = self.state();
        state.commands.retain(|_, (_, waiting)| !waiting.is_closed());
        state.commands.len()
    }
}
