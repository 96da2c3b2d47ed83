//! The limiter: rules in force, the store, and how the two are used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arc_swap::{ArcSwap, Guard};
use tollgate_core::Timestamp;
use tollgate_policy::Policy;
use tollgate_store::Store;

use crate::denied::Lines;
use crate::observe::Metrics;
use crate::reserve::table::Table;
use crate::rules::Rules;
use crate::settings::LimiterSettings;
use crate::trace::Sampling;

/// Decisions that one caller should have in flight at the same time, at most: each has its own buffers.
pub const MAX_IN_FLIGHT: usize = 256;

/// Decides requests: policy, store, and time from the caller.
///
/// Where the store is shared, a `RoutedStore` (crate `store-routed`) puts this node's memory beside it: for rules that say
/// `sharing: local`, and for those that say `on_store_failure: local` while the store does not answer.
#[derive(Debug)]
pub struct Limiter<S: Store> {
    pub(crate) rules: ArcSwap<Rules>,
    pub(crate) store: S,
    pub(crate) settings: LimiterSettings,
    pub(crate) metrics: Metrics,
    /// Whether the last call to the store failed; each change is logged once.
    pub(crate) store_fails: AtomicBool,
    pub(crate) reservations: Arc<Table>,
    pub(crate) lines: Lines,
    /// Log lines about what the store refuses.
    pub(crate) refusals: Lines,
    pub(crate) sampling: Sampling,
}

impl<S: Store> Limiter<S> {
    /// A limiter by the rules of `policy`, with its counters in `store`.
    #[must_use]
    pub fn new(policy: Policy, store: S, settings: LimiterSettings) -> Self {
        let reservations = Arc::new(Table::new(settings.max_reservations));
        let metrics = Metrics::new(&settings, Arc::clone(&reservations));
        let rules = Rules { meters: metrics.meters_for(&policy), policy, generation: 0 };
        metrics.count_load(true, rules.policy.version(), Timestamp::ZERO);
        Self {
            rules: ArcSwap::from_pointee(rules),
            store,
            metrics,
            store_fails: AtomicBool::new(false),
            reservations,
            lines: Lines::default(),
            refusals: Lines::default(),
            sampling: Sampling::new(settings.trace_ratio),
            settings,
        }
    }

    /// Puts `policy` into force from `now` on; counters of rules that are in both keep their counts.
    pub fn replace(&self, policy: Policy, now: Timestamp) {
        let old = self.rules.load();
        let policy = policy.migrated_from(old.policy(), now);
        let generation = old.generation + 1;
        let meters = self.metrics.meters_for(&policy);
        let rules = Rules { meters, policy, generation };
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

    /// Whether the last call to the store failed.
    pub fn is_store_failing(&self) -> bool {
        self.store_fails.load(Relaxed)
    }
}
