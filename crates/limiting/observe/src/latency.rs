//! Latency of decisions, by surface. Not here: measuring it (the surfaces).

use std::sync::Arc;
use std::time::Duration;

use crate::sharded_counters::{ShardedCounters, ThreadSlot};

/// Upper bounds of the buckets, in nanoseconds; one more is without bound.
pub(crate) const LATENCY_NS: [u64; 15] = [
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

/// The buckets, the one without bound, and the sum in nanoseconds.
pub(crate) type LatencyCounters = ShardedCounters<{ LATENCY_NS.len() + 2 }>;

/// The latencies of one surface's decisions; see [`Metrics::latency`](crate::Metrics::latency).
#[derive(Clone, Debug)]
pub struct Latency(pub(crate) Arc<LatencyCounters>);

impl Latency {
    /// Counts a decision's latency, as the surface measured it, from a request read to its decision.
    pub fn observe(&self, latency: Duration) {
        self.observe_all(latency, 1);
    }

    /// The same for `decisions` that were asked for together and answered together.
    pub fn observe_all(&self, latency: Duration, decisions: u64) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let bucket = LATENCY_NS.partition_point(|&bound| bound < nanos);
        let thread = ThreadSlot::here();
        self.0.add(thread, bucket, decisions);
        self.0.add(thread, LATENCY_NS.len() + 1, nanos.saturating_mul(decisions));
    }
}
