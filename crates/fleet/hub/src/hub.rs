//! The control plane's end of the protocol: events in, actions out. No I/O, no clock.
//!
//! This file has the streams and what is sent on them; `events` its input and output, `settings` its bounds,
//! `attach` the first message of a node, `checks` bounds on messages, and `nodes` queries of pages.

mod attach;
mod checks;
mod events;
mod nodes;
mod settings;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_core::Timestamp;
use tollgate_fleet_proto::{Candidates, Command, ControlSays, FromControl, FromNode, GoAway, Seen};
use tollgate_mistakes::Mistakes;
use tollgate_shares::{Room, Shares};

use crate::bindings::Bindings;
use crate::bundle::Outgoing;
use crate::hub::checks::check_report;
use crate::kept;
use crate::mistake::Mistake;
use crate::node::{NodeRecord, Sending};
use crate::node_state::Liveness;
use crate::past::Past;
use crate::peer::Peer;
use crate::published::Prepared;
use crate::session::SessionId;
use crate::storm::Storm;

pub use events::{Action, Event};
pub use settings::{HubSettings, KnownNode};

/// A stream must say hello within this time.
const LONGEST_HELLO: Duration = Duration::from_secs(10);

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
            FromNode::Report(report) => match check_report(&report) {
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
