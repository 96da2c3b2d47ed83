//! What the process counts of itself beside the limiter's metrics: connections of each surface.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tollgate_envoy_rls::RateLimitService;
use tollgate_store_memory::MemoryStore;

/// Connections of the HTTP port so far.
#[derive(Debug, Default)]
pub struct Connections {
    /// Accepted, also those closed at once.
    pub accepted: AtomicU64,
    /// Closed at once, because there were too many.
    pub refused: AtomicU64,
    /// Ended.
    pub closed: AtomicU64,
}

/// Adds the connections of both surfaces to `registry`.
pub fn register(
    registry: &mut Registry,
    grpc: Vec<Arc<RateLimitService<MemoryStore>>>,
    http: Arc<Connections>,
) {
    registry.register_collector(Box::new(Surfaces { grpc, http }));
}

#[derive(Debug)]
struct Surfaces {
    grpc: Vec<Arc<RateLimitService<MemoryStore>>>,
    http: Arc<Connections>,
}

impl Surfaces {
    /// Name, and connections accepted, refused and closed.
    fn read(&self) -> [(&'static str, [u64; 3]); 2] {
        let grpc = self.grpc.iter().fold([0; 3], |[accepted, refused, closed], service| {
            let figures = service.figures();
            [
                accepted + figures.accepted.get(),
                refused + figures.refused.get(),
                closed + figures.closed.get(),
            ]
        });
        let http = [&self.http.accepted, &self.http.refused, &self.http.closed];
        [("grpc", grpc), ("http", http.map(|count| count.load(Ordering::Relaxed)))]
    }
}

impl Collector for Surfaces {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let read = self.read();
        let accepted = read.map(|(name, [accepted, ..])| (name, accepted));
        let refused = read.map(|(name, [_, refused, _])| (name, refused));
        for (metric, help, counts) in [
            ("tollgate_connections_accepted", "Connections accepted, by surface", accepted),
            ("tollgate_connections_refused", "Connections closed at once: there were too many", refused),
        ] {
            let sample = ConstCounter::new(0_u64);
            let mut family = encoder.encode_descriptor(metric, help, None, sample.metric_type())?;
            for (surface, count) in counts {
                ConstCounter::new(count).encode(family.encode_family(&[("surface", surface)])?)?;
            }
        }
        let sample = ConstGauge::new(0_i64);
        let help = "Connections being served, by surface";
        let mut family =
            encoder.encode_descriptor("tollgate_connections", help, None, sample.metric_type())?;
        for (surface, [accepted, refused, closed]) in read {
            let open = accepted.saturating_sub(refused + closed);
            let open = i64::try_from(open).unwrap_or(i64::MAX);
            ConstGauge::new(open).encode(family.encode_family(&[("surface", surface)])?)?;
        }
        Ok(())
    }
}
