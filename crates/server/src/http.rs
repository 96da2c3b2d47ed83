//! The HTTP port: connections, their bounds, and their end. Knows nothing of what is asked; see [`routes`].
//!
//! Bounded are the connections, the time to send a header, and what a route reads of a body. At a drain each
//! connection finishes the request that it is in and closes.

pub mod routes;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::observe::Connections;

/// How long a client may take to send a header, or to send nothing between two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// After an accept that failed for want of file descriptors or memory.
const BREATHER: Duration = Duration::from_millis(50);

/// What a route answers.
pub type Answer = Response<Full<Bytes>>;

/// Answers requests one at a time on each connection.
pub trait Handler: Send + Sync + 'static {
    /// Answers `request`.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

/// Accepts on `listener` until `closing` says true, then lets each connection finish its request.
///
/// Returns when the last connection is closed.
pub async fn serve(
    listener: TcpListener,
    handler: Arc<impl Handler>,
    max_connections: usize,
    connections: Arc<Connections>,
    mut closing: watch::Receiver<bool>,
) {
    let permits = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
    let all = u32::try_from(max_connections).unwrap_or(u32::MAX);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closed(&mut closing) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "accepting on the HTTP port failed");
                tokio::time::sleep(BREATHER).await;
                continue;
            }
        };
        connections.accepted.fetch_add(1, Ordering::Relaxed);
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            connections.refused.fetch_add(1, Ordering::Relaxed);
            continue; // full: this one is closed, the others are served
        };
        let connection = connection(stream, Arc::clone(&handler), closing.clone());
        let ended = Ended { permit, connections: Arc::clone(&connections) };
        tokio::spawn(async move {
            connection.await;
            drop(ended);
        });
    }
    drop(listener);
    drop(permits.acquire_many(all).await);
}

/// Gives a connection's place back when it has ended, also by a panic.
struct Ended {
    #[expect(dead_code, reason = "held, and given back when dropped")]
    permit: OwnedSemaphorePermit,
    connections: Arc<Connections>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.connections.closed.fetch_add(1, Ordering::Relaxed);
    }
}

async fn connection(stream: TcpStream, handler: Arc<impl Handler>, mut closing: watch::Receiver<bool>) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let service = service_fn(move |request| {
        let handler = Arc::clone(&handler);
        async move { Ok::<_, Infallible>(handler.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = closed(&mut closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended early");
    }
}

/// Ends when `closing` says true, or when nobody can say so any more.
async fn closed(closing: &mut watch::Receiver<bool>) {
    drop(closing.wait_for(|closing| *closing).await);
}
