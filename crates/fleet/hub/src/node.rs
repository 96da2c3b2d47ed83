//! The hub's record of a node.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_fleet_proto::{Fault, Held, Hello, LANGUAGE, Label, MAX_APPS, MAX_TEXT_BYTES, Sha256Bytes};
use tollgate_mistakes::Mistakes;

use crate::bindings::{FailedClaim, Standing};
use crate::bundle::Bundle;
use crate::kept;
use crate::mistake::Mistake;
use crate::past::Past;
use crate::published::{Prepared, PreparedApp, Wanted};
use crate::session::SessionId;

/// Rejected versions of an app that are remembered.
const MOST_REJECTED: usize = 4;
/// Apps that a node says it holds, and that it neither held before nor was sent.
const MOST_STRANGE: usize = 100;
/// Answers to nothing that was sent; then the stream is closed.
const MOST_UNASKED: u32 = 100;
/// Reports that may come at once: a node that was away repeats those that are not confirmed.
const REPORTS_AT_ONCE: u32 = 16;

/// Whether a node has sent anything lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Liveness {
    /// Within 15 s.
    Live,
    /// Nothing for 15 s; it has probably lost its network, or is overloaded.
    Unresponsive,
    /// Nothing for 60 s.
    Lost,
}

/// Treatment of an app that a node holds and this database has never published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingApps {
    /// The nodes remove it.
    Removed,
    /// The nodes keep it, since the database was restored from a copy that is older than the app.
    Kept,
}

/// The database of the hub.
#[derive(Clone, Copy)]
pub(crate) struct Database<'a> {
    pub(crate) epoch: &'a str,
    pub(crate) missing_apps: MissingApps,
    /// Everything that it has published.
    pub(crate) past: &'a Past,
}

/// By what a bundle is put together.
#[derive(Clone, Copy)]
pub(crate) struct Sending {
    pub(crate) level: fn(&str) -> u32,
    pub(crate) missing_apps: MissingApps,
    pub(crate) mistakes: Mistakes<Mistake>,
}

/// A node, for pages and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeState {
    /// Its id, from its state folder.
    pub id: String,
    /// Number of its start.
    pub incarnation: u64,
    /// Name for people.
    pub name: String,
    pub labels: Vec<Label>,
    /// Address of its stream.
    pub address: String,
    /// Such as `tollgate 0.1.0`.
    pub software: String,
    /// Highest language level of rules that it reads.
    pub language: u32,
    /// Domains of its own rule files.
    pub local_domains: Vec<String>,
    /// Its stream is open.
    pub connected: bool,
    /// Whether it has sent anything lately.
    pub liveness: Liveness,
    /// When its last message came.
    pub last_seen: Timestamp,
    /// Its wall clock less the hub's at its last report, in ms.
    pub skew_ms: i64,
    /// Why it could not save its rules; empty if it could.
    pub state_error: String,
    /// The last attempt of another client to attach with its id.
    pub claim: Option<FailedClaim>,
    /// Its id is bound to a secret of its own.
    pub is_bound: bool,
    /// It has not yet shown that it takes the rules it is sent and reports, or it claims to hold versions
    /// that were never published since this process began. It counts for no majority.
    pub is_new: bool,
    /// Every app that is published, or that it holds.
    pub apps: Vec<AppState>,
}

/// An app on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppState {
    pub app: Arc<str>,
    /// The version that the node should hold; `None` if the app is removed.
    pub wanted: Option<u64>,
    /// The version in force on the node, as far as it has said.
    pub acked: Option<u64>,
    /// Why the wanted version is not in force.
    pub fault: Option<Fault>,
    /// The node holds what this database has never published: a newer version, or another one of the same
    /// number. The database was restored from an older copy.
    pub is_ahead: bool,
}

/// Whether a node lacks anything that it should have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shortfall {
    pub(crate) has_rejected: bool,
    pub(crate) is_behind: bool,
}

#[derive(Debug, Default)]
pub(crate) struct App {
    acked: Option<(u64, Sha256Bytes)>,
    /// The node holds a version that the database of this hub has never published.
    is_foreign: bool,
    /// `acked` before the answer that is read.
    before: Option<(u64, Sha256Bytes)>,
    /// Fault of the newest version that the node rejected.
    fault: Option<Fault>,
    /// Versions that the node rejected, of those that it may be sent: a candidate and the one before.
    rejected: BTreeSet<u64>,
}

/// The database that a node has its rules from.
#[derive(Clone, Copy)]
struct Origin {
    is_of_epoch: bool,
    keeps_foreign: bool,
}

impl App {
    /// The fault of `rules`, or of a newer version.
    fn fault_with(&self, rules: Option<&Arc<PreparedApp>>) -> Option<&Fault> {
        self.fault.as_ref().filter(|fault| rules.is_some_and(|rules| fault.version >= rules.version))
    }

    /// Records what the node says it holds.
    fn holds(&mut self, held: &Held, past: &Past, sent: &Bundle, of: Origin) {
        let Ok(sha256) = Sha256Bytes::try_from(&*held.sha256) else { return };
        let holds = Some((held.version, sha256));
        self.is_foreign = match held.version {
            // Held from another database, before the node moved to this one.
            0 => of.keeps_foreign,
            _ if !of.is_of_epoch => of.keeps_foreign,
            _ if self.before == holds && !self.is_foreign => false,
            version => !sent.has(&held.app, version, &sha256) && !past.has(&held.app, version, &sha256),
        };
        self.acked = holds;
        if !self.rejected.is_empty() {
            self.rejected.retain(|rejected| *rejected > held.version);
        }
        if self.fault.as_ref().is_some_and(|fault| fault.version <= held.version) {
            self.fault = None;
        }
    }

    fn rejects(&mut self, fault: Fault) {
        self.rejected.insert(fault.version);
        // The first of several is what people should read first.
        if self.fault.as_ref().is_none_or(|known| known.version < fault.version) {
            self.fault = Some(fault);
        }
        while self.rejected.len() > MOST_REJECTED {
            self.rejected.pop_first();
        }
    }

    fn forget_faults(&mut self) {
        self.fault = None;
        self.rejected.clear();
    }

    /// Whether the node would reject it again. A version that is newer than its own rules it out too.
    fn has_rejected(&self, rules: &PreparedApp, wanted: &Wanted) -> bool {
        let is_newest = wanted.candidate.is_none();
        self.rejected.contains(&rules.version)
            || (is_newest && self.fault.as_ref().is_some_and(|fault| fault.version >= rules.version))
    }
}

/// Apps that have to be compared with the published ones before the node has everything. A publication
/// changes few of them, and fleets have many nodes with many apps.
#[derive(Debug)]
enum Unsettled {
    All,
    Apps(BTreeSet<Arc<str>>),
}

impl Default for Unsettled {
    fn default() -> Self {
        Self::Apps(BTreeSet::new())
    }
}

impl Unsettled {
    fn add(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        if let Self::Apps(apps) = self {
            apps.extend(names);
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Apps(apps) if apps.is_empty())
    }
}

/// The apps of a node. Any change makes it unknown whether all are as they should be.
#[derive(Debug, Default)]
struct Apps {
    by_name: BTreeMap<Arc<str>, App>,
    /// The publication for which all were found as they should be; 0 while that is not known.
    in_order_for: Cell<u64>,
}

impl Deref for Apps {
    type Target = BTreeMap<Arc<str>, App>;

    fn deref(&self) -> &Self::Target {
        &self.by_name
    }
}

impl DerefMut for Apps {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.in_order_for.set(0);
        &mut self.by_name
    }
}

/// The hub's record of a node.
#[derive(Debug)]
pub(crate) struct NodeRecord {
    hello: Hello,
    pub(crate) address: String,
    pub(crate) session: Option<SessionId>,
    pub(crate) last_seen: Timestamp,
    pub(crate) skew_ms: i64,
    pub(crate) state_error: String,
    apps: Apps,
    /// Versions that the node holds belong to this hub's database.
    is_of_epoch: bool,
    /// Rules of another database are kept until an administrator decides.
    keeps_foreign: bool,
    /// Sent and not answered.
    outstanding: Option<Arc<Bundle>>,
    unsettled: Unsettled,
    /// Digest of its secret, also where there was no room to bind its id.
    pub(crate) digest: Option<Sha256Bytes>,
    /// Whose share of the places and bytes it takes, and how many bytes.
    pub(crate) holder: Option<(u64, u64)>,
    /// A report of its stream is stored, and it lacked nothing then.
    pub(crate) is_proven: bool,
    /// When the next report is due that comes in time.
    reports_from: Timestamp,
    /// Answers of the node that belong to no bundle or command.
    unasked: u32,
}

impl NodeRecord {
    pub(crate) fn new(mut hello: Hello, database: Database<'_>, address: String, now: Timestamp) -> Self {
        let Database { epoch, missing_apps, past } = database;
        let is_of_epoch = hello.epoch == epoch;
        let held = std::mem::take(&mut hello.held);
        let crashed = std::mem::take(&mut hello.crashed);
        let secret = std::mem::take(&mut hello.secret); // only its digest is kept
        let mut node = Self {
            hello,
            address,
            session: None,
            last_seen: now,
            skew_ms: 0,
            state_error: String::new(),
            apps: Apps::default(),
            is_of_epoch,
            keeps_foreign: missing_apps == MissingApps::Kept,
            outstanding: None,
            unsettled: Unsettled::All,
            digest: (!secret.is_empty()).then(|| crate::bindings::digest(&secret)),
            holder: None,
            is_proven: false,
            reports_from: Timestamp::ZERO,
            unasked: 0,
        };
        node.holds(held, past, &Bundle::default(), usize::MAX);
        if is_of_epoch {
            node.rejects(crashed);
        }
        node
    }

    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The highest level of the rule language that it reads; 1 for nodes older than levels.
    pub(crate) fn language(&self) -> u32 {
        self.hello.language.max(1)
    }

    /// Records what the node says is in force, of at most `strange` apps that it neither held nor was sent.
    fn holds(&mut self, held: Vec<Held>, past: &Past, sent: &Bundle, mut strange: usize) {
        for app in self.apps.values_mut() {
            app.before = app.acked.take();
        }
        let of = Origin { is_of_epoch: self.is_of_epoch, keeps_foreign: self.keeps_foreign };
        // Nodes name their apps in order: a walk along both takes a third of the time of look-ups.
        let mut known = self.apps.iter_mut().peekable();
        let mut others = Vec::new();
        for it in held.into_iter().take(MAX_APPS) {
            while known.next_if(|(name, _)| ***name < *it.app).is_some() {}
            match known.next_if(|(name, _)| ***name == *it.app) {
                Some((_, app)) => app.holds(&it, past, sent, of),
                None => others.push(it),
            }
        }
        for it in others {
            let app = match (self.apps.get_mut(&*it.app), sent.app(&it.app)) {
                (Some(app), _) => app,
                (None, Some((name, _))) => self.apps.entry(Arc::clone(name)).or_default(),
                (None, None) if strange > 0 && it.app.len() <= MAX_TEXT_BYTES => {
                    strange -= 1;
                    self.apps.entry(it.app.as_str().into()).or_default()
                }
                (None, None) => continue,
            };
            app.holds(&it, past, sent, of);
        }
        let changed = self.apps.iter().filter(|(_, app)| app.acked != app.before);
        self.unsettled.add(changed.map(|(name, _)| Arc::clone(name)));
        let is_kept = |app: &App| app.acked.is_some() || app.fault.is_some();
        if !self.apps.values().all(is_kept) {
            self.apps.retain(|_, app| is_kept(app));
        }
    }

    fn rejects(&mut self, faults: Vec<Fault>) {
        for fault in kept::faults(faults) {
            self.apps.entry(fault.app.as_str().into()).or_default().rejects(fault);
        }
    }

    /// Whether a report comes in time: one per interval, and as many at once as a node repeats after it was
    /// away.
    pub(crate) fn may_report(&mut self, now: Timestamp, every: Duration) -> Result<(), Duration> {
        let every = every - every / 5; // clocks differ, and connections hold reports back
        let due = self.reports_from.max(now);
        match due.since(now) {
            early if early > every * (REPORTS_AT_ONCE - 1) => Err(early),
            _ => {
                self.reports_from = due + every;
                Ok(())
            }
        }
    }

    /// Takes over the report budget of the same node's previous stream: a new stream grants no additional
    /// reports.
    pub(crate) fn follows(&mut self, before: &Self) {
        self.reports_from = before.reports_from;
    }

    /// An answer came to nothing that was sent. Whether that is one too many.
    pub(crate) fn answers_unasked(&mut self) -> bool {
        self.unasked = self.unasked.saturating_add(1);
        self.unasked > MOST_UNASKED
    }

    /// The answer to a bundle. False if it answers no bundle.
    pub(crate) fn answered(
        &mut self,
        bundle: u64,
        held: Vec<Held>,
        mut faults: Vec<Fault>,
        past: &Past,
    ) -> bool {
        let Some(sent) = self.outstanding.take_if(|sent| sent.id == bundle) else { return false };
        if !std::mem::replace(&mut self.is_of_epoch, true) {
            // Until now its versions were of another database: they are looked up again.
            self.apps.values_mut().for_each(|app| app.is_foreign = true);
        }
        faults.retain(|it| sent.app(&it.app).is_some());
        // It may hold a few apps that it was not sent and did not hold before: it was applying an earlier
        // bundle while it said hello.
        self.holds(held, past, &sent, MOST_STRANGE);
        self.rejects(faults);
        self.unsettled.add(sent.apps.iter().map(|(name, _)| Arc::clone(name)));
        self.unsettled.add(sent.removed.iter().map(|name| name.as_str().into()));
        for (name, rules) in &sent.apps {
            let app = self.apps.entry(Arc::clone(name)).or_default();
            let is_held = app.acked == Some((rules.version, rules.sha256));
            if !is_held && !app.rejected.contains(&rules.version) {
                let message = "the node acknowledged this version and does not hold it".to_owned();
                let version = rules.version;
                app.rejects(Fault { app: name.to_string(), version, message, ..Fault::default() });
            }
        }
        true
    }

    /// These apps are published in another version than before, or not any more.
    pub(crate) fn unsettle(&mut self, names: &[Arc<str>]) {
        self.unsettled.add(names.iter().cloned());
    }

    /// Whether there is nothing that the node should have and does not, as far as it can be sent.
    pub(crate) fn is_settled(&self) -> bool {
        self.session.is_some() && !self.is_busy() && self.unsettled.is_empty()
    }

    /// Forgets faults, since an app that clashed may not clash any more.
    pub(crate) fn forget_faults(&mut self) {
        self.unsettled = Unsettled::All;
        self.apps.values_mut().for_each(App::forget_faults);
    }

    /// The version of an app that this node should hold. A node that holds the candidate keeps it, also when
    /// its labels have changed: a version never goes down.
    fn wanted<'a>(&self, name: &Arc<str>, wanted: &'a Wanted) -> Option<&'a Arc<PreparedApp>> {
        let app = self.apps.get(name);
        let stable = wanted.stable.as_ref();
        let Some((candidate, reach)) = &wanted.candidate else { return stable };
        let acked = app.and_then(|app| app.acked).filter(|_| self.is_of_epoch);
        if acked == Some((candidate.version, candidate.sha256)) {
            return Some(candidate);
        }
        let labels = self.hello.labels.iter().map(|label| (&*label.key, &*label.value));
        reach.includes(&self.hello.node, labels).then_some(candidate).or(stable)
    }

    /// The version of an app to send: the previous one if the node has rejected or cannot read the candidate.
    fn sent<'a>(
        &mut self,
        name: &Arc<str>,
        wanted: &'a Wanted,
        how: Sending,
    ) -> Option<&'a Arc<PreparedApp>> {
        let newest = self.wanted(name, wanted)?;
        let has_rejected = |node: &Self, rules: &PreparedApp| {
            node.is_of_epoch && node.apps.get(name).is_some_and(|app| app.has_rejected(rules, wanted))
        };
        let insists = how.mistakes.has(Mistake::RejectedSentAgain);
        if (insists || !has_rejected(self, newest)) && self.reads(name, newest, how.level) {
            return Some(newest);
        }
        let before = wanted.stable.as_ref().filter(|stable| stable.version < newest.version)?;
        (!has_rejected(self, before) && self.reads(name, before, how.level)).then_some(before)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.outstanding.is_some()
    }

    /// Whether nothing of it can be believed where nodes are counted. `standing` is that of its id. Only a
    /// node that was known before this process began can hold what this process has never published.
    pub(crate) fn is_new(&self, standing: Option<Standing>, apps: &[AppState]) -> bool {
        match standing {
            Some(Standing::Old) => false,
            Some(Standing::Proven) => apps.iter().any(|it| it.is_ahead),
            Some(Standing::New) | None => !self.is_proven || apps.iter().any(|it| it.is_ahead),
        }
    }

    /// As if the node had answered: a deliberate mistake.
    pub(crate) fn forget_outstanding(&mut self) {
        self.outstanding = None;
    }

    pub(crate) fn closed(&mut self) {
        self.session = None;
        self.outstanding = None;
    }

    /// The bundle that brings the node to the published rules; `None` if there is nothing to send.
    pub(crate) fn plan(&mut self, published: &Prepared, how: Sending, id: u64) -> Option<Arc<Bundle>> {
        if !self.is_of_epoch && published.apps.is_empty() {
            return None; // a new, empty database must not take away the rules of a fleet
        }
        // A full bundle removes the apps that it does not name.
        let keeps = self.keeps_foreign && self.apps.values().any(|app| app.acked.is_some());
        let mut bundle = Bundle { id, full: !self.is_of_epoch && !keeps, ..Bundle::default() };
        let is_forgotten = how.mistakes.has(Mistake::RemovalForgotten);
        let removes = how.missing_apps == MissingApps::Removed && !is_forgotten;
        match (std::mem::take(&mut self.unsettled), self.is_of_epoch) {
            (_, false) if keeps => {
                for (name, wanted) in &published.apps {
                    self.compare(name, wanted, how, &mut bundle);
                }
            }
            (_, false) => {
                for (name, wanted) in &published.apps {
                    let rules = self.sent(name, wanted, how);
                    bundle.apps.extend(rules.map(|rules| (Arc::clone(name), Arc::clone(rules))));
                }
            }
            (Unsettled::Apps(names), true) => {
                for name in names {
                    match published.apps.get(&name) {
                        Some(wanted) => self.compare(&name, wanted, how, &mut bundle),
                        None if removes && self.apps.get(&name).is_some_and(|app| app.acked.is_some()) => {
                            bundle.removed.push(name.to_string());
                        }
                        None => {}
                    }
                }
            }
            (Unsettled::All, true) => {
                for (name, wanted) in &published.apps {
                    self.compare(name, wanted, how, &mut bundle);
                }
                let is_gone = |(name, app): &(&Arc<str>, &App)| {
                    removes && app.acked.is_some() && !published.apps.contains_key(*name)
                };
                bundle.removed = self.apps.iter().filter(is_gone).map(|(name, _)| name.to_string()).collect();
            }
        }
        if bundle.apps.is_empty() && bundle.removed.is_empty() && !bundle.full {
            return None;
        }
        let bundle = Arc::new(bundle);
        self.outstanding = Some(Arc::clone(&bundle));
        Some(bundle)
    }

    /// Adds a version to `bundle` if the node lacks it.
    fn compare(&mut self, name: &Arc<str>, wanted: &Wanted, how: Sending, bundle: &mut Bundle) {
        let Some(rules) = self.sent(name, wanted, how) else { return };
        let app = match self.apps.get_mut(name) {
            Some(app) => app,
            None => self.apps.entry(Arc::clone(name)).or_default(),
        };
        match app.acked {
            Some(acked) if acked == (rules.version, rules.sha256) && self.is_of_epoch => {}
            Some((version, _)) if version >= rules.version && self.is_of_epoch => {
                app.rejects(is_ahead(name, version, rules.version));
            }
            Some((version, sha256))
                if app.is_foreign
                    && version >= wanted.forced
                    && sha256 != rules.sha256
                    && !how.mistakes.has(Mistake::ForeignReplaced) =>
            {
                app.rejects(is_foreign(name, version));
            }
            _ => bundle.apps.push((Arc::clone(name), Arc::clone(rules))),
        }
    }

    /// Whether the node reads the documents of a version. If not, it keeps the version that it has, and its
    /// fault says so.
    fn reads(&mut self, name: &Arc<str>, rules: &PreparedApp, level: fn(&str) -> u32) -> bool {
        let reads = self.language();
        if reads >= LANGUAGE || rules.level(level) <= reads {
            return true; // as a rule: the texts need not be looked at
        }
        let needs = rules.level(level);
        let version = rules.version;
        let message = format!(
            "version {version} needs level {needs} of the rule language, and this node reads level {reads}: it \
             keeps the version that it has until it is upgraded"
        );
        let app = self.apps.entry(Arc::clone(name)).or_default();
        app.rejects(Fault { app: name.to_string(), version, message, ..Fault::default() });
        false
    }

    pub(crate) fn liveness(&self, now: Timestamp, unresponsive: Duration, lost: Duration) -> Liveness {
        match now.since(self.last_seen) {
            silent if silent > lost => Liveness::Lost,
            silent if silent > unresponsive => Liveness::Unresponsive,
            _ => Liveness::Live,
        }
    }

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

    /// Whether it has this domain from files of its own.
    pub(crate) fn has_local(&self, domain: &str) -> bool {
        self.hello.local_domains.iter().any(|local| local == domain)
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

/// The database is older than the node: it was restored from a copy.
fn is_ahead(app: &str, held: u64, published: u64) -> Fault {
    let message = if held > published {
        format!("the node holds version {held}, newer than version {published} of this database")
    } else {
        format!("the node holds version {held} with other content")
    };
    Fault { app: app.to_owned(), version: held, message, ..Fault::default() }
}

/// The database is another one than the node had, or was restored from a copy and has overtaken the node.
fn is_foreign(app: &str, held: u64) -> Fault {
    let message = match held {
        0 => "the node holds rules of another database".to_owned(),
        held => format!("the node holds version {held} of another database, or from after a copy was made"),
    };
    let message =
        message + "; it keeps them until an admin takes them over, or forces what this database has";
    Fault { app: app.to_owned(), version: held, message, ..Fault::default() }
}
