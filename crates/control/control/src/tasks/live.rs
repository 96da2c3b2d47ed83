//! State that changes by itself: waiting reports, figures of nodes, surroundings of the process, problems.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tollgate_fleet_proto::Report;

use crate::fleet::figures::{Counted, Figures, Surroundings};
use crate::fleet::recent::Recent;
use crate::history::{Ingest, KnownNames};
use crate::tasks::events::Events;
use crate::tasks::problems::Problem;
use crate::tasks::rollout_counts::RolloutCounts;

/// Most nodes whose figures are kept.
const MOST_NODES: usize = 10_000;
/// Most names of unknown domains that are kept of a node.
const MOST_NAMES: usize = 100;

/// The longest message of a node about itself that is kept, in bytes.
const LONGEST_MESSAGE: usize = 1_024;
/// The longest name that is kept, in bytes.
const LONGEST_NAME: usize = 256;

/// The beginning of a text of a node.
fn cut(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

/// Reports, figures and events.
#[derive(Debug, Default)]
pub struct Live {
    /// Reports that wait to be written.
    pub ingest: Ingest,
    /// Notifications of changes.
    pub events: Events,
    /// The rules that are published.
    pub(crate) names: KnownNames,
    /// Reports of nodes about apps that are being rolled out.
    pub(crate) rollout_counts: RolloutCounts,
    figures: Mutex<BTreeMap<String, (Figures, Recent)>>,
    surroundings: Mutex<Surroundings>,
    problems: Mutex<Vec<Problem>>,
    counted: Mutex<Counted>,
}

impl Live {
    /// Remembers what a report says besides counts.
    pub(crate) fn reported(&self, node: &str, incarnation: u64, report: &Report, at_ms: i64) {
        let wall_ms = i64::try_from(report.wall_ms).unwrap_or(i64::MAX);
        let mut figures = Figures {
            at_ms,
            store: report.store.as_ref().map(|it| (cut(&it.name, LONGEST_NAME), it.available)),
            skew_ms: wall_ms.saturating_sub(at_ms),
            table_bytes: report.table_bytes,
            state_error: cut(&report.state_error, LONGEST_MESSAGE),
            rules_error: cut(&report.rules_error, LONGEST_MESSAGE),
            unknown_domains: report
                .unknown_domains
                .iter()
                .take(MOST_NAMES)
                .map(|it| cut(it, LONGEST_NAME))
                .collect(),
            ..Figures::default()
        };
        let mut all = self.figures.lock();
        if all.len() >= MOST_NODES && !all.contains_key(node) {
            let oldest = all.iter().min_by_key(|(_, (it, _))| it.at_ms).map(|(node, _)| node.clone());
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        let (kept, recent) = all.entry(node.to_owned()).or_default();
        recent.add(incarnation, report, at_ms);
        (figures.decided, figures.rejected) = recent.sums();
        figures.forgotten = recent.forgotten();
        *kept = figures;
    }

    /// The last figures of each node, by its id.
    #[must_use]
    pub fn figures(&self) -> BTreeMap<String, Figures> {
        self.figures.lock().iter().map(|(node, (figures, _))| (node.clone(), figures.clone())).collect()
    }

    /// The program has looked around.
    pub fn surround(&self, surroundings: Surroundings) {
        *self.surroundings.lock() = surroundings;
    }

    /// The surroundings that were found last.
    #[must_use]
    pub fn surroundings(&self) -> Surroundings {
        *self.surroundings.lock()
    }

    /// The database was counted.
    pub(crate) fn counted(&self, counted: Counted) {
        *self.counted.lock() = counted;
    }

    /// The figures that were counted last.
    pub(crate) fn last_counted(&self) -> Counted {
        *self.counted.lock()
    }

    /// Keeps what was found, and returns what was found before.
    pub(crate) fn found(&self, problems: Vec<Problem>) -> Vec<Problem> {
        std::mem::replace(&mut *self.problems.lock(), problems)
    }

    /// The problems that were found last.
    pub(crate) fn last_found(&self) -> Vec<Problem> {
        self.problems.lock().clone()
    }
}
