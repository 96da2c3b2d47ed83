//! Envoy's rate limit service over gRPC.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tollgate_envoy_rls::{Limits, RateLimitService, Shared};

use crate::acceptor::Acceptor;
use crate::any_store::AnyStore;
use crate::family::Family;
use crate::settings::layers::Layers;
use crate::settings::parse::{self, Listen};
use crate::settings::row::Heading::{Guard, Listen as Where};
use crate::settings::row::{OptionalRow, Row, rows};
use crate::surface::{Mount, MountContext, Mounted, SurfaceKind};

rows! {
    /// The rows of this surface.
    ROWS:
    LISTEN: Row<Listen> = Row::new("grpc", "ADDR", "127.0.0.1:8081", parse::listen)
        .envoy_compat(&["GRPC_HOST", "GRPC_PORT", "GRPC_UDS"])
        .help(Where, "Address of Envoy's rate limit service over gRPC; port 0 picks a free one, `unix:/path` is a Unix \
                      socket, `off` disables it");
    MAX_CONNECTION_AGE: Row<Duration> = Row::new("max-connection-age", "DURATION", "24h", parse::duration)
        .envoy_compat(&["GRPC_MAX_CONNECTION_AGE"])
        .help(Where, "A gRPC connection this old is asked to close, so that clients spread over new servers; 0 is never");
    MAX_CONNECTION_AGE_GRACE: Row<Duration> =
        Row::new("max-connection-age-grace", "DURATION", "1h", parse::duration)
            .envoy_compat(&["GRPC_MAX_CONNECTION_AGE_GRACE"])
            .help(Where, "Grace period for in-flight requests on such a connection");
    MAX_WAITING: Row<usize> =
        Row::new("grpc-max-waiting", "N", "10000", |text| parse::number(text, 1, 10_000_000))
            .help(Where, "Maximum gRPC calls that wait at once, for the rest of their message or for a store; further ones \
                          fail, except four on each connection");
    CLIENT_CA: OptionalRow<PathBuf> = OptionalRow::new("grpc-client-ca", "FILE", parse::path)
        .envoy_compat(&["GRPC_CLIENT_TLS_CACERT"])
        .help(Guard, "Certificates, PEM, one of which must have signed each gRPC client's own (mTLS)");
    CLIENT_NAME: OptionalRow<String> = OptionalRow::new("grpc-client-name", "NAME", parse::host)
        .envoy_compat(&["GRPC_CLIENT_TLS_SAN"])
        .help(Guard, "DNS name or IP address that each gRPC client's certificate must hold, among its subject \
                      alternative names; needs --grpc-client-ca");
}

pub(crate) static KIND: SurfaceKind =
    SurfaceKind { listen: &LISTEN, rows: ROWS, read: |layers| Arc::new(GrpcSettings::read(layers)) };

/// Settings of the gRPC surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcSettings {
    /// When a connection is asked to close; `None` is never.
    pub max_connection_age: Option<Duration>,
    /// Longest time for requests of such a connection to finish.
    pub max_connection_age_grace: Duration,
    /// Calls that may wait at once.
    pub max_waiting: usize,
    /// The authority that must have signed clients' certificates.
    pub client_ca: Option<PathBuf>,
    /// The name that clients' certificates must hold.
    pub client_name: Option<String>,
}

impl GrpcSettings {
    fn read(layers: &mut Layers) -> Self {
        let age = layers.one(&MAX_CONNECTION_AGE);
        let client_ca = layers.maybe(&CLIENT_CA);
        let client_name = layers.maybe(&CLIENT_NAME);
        if client_name.is_some() && client_ca.is_none() {
            // Starting anyway would let every client in.
            let what = "needs an authority that signs clients' certificates; give --grpc-client-ca";
            layers.invalid(&CLIENT_NAME.setting, what);
        }
        Self {
            max_connection_age: Some(age).filter(|age| !age.is_zero()),
            max_connection_age_grace: layers.one(&MAX_CONNECTION_AGE_GRACE),
            max_waiting: layers.one(&MAX_WAITING),
            client_ca,
            client_name,
        }
    }
}

impl Mount for GrpcSettings {
    fn mount(&self, process: &MountContext<'_>) -> Mounted {
        let limits = Limits {
            max_connection_age: self.max_connection_age.unwrap_or(Duration::MAX),
            max_connection_age_grace: self.max_connection_age_grace,
            max_waiting_calls: self.max_waiting,
            message_timeout: process.serving.request_timeout,
            drain_timeout: process.serving.drain_timeout,
            max_message_bytes: process.serving.max_body,
            max_buffered_bytes: process.serving.max_buffered,
            ..Limits::default()
        };
        let shared = Arc::new(Shared::new(&limits));
        let acceptor = |_| {
            let service = unshared(process, limits.clone()).sharing(Arc::clone(&shared));
            Acceptor::of(Arc::new(service.leaving_when(process.node.leaving())))
        };
        let acceptors = (0..process.serving.workers).map(acceptor).collect();
        Mounted { acceptors, metrics: Some(Box::new(Metrics(shared))) }
    }

    fn alpn(&self) -> &'static [&'static str] {
        &["h2"]
    }

    fn client_ca(&self) -> Option<&Path> {
        self.client_ca.as_deref()
    }

    fn client_name(&self) -> Option<&str> {
        self.client_name.as_deref()
    }
}

/// Envoy's service, which the HTTP surface offers as JSON too.
pub(super) fn service(process: &MountContext<'_>, limits: Limits) -> Arc<RateLimitService<AnyStore>> {
    Arc::new(unshared(process, limits))
}

fn unshared(process: &MountContext<'_>, limits: Limits) -> RateLimitService<AnyStore> {
    let node = process.node;
    let limiter = Arc::clone(&node.limiter);
    let clock = Arc::clone(&node.clock);
    let replies = process.decisions.replies.clone();
    RateLimitService::new(limiter, clock, node.ready(), replies, limits)
}

/// Metrics of all workers.
#[derive(Debug)]
struct Metrics(Arc<Shared>);

impl Collector for Metrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut to;
        let help = "gRPC calls that wait for the rest of their message or for a store";
        Family::gauge("tollgate_grpc_waiting_calls", help).write(to, self.0.waiting_calls() as u64)?;
        let help = "gRPC calls that failed because too many were waiting";
        Family::counter("tollgate_grpc_calls_rejected", help).write(to, self.0.rejected_calls())?;
        let help = "Bytes of partially received messages over gRPC";
        Family::gauge("tollgate_grpc_buffered_bytes", help).write(to, self.0.buffered_bytes() as u64)?;
        let help = "Bytes of replies over gRPC that clients do not take";
        Family::gauge("tollgate_grpc_unread_bytes", help).write(to, self.0.unread_bytes() as u64)?;
        let help = "gRPC connections closed because of what the client did, by reason";
        let closed =
            [("over_budget", self.0.cut_connections()), ("too_many_faults", self.0.faulty_connections())];
        Family::counter("tollgate_grpc_closed", help).write_by(to, "reason", closed)
    }
}
