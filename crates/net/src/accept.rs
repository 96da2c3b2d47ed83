//! Accepts connections and serves each in a task of its own, within the listener's limits.
//!
//! Made for one single-threaded runtime a core, each with its own listener on the same address
//! (`SO_REUSEPORT`): the kernel shares connections out, and nothing crosses from one core to another.
//!
//! Handshakes in flight have no cap of their own, only that on connections: a peer that is slow in the
//! handshake holds a place for [`AcceptLimits::handshake_timeout`] at the longest, and a lower cap for
//! handshakes would only make it easier to keep others out.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use crate::connection_stats::ConnectionStats;
use crate::surface::{Surface, draining};
use crate::tls::Tls;

/// How long accepting pauses when the process or the machine is out of resources.
const PAUSE: Duration = Duration::from_millis(100);

/// The time for handshakes to finish once the drain has begun: the peer may already have sent a request.
const LAST_HANDSHAKES: Duration = Duration::from_secs(1);

/// The time for TCP handshakes to finish once no more begin: above the round trip to most clients.
const LAST_CONNECTIONS: Duration = Duration::from_millis(200);

/// Bounds of one accept loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptLimits {
    /// Concurrent connections of one accept loop; further ones are closed at once and counted.
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
/// With `tls`, a connection reaches the surface when its handshake is through; the others are closed and
/// counted. One that is still in its handshake a second after the drain began is closed.
///
/// Returns when the last connection has ended; how long that may take is for the surface to bound. Dropping
/// the future cuts all connections off.
pub async fn accept<S: Surface>(
    listener: TcpListener,
    surface: Arc<S>,
    tls: Option<Arc<Tls>>,
    limits: Arc<AcceptLimits>,
    stats: Arc<ConnectionStats>,
    mut drain: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let mut is_failing = false;
    let served_until = drain.clone();
    let serve = |connections: &mut JoinSet<()>, stream: TcpStream, peer: SocketAddr| {
        // Without it a reply could wait for the peer's acknowledgement; if it fails, the connection is gone.
        let _ = stream.set_nodelay(true);
        let place = Place(Arc::clone(&stats));
        let (surface, drain) = (Arc::clone(&surface), served_until.clone());
        match &tls {
            None => connections.spawn(async move {
                let _place = place;
                surface.serve_peer(stream, Some(peer.ip()), drain).await;
            }),
            Some(tls) => {
                let (tls, within) = (Arc::clone(tls), limits.handshake_timeout);
                connections.spawn(async move {
                    if let Some(stream) = encrypted(&tls, stream, peer, within, &place.0, drain.clone()).await
                    {
                        surface.serve_peer(stream, Some(peer.ip()), drain).await;
                    }
                    drop(place);
                })
            }
        };
    };
    let mut ending = Box::pin(async {
        draining(&mut drain).await;
        if begins_no_handshake(&listener) {
            sleep(LAST_CONNECTIONS).await;
        }
    });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(ended) = connections.join_next() => {
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
        stats.accepted.increment();
        // Connections that have ended free their places here, at the latest.
        while let Some(ended) = connections.try_join_next() {
            report(ended);
        }
        if connections.len() >= limits.max_connections {
            stats.rejected.increment();
            continue;
        }
        serve(&mut connections, stream, peer);
    }
    drop(ending);
    // Clients whose connections still wait to be accepted count on them: closing would reset them.
    for (stream, peer) in backlog(listener) {
        stats.accepted.increment();
        if connections.len() >= limits.max_connections {
            stats.rejected.increment();
            continue;
        }
        serve(&mut connections, stream, peer);
    }
    while let Some(ended) = connections.join_next().await {
        report(ended);
    }
}

/// Lets the kernel drop each packet that would begin a handshake. A connection that is made between the last
/// accept and the close would be reset, and its client may have sent a request. One that tries now is refused
/// when it tries again, a second later. Returns false where the system cannot do it.
#[cfg(target_os = "linux")]
fn begins_no_handshake(listener: &TcpListener) -> bool {
    use socket2::{SockFilter, SockRef};
    let filter = [
        SockFilter::new(0x30, 0, 0, 13),   // load the byte of flags of the TCP header
        SockFilter::new(0x45, 0, 1, 0x02), // unless SYN is set, skip one
        SockFilter::new(0x06, 0, 0, 0),    // drop
        SockFilter::new(0x06, 0, 0, u32::MAX), // take
    ];
    SockRef::from(listener).attach_filter(&filter).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn begins_no_handshake(_: &TcpListener) -> bool {
    false
}

/// The connections that wait to be accepted. Closes the listener.
fn backlog(listener: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let mut waiting = Vec::new();
    let Ok(listener) = listener.into_std() else { return waiting };
    while let Ok((stream, peer)) = listener.accept() {
        let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
        waiting.extend(stream.map(|stream| (stream, peer)));
    }
    waiting
}

/// The connection's stream once both sides have said that they can read each other.
async fn encrypted(
    tls: &Tls,
    stream: TcpStream,
    peer: SocketAddr,
    within: Duration,
    stats: &ConnectionStats,
    mut drain: watch::Receiver<bool>,
) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
    let handshake = tokio::select! {
        handshake = timeout(within, tls.acceptor().accept(stream)) => handshake,
        () = async {
            draining(&mut drain).await;
            sleep(LAST_HANDSHAKES).await;
        } => return None,
    };
    match handshake {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(%peer, ?within, "TLS handshake timed out"),
    }
    stats.tls_failed.increment();
    None
}

/// A connection's place among those that are open: given back when it has ended, also by a panic.
struct Place(Arc<ConnectionStats>);

impl Drop for Place {
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn once_no_handshake_begins_what_was_connected_is_accepted_and_nobody_else_connects() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let to = listener.local_addr().expect("bound");
        let connect = || std::net::TcpStream::connect_timeout(&to, Duration::from_millis(50));
        let _first = connect().expect("the kernel takes it");
        assert!(begins_no_handshake(&listener));
        assert_eq!(connect().expect_err("dropped").kind(), io::ErrorKind::TimedOut);
        assert_eq!(backlog(listener).len(), 1);
        assert_eq!(connect().expect_err("closed").kind(), io::ErrorKind::ConnectionRefused);
    }
}
