//! The limiter: rules in force, the store, and how the two are used.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::{ArcSwap, Guard};
use tollgate_core::Timestamp;
use tollgate_policy::Policy;
use tollgate_store::Store;

use crate::observe::Metrics;
use crate::observe::meters::Meters;

/// What holds for every request, whatever the rules say.
#[derive(Clone, Debug, PartialEq)]
pub struct LimiterSettings {
    /// Requests that would be denied pass; each descriptor still says that it is over.
    pub shadow_mode: bool,
    /// Every descriptor is a soft limit: a request is denied only when all its descriptors are over.
    pub quota_mode: bool,
    /// From this share of a limit on, hits count as near the limit (a figure for dashboards, not for decisions).
    pub near_limit_ratio: f32,
    /// Most rules that get metrics of their own; the rest are counted together.
    pub max_rule_series: usize,
    /// Most values of requests that get metrics of their own, for rules that ask for it (`detailed_metric`,
    /// `value_to_metric`); the rest are counted together.
    pub max_value_series: usize,
}

impl Default for LimiterSettings {
    /// No mode; near is 0.8; metrics for 10,000 rules and 1,000 values.
    fn default() -> Self {
        Self {
            shadow_mode: false,
            quota_mode: false,
            near_limit_ratio: 0.8,
            max_rule_series: 10_000,
            max_value_series: 1_000,
        }
    }
}

/// The rules in force, and what was made ready for them.
#[derive(Debug)]
pub struct Rules {
    policy: Policy,
    pub(crate) meters: Arc<Meters>,
}

impl Rules {
    /// The rules.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }
}

/// Decides requests: policy, store, and time from the caller.
///
/// `L` is the node's own memory for rules that say `on_store_failure: local`.
#[derive(Debug)]
pub struct Limiter<S: Store, L: Store = S> {
    pub(crate) rules: ArcSwap<Rules>,
    pub(crate) store: S,
    pub(crate) local: Option<L>,
    pub(crate) settings: LimiterSettings,
    pub(crate) metrics: Metrics,
    /// The store's last answer was none; so that a change is told once.
    pub(crate) store_fails: AtomicBool,
}

impl<S: Store, L: Store> Limiter<S, L> {
    /// A limiter by the rules of `policy`, with its counters in `store`.
    #[must_use]
    pub fn new(policy: Policy, store: S, settings: LimiterSettings) -> Self {
        let metrics = Metrics::new(settings.max_rule_series, settings.max_value_series);
        let rules = Rules { meters: metrics.meters_for(&policy), policy };
        metrics.count_load(true, rules.policy.version(), Timestamp::ZERO);
        let store_fails = AtomicBool::new(false);
        Self { rules: ArcSwap::from_pointee(rules), store, local: None, settings, metrics, store_fails }
    }

    /// With this node's memory for rules that say `on_store_failure: local`.
    #[must_use]
    pub fn with_local(mut self, local: L) -> Self {
        self.local = Some(local);
        self
    }

    /// Puts `policy` into force from `now` on; counters of rules that are in both keep their counts.
    pub fn replace(&self, policy: Policy, now: Timestamp) {
        let policy = policy.succeeding(self.rules.load().policy(), now);
        let rules = Rules { meters: self.metrics.meters_for(&policy), policy };
        self.metrics.count_load(true, rules.policy.version(), now);
        self.rules.store(Arc::new(rules));
    }

    /// Takes note that new rules were faulty; those in force stay.
    pub fn refuse(&self, now: Timestamp) {
        self.metrics.count_load(false, self.rules.load().policy().version(), now);
    }

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> Guard<Arc<Rules>> {
        self.rules.load()
    }

    /// What is observed.
    #[must_use]
    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The store.
    pub const fn store(&self) -> &S {
        &self.store
    }
}
