//! What a shared store counts of its work, as metrics.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tollgate_store_redis::{FLIGHT_EDGES, Figures};

use super::family;
use crate::counters::Counters;

/// Writes them, where the store is a shared one.
pub(super) fn encode(to: &mut DescriptorEncoder<'_>, store: &Counters) -> fmt::Result {
    let is_up = u64::from(store.view().state == "up");
    let help = "1 while the store answers, else 0; of memory always 1";
    family(to, "tollgate_store_up", help, "", MetricType::Gauge, &[("", is_up)])?;
    match store {
        Counters::Memory(_) => Ok(()),
        Counters::Redis(store) => redis(to, &store.figures()),
    }
}

fn redis(to: &mut DescriptorEncoder<'_>, of: &Figures) -> fmt::Result {
    let counters = [
        ("tollgate_store_requests", "Decisions and other requests asked of the shared store", of.asked),
        ("tollgate_store_calls", "Script calls sent to it", of.calls),
        ("tollgate_store_merged_requests", "Requests that shared another's script call", of.merged),
        ("tollgate_store_connects", "Connections made to it", of.connects),
        ("tollgate_store_connect_failures", "Connections that were tried in vain", of.connect_failures),
        ("tollgate_store_script_loads", "Scripts that had to be loaded anew", of.reloads),
        ("tollgate_store_redirects", "Calls that another node of the Cluster had to be asked", of.redirects),
        ("tollgate_store_breaker_opened", "Times that a breaker opened", of.breaker_opened),
    ];
    for (name, help, value) in counters {
        family(to, name, help, "", MetricType::Counter, &[("", value)])?;
    }
    let failures = [
        ("breaker_open", of.breaker_refused),
        ("queue_full", of.queue_full),
        ("unsent", of.unsent),
        ("silent", of.silent),
        ("refused", of.refused),
    ];
    let help = "Requests without a decision: refused by an open breaker, by a full queue, not sent in time, sent and not \
                answered in time, refused by the server";
    family(to, "tollgate_store_failures", help, "reason", MetricType::Counter, &failures)?;
    let gauges = [
        ("tollgate_store_breakers_open", "Breakers that are open", of.breakers_open),
        ("tollgate_store_connections", "Connections to the store", of.connections),
        ("tollgate_store_live_nodes", "Nodes that share its counters, this one included", of.live_nodes),
    ];
    for (name, help, value) in gauges {
        family(to, name, help, "", MetricType::Gauge, &[("", value)])?;
    }
    let bounds = FLIGHT_EDGES.iter().map(|edge| *edge as f64).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(of.flight_sizes).collect();
    let number = of.flight_sizes.iter().sum();
    to.encode_descriptor(
        "tollgate_store_flight_calls",
        "Script calls of each round trip",
        None,
        MetricType::Histogram,
    )?
    .encode_histogram::<NoLabelSet>(of.calls as f64, number, &buckets, None)
}
