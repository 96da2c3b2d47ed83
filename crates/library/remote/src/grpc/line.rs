//! One HTTP/2 connection, and the calls on it. Not here: when another connection is made.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{Ping, PingPong, Reason};
use http::{HeaderMap, Request, StatusCode};
use percent_encoding::percent_decode_str;

use crate::connect::{Connector, MAX_WAITING};

/// Calls in flight until the service says how many there may be.
const UNTIL_TOLD: usize = 32;
/// Bytes that HTTP/2 counts for a small frame that has arrived: replies of all calls may arrive at once.
const SMALL_FRAME: usize = 256;
/// Longest reply, in bytes.
const MAX_REPLY: usize = 64 << 10;
/// While calls wait and no reply arrives, the service is pinged at this interval, and has the same time to
/// reply.
const PING: Duration = Duration::from_secs(1);

/// End of a call without a reply.
#[derive(Debug)]
pub(super) enum CallEnd {
    /// It never reached the service, or the service says that it has not begun it.
    Unprocessed(String),
    /// The connection broke, or the reply is invalid.
    Lost(String),
    /// The service returned a status of gRPC.
    Status { code: u32, message: String },
}

#[derive(Debug)]
pub(super) struct Http2Connection {
    send: SendRequest<Bytes>,
    replies: AtomicU64,
    in_flight: AtomicUsize,
}

/// A call that waits for its reply.
struct InFlight<'a>(&'a AtomicUsize);

impl<'a> InFlight<'a> {
    fn new(calls: &'a AtomicUsize) -> Self {
        calls.fetch_add(1, Relaxed);
        Self(calls)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Http2Connection {
    /// A new connection, which a task drives until the last caller drops it.
    pub(super) async fn connect(connector: &Connector) -> Result<Arc<Self>, String> {
        let io = connector.open().await?;
        let handshake = h2::client::Builder::new()
            .enable_push(false)
            .initial_max_send_streams(UNTIL_TOLD)
            .data_frame_budget(MAX_WAITING * SMALL_FRAME)
            .handshake(io);
        let (send, mut connection) = handshake.await.map_err(|error| error.to_string())?;
        let pings = connection.ping_pong();
        let line = Arc::new(Self { send, replies: AtomicU64::new(0), in_flight: AtomicUsize::new(0) });
        let of = Arc::downgrade(&line);
        tokio::spawn(async move {
            tokio::select! {
                // Each call finds out by itself that the connection has ended.
                _ = connection => {}
                () = silence(of, pings) => {}
            }
        });
        Ok(line)
    }

    /// Number of replies so far.
    pub(super) fn replies(&self) -> u64 {
        self.replies.load(Relaxed)
    }

    /// Makes one call; returns the body of its reply. `sent` is called when permits may be taken from now on.
    pub(super) async fn call(
        &self,
        connector: &Connector,
        path: &str,
        message: Bytes,
        within: Duration,
        sent: impl FnOnce(),
    ) -> Result<Bytes, CallEnd> {
        let head = head(connector, path, within).map_err(|error| CallEnd::Unprocessed(error.to_string()))?;
        let mut send = self.send.clone().ready().await.map_err(not_sent)?;
        let (response, mut body) = send.send_request(head, false).map_err(not_sent)?;
        let _in_flight = InFlight::new(&self.in_flight);
        // Ready when the service has room for this call. A call without its message counts nothing, so the
        // message stays here until then.
        drop(send.ready().await.map_err(not_sent)?);
        sent();
        body.send_data(message, true).map_err(not_sent)?;
        let reply = read(response).await;
        self.replies.fetch_add(u64::from(!matches!(reply, Err(CallEnd::Lost(_)))), Relaxed);
        reply
    }
}

/// Returns when a service that has calls to answer does not answer a ping either.
async fn silence(line: Weak<Http2Connection>, mut pings: Option<PingPong>) {
    let mut seen = 0;
    loop {
        tokio::time::sleep(PING).await;
        let Some(pings) = &mut pings else { return std::future::pending().await };
        let Some((replies, in_flight)) =
            line.upgrade().map(|line| (line.replies(), line.in_flight.load(Relaxed)))
        else {
            return std::future::pending().await;
        };
        if in_flight > 0
            && replies == seen
            && tokio::time::timeout(PING, pings.ping(Ping::opaque())).await.is_err()
        {
            return;
        }
        seen = replies;
    }
}

fn head(connector: &Connector, path: &str, within: Duration) -> Result<Request<()>, http::Error> {
    // Eight digits at most; less than a millisecond is not zero.
    let timeout = within.as_millis().clamp(1, 99_999_999);
    Request::post(format!("{}://{}{path}", connector.scheme(), connector.authority))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", format!("{timeout}m"))
        .body(())
}

async fn read(response: ResponseFuture) -> Result<Bytes, CallEnd> {
    let response = response.await.map_err(ended)?;
    let status = response.status();
    if status != StatusCode::OK {
        return Err(CallEnd::Lost(format!("HTTP status {}: not a gRPC service", status.as_u16())));
    }
    if let Some(ended) = grpc_status(response.headers()) {
        return Err(ended);
    }
    let mut body = response.into_body();
    let mut held = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(ended)?;
        if held.len() + chunk.len() > MAX_REPLY {
            return Err(CallEnd::Lost(format!("the reply is longer than {MAX_REPLY} bytes")));
        }
        body.flow_control().release_capacity(chunk.len()).map_err(ended)?;
        held.extend_from_slice(&chunk);
    }
    match body.trailers().await.map_err(ended)?.as_ref().and_then(grpc_status) {
        Some(CallEnd::Status { code: 0, .. }) => Ok(held.freeze()),
        Some(ended) => Err(ended),
        None => Err(CallEnd::Lost("the reply has no status".to_owned())),
    }
}

fn grpc_status(headers: &HeaderMap) -> Option<CallEnd> {
    let code = headers.get("grpc-status")?.to_str().ok().and_then(|code| code.parse().ok());
    let Some(code) = code else { return Some(CallEnd::Lost("the reply has an invalid status".to_owned())) };
    let message = headers.get("grpc-message").and_then(|message| message.to_str().ok()).unwrap_or_default();
    Some(CallEnd::Status { code, message: percent_decode_str(message).decode_utf8_lossy().into_owned() })
}

fn not_sent(error: h2::Error) -> CallEnd {
    CallEnd::Unprocessed(error.to_string())
}

/// A service that shuts down, or has no room, reports the calls that it has not begun.
fn ended(error: h2::Error) -> CallEnd {
    let is_unprocessed = error.is_remote()
        && (error.is_go_away() && error.reason() == Some(Reason::NO_ERROR)
            || error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM));
    if is_unprocessed { CallEnd::Unprocessed(error.to_string()) } else { CallEnd::Lost(error.to_string()) }
}
