//! The usual observer: counters of decisions, hits, the store and reloads, as Prometheus text.
//!
//! Handles are resolved when rules are loaded; a decision counts in its own thread's shard, without a locked
//! instruction. Every set of labels is bounded: by the rules in the files and a cap on them, never by what
//! clients send. Not here: serving the text (the server), logs and traces.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tollgate_core::{Cost, Outcome, Timestamp};
use tollgate_human_text::did_you_mean;
use tollgate_policy::{Entry, Policy};
use tollgate_store::{StoreError, StoreName};
use tracing::Span;

use crate::exposition::Exposition;
use crate::latency::Latency;
use crate::log_limit::LogLimit;
use crate::observer::{Decided, Observer, QueueStats, ReservationStats, RulesLoaded, SlotStats};
use crate::peer;
use crate::rejections::Rejected;
use crate::report::{self, Report, Totals};
use crate::rule_meters::{RuleMeters, RuleMetric};
use crate::sampling::Sampling;
use crate::settings::ObserveSettings;
use crate::sharded_counters::ThreadSlot;
use crate::shared::{BATCH_SIZES, Global, MetricRegistry, StoreStats};
use crate::status::Intervened;
use crate::text_format::Format;
use crate::throttled::{Throttle, Throttled};
use crate::unknown_domains::UnknownDomains;

/// Log lines about errors of the store other than silence, per second.
const STORE_ERRORS_A_SECOND: u32 = 1;

/// The usual observer: counters of one limiter and whatever else its process registers, the denial log,
/// sampled spans.
pub struct Metrics {
    pub(crate) shared: Arc<MetricRegistry>,
    registry: Mutex<Registry>,
    near_limit_ratio: f32,
    pub(crate) denial_log: Option<tracing::Level>,
    pub(crate) denial_lines: LogLimit,
    store_error_lines: LogLimit,
    unknown_domains: UnknownDomains,
    pub(crate) sampling: Sampling,
}

impl Metrics {
    /// Nothing is counted yet.
    #[must_use]
    pub fn new(settings: &ObserveSettings) -> Self {
        let shared = Arc::new(MetricRegistry::new(settings));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Exposition(Arc::clone(&shared))));
        Self {
            shared,
            registry: Mutex::new(registry),
            near_limit_ratio: settings.near_limit_ratio,
            denial_log: settings.denial_log,
            denial_lines: LogLimit::per_second(settings.denial_log_lines),
            store_error_lines: LogLimit::per_second(STORE_ERRORS_A_SECOND),
            unknown_domains: UnknownDomains::default(),
            sampling: Sampling::new(settings.trace_ratio),
        }
    }

    /// The latencies of `surface`: all callers that ask by this name get the same ones. Ask once, not for
    /// each decision.
    #[must_use]
    pub fn latency(&self, surface: &'static str) -> Latency {
        let mut latencies = self.shared.latencies.lock();
        if let Some((_, latency)) = latencies.iter().find(|(known, _)| *known == surface) {
            return latency.clone();
        }
        let latency = Latency(Arc::default());
        latencies.push((surface, latency.clone()));
        latency
    }

    /// Takes that the store did not answer to.
    #[must_use]
    pub fn store_errors(&self) -> u64 {
        self.shared.globals.sum(Global::StoreErrors as usize)
    }

    /// Asks `stats` at every scrape for the numbers of the store called `name`.
    pub fn watch_store(&self, name: &str, stats: impl Fn() -> StoreStats + Send + Sync + 'static) {
        let mut stores = self.shared.stores.lock();
        stores.push((name.to_owned(), Box::new(stats)));
    }

    /// Lets a transport or the server add its own metrics to the text of [`render`](Self::render).
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.lock());
    }

    /// Everything in this format.
    #[must_use]
    pub fn render_as(&self, format: Format) -> String {
        format.render(&self.registry.lock())
    }

    /// The counters by the names of envoyproxy/ratelimit, one per line, as its page `/stats` has them.
    #[must_use]
    pub fn peer_stats(&self) -> String {
        peer::stats(&self.shared)
    }

    /// Everything as OpenMetrics.
    #[must_use]
    pub fn render(&self) -> String {
        self.render_as(Format::OpenMetrics)
    }

    /// Samples this share of the requests from now on, from 0 (none; then `traceparent` counts for nothing
    /// either) to 1.
    pub fn set_trace_ratio(&self, ratio: f64) {
        self.sampling.set(ratio);
    }

    /// The rules of `policy`, for which `rules` was prepared, and the decisions by them, with the number of
    /// open `reservations`.
    #[must_use]
    pub fn report(&self, policy: &Policy, rules: &RuleMeters, reservations: u64, now: Timestamp) -> Report {
        let loads = self.shared.loads().clone();
        let unknown = self.shared.globals.sum(Global::UnknownDomain as usize);
        let unknown_denied = self.shared.globals.sum(Global::UnknownDomainDenied as usize);
        Report {
            version: policy.version().to_owned(),
            loaded_at: loads.last_good,
            last_error: loads.last_error,
            domains: report::domains(policy, rules, self.shared.max_rule_series, now),
            throttle: Totals::of_counters(&self.shared.throttle),
            throttle_top_limited: self.shared.throttle_top.get().map_or_else(Vec::new, |top| top.top(now)),
            reservations,
            unknown_requests: (unknown.saturating_sub(unknown_denied), unknown_denied),
            unknown_domains: self.unknown_domains.names(),
            rejections: self.shared.rejections.all(),
        }
    }

    #[inline]
    fn count(&self, thread: ThreadSlot, what: Global, more: u64) {
        self.shared.globals.add(thread, what as usize, more);
    }

    #[inline]
    fn count_throttle(&self, thread: ThreadSlot, cost: Cost, throttled: &Throttled) {
        let add = |metric: RuleMetric, more| self.shared.throttle.add(thread, metric, more);
        let (decided, hits) = match throttled.outcome {
            Outcome::Admit if !throttled.is_shadowed => (RuleMetric::Admitted, RuleMetric::WithinHits),
            _ => (RuleMetric::Denied, RuleMetric::OverHits),
        };
        add(decided, 1);
        add(hits, cost.permits());
        if throttled.degraded.is_some() {
            add(RuleMetric::Degraded, 1);
        }
    }
}

impl Observer for Metrics {
    type Rules = Arc<RuleMeters>;

    /// The counts of rules that stay are kept.
    fn prepare(&self, policy: &Policy) -> Self::Rules {
        let old = self.shared.meters.load();
        let meters = Arc::new(RuleMeters::new(policy, &old, self.shared.max_rule_series));
        self.shared.meters.store(Arc::clone(&meters));
        meters
    }

    fn rules_loaded(&self, loaded: RulesLoaded<'_>, now: Timestamp) {
        let mut loads = self.shared.loads();
        loads.last = now;
        loads.is_last_good = matches!(loaded, RulesLoaded::InForce { version } if !version.is_empty());
        match loaded {
            // The limiter waits for its first rules.
            RulesLoaded::InForce { version: "" } => {}
            RulesLoaded::InForce { version } => {
                loads.successes += 1;
                (loads.last_good, loads.last_error) = (now, None);
                loads.version = version.to_owned();
            }
            RulesLoaded::Rejected { version, why } => {
                loads.failures += 1;
                loads.version = version.to_owned();
                if let Some(why) = why {
                    loads.last_error = Some(Arc::clone(why));
                }
            }
        }
    }

    fn started(&self, now: Timestamp) {
        let mut loads = self.shared.loads();
        if loads.last_good == Timestamp::ZERO && loads.is_last_good {
            (loads.last, loads.last_good) = (now, now);
        }
    }

    fn watch_queue(&self, stats: impl Fn() -> QueueStats + Send + Sync + 'static) {
        let mut watched = self.shared.queue.lock();
        *watched = Some(Box::new(stats));
    }

    fn watch_slots(&self, stats: impl Fn() -> SlotStats + Send + Sync + 'static) {
        let mut watched = self.shared.slots.lock();
        *watched = Some(Box::new(stats));
    }

    fn watch_reservations(&self, stats: impl Fn() -> ReservationStats + Send + Sync + 'static) {
        let mut watched = self.shared.reservations.lock();
        *watched = Some(Box::new(stats));
    }

    fn request_rejected(&self, rejected: Rejected<'_>) {
        self.shared.rejections.note(rejected);
    }

    fn unknown_domain(&self, domain: &str, outcome: Outcome) {
        let thread = ThreadSlot::here();
        self.count(thread, Global::UnknownDomain, 1);
        if outcome == Outcome::Deny {
            self.count(thread, Global::UnknownDomainDenied, 1);
        }
        let meters = self.shared.meters.load();
        self.unknown_domains.note(domain, outcome, || {
            let names: Vec<&str> = meters.domains.iter().map(|meter| meter.name.as_str()).collect();
            did_you_mean(domain, &names)
        });
    }

    fn no_rules(&self) {
        self.count(ThreadSlot::here(), Global::NoRules, 1);
    }

    fn interventions_changed(&self, in_force: usize) {
        self.shared.interventions.store(in_force as u64, Relaxed);
    }

    fn intervened(&self, how: Intervened) {
        let of = match how {
            Intervened::Blocked => Global::Blocked,
            Intervened::Allowed => Global::Allowed,
        };
        self.count(ThreadSlot::here(), of, 1);
    }

    #[inline]
    fn store_called(&self, takes: usize) {
        // The bounds are the powers of two.
        let bucket = (takes.next_power_of_two().trailing_zeros() as usize).min(BATCH_SIZES.len());
        let thread = ThreadSlot::here();
        self.shared.globals.add(thread, Global::Batches as usize + bucket, 1);
        self.shared.globals.add(thread, Global::Takes as usize, takes as u64);
    }

    fn take_unanswered(&self) {
        self.count(ThreadSlot::here(), Global::StoreErrors, 1);
    }

    fn charge_lost(&self, permits: u64) {
        self.count(ThreadSlot::here(), Global::LostHits, permits);
    }

    /// The watcher of the store logs once that it is down; other errors are logged here.
    fn store_failed(&self, error: &StoreError, is_first: bool, now: Timestamp) {
        match error {
            StoreError::Unreachable { .. } | StoreError::Silent { .. } => {
                if is_first {
                    tracing::debug!(%error, "a rule decides as its on_store_failure says");
                }
            }
            _ => {
                if let Some(left_out) = self.store_error_lines.next(ThreadSlot::here(), now) {
                    let left_out = (left_out > 0).then_some(left_out);
                    tracing::warn!(%error, left_out, "a rule decides as its on_store_failure says");
                }
            }
        }
    }

    fn store_recovered(&self, store: &StoreName) {
        tracing::debug!(%store, "the store answers again");
    }

    #[inline(always)]
    fn decided<'e>(
        &self,
        rules: &Self::Rules,
        decided: Decided<'_>,
        entries: impl Fn(usize) -> &'e [Entry<'e>],
    ) {
        let thread = ThreadSlot::here();
        if decided.is_shadowed {
            self.count(thread, Global::Shadowed, 1);
        }
        if rules.count(thread, decided.domain.index(), decided.statuses, self.near_limit_ratio) {
            self.note_denials(rules, decided, &entries, thread);
        }
        if rules.has_details {
            self.shared.details.count(thread, decided, &entries, self.near_limit_ratio);
        }
    }

    #[inline(always)]
    fn throttled(&self, asks: &[Throttle<'_>], throttled: &[Throttled], now: Timestamp) {
        let thread = ThreadSlot::here();
        for (ask, throttled) in asks.iter().zip(throttled) {
            self.count_throttle(thread, ask.cost, throttled);
            if throttled.is_shadowed {
                self.count(thread, Global::Shadowed, 1);
            }
            if throttled.is_shadowed || !throttled.is_admitted() {
                self.note_throttled(ask, throttled, thread, now);
            }
        }
    }

    #[inline]
    fn is_sampling(&self) -> bool {
        self.sampling.is_on()
    }

    #[inline]
    fn call_span(&self, surface: &'static str, domain: &str, traceparent: Option<&str>) -> Option<Span> {
        self.sampling.span(surface, domain, traceparent)
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
