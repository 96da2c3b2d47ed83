//! The nodes of the hub, for pages, metrics and publications. Changes nothing.

use tollgate_core::Timestamp;
use tollgate_fleet_proto::published::{AppDocuments, Published};

use crate::counts::NodeCounts;
use crate::hub::Hub;
use crate::node::NodeRecord;
use crate::node_state::{Liveness, NodeState};

impl Hub {
    /// Every known node, in the order of their ids.
    #[must_use]
    pub fn nodes(&self, now: Timestamp) -> Vec<NodeState> {
        let missing = self.settings.missing_apps;
        self.nodes_by(|node| node.state(&self.published, missing, self.liveness(node, now)))
    }

    /// As [`Hub::nodes`], each with those apps only whose version it lacks, has rejected or is ahead of: most
    /// have none.
    #[must_use]
    pub fn nodes_lagging(&self, now: Timestamp) -> Vec<NodeState> {
        let missing = self.settings.missing_apps;
        let published = &*self.published;
        let publication = self.publication;
        self.nodes_by(|node| node.state_lagging(published, publication, missing, self.liveness(node, now)))
    }

    fn nodes_by(&self, state: impl Fn(&NodeRecord) -> NodeState) -> Vec<NodeState> {
        let state = |(id, node): (&String, &NodeRecord)| {
            let mut state = self.with_standing(id, node, state(node));
            state.claim = self.bindings.claim(id).cloned();
            state
        };
        self.nodes.iter().map(state).collect()
    }

    fn with_standing(&self, id: &str, node: &NodeRecord, mut state: NodeState) -> NodeState {
        let standing = self.bindings.standing(id);
        state.is_bound = standing.is_some();
        state.is_new = node.is_new(standing, &state.apps);
        state
    }

    /// As [`Hub::nodes`], each with the state of one app only: a step for each node, not for each app of it.
    #[must_use]
    pub fn nodes_of(&self, app: &str, now: Timestamp) -> Vec<NodeState> {
        let missing = self.settings.missing_apps;
        let state = |(id, node): (&String, &NodeRecord)| {
            let state = node.state_of(app, &self.published, missing, self.liveness(node, now));
            self.with_standing(id, node, state)
        };
        self.nodes.iter().map(state).collect()
    }

    /// Whether any known node has this domain from files of its own. A step for each node, without a copy.
    #[must_use]
    pub fn has_local(&self, domain: &str) -> bool {
        self.nodes.values().any(|node| node.has_local(domain))
    }

    /// The versions of `app` on nodes that are live and connected and hold what this database has never
    /// published of it. A step for each node.
    #[must_use]
    pub fn nodes_ahead(&self, app: &str, now: Timestamp) -> Vec<u64> {
        let missing = self.settings.missing_apps;
        let is_live =
            |node: &&NodeRecord| node.session.is_some() && self.liveness(node, now) == Liveness::Live;
        let stable = self.published.apps.get(app).and_then(|it| it.stable.as_deref());
        // Each publication asks, and nearly all nodes hold the version of all: no state is made for them.
        let is_as_all = |node: &NodeRecord| stable.is_some_and(|stable| node.holds_exactly(app, stable));
        let states = self.nodes.values().filter(is_live).filter(|node| !is_as_all(node));
        let states = states.filter_map(|node| node.app_state_of(app, &self.published, missing));
        states.filter(|it| it.is_ahead).map(|it| it.acked.unwrap_or_default()).collect()
    }

    /// Numbers of nodes, for metrics. A step for each app of each node, without a copy.
    #[must_use]
    pub fn node_counts(&self, now: Timestamp) -> NodeCounts {
        let mut counts = NodeCounts::default();
        for node in self.nodes.values() {
            counts.add(self.liveness(node, now), node.session.is_some(), node.shortfall(&self.published));
        }
        counts
    }

    /// Whether a node with this id is connected and has said which versions it holds.
    #[must_use]
    pub fn is_attached(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|node| node.session.is_some())
    }

    /// Number of live nodes with the version of every app that all should have, of live nodes, and of other
    /// nodes.
    #[must_use]
    pub fn nodes_in_force(&self, now: Timestamp) -> (usize, usize, usize) {
        let live = self.nodes.values().filter(|node| self.liveness(node, now) == Liveness::Live);
        let has_all = |node: &NodeRecord| node.is_in_order(self.publication) || node.has_all(&self.published);
        let (have, live) =
            live.fold((0, 0), |(have, live), node| (have + usize::from(has_all(node)), live + 1));
        (have, live, self.nodes.len() - live)
    }

    /// Name and language of each node that is live and reads less than `level` of the rule language; not of
    /// those that have yet to show that they take rules, unless no node has. Takes a step for each node,
    /// unlike [`Hub::nodes`].
    #[must_use]
    pub fn nodes_below(&self, level: u32, now: Timestamp) -> Vec<(String, u32)> {
        let old = self.nodes.iter().filter(|(_, node)| node.language() < level);
        let live: Vec<_> = old.filter(|(_, node)| self.liveness(node, now) == Liveness::Live).collect();
        if live.is_empty() {
            return Vec::new(); // as a rule
        }
        let counts = |id: &str, node: &NodeRecord| !node.is_new(self.bindings.standing(id), &[]);
        let any = self
            .nodes
            .iter()
            .any(|(id, node)| counts(id, node) && self.liveness(node, now) == Liveness::Live);
        let old = live.into_iter().filter(|(id, node)| !any || counts(id, node));
        old.map(|(_, node)| (node.hello().name.clone(), node.language())).collect()
    }

    /// Number of nodes whose id is bound to a secret of their own.
    #[must_use]
    pub fn nodes_bound(&self) -> usize {
        self.bindings.len()
    }

    /// Number of known nodes.
    #[must_use]
    pub fn nodes_known(&self) -> usize {
        self.nodes.len()
    }

    /// Number of nodes that are connected and have all of `published`, as far as they can; 0 while other
    /// rules are sent. Takes a step for each node and each app, unlike [`Hub::nodes`].
    #[must_use]
    pub fn nodes_with(&self, published: &Published) -> usize {
        let sent =
            |it: &AppDocuments| self.published.apps.get(&*it.app).is_some_and(|wanted| wanted.is_of(it));
        if published.apps.len() != self.published.apps.len() || !published.apps.iter().all(sent) {
            return 0;
        }
        self.nodes.values().filter(|node| node.is_settled()).count()
    }
}
