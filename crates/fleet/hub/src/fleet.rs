//! Carries out what [`Hub`] asks for: streams, the database of reports, publications, the timer.

mod nodes;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tollgate_fleet_proto::published::Published;
use tollgate_fleet_proto::{Command, FromNode, Overrides, Reply, Report};
use tollgate_shares::{Place, Places, Room, machine};

use crate::bundle::Outgoing;
use crate::commands::{CommandError, Commands, deliver};
use crate::hub::{Action, Event, Hub, HubSettings};
use crate::peer::Peer;
use crate::published::Prepared;
use crate::seams::Seams;
use crate::session::SessionId;

/// Things to send that wait, per stream, at most; then the stream is closed.
const MOST_OUTGOING: usize = 64;
/// Reports that wait to be stored, per stream, at most; then the stream is closed. A node has at most 8 that
/// are not confirmed.
const MOST_REPORTS: usize = 16;
/// Commands that wait for a reply, at most.
const MOST_COMMANDS: usize = 1_000;
/// Places in the queue of a stream that commands leave free for rules, blocks and confirmations.
const LEFT_TO_RULES: usize = MOST_OUTGOING / 2;

/// Who may attach with a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Admission {
    Everybody,
    Known,
    Nobody,
}

struct Stream {
    /// Connection counted against its machine and its token.
    _place: Place,
    /// The token that opened the stream; it must stay valid.
    token: Option<Arc<str>>,
    /// The token admits only nodes that are known, and the hub knows that.
    joining_ended: bool,
    outgoing: mpsc::Sender<Outgoing>,
    reports: mpsc::Sender<Stored>,
    /// Reads what the node sends.
    reader: Option<AbortHandle>,
}

struct Stored {
    node: String,
    incarnation: u64,
    report: Report,
}

struct FleetState {
    hub: Hub,
    streams: HashMap<SessionId, Stream>,
    last_session: u64,
    last_command: u64,
    commands: Commands,
}

/// The nodes of a control plane. Clones share them.
#[derive(Clone)]
pub struct Fleet(Arc<FleetCore>);

struct FleetCore {
    state: Mutex<FleetState>,
    seams: Seams,
    streams: Arc<Places>,
    /// Makes names of tokens.
    tokens: RandomState,
    /// The hub's revision.
    changes: watch::Sender<u64>,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").finish_non_exhaustive()
    }
}

impl Fleet {
    /// A fleet without nodes.
    #[must_use]
    pub fn new(settings: HubSettings, seams: Seams) -> Self {
        let streams = Places::of(settings.max_nodes.saturating_add(1_000) as u64, 0);
        let state = FleetState {
            hub: Hub::new(settings),
            streams: HashMap::new(),
            last_session: 0,
            last_command: 0,
            commands: HashMap::new(),
        };
        let (changes, _) = watch::channel(0);
        Self(Arc::new(FleetCore {
            state: Mutex::new(state),
            seams,
            streams,
            tokens: RandomState::new(),
            changes,
        }))
    }

    /// Sends every change of `published` to the nodes, and looks after them once a second, until the future
    /// is dropped or both senders are.
    pub async fn run(
        &self,
        mut published: watch::Receiver<Arc<Published>>,
        mut overrides: watch::Receiver<Arc<Overrides>>,
    ) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut publishes = true;
        let mut overrides_come = true;
        published.mark_changed();
        // An empty list is sent too: a node that was away still enforces blocks that have ended meanwhile. A
        // database without any change of overrides is new, and ends none of those that nodes enforce.
        if overrides.borrow().revision > 0 {
            overrides.mark_changed();
        }
        while publishes || overrides_come {
            tokio::select! {
                changed = published.changed(), if publishes => match changed {
                    Ok(()) => {
                        let latest = Arc::clone(&published.borrow_and_update());
                        self.publish(latest).await;
                    }
                    Err(_) => publishes = false,
                },
                changed = overrides.changed(), if overrides_come => match changed {
                    Ok(()) => {
                        let latest = Arc::clone(&overrides.borrow_and_update());
                        self.on(Event::Overridden(latest));
                    }
                    Err(_) => overrides_come = false,
                },
                _ = ticks.tick() => {
                    self.end_revoked();
                    self.on(Event::Tick);
                }
            }
        }
    }

    async fn publish(&self, latest: Arc<Published>) {
        let before = self.state().hub.published();
        // Digests of megabytes: not on a thread that serves.
        let prepared = tokio::task::spawn_blocking(move || Prepared::new(&latest, &before)).await;
        let Ok(prepared) = prepared else { return };
        for fault in &prepared.faults {
            tracing::error!("not published to the nodes: {fault}");
        }
        self.on(Event::Published(Arc::new(prepared)));
    }

    /// Changes whenever [`Fleet::nodes`] does, except for the time.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Forgets a node, and closes its stream if it has one.
    pub fn remove(&self, id: &str) {
        let mut state = self.state();
        let actions = state.hub.remove(id);
        self.carry_out(&mut state, actions);
    }

    /// Has a node carry out a command.
    ///
    /// # Errors
    /// [`CommandError`] says whether the node may have carried it out.
    pub async fn command(
        &self,
        node: &str,
        kind: &str,
        body: String,
        patience: Duration,
    ) -> Result<Reply, CommandError> {
        let (sender, reply) = oneshot::channel();
        let command = {
            let mut state = self.state();
            state.commands.retain(|_, (_, waiting)| !waiting.is_closed());
            if state.commands.len() >= MOST_COMMANDS {
                return Err(CommandError::Busy);
            }
            let is_busy = |stream: &Stream| stream.outgoing.capacity() <= LEFT_TO_RULES;
            let session = state.hub.session_of(node).ok_or(CommandError::Away)?;
            if state.streams.get(&session).is_some_and(is_busy) {
                return Err(CommandError::Busy);
            }
            state.last_command += 1;
            let command = state.last_command;
            let sent = Command { command, kind: kind.to_owned(), body };
            let actions = state.hub.command(node, sent).ok_or(CommandError::Away)?;
            state.commands.insert(command, (node.to_owned(), sender));
            self.carry_out(&mut state, actions);
            command
        };
        let answer = tokio::time::timeout(patience, reply).await;
        self.state().commands.remove(&command);
        answer.ok().and_then(Result::ok).ok_or(CommandError::Silent(patience))
    }

    /// Whether some node may attach with this token.
    pub(crate) fn admits(&self, token: Option<&str>) -> bool {
        self.admission(token) != Admission::Nobody
    }

    fn admission(&self, token: Option<&str>) -> Admission {
        let tokens = &self.0.seams.tokens;
        match (tokens.admits(token), tokens.admits_known(token)) {
            (true, _) => Admission::Everybody,
            (false, true) => Admission::Known,
            (false, false) => Admission::Nobody,
        }
    }

    /// Closes the streams whose token is in force no more, and those of nodes that have not joined in time.
    fn end_revoked(&self) {
        let opened: Vec<(SessionId, Option<Arc<str>>)> =
            self.state().streams.iter().map(|(session, it)| (*session, it.token.clone())).collect();
        // The nodes of a fleet mostly share one token.
        let mut in_force: HashMap<Option<Arc<str>>, Admission> = HashMap::new();
        for (session, token) in opened {
            let admission =
                *in_force.entry(token).or_insert_with_key(|token| self.admission(token.as_deref()));
            if admission == Admission::Known {
                self.end_joining(&mut self.state(), session);
            }
            if admission == Admission::Nobody {
                tracing::warn!(
                    session = session.0,
                    "stream of a node closed: its token was revoked or has expired"
                );
                let mut state = self.state();
                let Some(stream) = state.streams.remove(&session) else { continue };
                if let Some(reader) = stream.reader {
                    reader.abort();
                }
                self.change(&mut state, Event::Closed(session));
            }
        }
    }

    fn end_joining(&self, state: &mut FleetState, session: SessionId) {
        let Some(stream) = state.streams.get_mut(&session) else { return };
        if !std::mem::replace(&mut stream.joining_ended, true) {
            self.change(state, Event::JoiningEnded(session));
        }
    }

    /// A new stream from `address`, opened with `token`: its number, and what to send on it. `None` if there
    /// are too many.
    pub(crate) fn open(
        &self,
        address: String,
        token: Option<&str>,
    ) -> Option<(SessionId, mpsc::Receiver<Outgoing>)> {
        let machine = machine(&address);
        let place = self.0.streams.take(&[(&(0, machine), 4), (&(1, token), 9)], Room::PLACE, false).ok()?;
        let peer = Peer { address, token: self.0.tokens.hash_one(token) };
        let mut state = self.state();
        state.last_session += 1;
        let session = SessionId(state.last_session);
        let (outgoing, receiver) = mpsc::channel(MOST_OUTGOING);
        let (reports, arriving) = mpsc::channel(MOST_REPORTS);
        state.streams.insert(
            session,
            Stream {
                _place: place,
                token: token.map(Arc::from),
                joining_ended: false,
                outgoing,
                reports,
                reader: None,
            },
        );
        self.change(&mut state, Event::Opened(session, peer));
        drop(state);
        tokio::spawn(store(self.clone(), session, arriving));
        Some((session, receiver))
    }

    /// `reader` ends when the stream is closed from here.
    pub(crate) fn reads(&self, session: SessionId, reader: AbortHandle) {
        match self.state().streams.get_mut(&session) {
            Some(stream) => stream.reader = Some(reader),
            None => reader.abort(),
        }
    }

    pub(crate) fn said(&self, session: SessionId, says: FromNode) {
        let mut state = self.state();
        if let FromNode::Hello(_) = says {
            let token = state.streams.get(&session).map(|it| it.token.clone());
            // Up to 10 s have passed since the stream was opened.
            if token.is_some_and(|token| self.admission(token.as_deref()) != Admission::Everybody) {
                self.end_joining(&mut state, session);
            }
        }
        self.change(&mut state, Event::Said(session, says));
    }

    pub(crate) fn closed(&self, session: SessionId) {
        let mut state = self.state();
        if state.streams.remove(&session).is_some() {
            self.change(&mut state, Event::Closed(session));
        }
    }

    fn state(&self) -> MutexGuard<'_, FleetState> {
        self.0.state.lock()
    }

    fn on(&self, event: Event) {
        let mut state = self.state();
        self.change(&mut state, event);
    }

    fn change(&self, state: &mut FleetState, event: Event) {
        let actions = state.hub.on(event, self.0.seams.clock.now());
        self.carry_out(state, actions);
        let revision = state.hub.revision();
        self.0.changes.send_if_modified(|shown| std::mem::replace(shown, revision) != revision);
    }

    fn carry_out(&self, state: &mut FleetState, actions: Vec<Action>) {
        let mut too_slow = Vec::new();
        for action in actions {
            match action {
                Action::Send(session, outgoing) => {
                    let stream = state.streams.get(&session);
                    // Never waited for: the hub is locked here, for all nodes.
                    if stream.is_some_and(|stream| stream.outgoing.try_send(outgoing).is_err()) {
                        too_slow.push(session);
                    }
                }
                Action::Close(session, why) => {
                    tracing::info!(session = session.0, "stream of a node closed: {why}");
                    if let Some(Stream { reader: Some(reader), .. }) = state.streams.remove(&session) {
                        reader.abort();
                    }
                }
                Action::Store { session, node, incarnation, report } => {
                    let stored = Stored { node, incarnation, report: *report };
                    let stream = state.streams.get(&session);
                    if stream.is_some_and(|stream| stream.reports.try_send(stored).is_err()) {
                        too_slow.push(session);
                    }
                }
                Action::Bind { node, sha256 } => self.0.seams.identities.bind(node, sha256),
                Action::Claimed { node, address } => self.0.seams.identities.claimed(node, address),
                Action::Replied { session, node, reply } => {
                    if !deliver(&mut state.commands, &node, reply) && state.hub.answers_unasked(session) {
                        too_slow.push(session);
                    }
                }
            }
        }
        // Closed last, since closing is an event of the hub, whose actions must be done before.
        for session in too_slow {
            if let Some(stream) = state.streams.remove(&session) {
                tracing::warn!(
                    session = session.0,
                    "stream of a node closed: it sends too much or reads too slowly"
                );
                if let Some(reader) = stream.reader {
                    reader.abort();
                }
                let now = self.0.seams.clock.now();
                let actions = state.hub.on(Event::Closed(session), now);
                debug_assert!(actions.is_empty(), "closing asks for nothing");
            }
        }
    }
}

/// Stores the reports of one stream in their order, until the stream is closed.
async fn store(fleet: Fleet, session: SessionId, mut arriving: mpsc::Receiver<Stored>) {
    while let Some(Stored { node, incarnation, report }) = arriving.recv().await {
        let sequence = report.sequence;
        let at = fleet.0.seams.clock.now();
        match fleet.0.seams.reports.store(&node, incarnation, report, at).await {
            Ok(()) => fleet.on(Event::Stored(session, sequence)),
            Err(error) => {
                tracing::warn!(node, "{error}");
                return fleet.on(Event::NotStored(session));
            }
        }
    }
}
