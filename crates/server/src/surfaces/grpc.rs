//! Envoy's rate limit service over gRPC.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tollgate_envoy_rls::{Limits, RateLimitService};
use tollgate_net::Budget;

use crate::acceptor::Acceptor;
use crate::any_store::AnyStore;
use crate::family::Family;
use crate::settings::layers::Layers;
use crate::settings::parse::{self, Listen};
use crate::settings::row::Heading::{Guard, Listen as Where};
use crate::settings::row::{OptionalRow, Row, rows};
use crate::surface::{Kind, Mount, Mounted, Process};

rows! {
    /// The rows of this surface.
    ROWS:
    LISTEN: Row<Listen> = Row::new("grpc", "ADDR", "127.0.0.1:8081", parse::listen)
        .envoy_compat(&["GRPC_HOST", "GRPC_PORT"])
        .help(Where, "Address of Envoy's rate limit service over gRPC; port 0 picks a free one, `off` disables it");
    MAX_CONNECTION_AGE: Row<Duration> = Row::new("max-connection-age", "DURATION", "24h", parse::duration)
        .envoy_compat(&["GRPC_MAX_CONNECTION_AGE"])
        .help(Where, "A gRPC connection this old is asked to close, so that clients spread over new servers; 0 is never");
    MAX_CONNECTION_AGE_GRACE: Row<Duration> =
        Row::new("max-connection-age-grace", "DURATION", "1h", parse::duration)
            .envoy_compat(&["GRPC_MAX_CONNECTION_AGE_GRACE"])
            .help(Where, "Grace period for in-flight requests on such a connection");
    CLIENT_CA: OptionalRow<PathBuf> = OptionalRow::new("grpc-client-ca", "FILE", parse::path)
        .envoy_compat(&["GRPC_CLIENT_TLS_CACERT"])
        .help(Guard, "Certificates, PEM, one of which must have signed each gRPC client's own (mTLS)");
}

pub(crate) static KIND: Kind =
    Kind { listen: &LISTEN, rows: ROWS, read: |layers| Arc::new(GrpcSettings::read(layers)) };

/// Settings of the gRPC surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcSettings {
    /// When a connection is asked to close; `None` is never.
    pub max_connection_age: Option<Duration>,
    /// How long its requests may still take.
    pub max_connection_age_grace: Duration,
    /// The authority that must have signed clients' certificates.
    pub client_ca: Option<PathBuf>,
}

impl GrpcSettings {
    fn read(layers: &mut Layers) -> Self {
        let age = layers.one(&MAX_CONNECTION_AGE);
        Self {
            max_connection_age: Some(age).filter(|age| !age.is_zero()),
            max_connection_age_grace: layers.one(&MAX_CONNECTION_AGE_GRACE),
            client_ca: layers.maybe(&CLIENT_CA),
        }
    }
}

impl Mount for GrpcSettings {
    fn mount(&self, process: &Process<'_>) -> Mounted {
        let limits = Limits {
            max_connection_age: self.max_connection_age.unwrap_or(Duration::MAX),
            max_connection_age_grace: self.max_connection_age_grace,
            drain_timeout: process.serving.drain_timeout,
            max_buffered_bytes: process.serving.max_buffered,
            ..Limits::default()
        };
        let budget = Budget::new(limits.max_buffered_bytes);
        let acceptor = |_| Acceptor::of(Arc::new(service(process, limits.clone()).with_budget(&budget)));
        let acceptors = (0..process.serving.workers).map(acceptor).collect();
        Mounted { acceptors, metrics: Some(Box::new(Metrics(budget))) }
    }

    fn alpn(&self) -> &'static [&'static str] {
        &["h2"]
    }

    fn client_ca(&self) -> Option<&Path> {
        self.client_ca.as_deref()
    }
}

/// Envoy's service, which the HTTP surface offers as JSON too.
pub(super) fn service(process: &Process<'_>, limits: Limits) -> RateLimitService<AnyStore> {
    let node = process.node;
    let (limiter, clock) = (Arc::clone(&node.limiter), Arc::clone(&node.clock));
    let replies = process.decisions.replies.clone();
    RateLimitService::new(limiter, clock, node.ready(), replies, limits)
}

/// Metrics of all workers.
#[derive(Debug)]
struct Metrics(Budget);

impl Collector for Metrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Bytes of partially received messages over gRPC";
        Family::gauge("tollgate_grpc_buffered_bytes", help).write(&mut to, self.0.held() as u64)
    }
}
