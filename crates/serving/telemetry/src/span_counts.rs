//! Numbers of traces, with and without an exporter.

use std::sync::atomic::AtomicU64;

/// Outcomes of the spans of sampled calls.
#[derive(Debug, Default)]
pub struct SpanCounts {
    /// Taken by the collector.
    pub sent: AtomicU64,
    /// Not taken by the collector.
    pub failed: AtomicU64,
    /// Not sent because too many waited.
    pub dropped: AtomicU64,
}
