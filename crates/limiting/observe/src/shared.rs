//! The counters of one observer, as the exposition reads them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};
use tollgate_core::Timestamp;

use crate::latency::Latency;
use crate::observer::{QueueStats, ReservationStats, SlotStats};
use crate::rejections::RejectionCounts;
use crate::rule_meters::{RuleCounters, RuleMeters};
use crate::settings::{ObserveSettings, RuleSeries};
use crate::sharded_counters::ShardedCounters;
use crate::top_keys::{LazyTopKeys, TopSettings};
use crate::value_series::ValueSeries;

/// Upper bounds of the batch size buckets; one further bucket has no bound.
pub(crate) const BATCH_SIZES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Counters that belong to no rule.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Global {
    UnknownDomain,
    UnknownDomainDenied,
    NoRules,
    Shadowed,
    StoreErrors,
    /// Hits that were used already and could not be counted.
    LostHits,
    /// Descriptors that an intervention has blocked.
    Blocked,
    /// Descriptors that an intervention has allowed.
    Allowed,
    Takes,
    /// The first bucket of batch sizes; the others of [`BATCH_SIZES`] and one further bucket follow.
    Batches,
}
pub(crate) const GLOBALS: usize = Global::Batches as usize + BATCH_SIZES.len() + 1;

/// Numbers that a store reports when it is asked for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Keys that have a counter.
    pub tracked_keys: u64,
    /// Bytes that the counters take.
    pub bytes: u64,
    /// Bytes that they may take at most.
    pub capacity_bytes: u64,
    /// Counters dropped before they expired because there was no room.
    pub evictions: u64,
}

impl StoreStats {
    /// All four numbers.
    #[must_use]
    pub const fn new(tracked_keys: u64, bytes: u64, capacity_bytes: u64, evictions: u64) -> Self {
        Self { tracked_keys, bytes, capacity_bytes, evictions }
    }
}

/// Called at every scrape.
pub(crate) type WatchedStore = Box<dyn Fn() -> StoreStats + Send + Sync>;
/// Called at every scrape.
pub(crate) type WatchedSlots = Box<dyn Fn() -> SlotStats + Send + Sync>;
/// Called at every scrape.
pub(crate) type WatchedReservations = Box<dyn Fn() -> ReservationStats + Send + Sync>;

/// Called at every scrape.
pub(crate) type WatchedQueue = Box<dyn Fn() -> QueueStats + Send + Sync>;

/// Results of the last attempts to load rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    pub(crate) successes: u64,
    pub(crate) failures: u64,
    pub(crate) is_last_good: bool,
    pub(crate) last: Timestamp,
    pub(crate) last_good: Timestamp,
    pub(crate) last_error: Option<Arc<str>>,
    pub(crate) version: String,
}

/// Data that is read at a scrape.
pub(crate) struct MetricRegistry {
    pub(crate) meters: ArcSwap<RuleMeters>,
    pub(crate) globals: ShardedCounters<GLOBALS>,
    /// Latency of each surface.
    pub(crate) latencies: Mutex<Vec<(&'static str, Latency)>>,
    pub(crate) loads: Mutex<Loads>,
    pub(crate) stores: Mutex<Vec<(String, WatchedStore)>>,
    pub(crate) reservations: Mutex<Option<WatchedReservations>>,
    pub(crate) slots: Mutex<Option<WatchedSlots>>,
    pub(crate) queue: Mutex<Option<WatchedQueue>>,
    /// Blocks and allowances in force.
    pub(crate) interventions: AtomicU64,
    pub(crate) rule_series: RuleSeries,
    pub(crate) max_rule_series: usize,
    pub(crate) details: ValueSeries,
    pub(crate) rejections: RejectionCounts,
    pub(crate) throttle: RuleCounters,
    pub(crate) throttle_top: LazyTopKeys,
    pub(crate) top_settings: TopSettings,
}

impl MetricRegistry {
    /// Nothing is counted yet.
    pub(crate) fn new(settings: &ObserveSettings) -> Self {
        Self {
            meters: ArcSwap::default(),
            globals: ShardedCounters::default(),
            latencies: Mutex::default(),
            loads: Mutex::default(),
            stores: Mutex::default(),
            reservations: Mutex::default(),
            slots: Mutex::default(),
            queue: Mutex::default(),
            interventions: AtomicU64::default(),
            rule_series: settings.rule_series,
            max_rule_series: settings.max_rule_series,
            details: ValueSeries::new(settings.max_value_series),
            rejections: RejectionCounts::default(),
            throttle: RuleCounters::default(),
            throttle_top: LazyTopKeys::default(),
            top_settings: TopSettings::new(settings.top_keys, settings.top_keys_max_bytes),
        }
    }

    pub(crate) fn loads(&self) -> MutexGuard<'_, Loads> {
        self.loads.lock()
    }
}
