//! The world: events, their times and their consequences.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::hash::{DefaultHasher, Hasher as _};
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_fleet_agent::{Action as Do, Event as AgentEvent, LinkId, Validated};
use tollgate_fleet_hub::{Event as HubEvent, Hub, Liveness, NodeState, SessionId};
use tollgate_fleet_proto::published::Published;
use tollgate_fleet_proto::{FromControl, FromNode};
use tollgate_mistakes::Mistakes;

use super::content::{self, RulesEffect};
use super::laws::{History, Lineage};
use super::node::SimNode;
use super::rolling::{Driver, RolloutMistake, Rollouts};

/// Length of the part in which anything may fail, and of the part in which nothing does.
const CHAOS: Duration = Duration::from_secs(60);
const CALM: Duration = Duration::from_secs(100);
/// The end of the calm part, in which the hub has nothing left to send.
const QUIET: Duration = Duration::from_secs(20);

/// A mistake that is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A mistake of the node's end.
    Agent(tollgate_fleet_agent::Mistake),
    /// A mistake of the control plane's end.
    Hub(tollgate_fleet_hub::Mistake),
    /// A mistake of the rollout machine.
    Rollout(tollgate_control::rollout::Mistake),
    /// A mistake of the code around that machine.
    Surroundings(RolloutMistake),
}

/// The mistake of a run, at the end that makes it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Made {
    pub(super) agent: Mistakes<tollgate_fleet_agent::Mistake>,
    pub(super) hub: Mistakes<tollgate_fleet_hub::Mistake>,
    pub(super) rollouts: Mistakes<tollgate_control::rollout::Mistake>,
    pub(super) surroundings: Mistakes<RolloutMistake>,
}

impl From<Option<Mistake>> for Made {
    fn from(mistake: Option<Mistake>) -> Self {
        match mistake {
            Some(Mistake::Agent(it)) => Self { agent: it.into(), ..Self::default() },
            Some(Mistake::Hub(it)) => Self { hub: it.into(), ..Self::default() },
            Some(Mistake::Rollout(it)) => Self { rollouts: it.into(), ..Self::default() },
            Some(Mistake::Surroundings(it)) => Self { surroundings: it.into(), ..Self::default() },
            None => Self::default(),
        }
    }
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Equal for equal runs.
    pub trace: u64,
    /// Number of events.
    pub events: u64,
    /// Processes of nodes that died.
    pub crashes: u64,
    /// Apps that a node rejected.
    pub rejected: u64,
    /// Streams that broke.
    pub breaks: u64,
    /// Versions that were rolled out.
    pub rollouts: u64,
    /// Those that were withdrawn.
    pub withdrawn: u64,
}

/// A law was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Seed of the run.
    pub seed: u64,
    /// The broken law and the circumstances.
    pub what: String,
}

/// Runs the world of `seed`.
///
/// # Errors
/// [`Finding`]: a law was broken.
pub fn simulate(seed: u64, mistake: Option<Mistake>) -> Result<Report, Finding> {
    World::new(seed, mistake.into()).run().map_err(|what| Finding { seed, what })
}

#[derive(Debug)]
pub(super) enum SimEvent {
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
    OldDriver(Box<Driver>),
}

/// One stream; both directions keep their order.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) node: usize,
    pub(super) link: LinkId,
    pub(super) up: Timestamp,
    pub(super) down: Timestamp,
}

pub(super) struct World {
    pub(super) random: fastrand::Rng,
    pub(super) made: Made,
    pub(super) now: Timestamp,
    pub(super) end: Timestamp,
    pub(super) is_calm: bool,
    pub(super) queue: BinaryHeap<Reverse<(Timestamp, u64)>>,
    pub(super) events: BTreeMap<u64, SimEvent>,
    pub(super) last_event: u64,
    pub(super) nodes: Vec<SimNode>,
    pub(super) hub: Option<Hub>,
    /// Number of the hub's process.
    pub(super) generation: u64,
    /// Secrets of nodes in the database.
    pub(super) bindings: HashMap<String, [u8; 32]>,
    pub(super) streams: BTreeMap<SessionId, Stream>,
    pub(super) last_session: u64,
    pub(super) published: Published,
    /// An old copy of the database.
    pub(super) copy: Published,
    /// Versions that the database has published, and those in its copy.
    pub(super) lineage: Lineage,
    pub(super) copied_lineage: Lineage,
    /// Names the database.
    pub(super) epoch: u32,
    /// Apps are never removed, and the database may be lost, as that of the control plane.
    pub(super) keeps: bool,
    pub(super) last_version: u64,
    pub(super) rollouts: Rollouts,
    pub(super) copied_rollouts: Rollouts,
    pub(super) driver: Driver,
    pub(super) term: u64,
    pub(super) history: History,
    pub(super) last_bundle_at: Timestamp,
    pub(super) trace: DefaultHasher,
    pub(super) report: Report,
}

impl World {
    fn new(seed: u64, made: Made) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let count = random.usize(1..4);
        let now = Timestamp::from_unix_seconds(1_000_000);
        let mut world = Self {
            nodes: (0..count).map(|place| SimNode::new(place, &mut random)).collect(),
            random,
            made,
            now,
            end: now + CHAOS + CALM,
            is_calm: false,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            last_event: 0,
            hub: None,
            generation: 0,
            bindings: HashMap::new(),
            streams: BTreeMap::new(),
            last_session: 0,
            published: Published::default(),
            copy: Published::default(),
            lineage: Lineage::default(),
            copied_lineage: Lineage::default(),
            epoch: 0,
            keeps: seed.is_multiple_of(3),
            last_version: 0,
            rollouts: Rollouts::default(),
            copied_rollouts: Rollouts::default(),
            driver: Driver::default(),
            term: 0,
            history: History::default(),
            last_bundle_at: now,
            trace: DefaultHasher::new(),
            report: Report::default(),
        };
        world.after(0, SimEvent::StartControl);
        for place in 0..count {
            world.after(0, SimEvent::StartNode(place));
        }
        for event in [SimEvent::HubTick, SimEvent::Publish, SimEvent::Traffic, SimEvent::Break] {
            world.after(1_000, event);
        }
        world.after(7_000, SimEvent::KillNode);
        world.after(20_000, SimEvent::KillControl);
        world.after(u64::try_from(CHAOS.as_millis()).unwrap_or(0), SimEvent::Calm);
        world
    }

    pub(super) fn after(&mut self, ms: u64, event: SimEvent) {
        self.at(self.now + Duration::from_millis(ms), event);
    }

    pub(super) fn at(&mut self, at: Timestamp, event: SimEvent) {
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

    fn on(&mut self, event: SimEvent) -> Result<(), String> {
        match event {
            SimEvent::ToHub(session, says) => self.hub(HubEvent::Said(session, *says)),
            SimEvent::ToNode(place, link, says) => {
                return self.node(place, AgentEvent::Received(link, *says));
            }
            SimEvent::Dialed(place, link) => return self.dialed(place, link),
            SimEvent::HubClosed(session) => self.hub(HubEvent::Closed(session)),
            SimEvent::NodeClosed(place, link) => return self.node(place, AgentEvent::Disconnected(link)),
            // Results for a process that has died meanwhile are lost.
            SimEvent::Validated(place, process, ticket, validated) => {
                self.report.rejected += validated.faults.len() as u64;
                if self.nodes[place].disk.incarnation == process {
                    return self.node(place, AgentEvent::Validated(ticket, *validated));
                }
            }
            SimEvent::Applied(place, process, ticket) => {
                if self.nodes[place].disk.incarnation == process {
                    return self.node(place, AgentEvent::Applied(ticket, Ok(())));
                }
            }
            // A report is lost with the hub that was storing it; the node repeats it.
            SimEvent::Stored(generation, session, sequence, process, count) => {
                if self.hub.is_some() && generation == self.generation {
                    self.history.store(process, sequence, count);
                    self.hub(HubEvent::Stored(session, sequence));
                }
            }
            SimEvent::Wake(place) => {
                self.nodes[place].wakes_at = None;
                if self.nodes[place].wake_at().is_some_and(|at| at <= self.now) {
                    return self.node(place, AgentEvent::Tick);
                }
                return self.carry_out(place, Vec::new());
            }
            SimEvent::HubTick => {
                self.hub(HubEvent::Tick);
                self.after(1_000, SimEvent::HubTick);
                return self.roll();
            }
            SimEvent::Publish => self.publish_something(),
            SimEvent::Traffic => {
                if (self.now.as_nanos() / 700_000_000).is_multiple_of(4) {
                    self.check_lagging()?;
                }
                self.traffic();
            }
            SimEvent::Break => self.break_something(),
            SimEvent::KillNode => self.kill_something(),
            SimEvent::StartNode(place) => return self.start(place),
            SimEvent::KillControl => self.kill_control(),
            SimEvent::StartControl => self.start_control(),
            SimEvent::Calm => self.calm(),
            SimEvent::OldDriver(driver) => return self.old_driver(*driver),
        }
        Ok(())
    }

    pub(super) fn delay(&mut self) -> Duration {
        let ms = if self.is_calm { self.random.u64(1..20) } else { self.random.u64(1..400) };
        Duration::from_millis(ms)
    }

    fn start(&mut self, place: usize) -> Result<(), String> {
        if self.nodes[place].agent.is_some() {
            return Ok(());
        }
        let actions = self.nodes[place].start(self.made.agent, self.random.u64(..), self.now);
        let process = (place, self.nodes[place].disk.incarnation);
        self.history.counted.insert(process, 0);
        self.carry_out(place, actions)
    }

    pub(super) fn node(&mut self, place: usize, event: AgentEvent) -> Result<(), String> {
        let actions = self.nodes[place].on(event, self.now);
        self.carry_out(place, actions)
    }

    fn carry_out(&mut self, place: usize, actions: Vec<Do>) -> Result<(), String> {
        let mut actions: std::collections::VecDeque<Do> = actions.into();
        while let Some(action) = actions.pop_front() {
            // A node may be killed before any of its actions.
            if !self.is_calm && self.random.u16(..1_500) == 0 {
                self.kill(place);
                return Ok(());
            }
            let process = self.nodes[place].disk.incarnation;
            match action {
                Do::Connect(link) => {
                    let at = self.now + self.delay();
                    self.at(at, SimEvent::Dialed(place, link));
                }
                Do::Disconnect(link) => self.hang_up(place, link),
                Do::Send(link, says) => self.send_up(place, link, says),
                Do::Validate(ticket, job) => {
                    let validated = Box::new(job.run(&content::parse));
                    let at = self.now + self.delay();
                    self.at(at, SimEvent::Validated(place, process, ticket, validated));
                }
                Do::Mark(marker) => self.nodes[place].disk.marker = Some(marker),
                Do::Apply(ticket, parsed, _) => {
                    let rules: Vec<_> = parsed.warnings.iter().map(|text| content::read(text)).collect();
                    let node = &mut self.nodes[place];
                    self.lineage.replaced(&node.in_force, &rules, self.keeps)?;
                    node.versions.in_force(&rules)?;
                    node.in_force = rules;
                    // The marker stays on the disk, as after a real crash.
                    if node.in_force.iter().any(|rules| rules.kind == RulesEffect::Poison) {
                        self.kill(place);
                        return Ok(());
                    }
                    let at = self.now + self.delay();
                    self.at(at, SimEvent::Applied(place, process, ticket));
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
                Do::Override(_) | Do::Judge(_) | Do::Command(..) | Do::Rejected(_) => {}
            }
        }
        if let Some(at) = self.nodes[place].wake_at()
            && self.nodes[place].wakes_at != Some(at)
        {
            self.nodes[place].wakes_at = Some(at);
            self.at(at, SimEvent::Wake(place));
        }
        Ok(())
    }

    pub(super) fn kill(&mut self, place: usize) {
        self.report.crashes += 1;
        self.nodes[place].die();
        let sessions: Vec<_> =
            self.streams.iter().filter(|(_, stream)| stream.node == place).map(|(id, _)| *id).collect();
        for session in sessions {
            self.streams.remove(&session);
            let at = self.now + self.delay();
            self.at(at, SimEvent::HubClosed(session));
        }
        let wait = self.random.u64(200..3_000);
        self.after(wait, SimEvent::StartNode(place));
    }

    fn kill_something(&mut self) {
        if !self.is_calm {
            let place = self.random.usize(..self.nodes.len());
            if self.nodes[place].agent.is_some() {
                self.kill(place);
            }
            let wait = self.random.u64(2_000..20_000);
            self.after(wait, SimEvent::KillNode);
        }
    }

    /// The hub remembers which nodes are in order, and shows none of them so any longer than they are.
    fn check_lagging(&self) -> Result<(), String> {
        let Some(hub) = &self.hub else { return Ok(()) };
        let lagging = |mut node: NodeState| {
            node.apps.retain(|it| it.is_ahead || it.fault.is_some() || it.acked < it.wanted);
            node
        };
        let lagging: Vec<_> = hub.nodes(self.now).into_iter().map(lagging).collect();
        let shown = hub.nodes_lagging(self.now);
        if shown == lagging { Ok(()) } else { Err(format!("{lagging:?} is lagging, shown {shown:?}")) }
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
        self.after(700, SimEvent::Traffic);
    }

    fn check_end(&self) -> Result<(), String> {
        self.check_lagging()?;
        let hub = self.hub.as_ref().ok_or("the control plane is dead")?;
        if self.last_bundle_at + QUIET > self.end {
            return Err("the hub sends rules again and again".to_owned());
        }
        let shown = hub.nodes(self.now);
        let live = shown.iter().filter(|node| node.liveness == Liveness::Live);
        let has_all = |node: &&NodeState| {
            let acked = |app: &str| node.apps.iter().find(|it| *it.app == *app).and_then(|it| it.acked);
            self.published.apps.iter().all(|it| acked(&it.app) >= Some(it.version))
        };
        let live_count = live.clone().count();
        let in_force = (live.filter(has_all).count(), live_count, shown.len() - live_count);
        if hub.nodes_in_force(self.now) != in_force {
            return Err(format!("{:?} nodes are in force, shown {in_force:?}", hub.nodes_in_force(self.now)));
        }
        for app in &self.published.apps {
            let of_app = hub.nodes_of(&app.app, self.now);
            let of_all = shown.iter().map(|node| node.apps.iter().filter(|it| *it.app == *app.app));
            if !of_app.iter().map(|node| node.apps.iter()).zip(of_all).all(|(one, all)| one.eq(all)) {
                return Err(format!("the state of {} is not that among all apps", app.app));
            }
        }
        for node in &self.nodes {
            let agent = node.agent.as_ref().ok_or(format!("C9: {} is dead", node.id()))?;
            if !agent.is_connected() {
                return Err(format!("C9: {} is not connected", node.id()));
            }
            let shown = shown.iter().find(|shown| shown.id == node.id()).ok_or("a node is unknown")?;
            for app in &self.published.apps {
                if app.candidate.is_some() {
                    return Err(format!("C9: the rollout of {} does not end", app.app));
                }
                let read = content::read(app.documents[0].yaml());
                let in_force = node.in_force.iter().find(|it| it.app == app.app).map(|it| it.version);
                let shown = shown.apps.iter().find(|it| *it.app == *app.app).ok_or("an app is unknown")?;
                let is_right = match read.kind {
                    RulesEffect::Good => in_force == Some(app.version) && shown.fault.is_none(),
                    _ => in_force != Some(app.version) && shown.fault.is_some(),
                };
                // Rules of another database are version 0.
                let is_kept = self.keeps && shown.acked == Some(0) && in_force.is_some();
                if !is_right || (shown.acked != in_force && !is_kept) {
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

fn event_name(event: &SimEvent) -> &'static str {
    match event {
        SimEvent::ToHub(_, says) => match **says {
            FromNode::Hello(_) => "hello",
            FromNode::Ack(_) => "ack",
            FromNode::Nack(_) => "nack",
            _ => "report",
        },
        SimEvent::ToNode(_, _, says) => match **says {
            FromControl::Welcome(_) => "welcome",
            FromControl::Seen(_) => "seen",
            _ => "rules",
        },
        SimEvent::Dialed(..) => "dialed",
        SimEvent::HubClosed(_) | SimEvent::NodeClosed(..) => "closed",
        SimEvent::Validated(..) => "validated",
        SimEvent::Applied(..) => "applied",
        SimEvent::Stored(..) => "stored",
        SimEvent::Wake(_) | SimEvent::HubTick => "time",
        SimEvent::Publish => "publish",
        SimEvent::Traffic => "traffic",
        SimEvent::Break => "break",
        SimEvent::KillNode | SimEvent::StartNode(_) => "node",
        SimEvent::KillControl | SimEvent::StartControl => "control",
        SimEvent::Calm => "calm",
        SimEvent::OldDriver(_) => "old driver",
    }
}
