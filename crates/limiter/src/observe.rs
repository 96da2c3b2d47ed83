//! What is observed: counters of decisions, hits, the store and reloads, as Prometheus text.
//!
//! Handles are resolved when rules are loaded; a decision counts in its own thread's lanes, without a locked instruction.
//! Every set of labels is bounded: by the rules in the files and a cap on them, never by what clients send.
//! Not here: serving the text (the server), logs and traces.

pub(crate) mod details;
mod exposition;
pub(crate) mod lanes;
pub(crate) mod meters;
pub(crate) mod top;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use tollgate_core::{Cost, Outcome, Timestamp};
use tollgate_policy::Policy;

use details::Details;
use lanes::{Lanes, Seat};
use meters::{Meters, Of, RuleLanes};

use crate::reserve::table::Table;
use crate::settings::LimiterSettings;
use crate::throttled::Throttled;

/// Of what [`Metrics::render`] writes: OpenMetrics 1.0 text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the latency buckets, in nanoseconds; one more is without bound.
const LATENCY_NS: [u64; 15] = [
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    5_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];
/// Upper bounds of the batch size buckets; one more is without bound.
const BATCH_SIZES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Counters that belong to no rule.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Global {
    UnknownDomain,
    Shadowed,
    BadRequest,
    StoreErrors,
    Takes,
    /// The first batch bucket; those of [`BATCH_SIZES`] and one more follow.
    Batches,
}
const GLOBALS: usize = Global::Batches as usize + BATCH_SIZES.len() + 1;

/// What a store says of itself when it is asked for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreFigures {
    /// Keys that have a counter.
    pub tracked_keys: u64,
    /// Bytes that the counters take.
    pub bytes: u64,
    /// Bytes that they may take at most.
    pub capacity_bytes: u64,
    /// Counters dropped before they expired because there was no room.
    pub evictions: u64,
}

impl StoreFigures {
    /// All four figures.
    #[must_use]
    pub const fn new(tracked_keys: u64, bytes: u64, capacity_bytes: u64, evictions: u64) -> Self {
        Self { tracked_keys, bytes, capacity_bytes, evictions }
    }
}

/// Asked at every scrape.
type Figures = Box<dyn Fn() -> StoreFigures + Send + Sync>;

/// What came of the last attempts to load rules.
#[derive(Clone, Debug, Default)]
struct Loads {
    successes: u64,
    failures: u64,
    is_last_good: bool,
    last: Timestamp,
    last_good: Timestamp,
    last_error: Option<Arc<str>>,
    version: String,
}

/// Counters of one limiter, and whatever else its process registers.
pub struct Metrics {
    shared: Arc<Shared>,
    registry: Mutex<Registry>,
}

/// What is read at a scrape.
pub(crate) struct Shared {
    meters: ArcSwap<Meters>,
    globals: Lanes<GLOBALS>,
    latency: Lanes<{ LATENCY_NS.len() + 2 }>,
    loads: Mutex<Loads>,
    stores: Mutex<Vec<(String, Figures)>>,
    most_rules: usize,
    details: Details,
    throttle: RuleLanes,
    throttle_top: top::Slot,
    top_settings: top::TopSettings,
    reservations: Arc<Table>,
}

impl Metrics {
    /// No count yet. At most so many rules get series of their own as the settings say, and at most so many values of requests
    /// for rules that ask for it; the rest are counted together.
    pub(crate) fn new(settings: &LimiterSettings, reservations: Arc<Table>) -> Self {
        let shared = Arc::new(Shared {
            meters: ArcSwap::default(),
            globals: Lanes::default(),
            latency: Lanes::default(),
            loads: Mutex::default(),
            stores: Mutex::default(),
            most_rules: settings.max_rule_series,
            details: Details::new(settings.max_value_series),
            throttle: Lanes::default(),
            throttle_top: top::Slot::default(),
            top_settings: top::TopSettings::new(settings.top_keys, settings.top_keys_max_bytes),
            reservations,
        });
        let mut registry = Registry::default();
        registry.register_collector(Box::new(exposition::Exposition(Arc::clone(&shared))));
        Self { shared, registry: Mutex::new(registry) }
    }

    /// Counts a decision's latency, as its caller measured it: a transport, from a request read to its decision.
    pub fn observe_latency(&self, latency: Duration) {
        self.observe_latencies(latency, 1);
    }

    /// The same for `decisions` that were asked for together and answered together.
    pub fn observe_latencies(&self, latency: Duration, decisions: u64) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let bucket = LATENCY_NS.partition_point(|&bound| bound < nanos);
        let seat = Seat::here();
        self.shared.latency.add(seat, bucket, decisions);
        self.shared.latency.add(seat, LATENCY_NS.len() + 1, nanos.saturating_mul(decisions));
    }

    /// Takes that the store gave no answer to.
    #[must_use]
    pub fn store_errors(&self) -> u64 {
        self.shared.globals.sum(Global::StoreErrors as usize)
    }

    /// Asks `figures` at every scrape what the store called `name` holds.
    pub fn watch_store(&self, name: &str, figures: impl Fn() -> StoreFigures + Send + Sync + 'static) {
        let mut stores = self.shared.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.push((name.to_owned(), Box::new(figures)));
    }

    /// Lets a transport or the server add its own metrics to what [`render`](Self::render) writes.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Everything as text of the type [`CONTENT_TYPE`].
    #[must_use]
    pub fn render(&self) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        if prometheus_client::encoding::text::encode(&mut text, &registry).is_err() {
            // Writing to a string does not fail; a collector that does must not take the rest with it.
            let _ = writeln!(text, "# EOF");
        }
        text
    }

    /// Rules were loaded, or refused (`version` is then that of the rules that stay).
    pub(crate) fn count_load(&self, is_good: bool, version: &str, now: Timestamp) {
        let mut loads = self.shared.loads.lock().unwrap_or_else(PoisonError::into_inner);
        loads.successes += u64::from(is_good);
        loads.failures += u64::from(!is_good);
        loads.is_last_good = is_good;
        loads.last = now;
        if is_good {
            (loads.last_good, loads.last_error) = (now, None);
        }
        loads.version = version.to_owned();
    }

    /// The rules that the limiter began with were loaded about now, where nobody said when.
    pub(crate) fn note_begin(&self, now: Timestamp) {
        let mut loads = self.shared.loads.lock().unwrap_or_else(PoisonError::into_inner);
        if loads.last_good == Timestamp::ZERO && loads.is_last_good {
            (loads.last, loads.last_good) = (now, now);
        }
    }

    /// Why the last rules were refused.
    pub(crate) fn set_last_error(&self, why: Arc<str>) {
        self.shared.loads.lock().unwrap_or_else(PoisonError::into_inner).last_error = Some(why);
    }

    /// When the rules in force were loaded, and why those after them were not.
    pub(crate) fn last_load(&self) -> (Timestamp, Option<Arc<str>>) {
        let loads = self.shared.loads.lock().unwrap_or_else(PoisonError::into_inner);
        (loads.last_good, loads.last_error.clone())
    }

    /// Counts what became of a quota that came with the question.
    #[inline]
    pub(crate) fn count_throttle(&self, seat: Seat, cost: Cost, throttled: &Throttled) {
        let add = |of: Of, more| self.shared.throttle.add(seat, of as usize, more);
        let (decided, hits) = match throttled.outcome {
            Outcome::Admit => (Of::Admitted, Of::WithinHits),
            Outcome::Deny => (Of::Denied, Of::OverHits),
        };
        add(decided, 1);
        add(hits, cost.permits());
        if throttled.degraded.is_some() {
            add(Of::Degraded, 1);
        }
    }

    pub(crate) fn throttle_lanes(&self) -> &RuleLanes {
        &self.shared.throttle
    }

    pub(crate) fn throttle_top(&self) -> &top::Slot {
        &self.shared.throttle_top
    }

    #[inline]
    pub(crate) fn top_settings(&self) -> &top::TopSettings {
        &self.shared.top_settings
    }

    /// Meters for `policy`; the counts of rules that stay go on.
    pub(crate) fn meters_for(&self, policy: &Policy) -> Arc<Meters> {
        let old = self.shared.meters.load();
        let meters = Arc::new(Meters::new(policy, &old, self.shared.most_rules));
        self.shared.meters.store(Arc::clone(&meters));
        meters
    }

    /// Series by values of requests.
    pub(crate) fn details(&self) -> &Details {
        &self.shared.details
    }

    #[inline]
    pub(crate) fn count(&self, seat: Seat, what: Global, more: u64) {
        self.shared.globals.add(seat, what as usize, more);
    }

    /// Counts one call to the store.
    #[inline]
    pub(crate) fn count_batch(&self, seat: Seat, takes: usize) {
        // The bounds are the powers of two.
        let bucket = (takes.next_power_of_two().trailing_zeros() as usize).min(BATCH_SIZES.len());
        self.shared.globals.add(seat, Global::Batches as usize + bucket, 1);
        self.shared.globals.add(seat, Global::Takes as usize, takes as u64);
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
