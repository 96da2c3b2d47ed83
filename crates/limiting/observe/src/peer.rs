//! The counters by the names of envoyproxy/ratelimit: as its Prometheus exporter has them, and as its page
//! `/stats`.
//!
//! All are counters; they have no `_total` at their end, so their type is unknown to OpenMetrics.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use crate::exposition::{Exposition, buckets, histogram};
use crate::latency::{LATENCY_NS, Latency};
use crate::rule_meters::{RuleCounts, stat_keys};
use crate::settings::RuleSeries;
use crate::shared::{Global, MetricRegistry};

/// The count of a rule that a metric shows.
type Pick = fn(&RuleCounts) -> u64;

const HITS: [(&str, Pick); 5] = [
    ("total_hits", RuleCounts::hits),
    ("over_limit", |counts| counts.over_hits),
    ("near_limit", |counts| counts.near_hits),
    ("within_limit", |counts| counts.within_hits),
    ("shadow_mode", |counts| counts.shadow_hits),
];

/// The only method that is counted.
const METHOD: [(&str, &str); 1] = [("grpc_method", "ShouldRateLimit")];

/// Counts by domain and statistics path: its first level and the rest. Levels are joined without escaping, so
/// two rules may share a series.
fn by_path(shared: &MetricRegistry) -> BTreeMap<(String, [String; 2]), RuleCounts> {
    let mut series = BTreeMap::<_, RuleCounts>::new();
    let meters = shared.meters.load();
    for meter in meters.rules[..meters.distinct].iter().filter(|meter| !meter.is_detailed) {
        let counts = meter.counters.counts();
        if counts.are_any() || shared.rule_series == RuleSeries::All {
            series.entry((meter.domain.clone(), meter.keys.clone())).or_default().add(&counts);
        }
    }
    for (domain, stat, counters) in shared.details.all() {
        series.entry((domain, stat_keys(&stat))).or_default().add(&counters.counts());
    }
    series
}

/// Counters that belong to no rule.
fn others(shared: &MetricRegistry) -> [(&'static str, u64); 3] {
    let loads = shared.loads();
    [
        ("config_load_success", loads.successes),
        ("config_load_error", loads.failures),
        ("global_shadow_mode", shared.globals.sum(Global::Shadowed as usize)),
    ]
}

/// Takes that a store did not answer, and calls over gRPC that the rules did not answer.
fn errors(shared: &MetricRegistry) -> [(&'static str, u64); 2] {
    let rejected: u64 =
        shared.rejections.all().iter().filter(|it| it.surface == "grpc").map(|it| it.count).sum();
    [("redis_error", shared.globals.sum(Global::StoreErrors as usize)), ("service_error", rejected)]
}

/// Latency of calls over gRPC.
fn latency(shared: &MetricRegistry) -> Option<Latency> {
    let latencies = shared.latencies.lock();
    latencies.iter().find(|(surface, _)| *surface == "grpc").map(|(_, latency)| latency.clone())
}

impl Exposition {
    /// The names and labels of the Prometheus exporter.
    pub(crate) fn peer(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let series = by_path(&self.0);
        for (name, of) in HITS {
            let name = format!("ratelimit_service_rate_limit_{name}");
            let help = "Hits, as envoyproxy/ratelimit counts them";
            let mut family = to.encode_descriptor(&name, help, None, MetricType::Unknown)?;
            for ((domain, [key1, key2]), counts) in &series {
                let labels = [("domain", domain.as_str()), ("key1", key1), ("key2", key2)];
                // An absent level has no label.
                let labels = if key2.is_empty() { &labels[..2] } else { &labels[..] };
                family.encode_family(&labels)?.encode_gauge(&of(counts))?;
            }
        }
        let help = "As envoyproxy/ratelimit counts it";
        for (name, value) in others(&self.0) {
            let name = format!("ratelimit_service_{name}");
            to.encode_descriptor(&name, help, None, MetricType::Unknown)?.encode_gauge(&value)?;
        }
        let name = "ratelimit_service_should_rate_limit_error";
        let mut family = to.encode_descriptor(name, help, None, MetricType::Unknown)?;
        for (kind, value) in errors(&self.0) {
            family.encode_family(&[("err_type", kind)])?.encode_gauge(&value)?;
        }
        let Some(Latency(counters)) = latency(&self.0) else { return Ok(()) };
        let seconds = LATENCY_NS.map(|nanos| nanos as f64 / 1e9);
        let buckets = buckets(&seconds, |index| counters.sum(index));
        let calls: u64 = buckets.iter().map(|(_, count)| count).sum();
        let name = "ratelimit_service_total_requests";
        let mut family = to.encode_descriptor(name, help, None, MetricType::Unknown)?;
        family.encode_family(&METHOD)?.encode_gauge(&calls)?;
        let name = "ratelimit_service_response_time_seconds";
        let mut family = to.encode_descriptor(name, help, None, MetricType::Histogram)?;
        let sum = counters.sum(LATENCY_NS.len() + 1) as f64 / 1e9;
        histogram(&mut family.encode_family(&METHOD)?, sum, &buckets)
    }
}

/// One line per counter, sorted: `name: value`.
pub(crate) fn stats(shared: &MetricRegistry) -> String {
    let mut lines = Vec::new();
    for ((domain, [key1, key2]), counts) in by_path(shared) {
        let dot = if key2.is_empty() { "" } else { "." };
        for (name, of) in HITS {
            let path = format!("{domain}.{key1}{dot}{key2}.{name}");
            lines.push((format!("ratelimit.service.rate_limit.{path}"), of(&counts)));
        }
    }
    lines.extend(others(shared).map(|(name, value)| (format!("ratelimit.service.{name}"), value)));
    let call = "ratelimit.service.call.should_rate_limit";
    lines.extend(errors(shared).map(|(name, value)| (format!("{call}.{name}"), value)));
    if let Some(Latency(counters)) = latency(shared) {
        let calls = (0..=LATENCY_NS.len()).map(|index| counters.sum(index)).sum();
        lines.push(("ratelimit_server.ShouldRateLimit.total_requests".to_owned(), calls));
    }
    lines.sort();
    let mut text = String::new();
    for (name, value) in lines {
        // A name contains values of rules, and must be one line. Writing to a string cannot fail.
        let _ = writeln!(text, "{}: {value}", name.escape_debug());
    }
    text
}
