//! The rules in force and the decisions by them, as data: for an API, a terminal, a page.

use std::sync::Arc;

use std::sync::atomic::Ordering::Relaxed;

use tollgate_core::Timestamp;
use tollgate_policy::Policy;

use crate::rejections::Rejections;
use crate::rule_meters::{
    RuleCounters, RuleMeter, RuleMeters, RuleMetric, UNMATCHED_ADMITTED, UNMATCHED_DENIED,
};
use crate::top_keys::TopKey;

/// The rules in force, and the numbers of their decisions since the process began.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Version of the rules: twelve hexadecimal digits.
    pub version: String,
    /// The time at which they were put into force. For the rules that the limiter was made with: the time
    /// given to [`Observer::started`](crate::Observer::started), else [`Timestamp::ZERO`].
    pub loaded_at: Timestamp,
    /// The error that keeps the present files from being in force; `None` if they are.
    pub last_error: Option<Arc<str>>,
    /// Every domain, in the order of the files.
    pub domains: Vec<DomainReport>,
    /// Decisions about quotas that came with the request.
    pub throttle: Totals,
    /// The keys of such requests that were denied most.
    pub throttle_top_limited: Vec<TopKey>,
    /// Reservations that are neither settled nor over.
    pub reservations: u64,
    /// Requests for domains that no file is about: admitted, and denied.
    pub unknown_requests: (u64, u64),
    /// The first of these domains, at most 100.
    pub unknown_domains: Vec<String>,
    /// Requests that were not answered by the rules.
    pub rejections: Vec<Rejections>,
}

/// The rules and numbers of one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainReport {
    /// Name of the domain, as rule files write it.
    pub name: String,
    /// Its rules, in the order of the files.
    pub rules: Vec<RuleReport>,
    /// Requests for which no rule matched any descriptor: admitted, and denied.
    pub unmatched: (u64, u64),
}

/// A rule and its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleReport {
    /// Its path, such as `api_key → plan=gold`.
    pub rule: String,
    /// Its name; empty where the file gives none.
    pub name: String,
    /// Its limits in words: `5 per minute, fixed_window`.
    pub limits: Vec<String>,
    /// Numbers of its decisions.
    pub totals: Totals,
    /// The totals are of all rules above the cap on series together
    /// ([`max_rule_series`](crate::ObserveSettings::max_rule_series)).
    pub is_shared: bool,
    /// The keys that were denied most lately, most first; also keys that passed only because of shadow mode.
    pub top_limited: Vec<TopKey>,
}

/// Numbers of decisions by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Decisions that admitted.
    pub admitted: u64,
    /// Decisions that denied.
    pub denied: u64,
    /// Decisions that admitted only because a rule is in shadow mode.
    pub shadow_denied: u64,
    /// Denials that a limit in shadow would have made too.
    pub both_denied: u64,
    /// Denied requests with several hits that were not counted, of a rule that is also asked with 0 hits, and
    /// that may be the cost of finished work.
    pub forgotten: u64,
    /// Decisions that admitted, although the counters that only a version in a rollout uses would have
    /// denied.
    pub alone_denied: u64,
    /// Decisions made while the store did not answer; a part of all these.
    pub degraded: u64,
    /// Permits that were taken near a limit.
    pub near: u64,
}

impl Totals {
    pub(crate) fn of(meter: &RuleMeter) -> Self {
        let both_denied = meter.both_denied.as_ref().map_or(0, |counter| counter.sum(0));
        let forgotten = meter.forgets.as_ref().map_or(0, |forgets| forgets.forgotten.load(Relaxed));
        Self { both_denied, forgotten, ..Self::of_counters(&meter.counters) }
    }

    pub(crate) fn of_counters(counters: &RuleCounters) -> Self {
        let sum = |metric: RuleMetric| counters.sum(metric);
        Self {
            admitted: sum(RuleMetric::Admitted),
            denied: sum(RuleMetric::Denied),
            shadow_denied: sum(RuleMetric::ShadowDenied),
            both_denied: 0,
            forgotten: 0,
            alone_denied: counters.alone_denied(),
            degraded: sum(RuleMetric::Degraded),
            near: sum(RuleMetric::NearHits),
        }
    }
}

/// Reports of all rules of `policy`, of which the first `max_series` have counters of their own.
pub(crate) fn domains(
    policy: &Policy,
    rules: &RuleMeters,
    max_series: usize,
    now: Timestamp,
) -> Vec<DomainReport> {
    let mut meters = rules.rules.iter().enumerate();
    let mut domains = Vec::new();
    for (meter, domain) in rules.domains.iter().zip(policy.domains()) {
        let unmatched = (meter.counters.sum(UNMATCHED_ADMITTED), meter.counters.sum(UNMATCHED_DENIED));
        let of_domain = domain.rules().iter().zip(meters.by_ref()).map(|(rule, (index, meter))| RuleReport {
            rule: rule.path.clone(),
            name: rule.name.clone(),
            limits: rule.limits_in_words(),
            totals: Totals::of(meter),
            is_shared: index >= max_series,
            top_limited: meter.top.get().map_or_else(Vec::new, |top| top.top(now)),
        });
        let of_domain = of_domain.collect();
        domains.push(DomainReport { name: domain.name().to_owned(), rules: of_domain, unmatched });
    }
    domains
}
