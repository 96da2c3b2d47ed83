//! Checks the rules of a bundle together with all other rules of the node, and finds the apps to reject.
//!
//! An app is accepted or rejected as a whole. A rejected app does not hold up the others: the node leaves it
//! at its previous version, by itself, without a further round trip.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_fleet_proto::Fault;
use tollgate_policy::Policy;
use tollgate_rule_files::{Options, RuleFile, RuleReader};

use crate::rules::{AppRules, file_name};

/// Rules that can be put in force.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    pub policy: Policy,
    /// Warnings for the author, one line each.
    pub warnings: Vec<String>,
    /// Apps of the control plane are in force, perhaps without a rule.
    pub holds_apps: bool,
}

/// Something wrong in a file: its name, line, column, path and message.
pub(crate) type FileFault = (PathBuf, u32, u32, String, String);

/// Reads rule files: all of them, or every fault.
pub type Parser =
    dyn Fn(&[RuleFile]) -> Result<Parsed, Vec<(PathBuf, u32, u32, String, String)>> + Send + Sync;

/// The parser of rule files. It remembers what it read: a change of one app of hundreds costs that app.
pub fn rule_files_parser(options: Options) -> Arc<Parser> {
    let reader = Mutex::new(RuleReader::new(options));
    Arc::new(move |files| match reader.lock().parse(files) {
        Ok(set) => Ok(Parsed {
            policy: set.policy,
            warnings: set.warnings.iter().map(ToString::to_string).collect(),
            holds_apps: false,
        }),
        Err(faults) => {
            let fault = |fault: &tollgate_rule_files::Fault| -> FileFault {
                let place = &fault.place;
                let path = fault.path.clone();
                let message = fault.message.clone();
                (place.file.to_path_buf(), place.line, place.column, path, message)
            };
            Err(faults.as_slice().iter().map(fault).collect())
        }
    })
}

/// Rules to check. Runs on any thread.
#[derive(Clone, Debug)]
pub struct Job {
    /// The node's own files.
    pub(crate) local: Arc<[RuleFile]>,
    /// Apps that stay as they are unless `changes` has them.
    pub(crate) held: BTreeMap<String, Arc<AppRules>>,
    pub(crate) changes: BTreeMap<String, Arc<AppRules>>,
}

/// Result of a [`Job`].
#[derive(Debug)]
pub struct Validated {
    /// The apps whose changes can be put in force.
    pub accepted: BTreeMap<String, Arc<AppRules>>,
    /// Why the others cannot.
    pub faults: Vec<Fault>,
    /// The rules of the node with the accepted changes; `None` if its other rules are faulty, also without
    /// the changes.
    pub parsed: Option<Parsed>,
}

/// Most faults that are reported of one bundle.
const MOST_FAULTS: usize = 1_000;

impl Job {
    /// Checks with `parser`. A panic of the parser rejects the app that it was for.
    #[must_use]
    pub fn run(mut self, parser: &Parser) -> Validated {
        let mut faults = Vec::new();
        loop {
            let blamed = match parse(parser, &self.files(self.changes.keys())) {
                Ok(Ok(parsed)) => {
                    let holds_apps = !self.held.is_empty() || !self.changes.is_empty();
                    let parsed = Parsed { holds_apps, ..parsed };
                    return Validated { accepted: self.changes, faults, parsed: Some(parsed) };
                }
                Ok(Err(found)) => self.blame(found, &mut faults),
                Err(panic) => self.panicking(parser, &panic, &mut faults),
            };
            if blamed.is_empty() {
                // The other rules are faulty by themselves.
                let rejected = std::mem::take(&mut self.changes);
                let message = "the node's other rules are faulty".to_owned();
                faults.extend(rejected.iter().map(|(app, rules)| fault(app, rules.version, message.clone())));
                return Validated { accepted: BTreeMap::new(), faults, parsed: None };
            }
            self.changes.retain(|app, _| !blamed.contains(app));
        }
    }

    /// Accepts everything unread, for fleets of simulated nodes.
    #[must_use]
    pub fn accept(self) -> Validated {
        Validated { accepted: self.changes, faults: Vec::new(), parsed: Some(Parsed::default()) }
    }

    /// Local files, then apps that stay, then changes: of two that clash, the later one is named.
    fn files<'a>(&'a self, changes: impl Iterator<Item = &'a String> + Clone) -> Vec<RuleFile> {
        let mut files = self.local.to_vec();
        let changed: BTreeSet<&String> = changes.clone().collect();
        for (app, rules) in self.held.iter().filter(|(app, _)| !changed.contains(app)) {
            files.extend(rules.files(app));
        }
        for (app, rules) in changes.filter_map(|app| Some((app, self.changes.get(app)?))) {
            files.extend(rules.files(app));
        }
        files
    }

    /// The changed apps that the faults are in.
    fn blame(&self, found: Vec<FileFault>, faults: &mut Vec<Fault>) -> BTreeSet<String> {
        let mut owners = BTreeMap::new();
        for (app, rules) in &self.changes {
            for text in &rules.documents {
                owners.insert(file_name(app, &text.domain), (app, rules.version, &text.domain));
            }
        }
        let mut blamed = BTreeSet::new();
        for (file, line, column, path, message) in found {
            let Some((app, version, domain)) = owners.get(&file) else { continue };
            blamed.insert((*app).clone());
            if faults.len() < MOST_FAULTS {
                let app = (*app).clone();
                let domain = (*domain).clone();
                faults.push(Fault { app, version: *version, domain, line, column, path, message });
            }
        }
        blamed
    }

    /// The changed apps that crash the parser, by themselves or with the others.
    fn panicking(&self, parser: &Parser, panic: &str, faults: &mut Vec<Fault>) -> BTreeSet<String> {
        let alone = |app: &String| {
            let files: Vec<_> =
                self.changes.get(app).into_iter().flat_map(|rules| rules.files(app)).collect();
            parse(parser, &files).is_err()
        };
        let with_the_others = |app: &String| parse(parser, &self.files(std::iter::once(app))).is_err();
        let mut blamed: BTreeSet<String> = self.changes.keys().filter(|app| alone(app)).cloned().collect();
        if blamed.is_empty() {
            blamed = self.changes.keys().filter(|app| with_the_others(app)).cloned().collect();
        }
        if blamed.is_empty() {
            blamed = self.changes.keys().cloned().collect();
        }
        for app in &blamed {
            let version = self.changes.get(app).map_or(0, |rules| rules.version);
            faults.push(fault(app, version, format!("crashes the parser: {panic}")));
        }
        blamed
    }
}

fn fault(app: &str, version: u64, message: String) -> Fault {
    Fault { app: app.to_owned(), version, message, ..Fault::default() }
}

/// The parser's result, or the text of its panic.
fn parse(parser: &Parser, files: &[RuleFile]) -> Result<Result<Parsed, Vec<FileFault>>, String> {
    catch_unwind(AssertUnwindSafe(|| parser(files))).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
    })
}
