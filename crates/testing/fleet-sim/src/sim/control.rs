//! The control plane of the simulation: a hub that may be killed, a database that stays, or is restored from
//! an old copy.

use std::sync::Arc;

use tollgate_fleet_hub::{Action, Event as HubEvent, Hub, HubSettings, Liveness, MissingApps, Prepared};
use tollgate_fleet_proto::published::{AppDocuments, Document, Published};

use super::content::{self, RulesEffect};
use super::laws::Lineage;
use super::rolling::Rollouts;
use super::world::{SimEvent, World};

const APPS: [&str; 4] = ["a", "b", "c", "d"];

impl World {
    pub(super) fn hub(&mut self, event: HubEvent) {
        let Some(hub) = &mut self.hub else { return };
        let actions = hub.on(event, self.now);
        for app in APPS {
            // Found without the states of nodes, of which these are copies.
            let nodes = hub.nodes_of(app, self.now);
            let live = nodes.iter().filter(|node| node.connected && node.liveness == Liveness::Live);
            let ahead = live.flat_map(|node| &node.apps).filter(|app| app.is_ahead);
            let ahead: Vec<_> = ahead.filter_map(|app| app.acked).collect();
            assert_eq!(hub.nodes_ahead(app, self.now), ahead, "of {app}");
        }
        for action in actions {
            match action {
                Action::Send(session, outgoing) => self.send_down(session, outgoing),
                Action::Close(session, _) => {
                    if let Some(stream) = self.streams.remove(&session) {
                        let at = stream.down + self.delay();
                        self.at(at, SimEvent::NodeClosed(stream.node, stream.link));
                    }
                }
                Action::Store { session, node, incarnation, report } => {
                    let place = node.trim_start_matches("node").parse().unwrap_or(0);
                    let count = report.rules.iter().map(|rule| rule.denied).sum();
                    let process = (place, incarnation);
                    let sequence = report.sequence;
                    let at = self.now + self.delay();
                    // In the order of each stream.
                    let at = self.streams.get_mut(&session).map_or(at, |stream| {
                        stream.up = stream.up.max(at);
                        stream.up
                    });
                    let stored = SimEvent::Stored(self.generation, session, sequence, process, count);
                    self.at(at, stored);
                }
                // Sometimes the hub is killed before the database has it.
                Action::Bind { node, sha256 } if self.random.u8(..4) > 0 => {
                    self.bindings.insert(node, sha256);
                }
                Action::Claimed { node, .. } => panic!("the hub took {node} for another node"),
                Action::Bind { .. } | Action::Replied { .. } => {}
            }
        }
    }

    pub(super) fn kill_control(&mut self) {
        if self.is_calm {
            return;
        }
        self.hub = None;
        for session in self.streams.keys().copied().collect::<Vec<_>>() {
            self.break_stream(session);
        }
        if self.random.u8(..4) == 0 {
            self.published = self.copy.clone();
            self.rollouts = self.copied_rollouts.clone();
            self.lineage = self.copied_lineage.clone();
        } else if self.keeps && self.random.u8(..4) == 0 {
            // The database is lost, and its copy too.
            (self.published, self.copy) = (Published::default(), Published::default());
            (self.rollouts, self.copied_rollouts) = (Rollouts::default(), Rollouts::default());
            (self.lineage, self.copied_lineage) = (Lineage::default(), Lineage::default());
            self.epoch += 1;
        }
        let wait = self.random.u64(500..10_000);
        self.after(wait, SimEvent::StartControl);
        let wait = wait + self.random.u64(5_000..40_000);
        self.after(wait, SimEvent::KillControl);
    }

    pub(super) fn start_control(&mut self) {
        if self.hub.is_some() {
            return;
        }
        self.generation += 1;
        let mistakes = self.made.hub;
        let bindings = self.bindings.clone();
        let missing_apps = if self.keeps { MissingApps::Kept } else { MissingApps::Removed };
        let past = self.lineage.past();
        let epoch = format!("e{}", self.epoch);
        let settings = HubSettings { mistakes, bindings, past, missing_apps, ..HubSettings::new(epoch, "r") };
        self.hub = Some(Hub::new(settings));
        self.take_over();
        self.publish();
    }

    pub(super) fn publish(&mut self) {
        for app in &mut self.published.apps {
            app.forced = self.lineage.published(app);
        }
        let before = self.hub.as_ref().map(Hub::published).unwrap_or_default();
        let prepared = Arc::new(Prepared::new(&self.published, &before));
        self.hub(HubEvent::Published(prepared));
    }

    /// The version after `known`. After the database was restored, versions are used again.
    pub(super) fn next_version(&mut self, known: u64) -> u64 {
        let version = if self.is_calm || known == 0 { self.last_version + 1 } else { known + 1 };
        self.last_version = self.last_version.max(version);
        version
    }

    pub(super) fn change(&mut self, app: &str, kind: RulesEffect, domain: &str) {
        let newest = |it: &AppDocuments| it.candidate.as_ref().map_or(it.version, |it| it.version);
        let known = self.published.apps.iter().find(|it| it.app == app).map_or(0, newest);
        let version = self.next_version(known);
        self.supersede(app);
        let documents = vec![Document::new(domain, content::text(app, version, kind, domain))];
        // In the end an administrator decides about what nodes have from databases that were lost.
        let forced = if self.is_calm { version } else { 0 };
        self.published.apps.retain(|it| it.app != app);
        self.published.apps.push(AppDocuments { forced, ..AppDocuments::new(app, version, documents) });
        self.published.apps.sort_by(|a, b| a.app.cmp(&b.app));
    }

    pub(super) fn publish_something(&mut self) {
        if self.is_calm {
            return;
        }
        for _ in 0..self.random.u8(1..4) {
            let app = APPS[self.random.usize(..APPS.len())];
            match self.random.u8(..10) {
                0 if self.keeps => {}
                0 => {
                    self.supersede(app);
                    self.published.apps.retain(|it| it.app != app);
                }
                2..=5 if !self.rollouts.kept.contains_key(app) => {
                    let kind = RulesEffect::any(&mut self.random);
                    self.begin_rollout(app, kind, app);
                }
                1 => self.change(app, RulesEffect::Good, "shared"),
                _ => {
                    let kind = RulesEffect::any(&mut self.random);
                    self.change(app, kind, app);
                }
            }
        }
        let is_copied = self.random.u8(..5) == 0;
        self.publish();
        if is_copied {
            self.copy = self.published.clone();
            self.copied_rollouts = self.rollouts.clone();
            self.copied_lineage = self.lineage.clone();
        }
        let wait = self.random.u64(300..6_000);
        self.after(wait, SimEvent::Publish);
    }

    /// From now on nothing fails. A few last publications follow, and some apps stay bad.
    pub(super) fn calm(&mut self) {
        self.is_calm = true;
        for _ in 0..3 {
            for app in APPS {
                let kind = RulesEffect::any(&mut self.random);
                self.change(app, kind, app);
            }
            self.publish();
        }
        for app in APPS {
            if self.random.bool() {
                let kind = RulesEffect::any(&mut self.random);
                self.begin_rollout(app, kind, app);
            }
        }
        self.publish();
        if self.random.bool() && !self.keeps {
            let app = APPS[self.random.usize(..APPS.len())];
            self.supersede(app);
            self.published.apps.retain(|it| it.app != app);
            self.publish();
        }
        if self.hub.is_none() {
            self.start_control();
        }
    }
}
