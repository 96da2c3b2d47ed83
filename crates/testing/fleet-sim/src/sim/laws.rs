//! The laws that hold in every run.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_fleet_hub::Past;
use tollgate_fleet_proto::published::AppDocuments;
use tollgate_fleet_proto::{app_digest, text_digest};

use super::content::{self, InForce, RulesEffect};

/// Versions that a node has had in force, and has acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// Highest version of each app that this process put in force.
    process: BTreeMap<String, u64>,
    /// Highest version of each app that was acknowledged, by any process of the node.
    acknowledged: BTreeMap<String, u64>,
}

impl Versions {
    pub(crate) fn restarted(&mut self) {
        self.process.clear();
    }

    pub(crate) fn acknowledged(&mut self, app: &str, version: u64) {
        let highest = self.acknowledged.entry(app.to_owned()).or_default();
        *highest = version.max(*highest);
    }

    pub(crate) fn has_acknowledged(&self, app: &str, version: u64) -> bool {
        self.acknowledged.get(app).is_some_and(|highest| *highest >= version)
    }

    /// Laws C1 and C2.
    pub(crate) fn in_force(&mut self, rules: &[InForce]) -> Result<(), String> {
        for InForce { app, version, kind, .. } in rules {
            if matches!(kind, RulesEffect::Bad | RulesEffect::Panics) {
                return Err(format!("C1: version {version} of {app} is in force, and the parser rejects it"));
            }
            let process = self.process.entry(app.clone()).or_default();
            let highest = (*process).max(self.acknowledged.get(app).copied().unwrap_or(0));
            if *version < highest {
                return Err(format!("C2: {app} went from version {highest} to {version}"));
            }
            *process = *version;
        }
        Ok(())
    }
}

/// Every document that the database has published, and what administrators have said of each app.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lineage {
    documents: BTreeSet<String>,
    /// Versions of other databases below these may be replaced.
    forced: BTreeMap<String, u64>,
}

impl Lineage {
    /// Returns what an administrator said last of the app.
    pub(crate) fn published(&mut self, app: &AppDocuments) -> u64 {
        let candidate = app.candidate.iter().flat_map(|it| &it.documents);
        self.documents.extend(app.documents.iter().chain(candidate).map(|it| it.yaml().to_owned()));
        let forced = self.forced.entry(app.app.clone()).or_default();
        *forced = app.forced.max(*forced);
        *forced
    }

    /// As the control plane reads it from its database.
    pub(crate) fn past(&self) -> Past {
        let mut past = Past::of_database();
        for text in &self.documents {
            let InForce { app, version, .. } = content::read(text);
            let domain = text.rsplit(' ').next().unwrap_or_default();
            past.add(&app, version, &app_digest([(domain, text_digest(text))]));
        }
        past
    }

    /// Law C10: rules that this database has never published are not replaced by it, nor taken away, without
    /// an administrator's decision. Apps that are gone count where `keeps` says so.
    pub(crate) fn replaced(&self, before: &[InForce], now: &[InForce], keeps: bool) -> Result<(), String> {
        let is_foreign = |it: &&InForce| {
            !self.documents.contains(&it.text)
                && self.forced.get(&it.app).is_none_or(|forced| it.version >= *forced)
        };
        for InForce { app, text, .. } in before.iter().filter(is_foreign) {
            match now.iter().find(|it| it.app == *app) {
                Some(it) if self.documents.contains(&it.text) => {
                    return Err(format!("C10: {text:?} is replaced by {:?}", it.text));
                }
                None if keeps => return Err(format!("C10: {text:?} is taken away")),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Counts of nodes, by node and incarnation, and the stored part of them.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) counted: BTreeMap<(usize, u64), u64>,
    /// Last number and sum.
    stored: BTreeMap<(usize, u64), (u64, u64)>,
}

impl History {
    /// Stores a report as the database does.
    pub(crate) fn store(&mut self, process: (usize, u64), sequence: u64, count: u64) {
        let (last, sum) = self.stored.entry(process).or_default();
        if sequence > *last {
            (*last, *sum) = (sequence, *sum + count);
        }
    }

    /// Law C5: the stored counts of a dead process are part of its counts; those of one that `lives`, all.
    pub(crate) fn check(&self, lives: impl Fn((usize, u64)) -> bool) -> Result<(), String> {
        for (process, counted) in &self.counted {
            let stored = self.stored.get(process).map_or(0, |(_, sum)| *sum);
            if stored > *counted || (lives(*process) && stored != *counted) {
                return Err(format!("C5: {process:?} counted {counted}, and {stored} are stored"));
            }
        }
        Ok(())
    }
}
