//! The hub's record of a node.
//!
//! This file has the record and how the node's messages change it, `apps` the versions that the node holds,
//! `plan` the next bundle for it, and `states` the record compared with the published rules.

mod apps;
mod plan;
mod states;

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_fleet_proto::{Fault, Held, Hello, MAX_APPS, MAX_TEXT_BYTES, Sha256Bytes};

use crate::bindings::Standing;
use crate::bundle::Bundle;
use crate::kept;
use crate::missing_apps::MissingApps;
use crate::node::apps::{App, Apps, Origin, Unsettled};
use crate::node_state::{AppState, Liveness};
use crate::past::Past;
use crate::published::{PreparedApp, Wanted};
use crate::session::SessionId;

pub(crate) use plan::Sending;

/// Apps that a node says it holds, and that it neither held before nor was sent.
const MOST_STRANGE: usize = 100;
/// Answers to nothing that was sent; then the stream is closed.
const MOST_UNASKED: u32 = 100;
/// Reports that may come at once: a node that was away repeats those that are not confirmed.
const REPORTS_AT_ONCE: u32 = 16;

/// The database of the hub.
#[derive(Clone, Copy)]
pub(crate) struct Database<'a> {
    pub(crate) epoch: &'a str,
    pub(crate) missing_apps: MissingApps,
    /// Everything that it has published.
    pub(crate) past: &'a Past,
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

    pub(crate) fn liveness(&self, now: Timestamp, unresponsive: Duration, lost: Duration) -> Liveness {
        match now.since(self.last_seen) {
            silent if silent > lost => Liveness::Lost,
            silent if silent > unresponsive => Liveness::Unresponsive,
            _ => Liveness::Live,
        }
    }

    /// Whether it has this domain from files of its own.
    pub(crate) fn has_local(&self, domain: &str) -> bool {
        self.hello.local_domains.iter().any(|local| local == domain)
    }
}
