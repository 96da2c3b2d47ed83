//! The last reports of nodes, in memory: for pages that show where a version is in force.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::Pin;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_shares::machine;

use crate::published::Published;

/// Nodes that are remembered; further ones are not shown.
const MAX_NODES: usize = 5_000;

/// A node that has not reported for this long is unresponsive.
pub(crate) const UNRESPONSIVE_MS: i64 = 15_000;
/// A node that has not reported for this long is lost.
const LOST_MS: i64 = 60_000;

/// The last report of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Kept in its state folder.
    pub id: String,
    pub name: String,
    /// Where it connects from.
    pub address: String,
    /// Version of its software.
    pub software: String,
    /// As key and value.
    pub labels: Vec<(String, String)>,
    /// The highest level of the rule language that it reads.
    pub language: u32,
    /// Domains that it has from files of its own.
    pub local_domains: Vec<String>,
    /// Whether its stream is open.
    pub is_connected: bool,
    /// Its clock less this one's, at its last report.
    pub skew_ms: i64,
    /// Milliseconds UTC by the control plane's clock.
    pub last_seen_ms: i64,
    /// Somebody else has tried to attach with its id: where from, and when last.
    pub claim: Option<(String, i64)>,
    /// Its id is bound to a secret of its own.
    pub is_bound: bool,
    /// It has yet to show that it takes rules and reports, or it claims to hold what was never published. It
    /// counts for no majority while there are others.
    pub is_new: bool,
    /// Sorted by name.
    pub apps: Vec<NodeApp>,
}

/// An app on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeApp {
    pub app: String,
    /// The version that was sent.
    pub wanted: u64,
    /// The version in force.
    pub acked: u64,
    /// Why the wanted version is not in force.
    pub fault: Option<String>,
    /// The version that has the fault.
    pub fault_version: u64,
    /// It holds what this database has never published: a newer version, or another one of the same number.
    pub is_ahead: bool,
}

/// Whether a node reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Seen less than 15 seconds ago.
    Live,
    /// Not seen for 15 seconds: three reports are missing.
    Unresponsive,
    /// Not seen for a minute: probably gone.
    Lost,
}

impl Health {
    /// Its name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Unresponsive => "unresponsive",
            Self::Lost => "lost",
        }
    }
}

impl NodeState {
    /// Whether it reports, or for how long it has not.
    #[must_use]
    pub const fn health(&self, now_ms: i64) -> Health {
        match now_ms.saturating_sub(self.last_seen_ms) {
            LOST_MS.. => Health::Lost,
            UNRESPONSIVE_MS.. => Health::Unresponsive,
            _ => Health::Live,
        }
    }

    /// Whether it reports.
    #[must_use]
    pub const fn is_live(&self, now_ms: i64) -> bool {
        matches!(self.health(now_ms), Health::Live)
    }

    /// Whether `version` of `app`, or a later one, is in force.
    #[must_use]
    pub fn has(&self, app: &str, version: u64) -> bool {
        self.apps.iter().any(|it| it.app == app && it.acked >= version && !it.is_ahead)
    }
}

/// The nodes that count where nodes decide something: of those that `may`, the ones that have shown that they
/// take rules and report; all of them while none has. Whoever has the token of all nodes attaches as many as
/// there are ids.
pub(crate) fn voters(nodes: &[NodeState], may: impl Fn(&NodeState) -> bool) -> Vec<&NodeState> {
    let all: Vec<_> = nodes.iter().filter(|it| may(it)).collect();
    match all.iter().any(|it| !it.is_new) {
        true => all.into_iter().filter(|it| !it.is_new).collect(),
        false => all,
    }
}

/// Whether it `is` so of most `voters`. Those at one address count at most as much as all others together, if
/// there are others: one machine can be as many nodes as it likes.
pub(crate) fn is_majority(voters: &[&NodeState], is: impl Fn(&&NodeState) -> bool) -> bool {
    let mut machines: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for voter in voters {
        let (yes, all) = machines.entry(machine(&voter.address)).or_default();
        (*yes, *all) = (*yes + u64::from(is(voter)), *all + 1);
    }
    let (yes, all) = machines.values().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    match machines.values().max_by_key(|it| it.1) {
        Some((yes_there, there)) if *there < all && *there > all - there => {
            let others = all - there;
            // yes_there / there * others + the yes of others, of 2 * others
            yes_there * others + (yes - yes_there) * there > others * there
        }
        _ => yes * 2 > all,
    }
}

/// Number of nodes that have something in force. One that is not live may hold anything, so it counts as
/// offline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    /// Live nodes that have it.
    pub have: usize,
    pub live: usize,
    /// Nodes that are unresponsive or lost, and were not removed.
    pub offline: usize,
}

impl InForce {
    /// Counts those that satisfy `has`.
    pub fn of(nodes: &[NodeState], now_ms: i64, has: impl Fn(&NodeState) -> bool) -> Self {
        let mut found = Self::default();
        for node in nodes {
            if node.is_live(now_ms) {
                found.live += 1;
                found.have += usize::from(has(node));
            } else {
                found.offline += 1;
            }
        }
        found
    }

    /// Whether every known node has it.
    #[must_use]
    pub const fn is_everywhere(&self) -> bool {
        self.have == self.live && self.offline == 0
    }
}

/// Where the state of nodes comes from.
pub trait Nodes: Send + Sync {
    /// Every known node, by name.
    fn nodes(&self) -> Vec<NodeState>;

    /// As [`nodes`](Self::nodes), each with those apps only whose version it lacks, has rejected or is ahead
    /// of: 1,000 nodes with 100 apps are 100,000 states, nearly all of them as they should be.
    fn lagging(&self) -> Vec<NodeState> {
        let mut nodes = self.nodes();
        let is_shown = |it: &NodeApp| it.is_ahead || it.fault.is_some() || it.acked < it.wanted;
        nodes.iter_mut().for_each(|node| node.apps.retain(is_shown));
        nodes
    }

    /// As [`nodes`](Self::nodes), each with the state of one app only; without claims of its id.
    fn nodes_of(&self, app: &str) -> Vec<NodeState> {
        let mut nodes = self.nodes();
        nodes.iter_mut().for_each(|node| node.apps.retain(|it| it.app == app));
        nodes
    }

    /// Whether most nodes, live or not, have this domain from files of their own. One node alone takes no
    /// app's domain away from its editors.
    fn is_local(&self, domain: &str) -> bool {
        if !self.may_be_local(domain) {
            return false;
        }
        let nodes = self.nodes_of("");
        let has = |node: &&NodeState| node.local_domains.iter().any(|local| local == domain);
        is_majority(&voters(&nodes, |_| true), has)
    }

    /// Whether any node may have this domain from files of its own. Nearly never one has, and each request
    /// asks several times for its rights: so no node is copied to find out.
    fn may_be_local(&self, domain: &str) -> bool {
        let _ = domain;
        true
    }

    /// Number of nodes that have every version of `published`, or a later one.
    fn in_force(&self, published: &Published, now_ms: i64) -> InForce {
        let versions: HashMap<&str, u64> = published.apps.iter().map(|it| (&*it.app, it.version)).collect();
        let has = |it: &&NodeApp| versions.get(&*it.app).is_some_and(|version| it.acked >= *version);
        InForce::of(&self.nodes(), now_ms, |node| node.apps.iter().filter(has).count() == versions.len())
    }

    /// Forgets a node, and closes its stream if it has one.
    fn remove(&self, id: &str) {
        let _ = id;
    }

    /// The versions of `app` on nodes that are live and connected and hold what this database has never
    /// published of it. It is asked for within the transaction of each publication.
    fn ahead(&self, app: &str, now_ms: i64) -> Vec<u64> {
        let nodes = self.nodes_of(app);
        let live = nodes.iter().filter(|it| it.is_live(now_ms) && it.is_connected);
        let apps = live.flat_map(|it| &it.apps).filter(|it| it.app == app && it.is_ahead);
        apps.map(|it| it.acked).collect()
    }

    /// Number of these nodes that are not connected.
    fn missing(&self, ids: &BTreeSet<String>) -> usize {
        let connected: BTreeSet<_> =
            self.nodes().into_iter().filter(|it| it.is_connected).map(|it| it.id).collect();
        ids.difference(&connected).count()
    }

    /// Name and language of each live node that reads less than `level` of the rule language. It is asked for
    /// within the transaction of each publication.
    fn below(&self, level: u32, now_ms: i64) -> Vec<(String, u32)> {
        let live = self.nodes().into_iter().filter(|node| node.is_live(now_ms));
        // Nodes older than levels read level 1.
        live.map(|node| (node.name, node.language.max(1))).filter(|it| it.1 < level).collect()
    }

    /// Has a node carry out a command of the stream, whose body and answer are JSON. The error says why there
    /// is no answer; the node may have carried it out all the same.
    fn command<'a>(
        &'a self,
        node: &'a str,
        kind: &'static str,
        body: String,
        patience: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'a>> {
        let _ = (node, kind, body, patience);
        Box::pin(async { Err("the node is not connected".to_owned()) })
    }

    /// The state of a rule's bucket; `None` until a node reports it.
    fn usage(&self, app: &str, key: &str) -> Option<Usage> {
        let _ = (app, key);
        None
    }
}

/// A rule's bucket, as nodes reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Permits that are available; negative when overdrawn.
    pub tokens: i64,
    /// When permits were taken last, in milliseconds UTC.
    pub last_used_ms: i64,
}

/// Nodes that something reports to it.
#[derive(Debug, Default)]
pub struct KnownNodes(Mutex<BTreeMap<String, NodeState>>);

impl KnownNodes {
    /// Remembers what a node said. Returns whether there was room.
    pub fn report(&self, node: NodeState) -> bool {
        let mut nodes = self.0.lock();
        if nodes.len() >= MAX_NODES && !nodes.contains_key(&node.id) {
            return false;
        }
        nodes.insert(node.id.clone(), node);
        true
    }

    /// Forgets a node.
    pub fn forget(&self, id: &str) {
        self.0.lock().remove(id);
    }
}

impl Nodes for KnownNodes {
    fn remove(&self, id: &str) {
        self.forget(id);
    }

    fn nodes(&self) -> Vec<NodeState> {
        let mut nodes: Vec<_> = self.0.lock().values().cloned().collect();
        nodes.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_unresponsive_after_15_seconds_and_lost_after_a_minute() {
        let node = NodeState { last_seen_ms: 1_000_000, ..NodeState::default() };
        for (after_ms, health) in [
            (-5_000, Health::Live), // the clock stepped back
            (0, Health::Live),
            (14_999, Health::Live),
            (15_000, Health::Unresponsive),
            (59_999, Health::Unresponsive),
            (60_000, Health::Lost),
            (i64::MAX - 1_000_000, Health::Lost),
        ] {
            assert_eq!(node.health(1_000_000 + after_ms), health, "{after_ms} ms after its last report");
            assert_eq!(node.is_live(1_000_000 + after_ms), health == Health::Live);
        }
    }

    #[test]
    fn one_machine_is_no_majority_whatever_number_of_nodes_it_is() {
        let node = |address: &str, language| NodeState {
            address: format!("{address}:5"),
            language,
            ..NodeState::default()
        };
        for (nodes, is) in [
            (&[("a", 1), ("a", 1), ("a", 0)][..], true), // all on one machine, as where one tries it out
            (&[("a", 1), ("a", 0)], false),
            (&[("a", 1), ("b", 1), ("c", 0)], true),
            (&[("a", 1), ("b", 0), ("c", 0)], false),
            (&[("a", 1), ("a", 1), ("b", 0)], false),
            (&[("a", 1), ("a", 1), ("a", 1), ("a", 1), ("b", 0)], false),
            (&[("a", 1), ("a", 1), ("a", 1), ("a", 1), ("b", 0), ("c", 1)], true),
            (&[("a", 1), ("a", 1), ("a", 1), ("a", 0), ("b", 0), ("c", 1)], true),
            (&[("a", 1), ("a", 1), ("a", 0), ("a", 0), ("b", 0), ("c", 1)], false),
            (&[], false),
        ] {
            let nodes: Vec<_> = nodes.iter().map(|(address, yes)| node(address, *yes)).collect();
            let voters: Vec<&NodeState> = nodes.iter().collect();
            assert_eq!(is_majority(&voters, |it| it.language == 1), is, "{nodes:?}");
        }
        let many = |count| vec![node("a", 1); count];
        let nodes: Vec<_> = many(1_000).into_iter().chain([node("b", 0), node("c", 0)]).collect();
        assert!(!is_majority(&nodes.iter().collect::<Vec<_>>(), |it| it.language == 1));
    }

    #[test]
    fn nodes_that_have_shown_nothing_count_only_while_there_are_no_others() {
        let node = |id: &str, is_new| NodeState { id: id.to_owned(), is_new, ..NodeState::default() };
        let ids = |nodes: &[NodeState]| {
            voters(nodes, |it| it.id != "away").iter().map(|it| it.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&[node("a", true), node("b", true)]), ["a", "b"]);
        assert_eq!(ids(&[node("a", true), node("b", false), node("away", false)]), ["b"]);
        assert_eq!(ids(&[node("a", true), node("away", false)]), ["a"]);
    }
}
