//! The gRPC service: one call, whose streams are one node's.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes};
use futures_util::stream::{self, Stream};
use tokio::sync::mpsc;
use tollgate_fleet_proto::{ATTACH, ControlSays, MAX_NODE_MESSAGE_BYTES, NodeSays, SERVICE};
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::bundle::Outgoing;
use crate::fleet::Fleet;
use crate::session::SessionId;

/// The address of a connection, in the extensions of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub SocketAddr);

/// `tollgate.fleet.v1.Fleet`, to be mounted beside other services.
#[derive(Clone, Debug)]
pub struct FleetService(Fleet);

impl FleetService {
    /// The service of these nodes.
    #[must_use]
    pub const fn new(fleet: Fleet) -> Self {
        Self(fleet)
    }
}

impl NamedService for FleetService {
    const NAME: &'static str = SERVICE;
}

type BoxFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl<B> Service<http::Request<B>> for FleetService
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            if request.uri().path() != ATTACH {
                return Ok(Status::unimplemented("expected the call Attach").into_http());
            }
            if !service.0.admits(token(request.headers())) {
                let why = "missing or invalid token; put the node's token into --control-token-file";
                return Ok(Status::unauthenticated(why).into_http());
            }
            let mut grpc = Grpc::new(Frames).max_decoding_message_size(MAX_NODE_MESSAGE_BYTES);
            Ok(grpc.streaming(service, request).await)
        })
    }
}

/// The bearer token of the `Authorization` header.
fn token(headers: &http::HeaderMap) -> Option<&str> {
    let value = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl StreamingService<NodeSays> for FleetService {
    type Response = Bytes;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Streaming<NodeSays>>) -> Self::Future {
        let fleet = self.0.clone();
        Box::pin(async move {
            let peer = request.extensions().get::<PeerAddress>().map(|peer| peer.0);
            let address = peer.map_or_else(String::new, |peer| peer.to_string());
            let opened = fleet.open(address, token(request.metadata().as_ref()));
            let Some((session, outgoing)) = opened else {
                return Err(Status::resource_exhausted("too many streams"));
            };
            let open = OpenStream { fleet: fleet.clone(), session };
            let reader = tokio::spawn(read(open, request.into_inner()));
            fleet.reads(session, reader.abort_handle());
            let open = OpenStream { fleet, session };
            Ok(Response::new(Box::pin(says(open, outgoing)) as Self::ResponseStream))
        })
    }
}

/// Sends messages that are encoded already, and reads those of nodes.
#[derive(Clone, Copy, Debug)]
struct Frames;

impl Codec for Frames {
    type Encode = Bytes;
    type Decode = NodeSays;
    type Encoder = Self;
    type Decoder = <ProstCodec<ControlSays, NodeSays> as Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        Self
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<ControlSays, NodeSays>::default().decoder()
    }
}

impl Encoder for Frames {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }
}

/// Tells the fleet when either direction ends.
struct OpenStream {
    fleet: Fleet,
    session: SessionId,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.fleet.closed(self.session);
    }
}

async fn read(open: OpenStream, mut stream: Streaming<NodeSays>) {
    loop {
        match stream.message().await {
            Ok(Some(NodeSays { says: Some(says) })) => open.fleet.said(open.session, says),
            Ok(Some(NodeSays { says: None })) => {} // of a later release
            Ok(None) | Err(_) => return,
        }
    }
}

/// The messages to send; those of a bundle follow one at a time, as the connection takes them.
fn says(open: OpenStream, outgoing: mpsc::Receiver<Outgoing>) -> impl Stream<Item = Result<Bytes, Status>> {
    type Messages = Box<dyn Iterator<Item = Bytes> + Send>;
    let messages: VecDeque<Messages> = VecDeque::new();
    stream::unfold((open, outgoing, messages), |(open, mut outgoing, mut messages)| async move {
        loop {
            match messages.front_mut().map(Iterator::next) {
                Some(Some(bytes)) => return Some((Ok(bytes), (open, outgoing, messages))),
                Some(None) => {
                    messages.pop_front();
                }
                None => messages.push_back(Box::new(outgoing.recv().await?.frames())),
            }
        }
    })
}
