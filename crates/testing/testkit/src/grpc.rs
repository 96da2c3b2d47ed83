//! A gRPC client by hand: calls on one HTTP/2 connection, and how each ends.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The path of Envoy's rate limit service.
pub const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Calls in flight on a connection of [`call_until_closed`].
const IN_FLIGHT: usize = 16;

/// The header of a call as gRPC wants it.
pub fn call(path: &str) -> http::request::Builder {
    http::Request::post(format!("http://tollgate{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
}

/// Calls [`SHOULD_RATE_LIMIT`] with a message that has its prefix.
///
/// # Errors
/// When the connection takes no more calls.
///
/// # Panics
/// Never: the header is valid.
pub fn ask(send: &mut SendRequest<Bytes>, message: &Bytes) -> Result<ResponseFuture, h2::Error> {
    let head = call(SHOULD_RATE_LIMIT).body(()).expect("a header");
    let (response, mut out) = send.send_request(head, false)?;
    out.send_data(message.clone(), true)?;
    Ok(response)
}

/// HTTP status and gRPC status of a call, wherever the latter is; -1 without one.
///
/// # Errors
/// When the call ended otherwise.
///
/// # Panics
/// When the gRPC status is not a number.
pub async fn outcome(response: ResponseFuture) -> Result<(u16, i32), h2::Error> {
    let response = response.await?;
    let code = response.status().as_u16();
    let status = |headers: &http::HeaderMap| {
        headers.get("grpc-status").map(|status| status.to_str().expect("digits").parse().expect("a number"))
    };
    if let Some(status) = status(response.headers()) {
        return Ok((code, status));
    }
    let mut body = response.into_body();
    while let Some(chunk) = body.data().await {
        let length = chunk?.len();
        body.flow_control().release_capacity(length)?;
    }
    Ok((code, body.trailers().await?.as_ref().and_then(status).unwrap_or(-1)))
}

/// Counts of all clients of [`call_until_closed`] together.
#[derive(Debug, Default)]
pub struct Called {
    /// Calls that were answered.
    pub answered: AtomicU64,
    /// Connections that were made.
    pub connections: AtomicU64,
}

/// Calls on one connection after another, sixteen at once, until the server no longer listens. Returns how
/// often it connected.
///
/// # Errors
/// When a call that was sent had no answer, and the server did not say that it had not begun it.
///
/// # Panics
/// When a call has another status than 0.
pub async fn call_until_closed(to: SocketAddr, message: Bytes, called: Arc<Called>) -> Result<u32, String> {
    let mut connections = 0;
    while let Ok(stream) = TcpStream::connect(to).await {
        let Ok((mut send, connection)) = h2::client::handshake(stream).await else { break };
        let ended = tokio::spawn(connection);
        connections += 1;
        called.connections.fetch_add(1, Relaxed);
        let mut calls = JoinSet::new();
        let mut is_served = false;
        loop {
            // An error here is one of a call that was not sent.
            let is_open = poll_fn(|cx| send.poll_ready(cx)).await.is_ok();
            let sent = if is_open { ask(&mut send, &message).ok() } else { None };
            let is_last = sent.is_none();
            if let Some(response) = sent {
                calls.spawn(outcome(response));
            }
            while calls.len() >= IN_FLIGHT || is_last && !calls.is_empty() {
                match calls.join_next().await.expect("some").expect("no panic") {
                    Ok(status) => assert_eq!(status, (200, 0)),
                    // The server says that it has not begun this one: it crossed the announcement on its way.
                    Err(error) if error.is_go_away() && error.is_remote() => continue,
                    // It was still waiting to be accepted when the server stopped listening.
                    Err(error) if error.is_io() && !is_served => return Ok(connections),
                    Err(error) => return Err(format!("a call was lost: {error}")),
                }
                is_served = true;
                called.answered.fetch_add(1, Relaxed);
            }
            if is_last {
                break;
            }
        }
        drop(send);
        ended.await.expect("no panic").map_err(|error| format!("a connection broke: {error}"))?;
    }
    Ok(connections)
}
