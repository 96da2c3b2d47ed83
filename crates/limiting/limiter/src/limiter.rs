//! The limiter: rules in force, the store, and how the two are used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use tollgate_core::Timestamp;
use tollgate_observe::{Metrics, Observer, Rejected, Report, RulesLoaded};
use tollgate_policy::Policy;
use tollgate_store::Store;

use crate::candidates::Candidates;
use crate::interventions::Interventions;
use crate::queue::lines::Lines;
use crate::reserve::table::ReservationTable;
use crate::rules::Rules;
use crate::settings::LimiterSettings;
use crate::slots::events::SlotEvents;

/// Decisions that one caller should have in flight at the same time, at most: each has its own buffers.
pub const MAX_IN_FLIGHT: usize = 256;

/// Decides requests: policy, store, and time from the caller.
///
/// Where the store is shared, a [`RoutedStore`](tollgate_store::routed::RoutedStore) puts this node's memory
/// beside it: for rules that say `sharing: local`, and for those that say `on_store_failure: local` while the
/// store does not answer.
///
/// Its events are reported to its observer: [`Metrics`], or `()` for none.
pub struct Limiter<S: Store, O: Observer = Metrics> {
    pub(crate) rules: ArcSwap<Rules<O>>,
    /// Blocks and allowances by operators.
    pub(crate) interventions: ArcSwap<Interventions>,
    /// Versions that are being rolled out.
    pub(crate) candidates: ArcSwap<Candidates>,
    /// Held while one of the three changes.
    pub(crate) changing: Mutex<()>,
    pub(crate) store: S,
    pub(crate) settings: LimiterSettings,
    pub(crate) observer: O,
    /// Whether the last call to the store failed, so that each change is reported once.
    pub(crate) store_fails: AtomicBool,
    pub(crate) reservations: Arc<ReservationTable>,
    pub(crate) slots: Arc<SlotEvents>,
    /// Requests that wait for their turn.
    pub(crate) lines: Arc<Lines>,
}

impl<S: Store> Limiter<S> {
    /// A limiter by the rules of `policy`, with its counters in `store`, observed by [`Metrics`].
    #[must_use]
    pub fn new(policy: Policy, store: S, settings: LimiterSettings) -> Self {
        let metrics = Metrics::new(&settings.observe);
        Self::with_observer(policy, store, settings, metrics)
    }

    /// The metrics that it keeps.
    #[must_use]
    pub const fn metrics(&self) -> &Metrics {
        &self.observer
    }

    /// Report of the rules in force and of the decisions by them.
    #[must_use]
    pub fn report(&self, now: Timestamp) -> Report {
        let rules = self.rules.load_full();
        self.observer.report(rules.policy(), &rules.observed, self.reservations.live(), now)
    }
}

impl<S: Store, O: Observer> Limiter<S, O> {
    /// As [`Limiter::new`], observed by `observer`.
    #[must_use]
    pub fn with_observer(policy: Policy, store: S, settings: LimiterSettings, observer: O) -> Self {
        let reservations = Arc::new(ReservationTable::new(settings.max_reservations));
        let observed = observer.prepare(&policy);
        let interventions = Interventions::default();
        let candidates = Candidates::default();
        let rules = Rules::new(policy, observed, 0, &interventions, &candidates, Timestamp::ZERO);
        observer.rules_loaded(RulesLoaded::InForce { version: rules.policy.version() }, Timestamp::ZERO);
        let table = Arc::clone(&reservations);
        observer.watch_reservations(move || table.stats());
        let slots = Arc::new(SlotEvents::default());
        let events = Arc::clone(&slots);
        observer.watch_slots(move || events.stats());
        let lines = Arc::new(Lines::new(settings.max_queued, store.is_remote()));
        let waiting = Arc::clone(&lines);
        observer.watch_queue(move || waiting.stats());
        Self {
            rules: ArcSwap::from_pointee(rules),
            interventions: ArcSwap::from_pointee(interventions),
            candidates: ArcSwap::from_pointee(candidates),
            changing: Mutex::new(()),
            store,
            observer,
            store_fails: AtomicBool::new(false),
            reservations,
            slots,
            lines,
            settings,
        }
    }

    /// Puts `policy` into force from `now` on; counters of rules that are in both keep their counts.
    pub fn replace(&self, policy: Policy, now: Timestamp) {
        let _changing = self.changing.lock();
        let old = self.rules.load();
        let policy = policy.migrated_from(old.policy(), now);
        let generation = old.generation + 1;
        let observed = self.observer.prepare(&policy);
        let interventions = self.interventions.load();
        let candidates = self.candidates.load();
        let rules = Rules::new(policy, observed, generation, &interventions, &candidates, now);
        self.observer.rules_loaded(RulesLoaded::InForce { version: rules.policy.version() }, now);
        self.rules.store(Arc::new(rules));
        self.lines.refresh();
    }

    /// Denies the requests that wait for their turn, and has none wait from now on: the process ends.
    pub fn end_queue(&self) {
        self.lines.end();
    }

    /// Reports that new rules were faulty; the rules in force stay.
    pub fn reject(&self, now: Timestamp) {
        self.rejected(None, now);
    }

    /// As [`reject`](Self::reject), and why, for [`Report::last_error`].
    pub fn reject_because(&self, why: &Arc<str>, now: Timestamp) {
        self.rejected(Some(why), now);
    }

    fn rejected(&self, why: Option<&Arc<str>>, now: Timestamp) {
        let rules = self.rules.load();
        self.observer.rules_loaded(RulesLoaded::Rejected { version: rules.policy().version(), why }, now);
    }

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> Guard<Arc<Rules<O>>> {
        self.rules.load()
    }

    /// Counts and logs a request that a surface did not answer by the rules.
    pub fn request_rejected(&self, rejected: Rejected<'_>) {
        self.observer.request_rejected(rejected);
    }

    /// The settings, which apply whatever the rules say.
    #[must_use]
    pub const fn settings(&self) -> &LimiterSettings {
        &self.settings
    }

    /// Who observes it.
    #[must_use]
    pub const fn observer(&self) -> &O {
        &self.observer
    }

    /// The store that keeps the counters.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Whether the last call to the store failed.
    pub fn is_store_failing(&self) -> bool {
        self.store_fails.load(Relaxed)
    }
}

impl<S: Store, O: Observer> std::fmt::Debug for Limiter<S, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limiter").field("store", &self.store.name()).finish_non_exhaustive()
    }
}
