//! One change of the node's rules, in steps: check, mark, apply, save, unmark.
//!
//! A change usually has one step. After a crash, each app has a step and a marker of its own, so that the
//! next crash names the app. Not here: I/O, which the actions ask for (`agent`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tollgate_fleet_proto::{Fault, Held};
use tollgate_mistakes::Mistakes;
use tollgate_policy::Policy;
use tollgate_rule_files::RuleFile;

use crate::ids::LinkId;
use crate::incoming::Bundle;
use crate::mistake::Mistake;
use crate::rules::{AppRules, RuleState};
use crate::saved::Marker;
use crate::validate::{Job, Parsed, Validated};

/// Most times that saved rules may be found half applied before the only app in doubt is left out. They
/// worked before, and a machine may lose power at any time.
const MOST_ATTEMPTS: u32 = 3;

type Apps = BTreeMap<String, Arc<AppRules>>;

/// Reason for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The node starts with its saved rules.
    Start,
    /// The node's own files have changed.
    Local,
    /// A bundle of this number arrived on this stream.
    Bundle(LinkId, u64),
}

#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) cause: Cause,
    /// The state in force once all steps are applied.
    next: RuleState,
    local: Arc<[RuleFile]>,
    steps: VecDeque<Apps>,
    accepted: Apps,
    /// Something changes also if no app is accepted.
    changes_anyway: bool,
    attempt: u32,
    pub(crate) faults: Vec<Fault>,
    mistakes: Mistakes<Mistake>,
}

/// The next step of a change.
#[derive(Debug)]
pub(crate) enum Next {
    Validate(Job),
    /// Put these rules in force. The marker is written before.
    Apply(Marker, Parsed),
    Finished,
}

impl Work {
    /// The saved rules, after the crash that `marker` shows, if any.
    pub(crate) fn start(
        saved: RuleState,
        marker: Option<&Marker>,
        local: Arc<[RuleFile]>,
        mistakes: Mistakes<Mistake>,
    ) -> Self {
        let mut next = saved;
        let mut attempt = 0;
        if let Some(marker) = marker {
            attempt = if marker.is_saved { marker.attempt } else { 0 };
            if let [Held { app, version, .. }] = &marker.apps[..]
                && (!marker.is_saved || attempt >= MOST_ATTEMPTS)
            {
                next.crashed_by(app, *version);
                attempt = 0;
            }
        }
        let (left_out, changes): (Apps, Apps) = std::mem::take(&mut next.apps)
            .into_iter()
            .partition(|(app, rules)| next.crash_of(app, rules.version).is_some());
        // Versions that were in force before the crash stay the lower bound, also if they cannot be put in
        // force this time.
        let tried = changes.iter().map(|(app, rules)| (app, rules.version.saturating_sub(1)));
        let gone = tried.chain(left_out.iter().map(|(app, rules)| (app, rules.version)));
        next.gone.extend(gone.map(|(app, version)| (app.clone(), version)));
        let work = Self::new(Cause::Start, next, local, mistakes);
        Self { attempt, changes_anyway: true, ..work }.steps(changes, marker.is_some())
    }

    pub(crate) fn local(state: &RuleState, local: Arc<[RuleFile]>, mistakes: Mistakes<Mistake>) -> Self {
        let work = Self::new(Cause::Local, state.clone(), local, mistakes);
        Self { changes_anyway: true, ..work }.steps(Apps::new(), false)
    }

    /// A bundle of the database `epoch`.
    pub(crate) fn bundle(
        link: LinkId,
        bundle: Bundle,
        epoch: &str,
        state: &RuleState,
        local: Arc<[RuleFile]>,
        is_careful: bool,
        mistakes: Mistakes<Mistake>,
    ) -> Self {
        let mut next = state.clone();
        next.move_to(epoch);
        let Bundle { id, full, apps, mut removed, faults } = bundle;
        if full {
            let stays = |app: &String| apps.contains_key(app) || faults.iter().any(|fault| fault.app == *app);
            removed.extend(next.apps.keys().filter(|app| !stays(app)).cloned());
        }
        removed.retain(|app| next.apps.contains_key(app));
        for app in &removed {
            next.remove(app);
        }
        let mut work = Self::new(Cause::Bundle(link, id), next, local, mistakes);
        work.changes_anyway = !removed.is_empty() || work.next.epoch != state.epoch;
        work.faults = faults;
        let changes: Apps = apps.into_iter().filter(|(app, rules)| work.is_news(app, rules)).collect();
        work.steps(changes, is_careful)
    }

    fn new(cause: Cause, next: RuleState, local: Arc<[RuleFile]>, mistakes: Mistakes<Mistake>) -> Self {
        let steps = VecDeque::new();
        let accepted = Apps::new();
        let faults = Vec::new();
        Self { cause, next, local, steps, accepted, changes_anyway: false, attempt: 0, faults, mistakes }
    }

    fn steps(mut self, changes: Apps, is_careful: bool) -> Self {
        if is_careful && !changes.is_empty() {
            self.steps = changes.into_iter().map(|change| Apps::from([change])).collect();
        } else if !changes.is_empty() || self.changes_anyway {
            self.steps.push_back(changes);
        }
        self
    }

    /// Whether to try a version: it is newer than the one in force, and has not crashed the node.
    fn is_news(&mut self, app: &str, rules: &AppRules) -> bool {
        let held = self.next.apps.get(app);
        if held.is_some_and(|held| held.version == rules.version && held.sha256 == rules.sha256) {
            return false;
        }
        let version = rules.version;
        let floor = self.next.floor(app);
        let fault = if let Some(fault) = self.next.crash_of(app, version) {
            fault.clone()
        } else if version < floor && !self.mistakes.has(Mistake::OlderVersionsApplied) {
            let message = format!("version {version} is older than version {floor}, which this node has had");
            Fault { app: app.to_owned(), version, message, ..Fault::default() }
        } else if held.is_some_and(|held| held.version == version) {
            let message =
                format!("version {version} is in force with other content; publish a newer version");
            Fault { app: app.to_owned(), version, message, ..Fault::default() }
        } else {
            return true;
        };
        self.faults.push(fault);
        false
    }

    /// The next step, or the end.
    pub(crate) fn next(&mut self) -> Next {
        match self.steps.front() {
            Some(changes) => Next::Validate(Job {
                local: Arc::clone(&self.local),
                held: self.next.apps.clone(),
                changes: changes.clone(),
            }),
            None => Next::Finished,
        }
    }

    fn err_in_validation(&self, mut validated: Validated) -> Validated {
        if self.mistakes.has(Mistake::OneBadAppRejectsAll) && !validated.faults.is_empty() {
            (validated.accepted, validated.parsed) = (Apps::new(), None);
        }
        if self.mistakes.has(Mistake::RejectedRulesAcknowledged) {
            validated.accepted = self.steps.front().cloned().unwrap_or_default();
            validated.parsed.get_or_insert_default();
        }
        validated
    }

    /// The step was checked.
    pub(crate) fn validated(&mut self, validated: Validated) -> Next {
        let Validated { accepted, mut faults, parsed } = self.err_in_validation(validated);
        self.faults.append(&mut faults);
        let is_change = !accepted.is_empty() || self.changes_anyway;
        match parsed.filter(|_| is_change) {
            Some(parsed) => {
                let held = |(app, rules): (&String, &Arc<AppRules>)| Held {
                    app: app.clone(),
                    version: rules.version,
                    sha256: rules.sha256.to_vec(),
                };
                let apps = accepted.iter().map(held).collect();
                let is_saved = self.cause == Cause::Start;
                self.accepted = accepted;
                Next::Apply(Marker { apps, is_saved, attempt: self.attempt + 1 }, parsed)
            }
            None => {
                self.steps.pop_front();
                self.next()
            }
        }
    }

    /// The step is in force: the new state, to be saved.
    pub(crate) fn applied(&mut self) -> &RuleState {
        for (app, rules) in std::mem::take(&mut self.accepted) {
            self.next.set(&app, rules);
        }
        self.changes_anyway = false;
        self.steps.pop_front();
        &self.next
    }

    /// The step could not be put in force.
    pub(crate) fn failed(&mut self, why: &str) {
        for (app, rules) in std::mem::take(&mut self.accepted) {
            let message = format!("cannot be put in force: {why}");
            self.faults.push(Fault { app, version: rules.version, message, ..Fault::default() });
        }
        self.steps.pop_front();
    }

    /// The node's own files as of this change.
    pub(crate) fn local_files(&self) -> Arc<[RuleFile]> {
        Arc::clone(&self.local)
    }

    /// The domains of `policy` that are the node's own.
    pub(crate) fn local_domains(&self, policy: &Policy) -> Vec<String> {
        let held = self.next.apps.values().chain(self.accepted.values());
        let of_apps: BTreeSet<&str> =
            held.flat_map(|rules| &rules.documents).map(|text| text.domain.as_str()).collect();
        let names = policy.domains().iter().map(|domain| domain.name());
        names.filter(|name| !of_apps.contains(name)).map(str::to_owned).collect()
    }

    /// State that the node remembers even if nothing could be put in force.
    pub(crate) fn next_state(&self) -> &RuleState {
        &self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop(version: u64) -> Apps {
        Apps::from([("shop".to_owned(), Arc::new(AppRules::new(version, Vec::new())))])
    }

    #[test]
    fn an_app_left_out_after_crashes_is_followed_by_newer_versions_only() {
        let saved = RuleState { epoch: "e".to_owned(), apps: shop(10), ..RuleState::default() };
        let held = Held { app: "shop".to_owned(), version: 10, sha256: vec![0; 32] };
        let marker = Marker { apps: vec![held], is_saved: true, attempt: MOST_ATTEMPTS };
        let local: Arc<[RuleFile]> = Arc::from([]);
        let started = Work::start(saved, Some(&marker), Arc::clone(&local), Mistakes::none());
        assert!(started.steps.iter().all(Apps::is_empty), "it is left out: {:?}", started.steps);
        for (version, is_tried) in [(5, false), (9, false), (10, false), (11, true)] {
            let bundle =
                Bundle { id: 1, full: false, apps: shop(version), removed: Vec::new(), faults: Vec::new() };
            let state = started.next_state();
            let work =
                Work::bundle(LinkId(1), bundle, "e", state, Arc::clone(&local), false, Mistakes::none());
            assert_eq!((!work.steps.is_empty(), work.faults.is_empty()), (is_tried, is_tried), "{version}");
        }
    }

    #[test]
    fn neither_of_two_versions_that_crashed_the_node_is_tried_again() {
        let mut state = RuleState { epoch: "e".to_owned(), ..RuleState::default() };
        for version in [23, 26] {
            state.crashed_by("shop", version);
        }
        let is_tried = |state: &RuleState, version| {
            let bundle =
                Bundle { id: 1, full: false, apps: shop(version), removed: Vec::new(), faults: Vec::new() };
            let work = Work::bundle(LinkId(1), bundle, "e", state, Arc::from([]), false, Mistakes::none());
            (!work.steps.is_empty(), work.faults.is_empty())
        };
        for (version, tried) in [(22, true), (23, false), (24, true), (26, false), (27, true)] {
            assert_eq!(is_tried(&state, version), (tried, tried), "{version}");
        }
        // Only the newest of many crashed versions are remembered; those below a working version are
        // forgotten.
        for version in 30..40 {
            state.crashed_by("shop", version);
        }
        assert_eq!(state.crashed.len(), 4);
        assert!(!is_tried(&state, 39).0 && is_tried(&state, 35).0);
        state.set("shop", Arc::new(AppRules::new(38, Vec::new())));
        assert_eq!(state.crashed.keys().map(|it| it.1).collect::<Vec<_>>(), [39]);
    }
}
