//! The world: what happens, when, and what comes of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_fleet_agent::{Action as Do, Event as AgentEvent, LinkId, Validated};
use tollgate_fleet_hub::{
    Action, AppDocuments, Document, Event as HubEvent, Hub, HubSettings, Outgoing, Prepared, Published,
    SessionId,
};
use tollgate_fleet_proto::{FromControl, FromNode};

use super::content::{self, Kind};
use super::laws::History;
use super::node::Node;

/// How long anything may fail, and how long nothing does.
const CHAOS: Duration = Duration::from_secs(60);
const CALM: Duration = Duration::from_secs(100);
/// The end of the calm part, in which the hub has nothing left to send.
const QUIET: Duration = Duration::from_secs(20);

const APPS: [&str; 4] = ["a", "b", "c", "d"];

/// A bug that is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Of the node's end.
    Agent(tollgate_fleet_agent::KnownBug),
    /// Of the control plane's end.
    Hub(tollgate_fleet_hub::KnownBug),
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Equal for equal runs.
    pub trace: u64,
    /// How much happened.
    pub events: u64,
    /// Processes of nodes that died.
    pub crashes: u64,
    /// Apps that a node rejected.
    pub rejected: u64,
    /// Streams that broke.
    pub breaks: u64,
}

/// A law was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The run.
    pub seed: u64,
    /// What happened.
    pub what: String,
}

/// Runs the world of `seed`.
///
/// # Errors
/// [`Finding`]: a law was broken.
pub fn simulate(seed: u64, bug: Option<Bug>) -> Result<Report, Finding> {
    World::new(seed, bug).run().map_err(|what| Finding { seed, what })
}

#[derive(Debug)]
enum Event {
    ToHub(SessionId, Box<FromNode>),
    ToNode(usize, LinkId, Box<FromControl>),
    Dialed(usize, LinkId),
    HubClosed(SessionId),
    NodeClosed(usize, LinkId),
    Validated(usize, u64, tollgate_fleet_agent::Ticket, Box<Validated>),
    Applied(usize, u64, tollgate_fleet_agent::Ticket),
    Stored(u64, SessionId, u64, (usize, u64), u64),
    Wake(usize),
    HubTick,
    Publish,
    Traffic,
    Break,
    KillNode,
    StartNode(usize),
    KillControl,
    StartControl,
    Calm,
}

/// One stream; both directions keep their order.
#[derive(Debug)]
struct Stream {
    node: usize,
    link: LinkId,
    up: Timestamp,
    down: Timestamp,
}

struct World {
    random: fastrand::Rng,
    bug: Option<Bug>,
    now: Timestamp,
    end: Timestamp,
    is_calm: bool,
    queue: BinaryHeap<Reverse<(Timestamp, u64)>>,
    events: BTreeMap<u64, Event>,
    last_event: u64,
    nodes: Vec<Node>,
    hub: Option<Hub>,
    /// Number of the hub's process.
    generation: u64,
    streams: BTreeMap<SessionId, Stream>,
    last_session: u64,
    published: Published,
    /// An old copy of the database.
    copy: Published,
    last_version: u64,
    history: History,
    last_bundle_at: Timestamp,
    trace: DefaultHasher,
    report: Report,
}

impl World {
    fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let count = random.usize(1..4);
        let now = Timestamp::from_unix_seconds(1_000_000);
        let mut world = Self {
            nodes: (0..count).map(|place| Node::new(place, &mut random)).collect(),
            random,
            bug,
            now,
            end: now + CHAOS + CALM,
            is_calm: false,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            last_event: 0,
            hub: None,
            generation: 0,
            streams: BTreeMap::new(),
            last_session: 0,
            published: Published::default(),
            copy: Published::default(),
            last_version: 0,
            history: History::default(),
            last_bundle_at: now,
            trace: DefaultHasher::new(),
            report: Report::default(),
        };
        world.after(0, Event::StartControl);
        for place in 0..count {
            world.after(0, Event::StartNode(place));
        }
        for event in [Event::HubTick, Event::Publish, Event::Traffic, Event::Break] {
            world.after(1_000, event);
        }
        world.after(7_000, Event::KillNode);
        world.after(20_000, Event::KillControl);
        world.after(u64::try_from(CHAOS.as_millis()).unwrap_or(0), Event::Calm);
        world
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.at(self.now + Duration::from_millis(ms), event);
    }

    fn at(&mut self, at: Timestamp, event: Event) {
        self.last_event += 1;
        self.queue.push(Reverse((at.max(self.now), self.last_event)));
        self.events.insert(self.last_event, event);
    }

    fn run(mut self) -> Result<Report, String> {
        while let Some(Reverse((at, number))) = self.queue.pop() {
            if at > self.end {
                break;
            }
            self.now = at;
            let Some(event) = self.events.remove(&number) else { continue };
            self.report.events += 1;
            if self.report.events > 200_000 {
                return Err("does not come to rest".to_owned());
            }
            self.trace.write_u64(at.as_nanos());
            self.trace.write(event_name(&event).as_bytes());
            self.on(event)?;
        }
        self.check_end()?;
        self.report.trace = self.trace.finish();
        Ok(self.report)
    }

    fn on(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::ToHub(session, says) => self.hub(HubEvent::Said(session, *says)),
            Event::ToNode(place, link, says) => {
                return self.node(place, AgentEvent::Received(link, *says));
            }
            Event::Dialed(place, link) => return self.dialed(place, link),
            Event::HubClosed(session) => self.hub(HubEvent::Closed(session)),
            Event::NodeClosed(place, link) => return self.node(place, AgentEvent::Disconnected(link)),
            Event::Validated(place, process, ticket, validated) => {
                self.report.rejected += validated.faults.len() as u64;
                if self.nodes[place].disk.incarnation == process {
                    return self.node(place, AgentEvent::Validated(ticket, *validated));
                }
            }
            Event::Applied(place, process, ticket) => {
                if self.nodes[place].disk.incarnation == process {
                    return self.node(place, AgentEvent::Applied(ticket, Ok(())));
                }
            }
            Event::Stored(generation, session, sequence, process, count) => {
                if self.hub.is_some() && generation == self.generation {
                    self.history.store(process, sequence, count);
                    self.hub(HubEvent::Stored(session, sequence));
                }
            }
            Event::Wake(place) => {
                self.nodes[place].wakes_at = None;
                if self.nodes[place].wake_at().is_some_and(|at| at <= self.now) {
                    return self.node(place, AgentEvent::Tick);
                }
                return self.carry_out(place, Vec::new());
            }
            Event::HubTick => {
                self.hub(HubEvent::Tick);
                self.after(1_000, Event::HubTick);
            }
            Event::Publish => self.publish_something(),
            Event::Traffic => self.traffic(),
            Event::Break => self.break_something(),
            Event::KillNode => self.kill_something(),
            Event::StartNode(place) => return self.start(place),
            Event::KillControl => self.kill_control(),
            Event::StartControl => self.start_control(),
            Event::Calm => self.calm(),
        }
        Ok(())
    }

    fn delay(&mut self) -> Duration {
        let ms = if self.is_calm { self.random.u64(1..20) } else { self.random.u64(1..400) };
        Duration::from_millis(ms)
    }

    // Nodes.

    fn start(&mut self, place: usize) -> Result<(), String> {
        if self.nodes[place].agent.is_some() {
            return Ok(());
        }
        let bug = match self.bug {
            Some(Bug::Agent(bug)) => Some(bug),
            _ => None,
        };
        let actions = self.nodes[place].start(bug, self.random.u64(..), self.now);
        let process = (place, self.nodes[place].disk.incarnation);
        self.history.counted.insert(process, 0);
        self.carry_out(place, actions)
    }

    fn node(&mut self, place: usize, event: AgentEvent) -> Result<(), String> {
        let actions = self.nodes[place].on(event, self.now);
        self.carry_out(place, actions)
    }

    fn carry_out(&mut self, place: usize, actions: Vec<Do>) -> Result<(), String> {
        let mut actions: std::collections::VecDeque<Do> = actions.into();
        while let Some(action) = actions.pop_front() {
            if !self.is_calm && self.random.u16(..1_500) == 0 {
                self.kill(place);
                return Ok(());
            }
            let process = self.nodes[place].disk.incarnation;
            match action {
                Do::Connect(link) => {
                    let at = self.now + self.delay();
                    self.at(at, Event::Dialed(place, link));
                }
                Do::Disconnect(link) => self.hang_up(place, link),
                Do::Send(link, says) => self.send_up(place, link, says),
                Do::Validate(ticket, job) => {
                    let validated = Box::new(job.run(&content::parse));
                    let at = self.now + self.delay();
                    self.at(at, Event::Validated(place, process, ticket, validated));
                }
                Do::Mark(marker) => self.nodes[place].disk.marker = Some(marker),
                Do::Apply(ticket, parsed, _) => {
                    let rules: Vec<_> = parsed.warnings.iter().map(|text| content::read(text)).collect();
                    let node = &mut self.nodes[place];
                    node.versions.in_force(&rules)?;
                    node.in_force = rules;
                    if node.in_force.iter().any(|rules| rules.kind == Kind::Poison) {
                        self.kill(place);
                        return Ok(());
                    }
                    let at = self.now + self.delay();
                    self.at(at, Event::Applied(place, process, ticket));
                }
                Do::Save(state) => {
                    self.nodes[place].disk.rules = Some(state.to_bytes());
                    actions.extend(self.nodes[place].on(AgentEvent::Saved(Ok(())), self.now));
                }
                Do::Unmark => self.nodes[place].disk.marker = None,
                Do::Sample => {
                    let sample = self.nodes[place].sample();
                    actions.extend(self.nodes[place].on(AgentEvent::Sampled(sample), self.now));
                }
                Do::Override(_) | Do::Command(..) | Do::Rejected(_) => {}
            }
        }
        if let Some(at) = self.nodes[place].wake_at()
            && self.nodes[place].wakes_at != Some(at)
        {
            self.nodes[place].wakes_at = Some(at);
            self.at(at, Event::Wake(place));
        }
        Ok(())
    }

    fn kill(&mut self, place: usize) {
        self.report.crashes += 1;
        self.nodes[place].die();
        let sessions: Vec<_> =
            self.streams.iter().filter(|(_, stream)| stream.node == place).map(|(id, _)| *id).collect();
        for session in sessions {
            self.streams.remove(&session);
            let at = self.now + self.delay();
            self.at(at, Event::HubClosed(session));
        }
        let wait = self.random.u64(200..3_000);
        self.after(wait, Event::StartNode(place));
    }

    fn kill_something(&mut self) {
        if !self.is_calm {
            let place = self.random.usize(..self.nodes.len());
            if self.nodes[place].agent.is_some() {
                self.kill(place);
            }
            let wait = self.random.u64(2_000..20_000);
            self.after(wait, Event::KillNode);
        }
    }

    fn traffic(&mut self) {
        for place in 0..self.nodes.len() {
            let count = self.random.u64(..5);
            let node = &mut self.nodes[place];
            let is_over = self.now + QUIET >= self.end;
            if node.agent.is_some() && !is_over {
                node.counted += count;
                let process = (place, node.disk.incarnation);
                *self.history.counted.entry(process).or_default() += count;
            }
        }
        self.after(700, Event::Traffic);
    }

    // The network.

    fn dialed(&mut self, place: usize, link: LinkId) -> Result<(), String> {
        let fails = self.hub.is_none() || (!self.is_calm && self.random.u8(..5) == 0);
        if self.nodes[place].agent.is_none() {
            return Ok(());
        }
        if fails {
            return self.node(place, AgentEvent::Disconnected(link));
        }
        self.last_session += 1;
        let session = SessionId(self.last_session);
        self.nodes[place].link = Some(link);
        self.streams.insert(session, Stream { node: place, link, up: self.now, down: self.now });
        self.hub(HubEvent::Opened(session, "simulated".into()));
        self.node(place, AgentEvent::Connected(link))
    }

    fn hang_up(&mut self, place: usize, link: LinkId) {
        let found = self.streams.iter().find(|(_, it)| it.node == place && it.link == link);
        if let Some(session) = found.map(|(session, _)| *session) {
            self.streams.remove(&session);
            let at = self.now + self.delay();
            self.at(at, Event::HubClosed(session));
        }
    }

    fn send_up(&mut self, place: usize, link: LinkId, says: FromNode) {
        if let FromNode::Ack(tollgate_fleet_proto::Ack { held, .. })
        | FromNode::Nack(tollgate_fleet_proto::Nack { held, .. }) = &says
        {
            for held in held {
                self.nodes[place].versions.acknowledged(&held.app, held.version);
            }
        }
        let delay = self.delay();
        let Some((session, stream)) =
            self.streams.iter_mut().find(|(_, it)| it.node == place && it.link == link)
        else {
            return;
        };
        stream.up = stream.up.max(self.now + delay);
        let (session, at) = (*session, stream.up);
        self.at(at, Event::ToHub(session, Box::new(says)));
    }

    fn send_down(&mut self, session: SessionId, outgoing: Outgoing) {
        if matches!(outgoing, Outgoing::Bundle(_)) {
            self.last_bundle_at = self.now;
        }
        for says in outgoing.messages() {
            let delay = self.delay();
            let Some(stream) = self.streams.get_mut(&session) else { return };
            stream.down = stream.down.max(self.now + delay);
            let (node, link, at) = (stream.node, stream.link, stream.down);
            self.at(at, Event::ToNode(node, link, Box::new(says)));
        }
    }

    /// The stream is lost. What was sent may still arrive, or not; each end notices by itself.
    fn break_stream(&mut self, session: SessionId) {
        let Some(stream) = self.streams.remove(&session) else { return };
        self.report.breaks += 1;
        if self.random.bool() {
            let lost = |event: &Event| match event {
                Event::ToHub(of, _) => *of == session,
                Event::ToNode(place, link, _) => (*place, *link) == (stream.node, stream.link),
                _ => false,
            };
            self.events.retain(|_, event| !lost(event));
        }
        let (hub, node) = (stream.up + self.delay(), stream.down + self.delay());
        self.at(hub, Event::HubClosed(session));
        self.at(node, Event::NodeClosed(stream.node, stream.link));
    }

    fn break_something(&mut self) {
        if !self.is_calm {
            let sessions: Vec<_> = self.streams.keys().copied().collect();
            if let Some(session) = self.random.choice(sessions) {
                self.break_stream(session);
            }
            let wait = self.random.u64(500..8_000);
            self.after(wait, Event::Break);
        }
    }

    // The control plane.

    fn hub(&mut self, event: HubEvent) {
        let Some(hub) = &mut self.hub else { return };
        for action in hub.on(event, self.now) {
            match action {
                Action::Send(session, outgoing) => self.send_down(session, outgoing),
                Action::Close(session, _) => {
                    if let Some(stream) = self.streams.remove(&session) {
                        let at = stream.down + self.delay();
                        self.at(at, Event::NodeClosed(stream.node, stream.link));
                    }
                }
                Action::Store { session, node, incarnation, report } => {
                    let place = node.trim_start_matches("node").parse().unwrap_or(0);
                    let count = report.rules.iter().map(|rule| rule.denied).sum();
                    let (process, sequence) = ((place, incarnation), report.sequence);
                    let at = self.now + self.delay();
                    // In the order of each stream.
                    let at = self.streams.get_mut(&session).map_or(at, |stream| {
                        stream.up = stream.up.max(at);
                        stream.up
                    });
                    let stored = Event::Stored(self.generation, session, sequence, process, count);
                    self.at(at, stored);
                }
                Action::Replied(_) => {}
            }
        }
    }

    fn kill_control(&mut self) {
        if self.is_calm {
            return;
        }
        self.hub = None;
        for session in self.streams.keys().copied().collect::<Vec<_>>() {
            self.break_stream(session);
        }
        if self.random.u8(..4) == 0 {
            self.published = self.copy.clone();
        }
        let wait = self.random.u64(500..10_000);
        self.after(wait, Event::StartControl);
        let wait = wait + self.random.u64(5_000..40_000);
        self.after(wait, Event::KillControl);
    }

    fn start_control(&mut self) {
        if self.hub.is_some() {
            return;
        }
        self.generation += 1;
        let bug = match self.bug {
            Some(Bug::Hub(bug)) => Some(bug),
            _ => None,
        };
        let settings = HubSettings { bug, ..HubSettings::new("e", "r") };
        self.hub = Some(Hub::new(settings));
        self.publish();
    }

    fn publish(&mut self) {
        let before = self.hub.as_ref().map(Hub::published).unwrap_or_default();
        let prepared = Arc::new(Prepared::new(&self.published, &before));
        self.hub(HubEvent::Published(prepared));
    }

    fn change(&mut self, app: &str, kind: Kind, domain: &str) {
        // After the database was restored, versions are used again.
        let known = self.published.apps.iter().find(|it| it.app == app).map(|it| it.version);
        let version =
            if self.is_calm || known.is_none() { self.last_version + 1 } else { known.unwrap_or(0) + 1 };
        self.last_version = self.last_version.max(version);
        self.published.apps.retain(|it| it.app != app);
        let documents = vec![Document::new(domain, content::text(app, version, kind, domain))];
        self.published.apps.push(AppDocuments { app: app.to_owned(), version, documents });
        self.published.apps.sort_by(|a, b| a.app.cmp(&b.app));
    }

    fn publish_something(&mut self) {
        if self.is_calm {
            return;
        }
        for _ in 0..self.random.u8(1..4) {
            let app = APPS[self.random.usize(..APPS.len())];
            match self.random.u8(..10) {
                0 => self.published.apps.retain(|it| it.app != app),
                1 => self.change(app, Kind::Good, "shared"),
                _ => {
                    let kind = Kind::any(&mut self.random);
                    self.change(app, kind, app);
                }
            }
        }
        if self.random.u8(..5) == 0 {
            self.copy = self.published.clone();
        }
        self.publish();
        let wait = self.random.u64(300..6_000);
        self.after(wait, Event::Publish);
    }

    /// From now on nothing fails. A few last publications follow, and some apps stay bad.
    fn calm(&mut self) {
        self.is_calm = true;
        for _ in 0..3 {
            for app in APPS {
                let kind = Kind::any(&mut self.random);
                self.change(app, kind, app);
            }
            self.publish();
        }
        if self.random.bool() {
            let app = APPS[self.random.usize(..APPS.len())];
            self.published.apps.retain(|it| it.app != app);
            self.publish();
        }
        if self.hub.is_none() {
            self.start_control();
        }
    }

    fn check_end(&self) -> Result<(), String> {
        let hub = self.hub.as_ref().ok_or("the control plane is dead")?;
        if self.last_bundle_at + QUIET > self.end {
            return Err("the hub sends rules again and again".to_owned());
        }
        let shown = hub.nodes(self.now);
        for node in &self.nodes {
            let agent = node.agent.as_ref().ok_or(format!("C9: {} is dead", node.id()))?;
            if !agent.is_connected() {
                return Err(format!("C9: {} is not connected", node.id()));
            }
            let shown = shown.iter().find(|shown| shown.id == node.id()).ok_or("a node is unknown")?;
            for app in &self.published.apps {
                let read = content::read(&app.documents[0].yaml);
                let in_force = node.in_force.iter().find(|it| it.app == app.app).map(|it| it.version);
                let shown = shown.apps.iter().find(|it| *it.app == *app.app).ok_or("an app is unknown")?;
                let is_right = match read.kind {
                    Kind::Good => in_force == Some(app.version) && shown.fault.is_none(),
                    _ => in_force != Some(app.version) && shown.fault.is_some(),
                };
                if !is_right || shown.acked != in_force {
                    return Err(format!("C9: {} has {in_force:?} of {read:?}, shown {shown:?}", node.id()));
                }
            }
            let is_removed = |app: &String| self.published.apps.iter().all(|it| it.app != *app);
            if let Some(kept) = node.in_force.iter().find(|it| is_removed(&it.app)) {
                return Err(format!("{} still has {} in force", node.id(), kept.app));
            }
        }
        let lives = |(place, process): (usize, u64)| self.nodes[place].disk.incarnation == process;
        self.history.check(lives)
    }
}

fn event_name(event: &Event) -> &'static str {
    match event {
        Event::ToHub(_, says) => match **says {
            FromNode::Hello(_) => "hello",
            FromNode::Ack(_) => "ack",
            FromNode::Nack(_) => "nack",
            _ => "report",
        },
        Event::ToNode(_, _, says) => match **says {
            FromControl::Welcome(_) => "welcome",
            FromControl::Seen(_) => "seen",
            _ => "rules",
        },
        Event::Dialed(..) => "dialed",
        Event::HubClosed(_) | Event::NodeClosed(..) => "closed",
        Event::Validated(..) => "validated",
        Event::Applied(..) => "applied",
        Event::Stored(..) => "stored",
        Event::Wake(_) | Event::HubTick => "time",
        Event::Publish => "publish",
        Event::Traffic => "traffic",
        Event::Break => "break",
        Event::KillNode | Event::StartNode(_) => "node",
        Event::KillControl | Event::StartControl => "control",
        Event::Calm => "calm",
    }
}
