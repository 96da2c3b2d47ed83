//! Decisions of nodes about apps that are being rolled out, between two looks at them.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use tollgate_fleet_proto::Report;
use tollgate_model::rollout::{Sides, Span, State, Tally};

use crate::history::UNMATCHED;
use crate::published::Published;

/// Counts that wait for the next look, at most; a fleet of 10,000 nodes sends 2,000 reports per second.
const MOST_COUNTS: usize = 100_000;
/// Most decisions of one rule in one report; a node that reports more is not believed.
const MOST_DECISIONS: u64 = 1_000_000_000_000;

/// Observations of a rollout since its step began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Decisions of both sides.
    pub sides: Sides,
    /// When the step may end, in ms UTC; `None` before it has begun.
    pub soaked_at: Option<i64>,
    /// Live nodes with the candidate, and those that have yet to acknowledge it.
    pub answers: (usize, usize),
    /// Nodes whose reports the step waits for, after its soak time.
    pub unreported: usize,
    /// The etag of the rollout that this is about.
    pub etag: i64,
}

/// Reports of nodes about apps that are being rolled out.
#[derive(Debug, Default)]
pub(crate) struct RolloutCounts(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Domains of these apps.
    apps: HashMap<String, String>,
    last: HashMap<String, Last>,
    counts: Vec<Count>,
    observed: BTreeMap<String, Observed>,
    states: BTreeMap<State, u64>,
}

/// The last report of a node.
#[derive(Debug)]
struct Last {
    /// Incarnation and number. A report may come twice.
    is: (u64, u64),
    covers: Span,
}

/// Decisions of a node about one app.
#[derive(Debug)]
pub(crate) struct Count {
    pub(crate) app: String,
    pub(crate) node: String,
    pub(crate) from_ms: i64,
    pub(crate) tally: Tally,
}

impl RolloutCounts {
    /// Counts of these apps matter from now on.
    pub(crate) fn watch(&self, published: &Published) {
        let mut inner = self.0.lock();
        inner.apps.clear();
        for app in &published.apps {
            let Some(candidate) = &app.candidate else { continue };
            for document in app.documents.iter().chain(&candidate.documents) {
                inner.apps.insert(document.domain().to_owned(), app.app.clone());
            }
        }
        if inner.apps.is_empty() {
            (inner.last, inner.counts) = (HashMap::new(), Vec::new());
        }
    }

    /// A node has reported.
    pub(crate) fn reported(&self, node: &str, incarnation: u64, report: &Report, at_ms: i64) {
        let mut inner = self.0.lock();
        if inner.apps.is_empty() {
            return;
        }
        let is = (incarnation, report.sequence);
        if inner.last.get(node).is_some_and(|last| last.is >= is) {
            return;
        }
        let ago = |ms: u64| at_ms.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX));
        let from_ms = ago(report.age_ms.saturating_add(report.span_ms));
        let covers = Span { from_ms, to_ms: ago(report.age_ms) };
        inner.last.insert(node.to_owned(), Last { is, covers });
        let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
        for rule in report.rules.iter().filter(|rule| rule.rule != UNMATCHED) {
            let Some(app) = inner.apps.get(&rule.domain) else { continue };
            let bounded = |count: u64| count.min(MOST_DECISIONS);
            let admitted = bounded(rule.admitted);
            let shadow = bounded(rule.shadow_denied);
            let denied = bounded(rule.denied);
            let degraded = bounded(rule.degraded);
            let decisions = admitted + shadow + denied;
            // Requests that counters of its own would have denied count as denied.
            let denied = decisions.min(denied + bounded(rule.alone_denied));
            tallies.entry(app).or_default().add(Tally { decisions, denied, degraded });
        }
        let counts: Vec<Count> = tallies
            .into_iter()
            .map(|(app, tally)| Count { app: app.to_owned(), node: node.to_owned(), from_ms, tally })
            .collect();
        if inner.counts.len() < MOST_COUNTS {
            inner.counts.extend(counts);
        }
    }

    /// The counts since the last call, and the time that the last report of each node covers.
    pub(crate) fn take(&self) -> (Vec<Count>, HashMap<String, Span>) {
        let mut inner = self.0.lock();
        let covered = inner.last.iter().map(|(node, last)| (node.clone(), last.covers)).collect();
        (std::mem::take(&mut inner.counts), covered)
    }

    /// Sets the observations that pages show. Returns whether they have changed.
    pub(crate) fn show(&self, observed: BTreeMap<String, Observed>, states: BTreeMap<State, u64>) -> bool {
        let mut inner = self.0.lock();
        inner.states = states;
        let is_new = inner.observed != observed;
        inner.observed = observed;
        is_new
    }

    pub(crate) fn states(&self) -> BTreeMap<State, u64> {
        self.0.lock().states.clone()
    }

    pub(crate) fn shown(&self, app: &str) -> Option<Observed> {
        self.0.lock().observed.get(app).copied()
    }
}
