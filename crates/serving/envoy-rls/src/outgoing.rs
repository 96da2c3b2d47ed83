//! The reply of a call: header, messages, trailer with the status. Not here: the contents of messages.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use prost::Message;

use crate::body::framed;
use crate::shared::ConnectionCalls;
use crate::status::{Code, Status};
use crate::unsent::Unsent;

static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
static GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Sends the one reply of a unary call. Errors are ignored: the peer has gone away.
pub(crate) fn reply(
    respond: &mut SendResponse<Unsent>,
    calls: &Arc<ConnectionCalls>,
    result: Result<Bytes, Status>,
) {
    match result {
        Err(status) => fail(respond, &status),
        Ok(message) => {
            if let Ok(mut stream) = respond.send_response(head(), false) {
                let message = Unsent::new(message, calls);
                let _ = stream.send_data(message, false).and_then(|()| stream.send_trailers(success()));
            }
        }
    }
}

/// Sends a status and nothing else.
pub(crate) fn fail(respond: &mut SendResponse<Unsent>, status: &Status) {
    let mut response = head();
    put_status(response.headers_mut(), status);
    let _ = respond.send_response(response, true);
}

/// Rejects a request that is not gRPC at all.
pub(crate) fn reject(respond: &mut SendResponse<Unsent>, code: StatusCode) {
    let mut response = Response::new(());
    *response.status_mut() = code;
    let _ = respond.send_response(response, true);
}

fn head() -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn success() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(&GRPC_STATUS, HeaderValue::from_static("0"));
    trailers
}

fn put_status(headers: &mut HeaderMap, status: &Status) {
    headers.insert(&GRPC_STATUS, status.code.header());
    headers.insert(&GRPC_MESSAGE, status.header_message());
    if status.code == Code::Unimplemented {
        headers.insert(&GRPC_ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
}

/// The answer of a call that streams: messages go out no faster than the peer takes them.
pub(crate) struct Outgoing {
    respond: SendResponse<Unsent>,
    stream: Option<SendStream<Unsent>>,
    calls: Arc<ConnectionCalls>,
}

/// The peer has reset the call or gone away.
pub(crate) struct Gone;

impl From<h2::Error> for Gone {
    fn from(_: h2::Error) -> Self {
        Self
    }
}

impl Outgoing {
    pub(crate) fn new(respond: SendResponse<Unsent>, calls: Arc<ConnectionCalls>) -> Self {
        Self { respond, stream: None, calls }
    }

    /// Sends `message`; returns when the peer has room for all of it.
    pub(crate) async fn send(&mut self, message: &impl Message) -> Result<(), Gone> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(self.respond.send_response(head(), false)?),
        };
        let mut rest = framed(message);
        while !rest.is_empty() {
            stream.reserve_capacity(rest.len());
            let room = poll_fn(|cx| stream.poll_capacity(cx)).await.ok_or(Gone)??;
            stream.send_data(Unsent::new(rest.split_to(room.min(rest.len())), &self.calls), false)?;
        }
        Ok(())
    }

    /// Ends the call.
    pub(crate) fn finish(mut self, result: Result<(), Status>) {
        match (&mut self.stream, result) {
            (None, Err(status)) => fail(&mut self.respond, &status),
            (None, Ok(())) => {
                let mut response = head();
                response.headers_mut().extend(success());
                let _ = self.respond.send_response(response, true);
            }
            (Some(stream), result) => {
                let mut trailers = success();
                if let Err(status) = result {
                    put_status(&mut trailers, &status);
                }
                let _ = stream.send_trailers(trailers);
            }
        }
    }

    /// Returns when the peer has reset the call.
    pub(crate) async fn gone(&mut self) {
        let _ = match &mut self.stream {
            Some(stream) => poll_fn(|cx| stream.poll_reset(cx)).await,
            None => poll_fn(|cx| self.respond.poll_reset(cx)).await,
        };
    }
}
