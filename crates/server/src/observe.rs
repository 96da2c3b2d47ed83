//! What the process counts of itself beside the limiter's metrics: connections of each surface, a shared store, and traces.

mod store;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tollgate_net::Figures;

use crate::certificates::Certificates;
use crate::counters::{Http, Resp};
use crate::node::Node;
use crate::settings::Surface;
use crate::telemetry::otlp::Counts;

/// What is looked at when metrics are asked for.
#[derive(Debug)]
pub struct Observed {
    /// Connections of each surface.
    pub connections: [(Surface, Arc<Figures>); 3],
    /// The Redis protocol.
    pub resp: Arc<Resp>,
    /// HTTP, one for each worker.
    pub http: Vec<Arc<Http>>,
    /// Whose store it is.
    pub node: Arc<Node>,
    /// What TLS is spoken with.
    pub(crate) certificates: Certificates,
}

/// Adds what is `observed`, and `traces` where they are sent, to `registry`.
pub fn register(registry: &mut Registry, observed: Observed, traces: Option<Arc<Counts>>) {
    registry.register_collector(Box::new(Collected { observed, traces }));
}

#[derive(Debug)]
struct Collected {
    observed: Observed,
    traces: Option<Arc<Counts>>,
}

impl Collector for Collected {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let of = |pick: fn(&Figures) -> u64| {
            self.observed.connections.each_ref().map(|(surface, figures)| (surface.name(), pick(figures)))
        };
        let counters = [
            ("tollgate_connections_accepted", "Connections accepted, by surface", of(|it| it.accepted.get())),
            (
                "tollgate_connections_refused",
                "Connections closed at once: there were too many",
                of(|it| it.refused.get()),
            ),
            (
                "tollgate_tls_handshakes_failed",
                "Connections that ended before TLS was agreed on",
                of(|it| it.tls_failed.get()),
            ),
        ];
        for (name, help, counts) in counters {
            family(&mut to, name, help, "surface", MetricType::Counter, &counts)?;
        }
        let help = "Connections being served, by surface";
        let open = of(Figures::open);
        family(&mut to, "tollgate_connections", help, "surface", MetricType::Gauge, &open)?;
        self.resp(&mut to)?;
        let help = "Bytes of bodies half arrived over HTTP";
        let buffered = self.observed.http.iter().map(|api| api.buffered_bytes() as u64).sum();
        family(&mut to, "tollgate_http_buffered_bytes", help, "", MetricType::Gauge, &[("", buffered)])?;
        let help = "Until when the certificate in use is good, in seconds of the Unix epoch, by surface";
        let until = self.observed.certificates.not_after();
        let until: Vec<_> = until.map(|(surface, at)| (surface.name(), at.max(0) as u64)).collect();
        let name = "tollgate_tls_certificate_not_after_timestamp_seconds";
        family(&mut to, name, help, "surface", MetricType::Gauge, &until)?;
        store::encode(&mut to, self.observed.node.limiter.store())?;
        let Some(traces) = &self.traces else { return Ok(()) };
        let spans = [("sent", &traces.sent), ("failed", &traces.failed), ("dropped", &traces.dropped)];
        let help = "Spans taken by the collector, not taken by it, and dropped because too many waited";
        let spans = spans.map(|(result, count)| (result, count.load(Relaxed)));
        family(&mut to, "tollgate_trace_spans", help, "result", MetricType::Counter, &spans)
    }
}

impl Collected {
    fn resp(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let figures = self.observed.resp.stats();
        let help = "Commands of the Redis protocol answered";
        family(to, "tollgate_resp_commands", help, "", MetricType::Counter, &[("", figures.commands())])?;
        let help = "Connections of the Redis protocol closed for what they did, by reason";
        let closed = [
            ("protocol", figures.protocol_errors()),
            ("slow_reader", figures.slow_readers()),
            ("slow_writer", figures.slow_writers()),
            ("idle", figures.idle()),
            ("over_budget", figures.over_budget()),
        ];
        family(to, "tollgate_resp_closed", help, "reason", MetricType::Counter, &closed)?;
        let help = "Wrong passwords given to AUTH";
        let wrong = [("", figures.wrong_passwords())];
        family(to, "tollgate_resp_wrong_passwords", help, "", MetricType::Counter, &wrong)?;
        let help = "Bytes of commands half arrived";
        let buffered = [("", figures.buffered_bytes() as u64)];
        family(to, "tollgate_resp_buffered_bytes", help, "", MetricType::Gauge, &buffered)
    }
}

/// One metric: a value for each value of `label`, or one without where `label` is empty.
fn family(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    kind: MetricType,
    values: &[(&str, u64)],
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, kind)?;
    let encode = |series: &mut MetricEncoder<'_>, value: &u64| match kind {
        MetricType::Counter => series.encode_counter::<NoLabelSet, _, u64>(value, None),
        _ => series.encode_gauge(value),
    };
    for (of, value) in values {
        // A set of no labels would be written as `{}`.
        match label {
            "" => encode(&mut family, value)?,
            _ => encode(&mut family.encode_family(&[(label, *of)])?, value)?,
        }
    }
    Ok(())
}
