//! What is in force and what came of it, as data: for an API, a terminal, a page.

use std::sync::Arc;

use tollgate_core::Timestamp;
use tollgate_store::Store;

use crate::limiter::Limiter;
use crate::observe::meters::{Of, RuleLanes};
pub use crate::observe::top::TopKey;

/// The rules in force, and what came of them since the process began.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Version of the rules: twelve hexadecimal digits.
    pub version: String,
    /// When they were put into force. Of those that the limiter was made with: when a [`Follower`](crate::follow::Follower) began to watch
    /// their files, and [`Timestamp::ZERO`] without one.
    pub loaded_at: Timestamp,
    /// Why the files as they are now are not in force; `None` when they are.
    pub last_error: Option<Arc<str>>,
    /// Every domain, in the order of the files.
    pub domains: Vec<DomainReport>,
    /// Quotas that came with the question.
    pub throttle: Totals,
    /// Of these, the keys that were denied most.
    pub throttle_top_limited: Vec<TopKey>,
    /// Reservations that are neither settled nor over.
    pub reservations: u64,
}

/// One domain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainReport {
    /// Its name.
    pub name: String,
    /// Its rules, in the order of the files.
    pub rules: Vec<RuleReport>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleReport {
    /// Its path, such as `api_key → plan=gold`.
    pub rule: String,
    /// Its name; empty where the file gives none.
    pub name: String,
    /// Its limits in words: `5 per minute, fixed_window`.
    pub limits: Vec<String>,
    /// What came of it.
    pub totals: Totals,
    /// The totals are of all rules above the cap on series together ([`max_rule_series`](crate::LimiterSettings::max_rule_series)).
    pub is_shared: bool,
    /// The keys that were denied most lately, most first; also those that only shadow mode let pass.
    pub top_limited: Vec<TopKey>,
}

/// Decisions by what they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Let pass.
    pub admitted: u64,
    /// Denied.
    pub denied: u64,
    /// Let pass by a rule in shadow mode alone.
    pub shadow_denied: u64,
    /// Made while the store gave no answer; of all of them.
    pub degraded: u64,
}

impl Totals {
    fn of(lanes: &RuleLanes) -> Self {
        let sum = |of: Of| lanes.sum(of as usize);
        Self {
            admitted: sum(Of::Admitted),
            denied: sum(Of::Denied),
            shadow_denied: sum(Of::ShadowDenied),
            degraded: sum(Of::Degraded),
        }
    }
}

impl<S: Store> Limiter<S> {
    /// What is in force, and what came of it.
    #[must_use]
    pub fn report(&self, now: Timestamp) -> Report {
        let rules = self.rules.load_full();
        let most = self.settings.max_rule_series;
        let mut meters = rules.meters.rules.iter().enumerate();
        let mut domains = Vec::new();
        for domain in rules.policy().domains() {
            let of_domain =
                domain.rules().iter().zip(meters.by_ref()).map(|(rule, (index, meter))| RuleReport {
                    rule: rule.path.clone(),
                    name: rule.name.clone(),
                    limits: rule.limits.iter().map(ToString::to_string).collect(),
                    totals: Totals::of(&meter.lanes),
                    is_shared: index >= most,
                    top_limited: meter.top.get().map_or_else(Vec::new, |top| top.top(now)),
                });
            let of_domain = of_domain.collect();
            domains.push(DomainReport { name: domain.name().to_owned(), rules: of_domain });
        }
        let (loaded_at, last_error) = self.metrics.last_load();
        Report {
            version: rules.policy().version().to_owned(),
            loaded_at,
            last_error,
            domains,
            throttle: Totals::of(self.metrics.throttle_lanes()),
            throttle_top_limited: self.metrics.throttle_top().get().map_or_else(Vec::new, |top| top.top(now)),
            reservations: self.reservations.live(),
        }
    }
}
