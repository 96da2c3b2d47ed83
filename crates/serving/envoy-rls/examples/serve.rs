//! Serves one rule on one core, for load generators: `cargo run --release -p tollgate-envoy-rls --example
//! serve -- 127.0.0.1:8081`.
//!
//! With `echo` as second word it runs a tonic server with the same reply size, for comparison; with `tls`, a
//! certificate file and a key file, it serves TLS.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "an example that fails says where")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tollgate_clock::SystemClock;
use tollgate_envoy_rls::proto::rls::{
    Code, DescriptorStatus, Duration, RateLimit, RateLimitRequest, RateLimitResponse,
};
use tollgate_envoy_rls::{Limits, RateLimitService, ReplyOptions};
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_net::{AcceptLimits, ConnectionStats, Tls, TlsFiles, accept};
use tollgate_rule_files::parse_text;
use tollgate_store_memory::{MemoryConfig, MemoryStore};

const RULES: &str = "
domain: shop
descriptors:
  - key: api_key
    rate_limit: {unit: hour, requests_per_unit: 1000000000}
";

fn main() {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or_else(|| "127.0.0.1:8081".into());
    let how = words.next();
    let echoes = how.as_deref() == Some("echo");
    let tls = (how.as_deref() == Some("tls")).then(|| {
        let mut file = || PathBuf::from(words.next().expect("a certificate and its key"));
        let files = TlsFiles {
            cert: file(),
            key: file(),
            client_ca: None,
            client_name: None,
            is_client_optional: false,
        };
        Arc::new(Tls::load(files, &["h2"]).expect("files without fault"))
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        if echoes {
            let server = tonic::transport::Server::builder().tcp_nodelay(true).add_service(Echo);
            return server.serve(address.parse().expect("an address")).await.expect("served");
        }
        let policy = parse_text("rules.yaml", RULES).expect("rules without fault");
        let store = MemoryStore::new(MemoryConfig::default());
        let limiter: Limiter<MemoryStore> = Limiter::new(policy, store, LimiterSettings::default());
        let (_ready, is_ready) = watch::channel(true);
        let (_drain, drain) = watch::channel(false);
        let clock = Arc::new(SystemClock::new());
        let service = RateLimitService::new(
            Arc::new(limiter),
            clock,
            is_ready,
            ReplyOptions::default(),
            Limits::default(),
        );
        let listener = TcpListener::bind(&address).await.expect("a port");
        println!("listens on {address}");
        let bounds = Arc::new(AcceptLimits::default());
        let stats = Arc::new(ConnectionStats::default());
        accept(listener, Arc::new(service), tls, bounds, stats, drain).await;
    });
}

/// A tonic service with a constant reply.
#[derive(Clone)]
struct Echo;

impl tonic::server::NamedService for Echo {
    const NAME: &'static str = "envoy.service.ratelimit.v3.RateLimitService";
}

impl tonic::server::UnaryService<RateLimitRequest> for Echo {
    type Response = RateLimitResponse;
    type Future = Ready<Result<tonic::Response<RateLimitResponse>, tonic::Status>>;

    fn call(&mut self, _request: tonic::Request<RateLimitRequest>) -> Self::Future {
        let limit = RateLimit { requests_per_unit: 1_000_000_000, unit: 3, name: String::new() };
        let status = DescriptorStatus {
            code: Code::Ok as i32,
            current_limit: Some(limit),
            limit_remaining: 999_999_999,
            duration_until_reset: Some(Duration { seconds: 1_234, nanos: 0 }),
        };
        let response = RateLimitResponse {
            overall_code: Code::Ok as i32,
            statuses: vec![status],
            ..RateLimitResponse::default()
        };
        ready(Ok(tonic::Response::new(response)))
    }
}

impl tonic::codegen::Service<http::Request<tonic::body::Body>> for Echo {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(async move {
            let codec = tonic_prost::ProstCodec::<RateLimitResponse, RateLimitRequest>::default();
            Ok(tonic::server::Grpc::new(codec).unary(Self, request).await)
        })
    }
}
