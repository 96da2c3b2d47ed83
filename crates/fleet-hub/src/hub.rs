//! The control plane's end of the protocol: events in, actions out. No I/O, no clock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_core::Timestamp;
use tollgate_fleet_proto::published::{AppDocuments, Published};
use tollgate_fleet_proto::{
    Command, ControlSays, FromControl, FromNode, GoAway, Hello, MAX_APPS, MAX_LABELS, MAX_REPORT_ROWS,
    MAX_TEXT_BYTES, Overrides, Reply, Report, Seen, Sha256Bytes, Welcome,
};

use crate::bindings::{Bindings, Verdict};
use crate::bugs::Bugs;
use crate::bundle::Outgoing;
use crate::node::{Liveness, MissingApps, Node, NodeState};
use crate::published::Prepared;
use crate::session::SessionId;
use crate::storm::Storm;

/// A stream must say hello within this time.
const LONGEST_HELLO: Duration = Duration::from_secs(10);
/// The longest name of a rule or key in a report, in bytes.
const LONGEST_KEY: usize = 8 << 10;

/// Bounds and intervals.
#[derive(Clone, Debug)]
pub struct HubSettings {
    /// Names the database; versions of different epochs do not compare.
    pub epoch: String,
    /// Names this replica.
    pub replica: String,
    /// How often nodes report.
    pub report_every: Duration,
    /// Most hellos per second; other nodes are sent away for a while.
    pub hellos_per_second: u32,
    /// Most nodes; a lost one gives its place to a new one.
    pub max_nodes: usize,
    /// A node is unresponsive after this silence.
    pub unresponsive_after: Duration,
    /// A node is lost after this silence.
    pub lost_after: Duration,
    /// What becomes of apps that nodes hold and that are not published.
    pub missing_apps: MissingApps,
    /// Digests of the secrets of nodes that have attached before, by id.
    pub bindings: HashMap<String, Sha256Bytes>,
    /// The level of the rule language that a document needs.
    pub level: fn(&str) -> u32,
    /// The bug that the simulation must find.
    #[cfg(feature = "known-bugs")]
    pub bug: Option<crate::bugs::KnownBug>,
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
            level: |_| 1,
            #[cfg(feature = "known-bugs")]
            bug: None,
        }
    }
}

/// What happened.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "events are handled one by one and not kept")]
pub enum Event {
    /// A stream was opened from this address, and its token is good.
    Opened(SessionId, String),
    /// A stream is closed.
    Closed(SessionId),
    /// A message came.
    Said(SessionId, FromNode),
    /// A report is in the database.
    Stored(SessionId, u64),
    /// A report could not be stored.
    NotStored(SessionId),
    /// What is published has changed.
    Published(Arc<Prepared>),
    /// Blocks and allowances have changed.
    Overridden(Arc<Overrides>),
    /// Nothing but time; due every second.
    Tick,
}

/// What to do.
#[derive(Debug)]
pub enum Action {
    /// Send.
    Send(SessionId, Outgoing),
    /// Close the stream after everything was sent.
    Close(SessionId, String),
    /// Store a report, unless a report of this number or a higher one of this incarnation is stored.
    Store {
        /// The stream to confirm on.
        session: SessionId,
        /// Id of the node.
        node: String,
        /// Number of the node's start.
        incarnation: u64,
        /// The report.
        report: Box<Report>,
    },
    /// A node has answered a command.
    Replied {
        /// Id of the node that answers; a command may have been sent to another one.
        node: String,
        /// The answer.
        reply: Reply,
    },
    /// A node has a secret of its own from now on: keep its digest.
    Bind {
        /// Id of the node.
        node: String,
        /// Digest of its secret.
        sha256: Sha256Bytes,
    },
    /// Somebody has tried to attach as a node, with another secret than that node has.
    Claimed {
        /// Id of the node.
        node: String,
        /// Where from.
        address: String,
    },
}

#[derive(Debug)]
struct Session {
    address: String,
    opened_at: Timestamp,
    node: Option<String>,
}

/// The control plane's end of the protocol.
#[derive(Debug)]
pub struct Hub {
    settings: HubSettings,
    bugs: Bugs,
    storm: Storm,
    sessions: HashMap<SessionId, Session>,
    nodes: BTreeMap<String, Node>,
    bindings: Bindings,
    published: Arc<Prepared>,
    /// Counts what was published, from 1.
    publication: u64,
    /// Encoded once for all nodes.
    overrides: Option<Bytes>,
    last_bundle: u64,
    /// How often a node was sent away for a while.
    deferred: u64,
    /// Grows with everything that [`Hub::nodes`] shows, except time.
    revision: u64,
    actions: Vec<Action>,
}

impl Hub {
    /// A hub without nodes.
    #[must_use]
    pub fn new(mut settings: HubSettings) -> Self {
        #[cfg(feature = "known-bugs")]
        let bugs = Bugs(settings.bug);
        #[cfg(not(feature = "known-bugs"))]
        let bugs = Bugs::default();
        Self {
            storm: Storm::new(settings.hellos_per_second),
            bindings: Bindings::new(std::mem::take(&mut settings.bindings)),
            bugs,
            settings,
            sessions: HashMap::new(),
            nodes: BTreeMap::new(),
            published: Arc::default(),
            publication: 1,
            overrides: None,
            last_bundle: 0,
            deferred: 0,
            revision: 0,
            actions: Vec::new(),
        }
    }

    /// What to do about `event`.
    pub fn on(&mut self, event: Event, now: Timestamp) -> Vec<Action> {
        match event {
            Event::Opened(session, address) => {
                self.sessions.insert(session, Session { address, opened_at: now, node: None });
            }
            Event::Closed(session) => self.closed(session),
            Event::Said(session, says) => self.said(session, says, now),
            Event::Stored(session, sequence) if self.sessions.contains_key(&session) => {
                if !self.bugs.confirms_early() {
                    self.send(session, FromControl::Seen(Seen { sequence }));
                }
            }
            Event::Stored(..) => {}
            Event::NotStored(session) => {
                self.send_away(session, Duration::from_secs(5), "reports are not stored")
            }
            Event::Published(published) => self.publish(published),
            Event::Overridden(overrides) => {
                let bytes = ControlSays::from(FromControl::Overrides((*overrides).clone())).to_bytes();
                let sessions = self.nodes.values().filter_map(|node| node.session);
                let send = |session| Action::Send(session, Outgoing::Encoded(bytes.clone()));
                self.actions.extend(sessions.map(send));
                self.overrides = Some(bytes);
            }
            Event::Tick => self.tick(now),
        }
        std::mem::take(&mut self.actions)
    }

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
        let published = (&*self.published, self.publication);
        self.nodes_by(|node| node.state_lagging(published, missing, self.liveness(node, now)))
    }

    fn nodes_by(&self, state: impl Fn(&Node) -> NodeState) -> Vec<NodeState> {
        let state = |(id, node): (&String, &Node)| {
            let mut state = state(node);
            state.claim = self.bindings.claim(id).cloned();
            state
        };
        self.nodes.iter().map(state).collect()
    }

    /// As [`Hub::nodes`], each with the state of one app only: a step for each node, not for each app of it.
    #[must_use]
    pub fn nodes_of(&self, app: &str, now: Timestamp) -> Vec<NodeState> {
        let missing = self.settings.missing_apps;
        let state = |node: &Node| node.state_of(app, &self.published, missing, self.liveness(node, now));
        self.nodes.values().map(state).collect()
    }

    /// How many live nodes have the version of every app that all should have, and how many are live.
    #[must_use]
    pub fn nodes_in_force(&self, now: Timestamp) -> (usize, usize) {
        let live = self.nodes.values().filter(|node| self.liveness(node, now) == Liveness::Live);
        let has_all = |node: &Node| node.is_in_order(self.publication) || node.has_all(&self.published);
        live.fold((0, 0), |(have, live), node| (have + usize::from(has_all(node)), live + 1))
    }

    /// Name and language of each node that is live and reads less than `level` of the rule language. Takes a
    /// step for each node, unlike [`Hub::nodes`].
    #[must_use]
    pub fn nodes_below(&self, level: u32, now: Timestamp) -> Vec<(String, u32)> {
        let old = self.nodes.values().filter(|node| node.language() < level);
        let live = old.filter(|node| self.liveness(node, now) == Liveness::Live);
        live.map(|node| (node.hello().name.clone(), node.language())).collect()
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

    /// Number of nodes that are connected and have all of `published`, as far as they can; 0 while that is
    /// not what is sent. Takes a step for each node and each app, unlike [`Hub::nodes`].
    #[must_use]
    pub fn nodes_with(&self, published: &Published) -> usize {
        let sent =
            |it: &AppDocuments| self.published.apps.get(&*it.app).is_some_and(|wanted| wanted.is_of(it));
        if published.apps.len() != self.published.apps.len() || !published.apps.iter().all(sent) {
            return 0;
        }
        self.nodes.values().filter(|node| node.is_settled()).count()
    }

    /// Grows with everything that [`Hub::nodes`] shows, except time.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// How often a node was sent away for a while.
    #[must_use]
    pub const fn deferred(&self) -> u64 {
        self.deferred
    }

    /// The publication that new ones are prepared against.
    #[must_use]
    pub fn published(&self) -> Arc<Prepared> {
        Arc::clone(&self.published)
    }

    /// Sends a command to a node. `None` if its stream is not open.
    pub fn command(&mut self, node: &str, command: Command) -> Option<Vec<Action>> {
        let session = self.nodes.get(node)?.session?;
        self.send(session, FromControl::Command(command));
        Some(std::mem::take(&mut self.actions))
    }

    fn liveness(&self, node: &Node, now: Timestamp) -> Liveness {
        node.liveness(now, self.settings.unresponsive_after, self.settings.lost_after)
    }

    fn send(&mut self, session: SessionId, says: FromControl) {
        self.actions.push(Action::Send(session, says.into()));
    }

    fn close(&mut self, session: SessionId, why: impl Into<String>) {
        self.actions.push(Action::Close(session, why.into()));
        self.closed(session);
    }

    fn send_away(&mut self, session: SessionId, after: Duration, reason: &str) {
        if !self.sessions.contains_key(&session) {
            return;
        }
        self.deferred += 1;
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.send(session, FromControl::GoAway(GoAway { after_ms, reason: reason.to_owned() }));
        self.close(session, reason);
    }

    fn closed(&mut self, session: SessionId) {
        let Some(Session { node: Some(id), .. }) = self.sessions.remove(&session) else { return };
        if let Some(node) = self.nodes.get_mut(&id)
            && node.session == Some(session)
        {
            node.closed();
            self.revision += 1;
        }
    }

    fn said(&mut self, session: SessionId, says: FromNode, now: Timestamp) {
        let Some(Session { node, address, .. }) = self.sessions.get(&session) else { return };
        let (known, address) = (node.clone(), address.clone());
        match (says, known) {
            (FromNode::Hello(hello), None) => self.hello(session, hello, address, now),
            (FromNode::Hello(_), Some(_)) => self.close(session, "a second Hello"),
            (_, None) => self.close(session, "a message before Hello"),
            (says, Some(id)) => {
                if let Some(node) = self.nodes.get_mut(&id) {
                    node.last_seen = now;
                }
                self.said_by(session, &id, says, now);
            }
        }
    }

    fn said_by(&mut self, session: SessionId, id: &str, says: FromNode, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        match says {
            FromNode::Hello(_) => {}
            FromNode::Ack(ack) => {
                if node.answered(ack.bundle, ack.held, Vec::new()) {
                    self.revision += 1;
                    self.catch_up(id);
                }
            }
            FromNode::Nack(nack) => {
                if node.answered(nack.bundle, nack.held, nack.faults) {
                    self.revision += 1;
                    self.catch_up(id);
                }
            }
            FromNode::Report(report) => match check(&report) {
                Err(why) => self.close(session, why),
                Ok(()) => {
                    let wall_ms = i64::try_from(report.wall_ms).unwrap_or(i64::MAX);
                    let now_ms = i64::try_from(now.as_nanos() / 1_000_000).unwrap_or(i64::MAX);
                    node.skew_ms = wall_ms.saturating_sub(now_ms);
                    node.state_error.clone_from(&report.state_error);
                    let incarnation = node.hello().incarnation;
                    if self.bugs.confirms_early() {
                        self.send(session, FromControl::Seen(Seen { sequence: report.sequence }));
                    }
                    let (node, report) = (id.to_owned(), Box::new(report));
                    self.actions.push(Action::Store { session, node, incarnation, report });
                }
            },
            FromNode::Reply(reply) => self.actions.push(Action::Replied { node: id.to_owned(), reply }),
        }
    }

    fn hello(&mut self, session: SessionId, hello: Hello, address: String, now: Timestamp) {
        if let Err(why) = check_hello(&hello) {
            return self.close(session, why);
        }
        if let Err(after) = self.storm.admit(now) {
            return self.send_away(session, after, "too many nodes connect at once");
        }
        let id = hello.node.clone();
        // Before anything of the node is touched.
        match self.bindings.check(&id, &hello.secret) {
            Verdict::Known | Verdict::Unbound => {}
            Verdict::Bound(sha256) => self.actions.push(Action::Bind { node: id.clone(), sha256 }),
            Verdict::Other => {
                self.bindings.claimed(&id, &address, now);
                self.revision += 1;
                self.actions.push(Action::Claimed { node: id, address });
                let why = "another node has this id and another secret; if this node has lost the file \
                           `secret` of its state folder, remove the file `node` there too, and it joins as new";
                return self.send_away(session, Duration::from_secs(30), why);
            }
        }
        if !self.nodes.contains_key(&id) && !self.make_room(now) {
            return self.send_away(session, Duration::from_secs(30), "the fleet is full");
        }
        let known = self.nodes.get(&id).map(|node| (node.hello().incarnation, node.session));
        match known {
            Some((incarnation, _)) if incarnation > hello.incarnation => {
                // An older process of that node, or a copy of its state folder.
                let why = "another process has started with this node's state folder";
                return self.send_away(session, Duration::from_secs(30), why);
            }
            Some((_, Some(before))) => self.close(before, "the node has opened another stream"),
            _ => {}
        }
        let mut node = Node::new(hello, &self.settings.epoch, address, now);
        node.session = Some(session);
        self.nodes.insert(id.clone(), node);
        if let Some(session) = self.sessions.get_mut(&session) {
            session.node = Some(id.clone());
        }
        self.revision += 1;
        let HubSettings { epoch, replica, report_every, .. } = &self.settings;
        let welcome = Welcome {
            epoch: epoch.clone(),
            replica: replica.clone(),
            report_interval_ms: u32::try_from(report_every.as_millis()).unwrap_or(u32::MAX),
        };
        self.send(session, FromControl::Welcome(welcome));
        if let Some(overrides) = self.overrides.clone() {
            self.actions.push(Action::Send(session, Outgoing::Encoded(overrides)));
        }
        self.catch_up(&id);
    }

    /// Whether there is room for one more node. The node that was lost first makes room.
    fn make_room(&mut self, now: Timestamp) -> bool {
        if self.nodes.len() < self.settings.max_nodes {
            return true;
        }
        let lost = self.nodes.iter().filter(|(_, node)| node.session.is_none());
        let lost = lost.filter(|(_, node)| self.liveness(node, now) == Liveness::Lost);
        let oldest = lost.min_by_key(|(_, node)| node.last_seen).map(|(id, _)| id.clone());
        oldest.is_some_and(|id| self.nodes.remove(&id).is_some())
    }

    /// Sends a node what it lacks, unless it has yet to answer.
    fn catch_up(&mut self, id: &str) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        let Some(session) = node.session.filter(|_| !node.is_busy()) else { return };
        let missing = self.settings.missing_apps;
        if let Some(bundle) =
            node.plan(&self.published, self.settings.level, missing, self.last_bundle + 1, self.bugs)
        {
            self.last_bundle += 1;
            self.actions.push(Action::Send(session, Outgoing::Bundle(bundle)));
        }
    }

    fn publish(&mut self, published: Arc<Prepared>) {
        let may_fit_now = published.moves_domains(&self.published);
        let changed = published.changed(&self.published);
        self.published = published;
        self.publication += 1;
        self.revision += 1;
        let ids: Vec<String> = self.nodes.keys().cloned().collect();
        for id in ids {
            if let Some(node) = self.nodes.get_mut(&id) {
                node.unsettle(&changed);
                if may_fit_now {
                    node.forget_faults();
                }
                if node.is_busy() && self.bugs.forgets_publications() {
                    node.forget_outstanding();
                    continue;
                }
            }
            self.catch_up(&id);
        }
    }

    fn tick(&mut self, now: Timestamp) {
        let is_silent = |session: &Session| match session.node.as_ref().and_then(|id| self.nodes.get(id)) {
            Some(node) => self.liveness(node, now) == Liveness::Lost,
            None => now.since(session.opened_at) > LONGEST_HELLO,
        };
        let mut silent: Vec<SessionId> =
            self.sessions.iter().filter(|(_, session)| is_silent(session)).map(|(id, _)| *id).collect();
        silent.sort();
        for session in silent {
            self.close(session, "the node sent nothing for too long");
        }
    }
}

fn check_hello(hello: &Hello) -> Result<(), &'static str> {
    let Hello { node, name, labels, software, epoch, held, local_domains, crashed, secret, .. } = hello;
    let texts = [node, name, software, epoch].into_iter();
    let mut texts = texts.chain(labels.iter().flat_map(|label| [&label.key, &label.value]));
    let lists = [held.len(), local_domains.len(), crashed.len()];
    if node.is_empty() || texts.any(|text| text.len() > MAX_TEXT_BYTES) {
        return Err("a Hello without an id, or with texts of more than 256 bytes");
    }
    if secret.len() > MAX_TEXT_BYTES {
        return Err("a Hello with a secret of more than 256 bytes");
    }
    if labels.len() > MAX_LABELS || lists.into_iter().any(|length| length > MAX_APPS) {
        return Err("a Hello with more than 64 labels, or 10,000 apps");
    }
    Ok(())
}

fn check(report: &Report) -> Result<(), &'static str> {
    let Report { rules, top, costs, state_error, rules_error, unknown_domains, rejected, sequence, .. } =
        report;
    let lists = [rules.len(), top.len(), costs.len(), unknown_domains.len(), rejected.len()];
    if *sequence == 0 || lists.into_iter().any(|rows| rows > MAX_REPORT_ROWS) {
        return Err("a report without a number, or with more than 10,000 rows");
    }
    let texts = rules.iter().flat_map(|it| [&it.domain, &it.rule]);
    let texts = texts.chain(top.iter().flat_map(|it| [&it.domain, &it.rule, &it.key]));
    let texts = texts.chain(costs.iter().flat_map(|it| [&it.domain, &it.rule]));
    let texts = texts.chain(rejected.iter().flat_map(|it| [&it.surface, &it.status, &it.reason]));
    let mut texts = texts.chain([state_error, rules_error]).chain(unknown_domains);
    if texts.any(|text| text.len() > LONGEST_KEY) {
        return Err("a report with a name of more than 8 KiB");
    }
    Ok(())
}
