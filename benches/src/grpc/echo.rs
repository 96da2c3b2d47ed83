//! Servers that answer `ShouldRateLimit` without any rules: the limits of the transport alone.
//!
//! The same service with limitador's library behind it represents limitador-server, which is not a crate:
//! without that server's own metrics and tracing, so rather faster than it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::{Context as _, ensure};
use limitador::limit::{Limit, Namespace};
use prost::Message;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::server::UnaryService;
use tonic::{Response, Status};
use tonic_prost::ProstCodec;

use crate::process::pinned;

/// The path of the call.
pub(super) const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The parts of Envoy's messages that the comparison needs.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<EntryMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct EntryMessage {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct RateLimitResponse {
    /// 1 is OK, 2 is OVER_LIMIT.
    #[prost(int32, tag = "1")]
    overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    statuses: Vec<DescriptorStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct DescriptorStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(message, optional, tag = "2")]
    current_limit: Option<CurrentLimit>,
    #[prost(uint32, tag = "3")]
    limit_remaining: u32,
}

#[derive(Clone, PartialEq, Message)]
struct CurrentLimit {
    #[prost(uint32, tag = "1")]
    requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    unit: i32,
}

/// throttlecrab's own request.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ThrottleRequest {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int32, tag = "2")]
    max_burst: i32,
    #[prost(int32, tag = "3")]
    count_per_period: i32,
    #[prost(int32, tag = "4")]
    period: i32,
    #[prost(int32, tag = "5")]
    quantity: i32,
}

impl ThrottleRequest {
    /// One key that never runs dry.
    pub(crate) fn hot() -> Self {
        let key = "203.0.113.77".to_owned();
        let max_burst = 900_000_000;
        Self { key, max_burst, count_per_period: 1_000_000, period: 1, quantity: 1 }
    }
}

/// The request that every server gets: 41 bytes.
pub(crate) fn request() -> Vec<u8> {
    let entry = EntryMessage { key: "remote_address".to_owned(), value: "203.0.113.77".to_owned() };
    let descriptors = vec![Descriptor { entries: vec![entry] }];
    RateLimitRequest { domain: "bench".to_owned(), descriptors, hits_addend: 0 }.encode_to_vec()
}

/// Sends that request once and sees that the answer is one.
pub(crate) fn ask(port: u16) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let channel = tonic::transport::Endpoint::new(format!("http://127.0.0.1:{port}"))?.connect().await?;
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await?;
        let path = http::uri::PathAndQuery::from_static(SHOULD_RATE_LIMIT);
        let message = tonic::Request::new(RateLimitRequest::decode(request().as_slice())?);
        let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        let answer = client.unary(message, path, codec).await?.into_inner();
        ensure!([1, 2].contains(&answer.overall_code) && answer.statuses.len() == 1, "{answer:?}");
        Ok(())
    })
}

/// The implementation behind the server.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Behind {
    /// Nothing: always OK.
    Echo,
    /// limitador's library.
    Limitador,
}

/// The runtime of the server.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Runtime {
    /// tokio's current-thread runtime.
    Current,
    /// tokio's multi-thread runtime, a worker for each core that it may use.
    Multi,
}

/// Serves on a port of the loopback interface until it is killed.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Serve {
    #[arg(value_enum)]
    pub(crate) behind: Behind,
    #[arg(value_enum)]
    pub(crate) runtime: Runtime,
    pub(crate) port: u16,
}

impl Serve {
    /// This program as a command that serves.
    pub(crate) fn command(self, itself: &Path) -> Command {
        let mut command = pinned(0, itself);
        let word =
            |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_owned());
        command.arg("serve");
        command.args(word(clap::ValueEnum::to_possible_value(&self.behind)));
        command.args(word(clap::ValueEnum::to_possible_value(&self.runtime)));
        command.arg(self.port.to_string());
        command
    }

    pub(crate) fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let mut builder = match self.runtime {
            Runtime::Current => tokio::runtime::Builder::new_current_thread(),
            Runtime::Multi => tokio::runtime::Builder::new_multi_thread(),
        };
        let service = match self.behind {
            Behind::Echo => Service(None),
            Behind::Limitador => Service(Some(Arc::new(Limitador::new()?))),
        };
        builder.enable_all().build()?.block_on(async {
            let listener = tokio::net::TcpListener::bind(("127.0.0.1", self.port)).await?;
            writeln!(out, "listening on {}", listener.local_addr()?)?;
            let server = tonic::transport::Server::builder().tcp_nodelay(true).add_service(service);
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.context("serving")
        })
    }
}

/// The service, as the code generator would write it.
#[derive(Clone)]
struct Service(Option<Arc<Limitador>>);

type BoxFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl tonic::server::NamedService for Service {
    const NAME: &'static str = "envoy.service.ratelimit.v3.RateLimitService";
}

impl tonic::codegen::Service<http::Request<tonic::body::Body>> for Service {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let codec = ProstCodec::<RateLimitResponse, RateLimitRequest>::default();
            Ok(tonic::server::Grpc::new(codec).unary(service, request).await)
        })
    }
}

impl UnaryService<RateLimitRequest> for Service {
    type Response = RateLimitResponse;
    type Future = BoxFuture<Response<RateLimitResponse>, Status>;

    fn call(&mut self, request: tonic::Request<RateLimitRequest>) -> Self::Future {
        let limitador = self.0.clone();
        Box::pin(async move {
            let request = request.into_inner();
            let count = request.descriptors.len();
            let code = match limitador {
                Some(limitador) => {
                    limitador.decide(request).map_err(|error| Status::unavailable(error.to_string()))?
                }
                None => 1,
            };
            let current_limit = Some(CurrentLimit { requests_per_unit: u32::MAX, unit: 3 });
            let status = DescriptorStatus { code, current_limit, limit_remaining: u32::MAX - 1 };
            Ok(Response::new(RateLimitResponse { overall_code: code, statuses: vec![status; count] }))
        })
    }
}

struct Limitador {
    limiter: limitador::RateLimiter,
    namespace: Namespace,
}

impl Limitador {
    fn new() -> anyhow::Result<Self> {
        let limiter = limitador::RateLimiter::new(1_000_000);
        let client =
            "descriptors[0].remote_address".try_into().map_err(|error| anyhow::anyhow!("{error}"))?;
        limiter.add_limit(Limit::new("bench", u64::from(u32::MAX), 3_600, [], [client]));
        Ok(Self { limiter, namespace: "bench".into() })
    }

    fn decide(&self, request: RateLimitRequest) -> Result<i32, limitador::errors::LimitadorError> {
        let entries = |descriptor: Descriptor| {
            descriptor.entries.into_iter().map(|entry| (entry.key, entry.value)).collect::<HashMap<_, _>>()
        };
        let mut context = limitador::limit::Context::default();
        context
            .list_binding("descriptors".to_owned(), request.descriptors.into_iter().map(entries).collect());
        let answer = self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1)?;
        Ok(if answer.limited { 2 } else { 1 })
    }
}
