//! Rollouts in the simulation: the machine of the control plane over a database that stays, a process that
//! dies or is overtaken, and operators at any moment.

use std::collections::BTreeMap;

use tollgate_control::rollout::{Action, Ask, Event, Machine, PlanInput, Progress, SeenNode, Span, State};
use tollgate_fleet_hub::{Hub, Liveness};
use tollgate_fleet_proto::published::{AppDocuments, Candidate, Document};
use tollgate_fleet_proto::reach::Reach;

use super::content::{self, RulesEffect};
use super::rolling::{Driver, RolloutMistake, StoredRollout};
use super::world::{SimEvent as WorldEvent, World};

const PLANS: [&str; 5] =
    ["1 node\nall", "50 %\nall", "zone in (a)\nall", "50 %\nzone in (a)\nall", "1 node\n2 nodes\nall"];

impl World {
    /// Begins a rollout of a new version of `app`, which is published already.
    pub(super) fn begin_rollout(&mut self, app: &str, kind: RulesEffect, domain: &str) {
        let Some(at) = self.published.apps.iter().position(|it| it.app == app) else { return };
        let stable = self.published.apps[at].clone();
        let version = self.next_version(stable.version);
        self.rollouts.last += 1;
        let steps = PLANS[self.random.usize(..PLANS.len())].to_owned();
        let soak_s = self.random.u8(1..4).to_string();
        let auto_rollback = if self.random.u8(..3) == 0 { "no" } else { "yes" }.to_owned();
        let Ok(plan) = (PlanInput { steps, soak_s, auto_rollback }).check() else { return };
        let progress = Progress::new(format!("{app}{}", self.rollouts.last));
        let documents = vec![Document::new(domain, content::text(app, version, kind, domain))];
        let candidate =
            Candidate { version, documents, step: progress.number(), reach: progress.reach.clone() };
        let text = stable.documents[0].yaml();
        let before = (content::read(text).kind, text.rsplit(' ').next().unwrap_or_default().to_owned());
        let etag = self.rollouts.last * 1_000;
        let kept = StoredRollout { plan, progress, etag, from: stable.version, to: version, before };
        self.rollouts.kept.insert(app.to_owned(), kept);
        self.published.apps[at].candidate = Some(Box::new(candidate));
        self.report.rollouts += 1;
    }

    /// Another version for all nodes ends the rollout.
    pub(super) fn supersede(&mut self, app: &str) {
        self.rollouts.kept.remove(app);
    }

    /// Starts the process that advances rollouts: a previous one is overtaken, and may not know it yet.
    pub(super) fn take_over(&mut self) {
        self.term += 1;
        let old = std::mem::replace(&mut self.driver, Driver { term: self.term, ..Driver::default() });
        if !self.is_calm && !old.machines.is_empty() && self.random.bool() {
            let wait = self.random.u64(100..4_000);
            self.after(wait, WorldEvent::OldDriver(Box::new(old)));
        }
    }

    /// Once a second.
    pub(super) fn roll(&mut self) -> Result<(), String> {
        if self.hub.is_none() {
            return Ok(());
        }
        self.operate()?;
        let mut driver = std::mem::take(&mut self.driver);
        let rolled = self.drive(&mut driver);
        self.driver = driver;
        rolled
    }

    /// A process that was overtaken continues with its old state.
    pub(super) fn old_driver(&mut self, mut driver: Driver) -> Result<(), String> {
        // It was paused since: it reads current state, but has older state in memory.
        self.drive(&mut driver)
    }

    fn drive(&mut self, driver: &mut Driver) -> Result<(), String> {
        let Some(hub) = &self.hub else { return Ok(()) };
        let now_ms = self.now_ms();
        let is_current = driver.term == self.term;
        let seen: BTreeMap<String, Vec<SeenNode>> = self
            .rollouts
            .kept
            .iter()
            .map(|(app, kept)| (app.clone(), seen(hub, self.now, app, kept.to)))
            .collect();
        driver.machines.retain(|app, _| self.rollouts.kept.contains_key(app));
        for (app, seen) in seen {
            let Some(kept) = self.rollouts.kept.get(&app).cloned() else { continue };
            let knows = driver.machines.get(&app).is_some_and(|(etag, _)| *etag == kept.etag);
            if is_current && !knows {
                let machine = Machine::new(kept.plan.clone(), kept.to, kept.progress.clone(), now_ms);
                driver.machines.insert(app.clone(), (kept.etag, machine.making(self.made.rollouts)));
            }
            let Some((etag, machine)) = driver.machines.get_mut(&app) else { continue };
            let before = machine.progress().clone();
            let action = machine.on(Event::Nodes(&seen), now_ms).ok().flatten();
            let after = machine.progress().clone();
            let Some(action) = action else {
                if is_current && before.state == State::Running && before.step_at.is_some() {
                    not_rejected(&app, &seen)?;
                }
                continue;
            };
            let may_write = (is_current && *etag == kept.etag)
                || self.made.surroundings.has(RolloutMistake::OldTermWrites);
            if !may_write {
                continue;
            }
            *etag = kept.etag + 1;
            if after.step > before.step || after.state == State::Done {
                self.step_is_over(&app, &before.reach, &seen, kept.to)?;
            }
            self.write(&app, action, after)?;
        }
        Ok(())
    }

    /// An operator does something, perhaps; in the end, halted rollouts are withdrawn.
    fn operate(&mut self) -> Result<(), String> {
        let apps: Vec<String> = self.rollouts.kept.keys().cloned().collect();
        for app in apps {
            let Some(kept) = self.rollouts.kept.get(&app).cloned() else { continue };
            let waits = matches!(kept.progress.state, State::Halted | State::Paused);
            let ask = match self.random.u8(..60) {
                _ if self.is_calm && waits => Ask::Withdraw("calm".to_owned()),
                // A step that reaches no node at all waits for an operator.
                _ if self.is_calm && self.reaches_nobody(&app, &kept) => Ask::Advance,
                _ if self.is_calm => continue,
                0 => Ask::Pause,
                1 => Ask::Advance,
                2 => Ask::Withdraw("an operator".to_owned()),
                3..=8 if waits => Ask::Resume,
                _ => continue,
            };
            let mut machine = Machine::new(kept.plan, kept.to, kept.progress, self.now_ms());
            let asked = machine.on(Event::Asked(ask), self.now_ms());
            if let Ok(Some(action)) = asked {
                self.write(&app, action, machine.progress().clone())?;
            }
        }
        Ok(())
    }

    fn reaches_nobody(&self, app: &str, kept: &StoredRollout) -> bool {
        let Some(hub) = &self.hub else { return false };
        let is_reached = |node: SeenNode| {
            let labels = node.labels.iter().map(|(key, value)| (&**key, &**value));
            node.acked >= kept.to || kept.progress.reach.includes(&node.id, labels)
        };
        kept.progress.step_at.is_some() && !seen(hub, self.now, app, kept.to).into_iter().any(is_reached)
    }

    /// One transaction; then its result is sent to nodes, unless the process is killed first.
    fn write(&mut self, app: &str, action: Action, progress: Progress) -> Result<(), String> {
        let Some(kept) = self.rollouts.kept.get_mut(app) else { return Ok(()) };
        if !progress.reach.covers(&kept.progress.reach) || progress.step < kept.progress.step {
            return Err(format!("R1: the rollout of {app} shrinks: {:?} to {progress:?}", kept.progress));
        }
        (kept.etag, kept.progress) = (kept.etag + 1, progress.clone());
        let kept = kept.clone();
        let Some(at) = self.published.apps.iter().position(|it| it.app == app) else { return Ok(()) };
        match action {
            Action::Keep => {}
            Action::Reach => {
                if let Some(candidate) = &mut self.published.apps[at].candidate {
                    (candidate.step, candidate.reach) = (progress.number(), progress.reach);
                }
            }
            Action::Finish => {
                if let Some(candidate) = self.published.apps[at].candidate.take() {
                    let Candidate { version, documents, .. } = *candidate;
                    self.published.apps[at] = AppDocuments::new(app, version, documents);
                }
            }
            Action::Withdraw => {
                self.report.withdrawn += 1;
                let version = if self.made.surroundings.has(RolloutMistake::OldVersionRepublished) {
                    kept.from
                } else {
                    self.next_version(kept.to)
                };
                let (kind, domain) = kept.before;
                let documents = vec![Document::new(&*domain, content::text(app, version, kind, &domain))];
                self.published.apps[at] = AppDocuments::new(app, version, documents);
            }
        }
        if !progress.state.is_open() {
            self.rollouts.kept.remove(app);
        }
        if action == Action::Keep {
            return Ok(());
        }
        if !self.is_calm && self.random.u8(..40) == 0 {
            self.kill_control();
        } else {
            self.publish();
        }
        Ok(())
    }

    /// A step that ends by itself has its nodes: each live one that it reached holds the candidate.
    fn step_is_over(&self, app: &str, reach: &Reach, seen: &[SeenNode], to: u64) -> Result<(), String> {
        let mut holds = 0;
        for node in seen.iter().filter(|node| node.is_live && !node.is_left_out) {
            let labels = node.labels.iter().map(|(key, value)| (&**key, &**value));
            let Some(real) = self.nodes.iter().find(|it| it.id() == node.id) else { continue };
            // A node that has just started puts its saved rules in force a moment later.
            let has = real.in_force.iter().any(|it| it.app == app && it.version >= to)
                || real.versions.has_acknowledged(app, to);
            if reach.includes(&node.id, labels) && real.agent.is_some() && !has {
                return Err(format!("R2: {} lacks version {to} of {app}, and its step is over", node.id));
            }
            holds += usize::from(has);
        }
        if holds == 0 && seen.iter().all(|node| node.acked < to) {
            return Err(format!("R2: no node holds version {to} of {app}, and its step is over"));
        }
        Ok(())
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.now.as_nanos() / 1_000_000).unwrap_or(i64::MAX)
    }
}

fn not_rejected(app: &str, seen: &[SeenNode]) -> Result<(), String> {
    match seen.iter().find(|node| node.has_rejected && !node.is_left_out) {
        Some(node) => Err(format!("R3: {} rejected the candidate of {app}, and no gate failed", node.id)),
        None => Ok(()),
    }
}

/// The nodes as the control plane sees them.
fn seen(hub: &Hub, now: tollgate_core::Timestamp, app: &str, candidate: u64) -> Vec<SeenNode> {
    let now_ms = i64::try_from(now.as_nanos() / 1_000_000).unwrap_or(i64::MAX);
    let one = |node: tollgate_fleet_hub::NodeState| {
        let of_app = node.apps.iter().find(|it| *it.app == *app);
        SeenNode {
            name: node.id.clone(),
            labels: node.labels.iter().map(|it| (it.key.clone(), it.value.clone())).collect(),
            is_live: node.connected && node.liveness == Liveness::Live,
            acked: of_app.and_then(|it| it.acked).unwrap_or(0),
            has_rejected: of_app
                .and_then(|it| it.fault.as_ref())
                .is_some_and(|fault| fault.version == candidate),
            is_left_out: of_app.is_some_and(|it| it.is_ahead),
            is_new: false,
            // Nodes count nothing here, so there are no reports to wait for.
            last_report: Some(Span { from_ms: now_ms, to_ms: now_ms }),
            id: node.id,
        }
    };
    hub.nodes(now).into_iter().map(one).collect()
}
