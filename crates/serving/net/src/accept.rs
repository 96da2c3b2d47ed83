//! Accepts connections and serves each in a task of its own, within the listener's limits.
//!
//! Made for one single-threaded runtime a core, each with its own listener on the same address
//! (`SO_REUSEPORT`): the kernel shares connections out, and nothing crosses from one core to another. Loops
//! on one Unix socket take connections off one queue.
//!
//! Handshakes in flight have no cap of their own, only that on connections: a peer that is slow in the
//! handshake holds a place for [`AcceptLimits::handshake_timeout`] at the longest, and a lower cap for
//! handshakes would only make it easier to keep others out.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use crate::connection_stats::ConnectionStats;
use crate::drain::draining;
use crate::socket::{Listener, Stream};
use crate::surface::{Peer, Surface};
use crate::tls::Tls;

/// Pause of accepting when the process or the machine is out of resources.
const PAUSE: Duration = Duration::from_millis(100);

/// The time for handshakes to finish once the drain has begun: the peer may already have sent a request.
const LAST_HANDSHAKES: Duration = Duration::from_secs(1);

/// The time for TCP handshakes to finish once no more begin: above the round trip to most clients.
const LAST_CONNECTIONS: Duration = Duration::from_millis(200);

/// Bounds of one accept loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptLimits {
    /// Concurrent connections of one accept loop, and of all that share the queue of a Unix socket; further
    /// ones are closed at once and counted.
    pub max_connections: usize,
    /// From the accepted connection to the end of its TLS handshake.
    pub handshake_timeout: Duration,
}

impl Default for AcceptLimits {
    fn default() -> Self {
        Self { max_connections: 10_000, handshake_timeout: Duration::from_secs(10) }
    }
}

/// Serves the connections of `listener` until `drain` turns true, then lets each connection finish.
///
/// With `tls`, a connection reaches the surface after its handshake; connections whose handshake fails are
/// closed and counted. A connection that is still in its handshake a second after the drain began is closed.
///
/// Returns when the last connection has ended; how long that may take is for the surface to bound. Dropping
/// the future cuts all connections off.
pub async fn accept<S: Surface>(
    listener: impl Into<Listener>,
    surface: Arc<S>,
    tls: Option<Arc<Tls>>,
    limits: Arc<AcceptLimits>,
    stats: Arc<ConnectionStats>,
    mut drain: watch::Receiver<bool>,
) {
    let listener = listener.into();
    let mut open = OpenConnections {
        surface,
        tls,
        shares_its_queue: listener.shares_its_queue(),
        limits,
        stats,
        drain: drain.clone(),
        connections: JoinSet::new(),
    };
    let mut is_failing = false;
    let mut ending = Box::pin(async {
        draining(&mut drain).await;
        if listener.begins_no_handshake() {
            sleep(LAST_CONNECTIONS).await;
        }
    });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(ended) = open.connections.join_next() => {
                report(ended);
                continue;
            }
            () = &mut ending => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                if !is_failing {
                    tracing::warn!(%error, "cannot accept connections; retrying");
                }
                is_failing = true;
                sleep(PAUSE).await;
                continue;
            }
        };
        if is_failing {
            tracing::info!("accepting connections again");
            is_failing = false;
        }
        // Connections that have ended free their places here, at the latest.
        while let Some(ended) = open.connections.try_join_next() {
            report(ended);
        }
        open.accepted(stream, peer);
    }
    drop(ending);
    // Clients whose connections still wait to be accepted count on them: closing would reset them.
    for (stream, peer) in listener.backlog() {
        open.accepted(stream, peer);
    }
    while let Some(ended) = open.connections.join_next().await {
        report(ended);
    }
}

/// The open connections of a listener.
struct OpenConnections<S> {
    surface: Arc<S>,
    tls: Option<Arc<Tls>>,
    /// Other loops accept from the same queue, with the same counts.
    shares_its_queue: bool,
    limits: Arc<AcceptLimits>,
    stats: Arc<ConnectionStats>,
    /// Until when they are served.
    drain: watch::Receiver<bool>,
    connections: JoinSet<()>,
}

impl<S: Surface> OpenConnections<S> {
    /// Serves a connection, unless there are too many.
    fn accepted(&mut self, stream: Stream, peer: Option<SocketAddr>) {
        self.stats.accepted.increment();
        if self.is_full() {
            self.stats.rejected.increment();
        } else {
            self.serve(stream, peer);
        }
    }

    fn is_full(&self) -> bool {
        if self.shares_its_queue {
            // This connection is one of those that are open.
            self.stats.open() > self.limits.max_connections as u64
        } else {
            self.connections.len() >= self.limits.max_connections
        }
    }

    fn serve(&mut self, stream: Stream, peer: Option<SocketAddr>) {
        let place = ConnectionGuard(Arc::clone(&self.stats));
        let surface = Arc::clone(&self.surface);
        let drain = self.drain.clone();
        match &self.tls {
            None => self.connections.spawn(async move {
                let _place = place;
                surface.serve_client(stream, Peer { address: peer, is_certified: false }, drain).await;
            }),
            Some(tls) => {
                let tls = Arc::clone(tls);
                let within = self.limits.handshake_timeout;
                self.connections.spawn(async move {
                    if let Some(stream) = encrypted(&tls, stream, peer, within, &place.0, drain.clone()).await
                    {
                        let is_certified = stream.get_ref().1.peer_certificates().is_some();
                        let client = Peer { address: peer, is_certified };
                        surface.serve_client(stream, client, drain).await;
                    }
                    drop(place);
                })
            }
        };
    }
}

/// The connection's stream once both sides have said that they can read each other.
async fn encrypted(
    tls: &Tls,
    stream: Stream,
    peer: Option<SocketAddr>,
    within: Duration,
    stats: &ConnectionStats,
    mut drain: watch::Receiver<bool>,
) -> Option<tokio_rustls::server::TlsStream<Stream>> {
    let handshake = tokio::select! {
        handshake = timeout(within, tls.acceptor().accept(stream)) => handshake,
        () = async {
            draining(&mut drain).await;
            sleep(LAST_HANDSHAKES).await;
        } => return None,
    };
    let peer = peer.map(tracing::field::display);
    match handshake {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(peer, %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(peer, ?within, "TLS handshake timed out"),
    }
    stats.tls_failed.increment();
    None
}

/// A connection's place among those that are open: given back when it has ended, also by a panic.
struct ConnectionGuard(Arc<ConnectionStats>);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.closed.increment();
    }
}

fn report(ended: Result<(), JoinError>) {
    if ended.is_err() {
        tracing::error!("a connection's task panicked; other connections are unaffected");
    }
}

/// Faults of a connection that was gone before it was accepted; the next one is fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}
