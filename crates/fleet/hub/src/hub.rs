//! The control plane's end of the protocol: events in, actions out. No I/O, no clock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_core::Timestamp;
use tollgate_fleet_proto::published::{AppDocuments, Published};
use tollgate_fleet_proto::{
    Candidates, Command, ControlSays, FromControl, FromNode, GoAway, Hello, Label, MAX_APPS, MAX_LABELS,
    MAX_REPORT_ROWS, MAX_TEXT_BYTES, Overrides, Reply, Report, Seen, Sha256Bytes, Welcome,
};
use tollgate_mistakes::Mistakes;
use tollgate_shares::{Part, Room, Shares, machine};

use crate::bindings::{self, BindingCheck, Bindings, Standing};
use crate::bundle::Outgoing;
use crate::counts::NodeCounts;
use crate::kept;
use crate::mistake::Mistake;
use crate::node::{Database, Liveness, MissingApps, NodeRecord, NodeState, Sending};
use crate::past::Past;
use crate::peer::Peer;
use crate::published::Prepared;
use crate::session::SessionId;
use crate::storm::Storm;

/// A stream must say hello within this time.
const LONGEST_HELLO: Duration = Duration::from_secs(10);
/// The longest name of a rule or key in a report, in bytes.
const LONGEST_KEY: usize = 8 << 10;
/// Most bytes that all nodes may say about themselves, not counting published apps.
const MOST_BYTES: u64 = 256 << 20;
/// A tenth of the places is kept for nodes that are known.
const RESERVE: usize = 10;

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
    fn node(self, missing_apps: MissingApps) -> NodeRecord {
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

/// Input of the hub.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "events are handled one by one and not kept")]
pub enum Event {
    /// A stream was opened from there, and its token is good.
    Opened(SessionId, Peer),
    /// A stream is closed.
    Closed(SessionId),
    /// The token of a stream admits only nodes that are known, from now on.
    JoiningEnded(SessionId),
    /// A message came.
    Said(SessionId, FromNode),
    /// A report is in the database.
    Stored(SessionId, u64),
    /// A report could not be stored.
    NotStored(SessionId),
    /// New or changed rules were published.
    Published(Arc<Prepared>),
    /// Blocks and allowances have changed.
    Overridden(Arc<Overrides>),
    /// Nothing but time; due every second.
    Tick,
}

/// Output of the hub, to be carried out in order.
#[derive(Debug)]
pub enum Action {
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
        report: Box<Report>,
    },
    /// A node has answered a command.
    Replied {
        /// The stream that it came on.
        session: SessionId,
        /// Id of the node that answers; a command may have been sent to another one.
        node: String,
        reply: Reply,
    },
    /// A node has a secret of its own from now on: keep its digest.
    Bind {
        /// Id of the node.
        node: String,
        /// Digest of its secret.
        sha256: Sha256Bytes,
    },
    /// A client has tried to attach with the id of a node and another secret.
    Claimed {
        /// Id of the node.
        node: String,
        /// Address and port of the attempt.
        address: String,
    },
}

#[derive(Debug)]
struct Session {
    peer: Peer,
    opened_at: Timestamp,
    node: Option<String>,
    /// Its token also admits nodes that are not known.
    may_join: bool,
}

/// The control plane's end of the protocol.
#[derive(Debug)]
pub struct Hub {
    settings: HubSettings,
    mistakes: Mistakes<Mistake>,
    /// The hellos of nodes that are known.
    known: Storm,
    /// Those of all others.
    strangers: Storm,
    /// Places of nodes, and bytes of their descriptions of themselves.
    places: Shares,
    bytes: u64,
    sessions: HashMap<SessionId, Session>,
    nodes: BTreeMap<String, NodeRecord>,
    bindings: Bindings,
    past: Past,
    published: Arc<Prepared>,
    /// Number of the latest publication, from 1.
    publication: u64,
    /// Encoded once for all nodes.
    overrides: Option<Bytes>,
    /// The versions that are being rolled out.
    candidates: Candidates,
    last_bundle: u64,
    /// Hellos that were deferred since the start.
    deferred: u64,
    /// Grows with everything that [`Hub::nodes`] shows, except time.
    revision: u64,
    actions: Vec<Action>,
}

impl Hub {
    /// A hub without nodes.
    #[must_use]
    pub fn new(mut settings: HubSettings) -> Self {
        Self {
            known: Storm::new(settings.hellos_per_second),
            strangers: Storm::new(settings.hellos_per_second),
            places: Shares::default(),
            bytes: 0,
            bindings: Bindings::new(std::mem::take(&mut settings.bindings)),
            past: std::mem::take(&mut settings.past),
            mistakes: settings.mistakes,
            sessions: HashMap::new(),
            nodes: {
                let known = std::mem::take(&mut settings.known).into_iter().take(settings.max_nodes);
                known.map(|it| (it.id.clone(), it.node(settings.missing_apps))).collect()
            },
            settings,
            published: Arc::default(),
            publication: 1,
            overrides: None,
            candidates: Candidates::default(),
            last_bundle: 0,
            deferred: 0,
            revision: 0,
            actions: Vec::new(),
        }
    }

    /// Handles `event` and returns the actions to carry out.
    pub fn on(&mut self, event: Event, now: Timestamp) -> Vec<Action> {
        match event {
            Event::Opened(session, peer) => {
                self.sessions.insert(session, Session { peer, opened_at: now, node: None, may_join: true });
            }
            Event::JoiningEnded(session) => self.joining_ended(session),
            Event::Closed(session) => self.closed(session),
            Event::Said(session, says) => self.said(session, says, now),
            Event::Stored(session, sequence) if self.sessions.contains_key(&session) => {
                if !self.mistakes.has(Mistake::SeenBeforeStored) {
                    self.send(session, FromControl::Seen(Seen { sequence }));
                }
                self.stored(session);
            }
            Event::Stored(..) => {}
            Event::NotStored(session) => {
                self.send_away(session, Duration::from_secs(5), "reports are not stored")
            }
            Event::Published(published) => self.publish(published),
            Event::Overridden(overrides) => {
                let bytes = ControlSays::from(FromControl::Overrides((*overrides).clone())).to_bytes();
                self.send_all(&bytes);
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

    /// Forgets a node, and closes its stream if it has one. It is new if it attaches again.
    pub fn remove(&mut self, id: &str) -> Vec<Action> {
        let session = self.nodes.get(id).and_then(|node| node.session);
        if self.forget(id) {
            if let Some(session) = session {
                self.close(session, "an operator has removed this node");
            }
            self.revision += 1;
        }
        std::mem::take(&mut self.actions)
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

    /// Grows with everything that [`Hub::nodes`] shows, except time.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Hellos that were deferred since the start.
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

    /// The open stream of a node.
    pub(crate) fn session_of(&self, node: &str) -> Option<SessionId> {
        self.nodes.get(node)?.session
    }

    /// A reply came to no open command. Whether that is one too many.
    pub(crate) fn answers_unasked(&mut self, session: SessionId) -> bool {
        let Some(Session { node: Some(id), .. }) = self.sessions.get(&session) else { return false };
        self.nodes.get_mut(id).is_some_and(NodeRecord::answers_unasked)
    }

    fn liveness(&self, node: &NodeRecord, now: Timestamp) -> Liveness {
        node.liveness(now, self.settings.unresponsive_after, self.settings.lost_after)
    }

    fn send(&mut self, session: SessionId, says: FromControl) {
        self.actions.push(Action::Send(session, says.into()));
    }

    fn send_all(&mut self, bytes: &Bytes) {
        let sessions = self.nodes.values().filter_map(|node| node.session);
        let send = |session| Action::Send(session, Outgoing::Encoded(bytes.clone()));
        self.actions.extend(sessions.map(send));
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
            // Forget a node that has never reported.
            if self.bindings.ended(&id) {
                self.forget(&id);
            }
        }
    }

    fn joining_ended(&mut self, session: SessionId) {
        let Some(stream) = self.sessions.get_mut(&session) else { return };
        stream.may_join = false;
        if stream.node.as_ref().is_some_and(|id| !self.bindings.is_known(id)) {
            self.send_away(session, Duration::from_secs(30), MUST_JOIN);
        }
    }

    fn forget(&mut self, id: &str) -> bool {
        let Some(node) = self.nodes.remove(id) else { return false };
        self.give_back(node.holder);
        true
    }

    fn give_back(&mut self, holder: Option<(u64, u64)>) {
        let Some((name, bytes)) = holder else { return };
        self.places.give_back([name], Room { places: 1, bytes });
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// A report of this stream is stored: its node exists, and if it lacks nothing, it takes rules.
    fn stored(&mut self, session: SessionId) {
        let Some(Session { node: Some(id), .. }) = self.sessions.get(&session) else { return };
        let id = id.clone();
        let Some(node) = self.nodes.get_mut(&id).filter(|it| !it.is_proven) else { return };
        let sha256 = if node.is_settled() {
            node.is_proven = true;
            self.revision += 1;
            self.bindings.proven(&id)
        } else if self.published.apps.is_empty() {
            self.bindings.reported(&id)
        } else {
            return;
        };
        if let Some(sha256) = sha256 {
            self.actions.push(Action::Bind { node: id, sha256 });
        }
    }

    fn said(&mut self, session: SessionId, says: FromNode, now: Timestamp) {
        let Some(Session { node, peer, .. }) = self.sessions.get(&session) else { return };
        let known = node.clone();
        match (says, known) {
            (FromNode::Hello(hello), None) => {
                let peer = peer.clone();
                self.hello(session, hello, peer, now);
            }
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
                if node.answered(ack.bundle, ack.held, Vec::new(), &self.past) {
                    self.revision += 1;
                    self.catch_up(id);
                } else if node.answers_unasked() {
                    self.close(session, UNASKED);
                }
            }
            FromNode::Nack(nack) => {
                if node.answered(nack.bundle, nack.held, nack.faults, &self.past) {
                    self.revision += 1;
                    self.catch_up(id);
                } else if node.answers_unasked() {
                    self.close(session, UNASKED);
                }
            }
            FromNode::Report(report) => match check(&report) {
                Err(why) => self.close(session, why),
                Ok(()) => {
                    if let Err(early) = node.may_report(now, self.settings.report_every) {
                        let wait = early.max(Duration::from_secs(1));
                        return self.send_away(session, wait, "reports come faster than they are asked for");
                    }
                    let wall_ms = i64::try_from(report.wall_ms).unwrap_or(i64::MAX);
                    let now_ms = i64::try_from(now.as_nanos() / 1_000_000).unwrap_or(i64::MAX);
                    node.skew_ms = wall_ms.saturating_sub(now_ms);
                    node.state_error.clone_from(&report.state_error);
                    kept::cut(&mut node.state_error, kept::LONGEST_MESSAGE);
                    let incarnation = node.hello().incarnation;
                    if self.mistakes.has(Mistake::SeenBeforeStored) {
                        self.send(session, FromControl::Seen(Seen { sequence: report.sequence }));
                    }
                    let node = id.to_owned();
                    let report = Box::new(report);
                    // Confirmed only once it is stored: until then the node keeps it and may send it again.
                    self.actions.push(Action::Store { session, node, incarnation, report });
                }
            },
            FromNode::Reply(reply) => {
                self.actions.push(Action::Replied { session, node: id.to_owned(), reply })
            }
        }
    }

    fn hello(&mut self, session: SessionId, mut hello: Hello, peer: Peer, now: Timestamp) {
        if let Err(why) = check_hello(&hello) {
            return self.close(session, why);
        }
        let id = hello.node.clone();
        let machine = machine(&peer.address);
        let may_join = self.sessions.get(&session).is_some_and(|it| it.may_join);
        // Checked before the node's record is touched. Known nodes are considered first, so that no flood of
        // others keeps them out.
        let verdict = self.verdict(&id, &hello.secret);
        let holders = self.bindings.holders(&machine, peer.token).map(|it| it.name);
        let holders = [Part { name: holders[0], times: 4 }, Part { name: holders[1], times: 9 }];
        let passes = verdict == BindingCheck::Known && self.bindings.may_pass(&id, now);
        let storm = if passes { &mut self.known } else { &mut self.strangers };
        if let Err(after) = storm.admit(now, holders) {
            return self.send_away(session, after, "too many nodes connect at once");
        }
        if verdict == BindingCheck::Other {
            let address = peer.address;
            self.bindings.claimed(&id, &address, now);
            self.revision += 1;
            self.actions.push(Action::Claimed { node: id, address });
            let why = "another node has this id and another secret; if this node has lost the file \
                       `secret` of its state folder, remove the file `node` there too, and it joins as new";
            return self.send_away(session, Duration::from_secs(30), why);
        }
        let has_joined = verdict == BindingCheck::Known && self.bindings.is_known(&id);
        if !may_join && !has_joined {
            return self.send_away(session, Duration::from_secs(30), MUST_JOIN);
        }
        let known = self.nodes.get(&id).map(|node| (node.hello().incarnation, node.session));
        if known.is_some_and(|(incarnation, _)| incarnation > hello.incarnation) {
            // An older process of that node, or a copy of its state folder.
            let why = "another process has started with this node's state folder";
            return self.send_away(session, Duration::from_secs(30), why);
        }
        let published = &self.published.apps;
        // The names of published apps are not counted: what is published bounds them.
        let is_known = |app: &str| published.is_empty() || published.contains_key(app);
        let bytes = kept::shorten(&mut hello, is_known);
        let Some(holder) = self.place(&id, &machine, bytes, verdict, now) else {
            return self.send_away(session, Duration::from_secs(30), "the fleet is full");
        };
        if let Some((_, Some(before))) = known {
            self.close(before, "the node has opened another stream");
        }
        if verdict == BindingCheck::Free {
            let holders = self.bindings.holders(&machine, peer.token);
            if !self.bindings.bind(&id, &hello.secret, holders) {
                tracing::warn!(node = id, address = peer.address, "no room to bind the id of a node");
            }
        }
        let HubSettings { epoch, missing_apps, .. } = &self.settings;
        let database = Database { epoch, missing_apps: *missing_apps, past: &self.past };
        let mut node = NodeRecord::new(hello, database, peer.address, now);
        node.session = Some(session);
        node.holder = Some(holder);
        if let Some(before) = self.nodes.get(&id) {
            node.follows(before);
        }
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
        if !self.candidates.apps.is_empty() {
            self.send(session, FromControl::Candidates(self.candidates.clone()));
        }
        self.catch_up(&id);
    }

    /// Whose id it is. A node whose id found no room to be bound keeps it while its stream is open.
    fn verdict(&self, id: &str, secret: &[u8]) -> BindingCheck {
        match self.bindings.check(id, secret) {
            verdict @ (BindingCheck::Known | BindingCheck::Other) => verdict,
            verdict => {
                let open = self.nodes.get(id).filter(|it| it.session.is_some()).and_then(|it| it.digest);
                let is_other = open.is_some_and(|digest| !bindings::is_of(&digest, secret));
                if is_other { BindingCheck::Other } else { verdict }
            }
        }
    }

    /// Makes room for a node and its description of itself; `None` if there is none. A known node takes the
    /// reserve, and then the place of an unknown one. A lost node makes room first.
    fn place(
        &mut self,
        id: &str,
        machine: &str,
        bytes: u64,
        verdict: BindingCheck,
        now: Timestamp,
    ) -> Option<(u64, u64)> {
        let before = self.nodes.get(id).and_then(|node| node.holder);
        self.give_back(before);
        let others = self.nodes.len() - usize::from(self.nodes.contains_key(id));
        let is_known = verdict == BindingCheck::Known;
        let most = self.settings.max_nodes;
        let most = if is_known { most } else { most - most / RESERVE };
        if others >= most && !self.make_room(is_known, now) {
            self.keep(before);
            return None;
        }
        let name = self.places.name(machine);
        let free = Room {
            // Known nodes have their places regardless of others at the same address.
            places: if is_known { u64::MAX } else { (most - others.min(most - 1)) as u64 },
            bytes: MOST_BYTES.saturating_sub(self.bytes),
        };
        let room = Room { places: 1, bytes };
        if free.bytes < bytes || self.places.take(&[Part { name, times: 4 }], room, free).is_err() {
            self.keep(before);
            return None;
        }
        self.bytes += bytes;
        Some((name, bytes))
    }

    /// The node keeps the place that it has.
    fn keep(&mut self, holder: Option<(u64, u64)>) {
        let Some((name, bytes)) = holder else { return };
        let all = Room { places: u64::MAX, bytes: u64::MAX };
        // There is always a share of everything.
        let _ = self.places.take(&[Part { name, times: 1 }], Room { places: 1, bytes }, all);
        self.bytes += bytes;
    }

    /// Whether there is room for one more node: the one that was lost first makes room; for a node that is
    /// known, then one that is not.
    fn make_room(&mut self, is_known: bool, now: Timestamp) -> bool {
        let lost = self.nodes.iter().filter(|(_, node)| node.session.is_none());
        let lost = lost.filter(|(_, node)| self.liveness(node, now) == Liveness::Lost);
        let oldest = lost.min_by_key(|(_, node)| node.last_seen).map(|(id, _)| id.clone());
        if let Some(oldest) = oldest {
            return self.forget(&oldest);
        }
        if !is_known {
            return false;
        }
        let is_new = |id: &str| self.bindings.standing(id).is_none_or(|it| it == Standing::New);
        let new = self.nodes.iter().filter(|(id, node)| is_new(id) && !node.is_proven);
        let newest = new.max_by_key(|(_, node)| node.last_seen).map(|(id, node)| (id.clone(), node.session));
        let Some((id, session)) = newest else { return false };
        if let Some(session) = session {
            self.send_away(session, Duration::from_secs(30), "the fleet is full");
        }
        self.forget(&id);
        true
    }

    /// Sends a node what it lacks, unless it has yet to answer.
    fn catch_up(&mut self, id: &str) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        let Some(session) = node.session.filter(|_| !node.is_busy()) else { return };
        let HubSettings { level, missing_apps, mistakes, .. } = self.settings;
        let how = Sending { level, missing_apps, mistakes };
        if let Some(bundle) = node.plan(&self.published, how, self.last_bundle + 1) {
            self.last_bundle += 1;
            self.actions.push(Action::Send(session, Outgoing::Bundle(bundle)));
        }
    }

    fn publish(&mut self, published: Arc<Prepared>) {
        let may_fit_now = published.moves_domains(&self.published);
        let changed = published.changed(&self.published);
        for (name, wanted) in changed.iter().filter_map(|name| Some((name, published.apps.get(name)?))) {
            for rules in wanted.versions() {
                self.past.add(name, rules.version, &rules.sha256);
            }
        }
        self.published = published;
        self.publication += 1;
        self.revision += 1;
        let candidates = self.published.candidates();
        if candidates != self.candidates {
            self.send_all(&ControlSays::from(FromControl::Candidates(candidates.clone())).to_bytes());
            self.candidates = candidates;
        }
        let ids: Vec<String> = self.nodes.keys().cloned().collect();
        for id in ids {
            if let Some(node) = self.nodes.get_mut(&id) {
                node.unsettle(&changed);
                if may_fit_now {
                    node.forget_faults();
                }
                if node.is_busy() && self.mistakes.has(Mistake::PublicationForgotten) {
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

const UNASKED: &str = "too many answers to no question";
const MUST_JOIN: &str = "the time for joining with this token has ended, and this node has not joined; make \
                         another token on the page Tokens and put it into --control-token-file";

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
    kept::check_names(hello)
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
    let texts = texts.chain([state_error, rules_error]).chain(unknown_domains);
    let mut texts = texts.chain(report.store.iter().map(|it| &it.name));
    if texts.any(|text| text.len() > LONGEST_KEY) {
        return Err("a report with a name of more than 8 KiB");
    }
    Ok(())
}
