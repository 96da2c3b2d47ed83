//! A measurement: `/v1/check` beside a bare hyper that says "ok", on the same runtime and the same accept
//! loop.
//!
//! `beside_hyper ok|ok-read|check PORT [STYLE]` serves on one thread until it is killed; `docs/http.md` says
//! how to load it.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "an example that fails says where")]

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tollgate_core::Clock;
use tollgate_envoy_rls::{Limits, RateLimitService, ReplyOptions};
use tollgate_http_api::{HttpApi, HttpSettings, NodeState, NodeStatus};
use tollgate_http_kit::{HttpSurface, SurfaceSettings};
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_net::{AcceptLimits, ConnectionStats, Surface, accept};
use tollgate_store_memory::{MemoryConfig, MemoryStore};

const RULES: &str = "
domain: bench
descriptors:
  - key: api_key
    rate_limit: {unit: second, requests_per_unit: 1000000000, algorithm: token_bucket}
  - key: denied
    rate_limit: {unit: hour, requests_per_unit: 1}
";

/// Says "ok", with or without reading what was sent.
struct Ok200 {
    reads: bool,
}

impl Surface for Ok200 {
    async fn serve<IO>(self: Arc<Self>, io: IO, _drain: watch::Receiver<bool>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let reads = self.reads;
        let service = service_fn(move |request: Request<Incoming>| async move {
            if reads {
                let _ = request.into_body().collect().await;
            }
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
        });
        let _ = http1::Builder::new().serve_connection(TokioIo::new(io), service).await;
    }
}

struct Always;

impl NodeStatus for Always {
    fn state(&self) -> NodeState {
        NodeState { is_ready: true, ..NodeState::default() }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().expect("what to serve");
    let port = arguments.next().expect("a port");
    let style = arguments.next().unwrap_or_else(|| "legacy".into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let socket = std::net::TcpListener::bind(format!("127.0.0.1:{port}")).expect("a free port");
        socket.set_nonblocking(true).expect("a socket");
        let listener = tokio::net::TcpListener::from_std(socket).expect("a socket");
        let limits = Arc::new(AcceptLimits::default());
        let stats = Arc::new(ConnectionStats::default());
        let (_stay, drain) = watch::channel(false);
        if what != "check" {
            let surface = Arc::new(Ok200 { reads: what == "ok-read" });
            return accept(listener, surface, None, limits, stats, drain).await;
        }
        let policy = tollgate_rule_files::parse_text("bench.yaml", RULES).expect("rules");
        let store = MemoryStore::new(MemoryConfig::default());
        let limiter: Arc<Limiter<MemoryStore>> =
            Arc::new(Limiter::new(policy, store, LimiterSettings::default()));
        let clock: Arc<dyn Clock> = Arc::new(tollgate_clock::SystemClock::new());
        let (_ready, ready) = watch::channel(true);
        let service = RateLimitService::new(
            Arc::clone(&limiter),
            Arc::clone(&clock),
            ready,
            ReplyOptions::default(),
            Limits::default(),
        );
        let json = Arc::new(Arc::new(service).over_http(Default::default()));
        let style = style.parse().expect("a style");
        let settings = HttpSettings { style, ..HttpSettings::default() };
        let api = HttpApi::new(limiter, clock, Arc::new(Always), json, settings);
        let surface = Arc::new(HttpSurface::new(api, SurfaceSettings::default()));
        accept(listener, surface, None, limits, stats, drain).await;
    });
}
