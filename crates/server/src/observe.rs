//! Metrics of the process beside the limiter's: the process itself, connections, certificates, a shared
//! store, traces. Those of one surface are in its file.

mod process;
mod store;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tollgate_net::ConnectionStats;
use tollgate_telemetry::{LogQueue, SpanCounts};

pub(crate) use self::process::ProcessMetrics;
use crate::certificates::Certificates;
use crate::family::Family;
use crate::node::ServerNode;

/// Connections of each surface.
#[derive(Debug)]
pub(crate) struct ConnectionMetrics(pub(crate) Vec<(&'static str, Arc<ConnectionStats>)>);

impl Collector for ConnectionMetrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let of =
            |pick: fn(&ConnectionStats) -> u64| self.0.iter().map(move |(surface, it)| (*surface, pick(it)));
        let to = &mut to;
        let help = "Connections accepted, by surface";
        Family::counter("tollgate_connections_accepted", help).write_by(
            to,
            "surface",
            of(|it| it.accepted.get()),
        )?;
        let help = "Connections closed at once because there were too many";
        Family::counter("tollgate_connections_refused", help).write_by(
            to,
            "surface",
            of(|it| it.rejected.get()),
        )?;
        let help = "Connections that ended in the TLS handshake";
        Family::counter("tollgate_tls_handshakes_failed", help).write_by(
            to,
            "surface",
            of(|it| it.tls_failed.get()),
        )?;
        let help = "Open connections, by surface";
        Family::gauge("tollgate_connections", help).write_by(to, "surface", of(ConnectionStats::open))
    }
}

/// When certificates expire.
#[derive(Debug)]
pub(crate) struct CertificateMetrics(pub(crate) Certificates);

impl Collector for CertificateMetrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "When the certificate in use expires, in seconds of the Unix epoch, by surface";
        let expires = self.0.not_after().map(|(surface, at)| (surface, at.max(0) as u64));
        Family::gauge("tollgate_tls_certificate_not_after_timestamp_seconds", help)
            .write_by(&mut to, "surface", expires)
    }
}

/// Metrics of the configured store.
#[derive(Debug)]
pub(crate) struct StoreMetrics(pub(crate) Arc<ServerNode>);

impl Collector for StoreMetrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        store::encode(&mut to, self.0.limiter.store())
    }
}

/// Metrics of lost log lines.
#[derive(Debug)]
pub(crate) struct LogMetrics(pub(crate) LogQueue);

impl Collector for LogMetrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Log lines dropped because stderr was not read fast enough, or many were of one kind";
        let dropped = [("slow_reader", self.0.dropped()), ("rate", self.0.left_out())];
        Family::counter("tollgate_log_lines_dropped", help).write_by(&mut to, "reason", dropped)
    }
}

/// Traces that were sent, or not.
#[derive(Debug)]
pub(crate) struct TraceMetrics(pub(crate) Arc<SpanCounts>);

impl Collector for TraceMetrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let spans = [("sent", &self.0.sent), ("failed", &self.0.failed), ("dropped", &self.0.dropped)];
        let help =
            "Spans accepted by the collector, not accepted by it, and dropped because too many were waiting";
        let spans = spans.map(|(result, count)| (result, count.load(Relaxed)));
        Family::counter("tollgate_trace_spans", help).write_by(&mut to, "result", spans)
    }
}
