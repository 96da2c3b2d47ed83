//! A server on a port of its own, and the ways to call it.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_core::{ManualClock, Timestamp};
use tollgate_envoy_rls::proto::rls;
use tollgate_envoy_rls::{Limits, RateLimitService, ReplyOptions, Shared};
use tollgate_limiter::{Limiter, LimiterSettings, Undecided};
use tollgate_net::{AcceptLimits, ConnectionStats, Tls, accept};
use tollgate_rule_files::parse_text;
use tollgate_store_memory::{MemoryConfig, MemoryStore};
use tonic::transport::Channel;

pub use tollgate_testkit::grpc::{SHOULD_RATE_LIMIT, call, outcome};

pub const RULES: &str = "
domain: shop
descriptors:
  - key: api_key
    rate_limit: {unit: hour, requests_per_unit: 3}
  - key: shadowed
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: named
    metadata: {team: checkout}
    rate_limit: {name: by-name, unit: minute, requests_per_unit: 10}
  - key: free
    rate_limit: {unlimited: true}
  - key: leased
    rate_limit: {unit: second, requests_per_unit: 1000, algorithm: token_bucket, sharing: leased}
  - key: odd
    rate_limit: {period: 10s, requests_per_unit: 5}
";

/// 2023-11-14 22:13:20 UTC: 800 s into its hour, 20 s into its minute.
pub const NOW: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

pub type Service = RateLimitService<MemoryStore>;

pub fn limiter() -> Arc<Limiter<MemoryStore>> {
    limiter_with(Undecided::default())
}

/// A limiter whose surfaces answer undecided requests as `undecided` says.
pub fn limiter_with(undecided: Undecided) -> Arc<Limiter<MemoryStore>> {
    let policy = parse_text("rules.yaml", RULES).expect("rules without fault");
    let store = MemoryStore::new(MemoryConfig::default());
    let settings = LimiterSettings { undecided, ..LimiterSettings::default() };
    Arc::new(Limiter::new(policy, store, settings))
}

pub fn service(
    limiter: Arc<Limiter<MemoryStore>>,
    options: ReplyOptions,
    limits: Limits,
) -> (Arc<Service>, watch::Sender<bool>) {
    let (ready, is_ready) = watch::channel(true);
    let clock = Arc::new(ManualClock::at(NOW));
    (Arc::new(RateLimitService::new(limiter, clock, is_ready, options, limits)), ready)
}

pub struct Server {
    pub address: SocketAddr,
    pub clock: ManualClock,
    pub limiter: Arc<Limiter<MemoryStore>>,
    pub stats: Arc<ConnectionStats>,
    pub ready: watch::Sender<bool>,
    /// State shared by its connections.
    pub shared: Arc<Shared>,
    /// The server will end: connections are asked to go away.
    pub leaving: watch::Sender<bool>,
    /// The server ends.
    pub drain: watch::Sender<bool>,
    pub ended: JoinHandle<()>,
}

impl Server {
    pub async fn start(options: ReplyOptions, limits: Limits) -> Self {
        Self::behind(None, options, limits).await
    }

    pub async fn behind(tls: Option<Arc<Tls>>, options: ReplyOptions, limits: Limits) -> Self {
        let limiter = limiter();
        let shared = Arc::new(Shared::new(&limits));
        Self::sharing(shared, tls, limiter, options, limits).await
    }

    /// One worker of those that share `shared`.
    pub async fn sharing(
        shared: Arc<Shared>,
        tls: Option<Arc<Tls>>,
        limiter: Arc<Limiter<MemoryStore>>,
        options: ReplyOptions,
        limits: Limits,
    ) -> Self {
        let (ready, is_ready) = watch::channel(true);
        let clock = ManualClock::at(NOW);
        let leaving = watch::Sender::new(false);
        let time = Arc::new(clock.clone());
        let service = RateLimitService::new(Arc::clone(&limiter), time, is_ready, options, limits)
            .sharing(Arc::clone(&shared))
            .leaving_when(leaving.subscribe());
        let service = Arc::new(service);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (drain, draining) = watch::channel(false);
        let bounds = Arc::new(AcceptLimits::default());
        let stats = Arc::new(ConnectionStats::default());
        let ended = tokio::spawn(accept(listener, service, tls, bounds, Arc::clone(&stats), draining));
        Self { address, clock, limiter, stats, ready, shared, leaving, drain, ended }
    }

    pub async fn plain() -> Self {
        Self::start(ReplyOptions::default(), Limits::default()).await
    }

    pub async fn with(limits: Limits) -> Self {
        Self::start(ReplyOptions::default(), limits).await
    }

    /// A server that answers undecided requests as `undecided` says.
    pub async fn undecided(undecided: Undecided, limits: Limits) -> Self {
        let shared = Arc::new(Shared::new(&limits));
        Self::sharing(shared, None, limiter_with(undecided), ReplyOptions::default(), limits).await
    }

    /// A client as other people's programs have it.
    pub async fn client(&self) -> GrpcClient {
        let channel = Channel::from_shared(format!("http://{}", self.address)).expect("a URI");
        GrpcClient(tonic::client::Grpc::new(channel.connect().await.expect("connected")))
    }

    /// HTTP/2 by hand.
    pub async fn raw(&self) -> h2::client::SendRequest<Bytes> {
        let stream = TcpStream::connect(self.address).await.expect("connected");
        stream.set_nodelay(true).expect("a socket");
        let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        send
    }
}

pub struct GrpcClient(pub tonic::client::Grpc<Channel>);

impl GrpcClient {
    pub async fn unary<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, tonic::Status>
    where
        Q: Message + Default + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.0.ready().await.expect("a connection");
        let codec = tonic_prost::ProstCodec::<Q, A>::default();
        let path = http::uri::PathAndQuery::from_static(path);
        self.0.unary(tonic::Request::new(request), path, codec).await.map(tonic::Response::into_inner)
    }

    pub async fn ask(
        &mut self,
        request: rls::RateLimitRequest,
    ) -> Result<rls::RateLimitResponse, tonic::Status> {
        self.unary(SHOULD_RATE_LIMIT, request).await
    }
}

pub fn descriptor(key: &str, value: &str) -> rls::RateLimitDescriptor {
    let entry = rls::Entry { key: key.into(), value: value.into() };
    rls::RateLimitDescriptor { entries: vec![entry], ..Default::default() }
}

pub fn request(descriptors: Vec<rls::RateLimitDescriptor>) -> rls::RateLimitRequest {
    rls::RateLimitRequest { domain: "shop".into(), descriptors, hits_addend: 0 }
}

pub fn framed(message: &impl Message) -> Bytes {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(message.encoded_len()).expect("short").to_be_bytes());
    bytes.extend(message.encode_to_vec());
    bytes.into()
}
