//! The record of a node, compared with the published rules: for pages, metrics and majorities.

use std::sync::Arc;

use crate::missing_apps::MissingApps;
use crate::node::NodeRecord;
use crate::node::apps::App;
use crate::node_state::{AppState, Liveness, NodeState, Shortfall};
use crate::published::{Prepared, PreparedApp, Wanted};

impl NodeRecord {
    /// Whether it has the version of every app that all nodes should have, or a later one. One step for each
    /// app: both are in the order of their names.
    pub(crate) fn has_all(&self, published: &Prepared) -> bool {
        let mut held = self.apps.iter();
        published.apps.iter().all(|(name, wanted)| {
            let Some(stable) = &wanted.stable else { return true };
            let held = held.find(|(it, _)| *it >= name).filter(|(it, _)| *it == name);
            held.filter(|(_, app)| !app.is_foreign)
                .and_then(|(_, app)| app.acked)
                .is_some_and(|(version, _)| version >= stable.version)
        })
    }

    /// The state of the node, with that of all apps.
    pub(crate) fn state(&self, published: &Prepared, missing: MissingApps, liveness: Liveness) -> NodeState {
        self.state_with(liveness, self.app_states(published, missing).collect())
    }

    /// The state of the node, with that of the apps whose version it lacks, has rejected or is ahead of. One
    /// step where all are as they should be and have not changed since they were looked at; `publication` is
    /// the number of `published`, from 1.
    pub(crate) fn state_lagging(
        &self,
        published: &Prepared,
        publication: u64,
        missing: MissingApps,
        liveness: Liveness,
    ) -> NodeState {
        let mut lagging = Vec::new();
        if !self.is_in_order(publication) {
            let is_lagging = |app: &AppState| app.is_ahead || app.fault.is_some() || app.acked < app.wanted;
            lagging.extend(self.app_states(published, missing).filter(is_lagging));
            if lagging.is_empty() && self.has_all(published) {
                self.apps.in_order_for.set(publication);
            }
        }
        self.state_with(liveness, lagging)
    }

    /// True if every app was as it should be at the last check, and none has changed since.
    pub(crate) fn is_in_order(&self, publication: u64) -> bool {
        self.apps.in_order_for.get() == publication
    }

    fn app_states(&self, published: &Prepared, missing: MissingApps) -> impl Iterator<Item = AppState> {
        let wanted =
            published.apps.iter().map(|(name, wanted)| self.app_state(name, wanted, self.apps.get(name)));
        let removed = self.apps.iter().filter(|(name, _)| !published.apps.contains_key(*name));
        wanted.chain(removed.filter_map(move |(name, app)| self.removed(name, app, missing)))
    }

    /// The state of the node, with that of one app.
    pub(crate) fn state_of(
        &self,
        app: &str,
        published: &Prepared,
        missing: MissingApps,
        liveness: Liveness,
    ) -> NodeState {
        self.state_with(liveness, self.app_state_of(app, published, missing).into_iter().collect())
    }

    /// The state of one app; `None` if it is neither published nor held.
    pub(crate) fn app_state_of(
        &self,
        app: &str,
        published: &Prepared,
        missing: MissingApps,
    ) -> Option<AppState> {
        match (published.apps.get_key_value(app), self.apps.get_key_value(app)) {
            (Some((name, wanted)), held) => Some(self.app_state(name, wanted, held.map(|it| it.1))),
            (None, Some((name, held))) => self.removed(name, held, missing),
            (None, None) => None,
        }
    }

    /// Whether it holds these rules of an app, as this database has published them.
    pub(crate) fn holds_exactly(&self, app: &str, rules: &PreparedApp) -> bool {
        let held = self.apps.get(app).filter(|it| !it.is_foreign);
        held.is_some_and(|it| it.acked == Some((rules.version, rules.sha256)))
    }

    /// Compares the versions that it holds with those that it should have.
    pub(crate) fn shortfall(&self, published: &Prepared) -> Shortfall {
        let mut shortfall = Shortfall::default();
        for (name, wanted) in &published.apps {
            let held = self.apps.get(name);
            let rules = self.wanted(name, wanted);
            let acked = held.and_then(|it| it.acked).map(|(version, _)| version);
            shortfall.is_behind |= acked != rules.map(|it| it.version);
            shortfall.has_rejected |= held.is_some_and(|it| it.fault_with(rules).is_some());
        }
        let removed = self.apps.iter().filter(|(name, _)| !published.apps.contains_key(*name));
        for (_, held) in removed.filter(|(_, held)| held.acked.is_some()) {
            shortfall.is_behind = true;
            shortfall.has_rejected |= held.fault.is_some();
        }
        shortfall
    }

    fn app_state(&self, name: &Arc<str>, wanted: &Wanted, held: Option<&App>) -> AppState {
        let rules = self.wanted(name, wanted);
        let acked = held.and_then(|it| it.acked);
        let is_kept = |version: u64| held.is_some_and(|it| it.is_foreign) && version >= wanted.forced;
        let is_ahead = acked.is_some_and(|(version, sha256)| {
            let Some(rules) = rules else { return is_kept(version) };
            let is_other = sha256 != rules.sha256;
            let is_newer = version > rules.version || (version == rules.version && is_other);
            (is_kept(version) && is_other) || (self.is_of_epoch && is_newer)
        });
        AppState {
            app: Arc::clone(name),
            wanted: rules.map(|rules| rules.version),
            acked: acked.map(|(version, _)| version),
            fault: held.and_then(|it| it.fault_with(rules)).cloned(),
            is_ahead,
        }
    }

    /// State of an app that is not published any more; `None` if the node does not hold it.
    fn removed(&self, name: &Arc<str>, held: &App, missing: MissingApps) -> Option<AppState> {
        let acked = Some(held.acked?.0);
        let is_ahead = missing == MissingApps::Kept;
        Some(AppState { app: Arc::clone(name), wanted: None, acked, fault: held.fault.clone(), is_ahead })
    }

    fn state_with(&self, liveness: Liveness, apps: Vec<AppState>) -> NodeState {
        NodeState {
            id: self.hello.node.clone(),
            incarnation: self.hello.incarnation,
            name: self.hello.name.clone(),
            labels: self.hello.labels.clone(),
            address: self.address.clone(),
            software: self.hello.software.clone(),
            language: self.hello.language,
            local_domains: self.hello.local_domains.clone(),
            connected: self.session.is_some(),
            liveness,
            last_seen: self.last_seen,
            skew_ms: self.skew_ms,
            state_error: self.state_error.clone(),
            claim: None,
            is_bound: false,
            is_new: !self.is_proven,
            apps,
        }
    }
}
