//! The apps of a node: the version that it holds of each, those that it has rejected, and which are to be
//! compared with the published ones.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tollgate_fleet_proto::{Fault, Held, Sha256Bytes};

use crate::bundle::Bundle;
use crate::past::Past;
use crate::published::{PreparedApp, Wanted};

/// Rejected versions of an app that are remembered.
const MOST_REJECTED: usize = 4;

#[derive(Debug, Default)]
pub(super) struct App {
    pub(super) acked: Option<(u64, Sha256Bytes)>,
    /// The node holds a version that the database of this hub has never published.
    pub(super) is_foreign: bool,
    /// `acked` before the answer that is read.
    pub(super) before: Option<(u64, Sha256Bytes)>,
    /// Fault of the newest version that the node rejected.
    pub(super) fault: Option<Fault>,
    /// Versions that the node rejected, of those that it may be sent: a candidate and the one before.
    pub(super) rejected: BTreeSet<u64>,
}

/// The database that a node has its rules from.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) is_of_epoch: bool,
    pub(super) keeps_foreign: bool,
}

impl App {
    /// The fault of `rules`, or of a newer version.
    pub(super) fn fault_with(&self, rules: Option<&Arc<PreparedApp>>) -> Option<&Fault> {
        self.fault.as_ref().filter(|fault| rules.is_some_and(|rules| fault.version >= rules.version))
    }

    /// Records what the node says it holds.
    pub(super) fn holds(&mut self, held: &Held, past: &Past, sent: &Bundle, of: Origin) {
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

    pub(super) fn rejects(&mut self, fault: Fault) {
        self.rejected.insert(fault.version);
        // The first of several is what people should read first.
        if self.fault.as_ref().is_none_or(|known| known.version < fault.version) {
            self.fault = Some(fault);
        }
        while self.rejected.len() > MOST_REJECTED {
            self.rejected.pop_first();
        }
    }

    pub(super) fn forget_faults(&mut self) {
        self.fault = None;
        self.rejected.clear();
    }

    /// Whether the node would reject it again. A version that is newer than its own rules it out too.
    pub(super) fn has_rejected(&self, rules: &PreparedApp, wanted: &Wanted) -> bool {
        let is_newest = wanted.candidate.is_none();
        self.rejected.contains(&rules.version)
            || (is_newest && self.fault.as_ref().is_some_and(|fault| fault.version >= rules.version))
    }
}

/// Apps that have to be compared with the published ones before the node has everything. A publication
/// changes few of them, and fleets have many nodes with many apps.
#[derive(Debug)]
pub(super) enum Unsettled {
    All,
    Apps(BTreeSet<Arc<str>>),
}

impl Default for Unsettled {
    fn default() -> Self {
        Self::Apps(BTreeSet::new())
    }
}

impl Unsettled {
    pub(super) fn add(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        if let Self::Apps(apps) = self {
            apps.extend(names);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Apps(apps) if apps.is_empty())
    }
}

/// The apps of a node. Any change makes it unknown whether all are as they should be.
#[derive(Debug, Default)]
pub(super) struct Apps {
    by_name: BTreeMap<Arc<str>, App>,
    /// The publication for which all were found as they should be; 0 while that is not known.
    pub(super) in_order_for: Cell<u64>,
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
