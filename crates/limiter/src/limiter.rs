//! The limiter: rules in force, the store, and how the two are used.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use tollgate_core::Timestamp;
use tollgate_policy::{OnStoreFailure, Policy};
use tollgate_store::Store;

use crate::denied::Lines;
use crate::observe::Metrics;
use crate::observe::meters::Meters;
use crate::outage::Shares;
use crate::reserve::table::Table;
use crate::trace::Sampling;

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
    /// What becomes of a quota that came with the question ([`Limiter::throttle`]) while the store gives no answer.
    pub throttle_on_store_failure: OnStoreFailure,
    /// Most reservations that may be open at a time.
    pub max_reservations: usize,
    /// Longest time that a reservation may be held from its start on, and longest that one may wait for its start.
    pub longest_reservation: Duration,
    /// Keys that are remembered of each rule that denies, the most denied ones; 0 remembers none. At most 1,024.
    pub top_keys: usize,
    /// Most bytes that these may take of all rules together; rules that first deny after that have none.
    pub top_keys_max_bytes: u64,
    /// The level of the log line about a denial; none is written where `None`.
    pub denial_log: Option<tracing::Level>,
    /// Most lines about denials a second; the first of the next second says how many were left out.
    pub denial_log_lines: u32,
    /// Share of the requests that get a span, from 0 (none; whatever callers say) to 1. [`Limiter::set_trace_ratio`] changes it.
    pub trace_ratio: f64,
}

impl Default for LimiterSettings {
    /// No mode; near is 0.8; metrics for 10,000 rules and 1,000 values; what came with the question passes while the store is silent;
    /// 100,000 reservations of up to an hour; 16 top keys a rule within 16 MiB; ten lines a second about denials, as errors; no spans.
    fn default() -> Self {
        Self {
            shadow_mode: false,
            quota_mode: false,
            near_limit_ratio: 0.8,
            max_rule_series: 10_000,
            max_value_series: 1_000,
            throttle_on_store_failure: OnStoreFailure::default(),
            max_reservations: 100_000,
            longest_reservation: Duration::from_secs(3_600),
            top_keys: 16,
            top_keys_max_bytes: 16 << 20,
            denial_log: Some(tracing::Level::ERROR),
            denial_log_lines: 10,
            trace_ratio: 0.0,
        }
    }
}

/// The rules in force, and what was made ready for them.
#[derive(Debug)]
pub struct Rules {
    policy: Policy,
    pub(crate) meters: Arc<Meters>,
    /// Counts the policies of one limiter.
    pub(crate) generation: u64,
    /// What this node may admit of each limit while the store gives no answer.
    pub(crate) shares: ArcSwapOption<Shares>,
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
/// `L` is the node's own memory beside a shared store: for rules that say `sharing: local`, and for those that say
/// `on_store_failure: local` while the store gives no answer.
#[derive(Debug)]
pub struct Limiter<S: Store, L: Store = S> {
    pub(crate) rules: ArcSwap<Rules>,
    pub(crate) store: S,
    pub(crate) local: Option<L>,
    pub(crate) settings: LimiterSettings,
    pub(crate) metrics: Metrics,
    /// The store's last answer was none; so that a change is told once.
    pub(crate) store_fails: AtomicBool,
    pub(crate) reservations: Arc<Table>,
    pub(crate) lines: Lines,
    /// Log lines about what the store refuses.
    pub(crate) refusals: Lines,
    pub(crate) sampling: Sampling,
}

impl<S: Store, L: Store> Limiter<S, L> {
    /// A limiter by the rules of `policy`, with its counters in `store`.
    #[must_use]
    pub fn new(policy: Policy, store: S, settings: LimiterSettings) -> Self {
        let reservations = Arc::new(Table::new(settings.max_reservations));
        let metrics = Metrics::new(&settings, Arc::clone(&reservations));
        let rules = Rules {
            meters: metrics.meters_for(&policy),
            policy,
            generation: 0,
            shares: ArcSwapOption::empty(),
        };
        metrics.count_load(true, rules.policy.version(), Timestamp::ZERO);
        Self {
            rules: ArcSwap::from_pointee(rules),
            store,
            local: None,
            metrics,
            store_fails: AtomicBool::new(false),
            reservations,
            lines: Lines::default(),
            refusals: Lines::default(),
            sampling: Sampling::new(settings.trace_ratio),
            settings,
        }
    }

    /// With this node's memory beside a shared store, for rules that say `sharing: local` or `on_store_failure: local`.
    #[must_use]
    pub fn with_local(mut self, local: L) -> Self {
        self.local = Some(local);
        self
    }

    /// Puts `policy` into force from `now` on; counters of rules that are in both keep their counts.
    pub fn replace(&self, policy: Policy, now: Timestamp) {
        let old = self.rules.load();
        let policy = policy.migrated_from(old.policy(), now);
        let generation = old.generation + 1;
        let meters = self.metrics.meters_for(&policy);
        let rules = Rules { meters, policy, generation, shares: ArcSwapOption::empty() };
        self.metrics.count_load(true, rules.policy.version(), now);
        self.rules.store(Arc::new(rules));
    }

    /// Takes note that new rules were faulty; those in force stay.
    pub fn refuse(&self, now: Timestamp) {
        self.metrics.count_load(false, self.rules.load().policy().version(), now);
    }

    /// As [`refuse`](Self::refuse), and why, for [`Report::last_error`](crate::Report::last_error).
    pub fn refuse_because(&self, why: Arc<str>, now: Timestamp) {
        self.refuse(now);
        self.metrics.set_last_error(why);
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

    /// This node's memory, where it is beside the store.
    pub const fn local(&self) -> Option<&L> {
        self.local.as_ref()
    }
}
