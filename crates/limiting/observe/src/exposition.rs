//! The counters as Prometheus series: ours (`tollgate_…`), and those that dashboards of envoyproxy/ratelimit
//! read (`peer`).
//!
//! The series of a rule exist from its first request on: thousands of unused rules would make megabytes of
//! zeros at every scrape.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::latency::{LATENCY_NS, Latency};
use crate::observer::QUEUE_WAITS;
use crate::rejections::Rejections;
use crate::rule_meters::{
    OVERRIDDEN, RuleCounts, RuleMeter, UNMATCHED, UNMATCHED_ADMITTED, UNMATCHED_DENIED,
};
use crate::settings::RuleSeries;
use crate::shared::{BATCH_SIZES, Global, MetricRegistry, StoreStats};
use crate::status::Intervened;
use crate::throttled::THROTTLE;

/// The label of all domains that no file is about.
const UNKNOWN: &str = "(unknown)";

/// Writes one limiter's counters at every scrape.
pub(crate) struct Exposition(pub(crate) Arc<MetricRegistry>);

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exposition")
    }
}

impl Collector for Exposition {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        self.rules(&mut to)?;
        self.forgotten(&mut to)?;
        self.domains(&mut to)?;
        self.interventions(&mut to)?;
        self.calls(&mut to)?;
        self.stores(&mut to)?;
        self.reservations(&mut to)?;
        self.slots(&mut to)?;
        self.queue(&mut to)?;
        self.top_keys(&mut to)?;
        self.loads(&mut to)?;
        self.peer(&mut to)
    }
}

impl Exposition {
    fn rules(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let meters = self.0.meters.load();
        let used: Vec<(&RuleMeter, RuleCounts)> = meters.rules[..meters.distinct]
            .iter()
            .map(|meter| (meter, meter.counters.counts()))
            .filter(|(_, counts)| counts.are_any() || self.0.rule_series == RuleSeries::All)
            .collect();
        // Quotas that come with the request are not rules of a file.
        let throttle = Some(self.0.throttle.counts()).filter(RuleCounts::are_any);
        let rules = || used.iter().map(|(meter, counts)| (meter.domain.as_str(), &*meter.rule, counts));
        let all = || rules().chain(throttle.iter().map(|counts| ("", THROTTLE, counts)));

        type Pick = fn(&RuleCounts) -> u64;
        let outcomes: [(&str, Pick); 3] = [
            ("admit", |counts| counts.admitted),
            ("deny", |counts| counts.denied),
            ("shadow_deny", |counts| counts.shadow_denied),
        ];
        let help = "Decisions by domain, rule and outcome";
        let mut family = to.encode_descriptor("tollgate_decisions", help, None, MetricType::Counter)?;
        for (domain, rule, counts) in all() {
            // A quota that comes with the request has no trial.
            let outcomes = &outcomes[..if rule == THROTTLE { 2 } else { 3 }];
            for (outcome, of) in outcomes {
                let labels = [("domain", domain), ("rule", rule), ("outcome", outcome)];
                count(&mut family.encode_family(&labels)?, of(counts))?;
            }
        }
        let hits: [(&str, &str, Pick); 3] = [
            ("tollgate_hits", "Hits asked for, by domain and rule", RuleCounts::hits),
            ("tollgate_denied_hits", "Hits of requests that were over a limit", RuleCounts::denied_hits),
            ("tollgate_degraded_decisions", "Decisions made while the store gave no answer", |counts| {
                counts.degraded
            }),
        ];
        for (name, help, of) in hits {
            let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (domain, rule, counts) in all() {
                count(&mut family.encode_family(&[("domain", domain), ("rule", rule)])?, of(counts))?;
            }
        }
        let help = "Decisions that admitted above a limit, within its excess";
        let mut family =
            to.encode_descriptor("tollgate_excess_decisions", help, None, MetricType::Counter)?;
        for (meter, _) in &used {
            // Only for rules that have a limit with an excess.
            if let Some(excess) = &meter.excess {
                let labels = [("domain", meter.domain.as_str()), ("rule", &meter.rule)];
                count(&mut family.encode_family(&labels)?, excess.sum(0))?;
            }
        }
        Ok(())
    }

    /// Hits that were denied and not counted, for rules that are also asked with 0 hits.
    fn forgotten(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let meters = self.0.meters.load();
        let help =
            "Requests with several hits that were denied and not counted, of rules asked with 0 hits first";
        let mut family =
            to.encode_descriptor("tollgate_forgotten_charges", help, None, MetricType::Counter)?;
        for meter in &meters.rules[..meters.distinct] {
            let forgotten = meter.forgets.as_ref().map_or(0, |forgets| forgets.forgotten.load(Relaxed));
            if forgotten > 0 {
                let labels = [("domain", meter.domain.as_str()), ("rule", &meter.rule)];
                count(&mut family.encode_family(&labels)?, forgotten)?;
            }
        }
        Ok(())
    }

    fn reservations(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let watched = self.0.reservations.lock();
        let stats = watched.as_ref().map(|stats| stats()).unwrap_or_default();
        drop(watched);
        let gauges = [
            ("tollgate_reservations", "Open reservations", stats.open),
            ("tollgate_reservations_limit", "Reservations that may be open", stats.max),
            ("tollgate_reservation_bytes", "Bytes that open reservations take", stats.bytes),
            ("tollgate_reservation_capacity_bytes", "Bytes that they may take", stats.max_bytes),
        ];
        for (name, help, value) in gauges {
            to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        let ends = [
            ("made", stats.made),
            ("committed", stats.committed),
            ("cancelled", stats.cancelled),
            ("expired", stats.expired),
            ("refused", stats.full),
            ("over_caller_share", stats.caller_share),
            ("over_domain_share", stats.domain_share),
        ];
        let help = "Reservations by outcome";
        let mut family =
            to.encode_descriptor("tollgate_reservation_events", help, None, MetricType::Counter)?;
        for (event, number) in ends {
            count(&mut family.encode_family(&[("event", event)])?, number)?;
        }
        Ok(())
    }

    fn slots(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let watched = self.0.slots.lock();
        let stats = watched.as_ref().map(|stats| stats()).unwrap_or_default();
        drop(watched);
        let help =
            "Slots in use, of rules with algorithm: concurrency; the sum over all nodes is what counts";
        to.encode_descriptor("tollgate_slots_in_use", help, None, MetricType::Gauge)?
            .encode_gauge(&stats.in_use())?;
        let help = "Slots by what became of them";
        let mut family = to.encode_descriptor("tollgate_slot_events", help, None, MetricType::Counter)?;
        for (event, number) in [
            ("acquired", stats.acquired),
            ("renewed", stats.renewed),
            ("denied", stats.denied),
            ("released", stats.released),
            ("not_held", stats.not_held),
            ("expired", stats.expired),
        ] {
            count(&mut family.encode_family(&[("event", event)])?, number)?;
        }
        Ok(())
    }

    /// Requests that wait for their turn, for rules with a queue.
    fn queue(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let watched = self.0.queue.lock();
        let stats = watched.as_ref().map(|stats| stats()).unwrap_or_default();
        drop(watched);
        for (name, help, value) in [
            ("tollgate_queued_requests", "Requests that wait for their turn", stats.waiting),
            ("tollgate_queued_requests_limit", "Requests that may wait for their turn", stats.max),
        ] {
            to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        let help = "Requests of rules with on_limit: queue by what became of their wait";
        let mut family = to.encode_descriptor("tollgate_queue_events", help, None, MetricType::Counter)?;
        for (event, number) in [
            ("joined", stats.joined),
            ("passed", stats.passed),
            ("denied", stats.denied),
            ("timed_out", stats.timed_out),
            ("left", stats.left),
            ("ended", stats.ended),
            ("full", stats.full),
            ("over_share", stats.over_share),
            ("too_long", stats.too_long),
        ] {
            count(&mut family.encode_family(&[("event", event)])?, number)?;
        }
        let bounds = QUEUE_WAITS.map(|bound| bound.as_secs_f64());
        let buckets = buckets(&bounds, |index| stats.waits.get(index).copied().unwrap_or_default());
        let name = "tollgate_queue_wait_seconds";
        let help = "Waits of requests that were admitted at their turn";
        let mut series = to.encode_descriptor(name, help, None, MetricType::Histogram)?;
        histogram(&mut series, stats.wait_ns as f64 / 1e9, &buckets)
    }

    fn top_keys(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (bytes, most) = self.0.top_settings.bytes();
        let meters = self.0.meters.load();
        let tops = meters.rules.iter().map(|meter| &meter.top).chain([&self.0.throttle_top]);
        let missed: u64 = tops.filter_map(|top| top.get()).map(|top| top.missed()).sum();
        for (name, help, value) in [
            ("tollgate_top_keys_bytes", "Bytes that the sketches of top limited keys take", bytes),
            ("tollgate_top_keys_capacity_bytes", "Bytes that they may take", most),
        ] {
            to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        let help =
            "Denials that no sketch counted, since another thread was at work in it; of the rules in force";
        // Not a counter: rules that are removed take their counts with them.
        to.encode_descriptor("tollgate_top_keys_missed", help, None, MetricType::Gauge)?.encode_gauge(&missed)
    }

    fn domains(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let meters = self.0.meters.load();
        let families = [
            ("tollgate_unmatched_descriptors", "Descriptors that no rule limits", UNMATCHED),
            (
                "tollgate_unmatched_overrides",
                "Limits that came with a request where no rule matches",
                OVERRIDDEN,
            ),
        ];
        for (name, help, index) in families {
            let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            for meter in &meters.domains {
                let labels = [("domain", meter.name.as_str())];
                count(&mut family.encode_family(&labels)?, meter.counters.sum(index))?;
            }
        }
        let help = "Requests for which no rule matches, by domain and outcome";
        let mut family =
            to.encode_descriptor("tollgate_unmatched_requests", help, None, MetricType::Counter)?;
        let mut series = |domain: &str, outcome: &str, value| {
            count(&mut family.encode_family(&[("domain", domain), ("outcome", outcome)])?, value)
        };
        for meter in &meters.domains {
            series(&meter.name, "admit", meter.counters.sum(UNMATCHED_ADMITTED))?;
            series(&meter.name, "deny", meter.counters.sum(UNMATCHED_DENIED))?;
        }
        // Clients choose these names, so all of them share two series.
        let unknown = self.0.globals.sum(Global::UnknownDomain as usize);
        let denied = self.0.globals.sum(Global::UnknownDomainDenied as usize);
        series(UNKNOWN, "admit", unknown.saturating_sub(denied))?;
        series(UNKNOWN, "deny", denied)
    }

    /// Blocks and allowances by operators.
    fn interventions(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let in_force = self.0.interventions.load(Relaxed);
        let help = "Blocks and allowances by operators in force";
        to.encode_descriptor("tollgate_interventions", help, None, MetricType::Gauge)?
            .encode_gauge(&in_force)?;
        let help = "Descriptors decided by a block or an allowance";
        let mut family =
            to.encode_descriptor("tollgate_intervened_descriptors", help, None, MetricType::Counter)?;
        for (how, of) in [(Intervened::Blocked, Global::Blocked), (Intervened::Allowed, Global::Allowed)] {
            count(&mut family.encode_family(&[("action", how.name())])?, self.0.globals.sum(of as usize))?;
        }
        Ok(())
    }

    fn calls(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let globals = [
            (
                "tollgate_unknown_domains",
                "Requests for a domain that no file is about",
                Global::UnknownDomain,
            ),
            (
                "tollgate_requests_without_rules",
                "Requests that failed since no rules were loaded",
                Global::NoRules,
            ),
            ("tollgate_shadowed_requests", "Requests let pass by the server's shadow mode", Global::Shadowed),
            ("tollgate_store_errors", "Takes that the store gave no answer to", Global::StoreErrors),
            (
                "tollgate_lost_hits",
                "Used hits that were not counted since the store did not answer",
                Global::LostHits,
            ),
        ];
        for (name, help, which) in globals {
            let mut counter = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            count(&mut counter, self.0.globals.sum(which as usize))?;
        }
        self.rejections(to)?;
        self.latencies(to)?;
        let sizes = BATCH_SIZES.map(|size| size as f64);
        let buckets = buckets(&sizes, |index| self.0.globals.sum(Global::Batches as usize + index));
        let sum = self.0.globals.sum(Global::Takes as usize) as f64;
        let name = "tollgate_store_batch_takes";
        let help = "Takes of each call to the store";
        histogram(&mut to.encode_descriptor(name, help, None, MetricType::Histogram)?, sum, &buckets)
    }

    fn rejections(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests that were not answered by the rules, by surface, status and reason";
        let mut family = to.encode_descriptor("tollgate_bad_requests", help, None, MetricType::Counter)?;
        for Rejections { surface, status, reason, count: number } in self.0.rejections.all() {
            let labels = [("surface", surface), ("status", &status), ("reason", reason)];
            count(&mut family.encode_family(&labels)?, number)?;
        }
        Ok(())
    }

    fn latencies(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let latencies = self.0.latencies.lock().clone();
        let seconds = LATENCY_NS.map(|nanos| nanos as f64 / 1e9);
        let name = "tollgate_decision_latency_seconds";
        let help =
            "From a request taken off its connection to its decision, waiting for those before it included";
        let mut family = to.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (surface, Latency(counters)) in &latencies {
            let buckets = buckets(&seconds, |index| counters.sum(index));
            let sum = counters.sum(LATENCY_NS.len() + 1) as f64 / 1e9;
            histogram(&mut family.encode_family(&[("surface", *surface)])?, sum, &buckets)?;
        }
        Ok(())
    }

    fn stores(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stores = self.0.stores.lock();
        let stats: Vec<_> = stores.iter().map(|(name, stats)| (name.as_str(), stats())).collect();
        type Pick = fn(&StoreStats) -> u64;
        let gauges: [(&str, &str, MetricType, Pick); 4] = [
            ("tollgate_tracked_keys", "Keys that have a counter", MetricType::Gauge, |it| it.tracked_keys),
            ("tollgate_table_bytes", "Bytes that the counters take", MetricType::Gauge, |it| it.bytes),
            ("tollgate_table_capacity_bytes", "Bytes that they may take", MetricType::Gauge, |it| {
                it.capacity_bytes
            }),
            ("tollgate_evictions", "Counters dropped for want of room", MetricType::Counter, |it| {
                it.evictions
            }),
        ];
        for (name, help, kind, pick) in gauges {
            let mut family = to.encode_descriptor(name, help, None, kind)?;
            for (store, stats) in &stats {
                let labels = [("store", *store)];
                let mut series = family.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => count(&mut series, pick(stats))?,
                    _ => series.encode_gauge(&pick(stats))?,
                }
            }
        }
        Ok(())
    }

    fn loads(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let loads = self.0.loads.lock().clone();
        let help = "Version of the rules in force";
        let mut info = to.encode_descriptor("tollgate_rules", help, None, MetricType::Info)?;
        if !loads.version.is_empty() {
            info.encode_info(&[("version", loads.version.as_str())])?;
        }
        let help = "Attempts to load rules, by result";
        let mut family = to.encode_descriptor("tollgate_rule_loads", help, None, MetricType::Counter)?;
        for (result, number) in [("ok", loads.successes), ("faulty", loads.failures)] {
            let labels = [("result", result)];
            count(&mut family.encode_family(&labels)?, number)?;
        }
        let help = "1 when the last attempt to load rules succeeded, else 0";
        to.encode_descriptor("tollgate_last_rule_load_ok", help, None, MetricType::Gauge)?
            .encode_gauge(&u64::from(loads.is_last_good))?;
        let help = "When rules were last loaded or rejected, Unix time";
        to.encode_descriptor("tollgate_last_rule_load_timestamp_seconds", help, None, MetricType::Gauge)?
            .encode_gauge(&loads.last.unix_seconds())
    }
}

fn count(series: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    series.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

/// Bounds with their own counts, and the bucket without bound.
pub(crate) fn buckets(bounds: &[f64], count: impl Fn(usize) -> u64) -> Vec<(f64, u64)> {
    let bounds = bounds.iter().copied().chain(std::iter::once(f64::INFINITY));
    bounds.enumerate().map(|(index, bound)| (bound, count(index))).collect()
}

pub(crate) fn histogram(series: &mut MetricEncoder<'_>, sum: f64, buckets: &[(f64, u64)]) -> fmt::Result {
    let number = buckets.iter().map(|(_, count)| count).sum();
    series.encode_histogram::<NoLabelSet>(sum, number, buckets, None)
}
