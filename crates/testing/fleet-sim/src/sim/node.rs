//! A node of the simulation: a process that may die, a disk that stays, a clock of its own.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_fleet_agent::{
    Action, Agent, AgentSettings, Counts, Event, Identity, LinkId, Marker, RuleState, RuleTotals, Sample,
    Start,
};

use tollgate_fleet_proto::Label;
use tollgate_mistakes::Mistakes;

use super::content::InForce;
use super::laws::Versions;

/// State that survives a crash.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) rules: Option<Vec<u8>>,
    pub(crate) marker: Option<Marker>,
    pub(crate) incarnation: u64,
}

/// A node: its disk, and its process while that lives.
#[derive(Debug)]
pub(crate) struct SimNode {
    pub(crate) place: usize,
    pub(crate) disk: Disk,
    /// `None` while the process is dead.
    pub(crate) agent: Option<Agent>,
    pub(crate) in_force: Vec<InForce>,
    pub(crate) versions: Versions,
    /// Requests counted by this process.
    pub(crate) counted: u64,
    /// Its clock less the world's.
    skew: Duration,
    pub(crate) link: Option<LinkId>,
    /// The next wake-up that is planned.
    pub(crate) wakes_at: Option<Timestamp>,
}

impl SimNode {
    pub(crate) fn new(place: usize, random: &mut fastrand::Rng) -> Self {
        Self {
            place,
            disk: Disk::default(),
            agent: None,
            in_force: Vec::new(),
            versions: Versions::default(),
            counted: 0,
            skew: Duration::from_secs(random.u64(..7_200)),
            link: None,
            wakes_at: None,
        }
    }

    pub(crate) fn id(&self) -> String {
        format!("node{}", self.place)
    }

    /// The node's own time.
    pub(crate) fn time(&self, now: Timestamp) -> Timestamp {
        now + self.skew
    }

    /// The world's time of the node's next tick.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        let at = self.agent.as_ref()?.wake_at();
        (at != Timestamp::NEVER).then(|| Timestamp::ZERO + at.since(Timestamp::ZERO + self.skew))
    }

    pub(crate) fn start(
        &mut self,
        mistakes: Mistakes<tollgate_fleet_agent::Mistake>,
        seed: u64,
        now: Timestamp,
    ) -> Vec<Action> {
        self.disk.incarnation += 1;
        let settings = AgentSettings {
            identity: Identity {
                node: self.id(),
                incarnation: self.disk.incarnation,
                // Every third node is of a release without secrets.
                secret: if self.place % 3 == 2 { Vec::new() } else { self.id().into_bytes() },
            },
            name: self.id(),
            labels: vec![Label {
                key: "zone".into(),
                value: if seed.is_multiple_of(2) { "a" } else { "b" }.into(),
            }],
            software: "simulated".into(),
            seed,
            mistakes,
        };
        let saved = self.disk.rules.as_ref().and_then(|bytes| RuleState::from_bytes(bytes).ok());
        let start = Start { saved, marker: self.disk.marker.clone(), local: Vec::new() };
        let (agent, actions) = Agent::start(settings, start, self.time(now));
        self.agent = Some(agent);
        self.versions.restarted();
        self.in_force.clear();
        self.counted = 0;
        actions
    }

    pub(crate) fn die(&mut self) {
        self.agent = None;
        self.link = None;
    }

    pub(crate) fn on(&mut self, event: Event, now: Timestamp) -> Vec<Action> {
        let time = self.time(now);
        self.agent.as_mut().map_or_else(Vec::new, |agent| agent.on(event, time))
    }

    pub(crate) fn sample(&self) -> Sample {
        let counts = Counts { denied: self.counted, ..Counts::default() };
        let rules = vec![RuleTotals { domain: "d".into(), rule: "r".into(), counts }];
        Sample { rules, ..Sample::default() }
    }
}
