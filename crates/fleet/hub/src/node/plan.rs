//! The next bundle for a node: the versions that it lacks and can take.

use std::sync::Arc;

use tollgate_fleet_proto::{Fault, LANGUAGE};
use tollgate_mistakes::Mistakes;

use crate::bundle::Bundle;
use crate::missing_apps::MissingApps;
use crate::mistake::Mistake;
use crate::node::NodeRecord;
use crate::node::apps::{App, Unsettled};
use crate::published::{Prepared, PreparedApp, Wanted};

/// By what a bundle is put together.
#[derive(Clone, Copy)]
pub(crate) struct Sending {
    pub(crate) level: fn(&str) -> u32,
    pub(crate) missing_apps: MissingApps,
    pub(crate) mistakes: Mistakes<Mistake>,
}

impl NodeRecord {
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
