//! One algorithm on a pattern of arrivals: its admissions, and the times at which they leave.

use std::time::Duration;

use tollgate_core::{Algorithm, Cost, Period, Quota, QuotaError, Timestamp};
use tollgate_exact::ExactLog;

/// A whole number of days, so that windows begin with the pattern.
const BEGIN_S: u64 = 20_000 * 86_400;

/// Result of one algorithm.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) offered: u64,
    /// When each admitted request arrived and when it left, in nanoseconds of the pattern; in order of both.
    pub(crate) admitted: Vec<(u64, u64)>,
    /// When each denied request arrived.
    pub(crate) denied: Vec<u64>,
    /// Most that left within any window.
    pub(crate) most_in_window: u64,
    pub(crate) longest_delay: Duration,
}

/// Decides arrivals, which are in order, one permit each.
pub(crate) fn run(
    name: impl Into<String>,
    algorithm: Algorithm,
    limit: u64,
    window: Duration,
    arrivals: &[u64],
) -> Result<Run, QuotaError> {
    let quota = Quota::new(limit, Period::Span(window), algorithm)?;
    let window_ns = tollgate_core::nanos(window);
    let mut state = quota.fresh();
    let mut admitted = Vec::new();
    let mut denied = Vec::new();
    let mut log = ExactLog::default();
    let mut most_in_window = 0;
    let mut longest_delay = Duration::ZERO;
    for &at in arrivals {
        let now = Timestamp::from_nanos(BEGIN_S * 1_000_000_000 + at);
        let decision = quota.take(&mut state, Cost::ONE, now);
        if !decision.is_admitted() {
            denied.push(at);
            continue;
        }
        let leaves = at.saturating_add(tollgate_core::nanos(decision.delay()));
        longest_delay = longest_delay.max(decision.delay());
        log.forget(leaves, window_ns);
        log.push(leaves, 1);
        most_in_window = most_in_window.max(log.sum());
        admitted.push((at, leaves));
    }
    let name = name.into();
    let offered = arrivals.len() as u64;
    Ok(Run { name, offered, admitted, denied, most_in_window, longest_delay })
}

impl Run {
    /// Requests that left in the window that ends at each of these instants.
    pub(crate) fn in_window(&self, window_ns: u64, instants: impl Iterator<Item = u64>) -> Vec<(f64, f64)> {
        let left_by = |at: u64| self.admitted.partition_point(|&(_, leaves)| leaves <= at);
        let count = |at: u64| left_by(at) - at.checked_sub(window_ns).map_or(0, left_by);
        instants.map(|at| (seconds(at), count(at) as f64)).collect()
    }

    /// Total of requests that have left, at each instant at which one leaves.
    pub(crate) fn cumulative(&self) -> Vec<(f64, f64)> {
        let steps = (1..).zip(&self.admitted);
        steps.map(|(count, &(_, leaves))| (seconds(leaves), f64::from(count))).collect()
    }

    /// Requests that left in each span, per second.
    pub(crate) fn rate(&self, span_ns: u64, until_ns: u64) -> Vec<(f64, f64)> {
        let mut spans = vec![0_u64; until_ns.div_ceil(span_ns) as usize];
        for &(_, leaves) in &self.admitted {
            if let Some(span) = spans.get_mut((leaves / span_ns) as usize) {
                *span += 1;
            }
        }
        let per_second = |count: u64| count as f64 / seconds(span_ns);
        let points = (0..).zip(&spans);
        points.map(|(nth, &count)| (seconds(nth * span_ns), per_second(count))).collect()
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
