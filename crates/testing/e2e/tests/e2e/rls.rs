//! A client of `envoy.service.ratelimit.v3.RateLimitService` that shares no code with the server: the
//! messages are written out again here by field number, so that a wrong number on either side shows.

use std::net::SocketAddr;
use std::time::Duration;

use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

pub(crate) const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// Longer than any answer takes on a busy machine; only a hang reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
pub(crate) const OK: i32 = 1;
pub(crate) const OVER_LIMIT: i32 = 2;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RateLimitRequest {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    pub(crate) hits_addend: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    pub(crate) entries: Vec<Entry>,
    #[prost(message, optional, tag = "2")]
    pub(crate) limit: Option<Override>,
    /// The wrapper message `google.protobuf.UInt64Value`.
    #[prost(message, optional, tag = "3")]
    pub(crate) hits_addend: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Entry {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Override {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(crate) unit: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    pub(crate) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(crate) statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) response_headers_to_add: Vec<HeaderValue>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) request_headers_to_add: Vec<HeaderValue>,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) raw_body: Vec<u8>,
    #[prost(message, optional, tag = "6")]
    pub(crate) dynamic_metadata: Option<prost_types::Struct>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DescriptorStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) current_limit: Option<CurrentLimit>,
    #[prost(uint32, tag = "3")]
    pub(crate) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(crate) duration_until_reset: Option<prost_types::Duration>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CurrentLimit {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(crate) unit: i32,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) raw_value: Vec<u8>,
}

/// A request of one descriptor with one entry.
pub(crate) fn hit(domain: &str, key: &str, value: &str) -> RateLimitRequest {
    hits(domain, key, [value])
}

/// A request of one descriptor for every value, each with one entry.
pub(crate) fn hits<V: Into<Vec<u8>>>(
    domain: &str,
    key: &str,
    values: impl IntoIterator<Item = V>,
) -> RateLimitRequest {
    let descriptor = |value: V| Descriptor {
        entries: vec![Entry { key: key.into(), value: value.into() }],
        ..Descriptor::default()
    };
    RateLimitRequest {
        domain: domain.to_owned(),
        descriptors: values.into_iter().map(descriptor).collect(),
        hits_addend: 0,
    }
}

impl RateLimitRequest {
    /// The same request, asking without taking anything.
    pub(crate) fn peek(mut self) -> Self {
        self.descriptors.iter_mut().for_each(|d| d.hits_addend = Some(0));
        self
    }
}

/// One connection to the service.
#[derive(Clone)]
pub(crate) struct Client(tonic::client::Grpc<Channel>);

impl Client {
    /// Opens a connection of its own.
    pub(crate) async fn connect(to: SocketAddr) -> Result<Self, tonic::transport::Error> {
        let channel = Endpoint::from_shared(format!("http://{to}"))?.timeout(PATIENCE).connect().await?;
        let limit = 1 << 30; // the tests send messages that are too large on purpose
        Ok(Client(
            tonic::client::Grpc::new(channel)
                .max_encoding_message_size(limit)
                .max_decoding_message_size(limit),
        ))
    }

    /// Sends one request and returns its response.
    pub(crate) async fn ask(&mut self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.call(PATH, request).await
    }

    /// Asks once and says whether the answer was OK.
    pub(crate) async fn admits(&mut self, request: RateLimitRequest) -> bool {
        let answer = self.ask(request).await.expect("an answer");
        assert!([OK, OVER_LIMIT].contains(&answer.overall_code), "{answer:?}");
        answer.overall_code == OK
    }

    /// Calls any unary method.
    pub(crate) async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        self.0.ready().await.map_err(|e| Status::unavailable(e.to_string()))?;
        let codec = tonic_prost::ProstCodec::<Q, A>::default();
        let answer = self.0.unary(Request::new(request), PathAndQuery::from_static(path), codec).await?;
        Ok(answer.into_inner())
    }
}
