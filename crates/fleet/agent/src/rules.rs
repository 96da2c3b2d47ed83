//! The rules of the control plane that a node holds.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_fleet_proto::{Fault, Held, Sha256Bytes, app_digest};
use tollgate_rule_files::RuleFile;

/// The rules of one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleDocument {
    pub domain: String,
    /// Digest of `yaml`.
    pub sha256: Sha256Bytes,
    /// The rule file, as published.
    pub yaml: Arc<str>,
}

/// One version of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppRules {
    /// From 1; 0 for rules of another database that are kept until this one replaces them.
    pub version: u64,
    /// Digest of all documents.
    pub sha256: Sha256Bytes,
    /// In the order of their domains.
    pub documents: Vec<RuleDocument>,
}

impl AppRules {
    /// A version with these documents.
    #[must_use]
    pub fn new(version: u64, mut documents: Vec<RuleDocument>) -> Self {
        documents.sort_by(|a, b| a.domain.cmp(&b.domain));
        let sha256 = app_digest(documents.iter().map(|text| (text.domain.as_str(), text.sha256)));
        Self { version, sha256, documents }
    }

    pub(crate) fn files(&self, app: &str) -> impl Iterator<Item = RuleFile> {
        self.documents
            .iter()
            .map(move |text| RuleFile { name: file_name(app, &text.domain), text: (*text.yaml).to_owned() })
    }
}

/// Name of a domain's document in errors.
pub(crate) fn file_name(app: &str, domain: &str) -> PathBuf {
    PathBuf::from(format!("app {app}: {domain}"))
}

/// Rules that a node holds, and history that it remembers across restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleState {
    /// The database that the versions belong to; empty before the first.
    pub epoch: String,
    /// The apps in force.
    pub apps: BTreeMap<String, Arc<AppRules>>,
    /// Highest version that was ever in force of each app that is gone.
    pub gone: BTreeMap<String, u64>,
    /// Versions that crashed the node, by app and version, with what to report of them.
    pub crashed: BTreeMap<(String, u64), Fault>,
}

/// Most apps that are gone, and most that crashed, that a node remembers.
const MOST_REMEMBERED: usize = 10_000;
/// Most versions of an app that crashed: a candidate, the one before, and some of earlier rollouts.
const MOST_CRASHED: usize = 4;

impl RuleState {
    /// Everything in force, as messages say it.
    #[must_use]
    pub fn held(&self) -> Vec<Held> {
        let held = |(app, rules): (&String, &Arc<AppRules>)| Held {
            app: app.clone(),
            version: rules.version,
            sha256: rules.sha256.to_vec(),
        };
        self.apps.iter().map(held).collect()
    }

    /// Puts a version in force.
    pub(crate) fn set(&mut self, app: &str, rules: Arc<AppRules>) {
        self.gone.remove(app);
        self.crashed.retain(|(name, version), _| name != app || *version > rules.version);
        self.apps.insert(app.to_owned(), rules);
    }

    /// Takes an app out of force.
    pub(crate) fn remove(&mut self, app: &str) {
        if let Some(rules) = self.apps.remove(app)
            && self.gone.len() < MOST_REMEMBERED
        {
            self.gone.insert(app.to_owned(), rules.version);
        }
    }

    /// Remembers that a version crashed the node, and others before it: during a rollout two versions may be
    /// sent, and a node that remembered one of them only would crash by both in turn.
    pub(crate) fn crashed_by(&mut self, app: &str, version: u64) {
        let of_app = (app.to_owned(), 0)..=(app.to_owned(), u64::MAX);
        while self.crashed.range(of_app.clone()).count() >= MOST_CRASHED {
            let oldest = self.crashed.range(of_app.clone()).next().map(|(key, _)| key.clone());
            oldest.and_then(|oldest| self.crashed.remove(&oldest));
        }
        if self.crashed.len() < MOST_REMEMBERED {
            let message =
                format!("the node crashed while applying version {version}; publish another version");
            let fault = Fault { app: app.to_owned(), version, message, ..Fault::default() };
            self.crashed.insert((app.to_owned(), version), fault);
        }
    }

    /// The fault to report if this version crashed the node.
    pub(crate) fn crash_of(&self, app: &str, version: u64) -> Option<&Fault> {
        self.crashed.get(&(app.to_owned(), version))
    }

    /// Versions of another database do not compare with this one's. Crashes are remembered all the same: a
    /// crash may come before the move is saved, and must not repeat.
    pub(crate) fn move_to(&mut self, epoch: &str) {
        if self.epoch == epoch {
            return;
        }
        if !self.epoch.is_empty() {
            for rules in self.apps.values_mut() {
                Arc::make_mut(rules).version = 0;
            }
            self.gone.clear();
        }
        epoch.clone_into(&mut self.epoch);
    }

    /// The lowest version that may be in force next.
    pub(crate) fn floor(&self, app: &str) -> u64 {
        let held = self.apps.get(app).map_or(0, |rules| rules.version);
        held.max(self.gone.get(app).map_or(0, |version| version + 1))
    }
}
