//! Decisions over time, the keys that were denied most, numbers from traffic, and problems.

use serde::Serialize;
use tollgate_control::{history, problems, trials};
use utoipa::ToSchema;

use crate::shapes::nullable;
use crate::words;

/// Decisions, by outcome.
#[derive(Debug, Serialize, ToSchema)]
pub struct Counts {
    pub admitted: i64,
    pub denied: i64,
    /// Admitted by rules in shadow that would have denied.
    pub shadow_denied: i64,
    /// Denied both by the numbers in force and by those that are tried.
    pub both_denied: i64,
    /// Decided without the store.
    pub degraded: i64,
    /// Hits near the limit.
    pub near: i64,
}

impl From<history::Counts> for Counts {
    fn from(it: history::Counts) -> Self {
        let history::Counts { admitted, denied, shadow_denied, degraded, near, both_denied } = it;
        Self { admitted, denied, shadow_denied, both_denied, degraded, near }
    }
}

/// Decisions in one step of a time series, counted as in `Counts`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Point {
    /// The beginning of the step.
    pub at: i64,
    /// Milliseconds of the step that have passed and were reported: rates divide by it.
    pub ms: i64,
    pub admitted: i64,
    pub denied: i64,
    pub shadow_denied: i64,
    pub both_denied: i64,
    pub degraded: i64,
    pub near: i64,
}

impl From<&history::Point> for Point {
    fn from(point: &history::Point) -> Self {
        let Counts { admitted, denied, shadow_denied, both_denied, degraded, near } = point.counts.into();
        let at = point.at_ms;
        let ms = point.span_ms;
        Self { at, ms, admitted, denied, shadow_denied, both_denied, degraded, near }
    }
}

/// The newest complete step, in events.
#[derive(Debug, Serialize)]
pub struct NewestPoint {
    pub at: i64,
    pub step: i64,
    #[serde(flatten)]
    pub counts: Counts,
}

/// Decisions over time.
#[derive(Debug, Serialize, ToSchema)]
pub struct History {
    /// The milliseconds of one point.
    pub step: i64,
    /// The time up to which nodes have reported; null before the first report.
    #[schema(required)]
    pub as_of: Option<i64>,
    pub sum: Counts,
    /// The oldest first.
    pub points: Vec<Point>,
}

/// A key that was denied.
#[derive(Debug, Serialize, ToSchema)]
pub struct TopKey {
    pub domain: String,
    pub rule: String,
    pub key: String,
    pub denied: i64,
}

impl From<history::TopKey> for TopKey {
    fn from(it: history::TopKey) -> Self {
        let history::TopKey { domain, rule, key, denied } = it;
        Self { domain, rule, key, denied }
    }
}

/// The keys that were denied most.
#[derive(Debug, Serialize, ToSchema)]
pub struct TopKeys {
    pub keys: Vec<TopKey>,
}

/// Numbers for a rule from its traffic.
#[derive(Debug, Serialize, ToSchema)]
pub struct Numbers {
    pub rate: i64,
    pub max_permits: i64,
    /// Seconds of traffic that the numbers rest on.
    pub seconds: i64,
    /// A decimal number.
    pub peak_per_second: String,
}

impl From<history::Suggestion> for Numbers {
    fn from(it: history::Suggestion) -> Self {
        Self {
            rate: it.rate,
            max_permits: it.max_permits,
            seconds: it.seconds,
            peak_per_second: format!("{}.{}", it.peak_tenths / 10, it.peak_tenths % 10),
        }
    }
}

/// A suggestion of numbers; null where there is too little traffic.
#[derive(Debug, Serialize, ToSchema)]
pub struct Suggestion {
    #[schema(schema_with = nullable::<Numbers>, required)]
    pub suggestion: Option<Numbers>,
}

/// Numbers that a rule tries, and what they and those in force have denied of the same requests.
#[derive(Debug, Serialize, ToSchema)]
pub struct TrialCounts {
    pub rate: i64,
    pub max_permits: i64,
    /// The rule is on, so that nodes count the trial.
    pub is_running: bool,
    pub since: i64,
    /// Requests since then.
    pub offered: i64,
    /// Denied by the numbers in force.
    pub denied: i64,
    /// Denied by the numbers that are tried.
    pub trial_denied: i64,
    /// Denied by both.
    pub both_denied: i64,
}

impl From<trials::Compared> for TrialCounts {
    fn from(it: trials::Compared) -> Self {
        let sum = it.history.sum();
        Self {
            rate: it.trial.rate,
            max_permits: it.trial.max_permits,
            is_running: it.is_running,
            since: it.since_ms,
            offered: sum.offered(),
            denied: sum.denied,
            trial_denied: sum.trial_denied(),
            both_denied: sum.both_denied,
        }
    }
}

/// The trial of a rule; null without one.
#[derive(Debug, Serialize, ToSchema)]
pub struct TrialCompared {
    #[schema(schema_with = nullable::<TrialCounts>, required)]
    pub trial: Option<TrialCounts>,
}

/// A problem that is there now.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CurrentProblem)]
pub struct Problem {
    #[schema(schema_with = words::problem_kind)]
    pub kind: &'static str,
    /// Empty where it is not about an app.
    pub app: String,
    /// The id of the node; empty where it is not about one.
    pub node: String,
    pub node_name: String,
    /// Null where it is unknown.
    #[schema(required)]
    pub since: Option<i64>,
    /// A number of the kind: nodes, a share, days and so on.
    pub value: i64,
    pub detail: String,
}

impl From<problems::Problem> for Problem {
    fn from(it: problems::Problem) -> Self {
        Self {
            kind: it.kind.name(),
            app: it.app,
            node: it.node,
            node_name: it.node_name,
            since: it.since_ms,
            value: it.value,
            detail: it.detail,
        }
    }
}

/// The problems that are there now.
#[derive(Debug, Serialize, ToSchema)]
pub struct Problems {
    pub problems: Vec<Problem>,
    pub total: usize,
}

/// Requests that no rule limits.
#[derive(Debug, Serialize, ToSchema)]
pub struct UnlimitedRequest {
    pub domain: String,
    /// Why no rule limits them.
    pub what: String,
    pub admitted: i64,
    pub denied: i64,
}

impl From<history::Unlimited> for UnlimitedRequest {
    fn from(it: history::Unlimited) -> Self {
        Self {
            what: it.rule.trim_matches(['(', ')']).to_owned(),
            domain: it.domain,
            admitted: it.counts.admitted,
            denied: it.counts.denied,
        }
    }
}

/// A fault of a node's own rule files.
#[derive(Debug, Serialize, ToSchema)]
pub struct DomainFault {
    /// The id of the node.
    pub node: String,
    pub fault: String,
}

/// Requests without a rule. Unknown domains and faults are there for those who may see every app.
#[derive(Debug, Serialize, ToSchema)]
pub struct Unlimited {
    pub requests: Vec<UnlimitedRequest>,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_domains: Option<Vec<String>>,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_faults: Option<Vec<DomainFault>>,
}
