//! Accepts connections and serves each in a task of its own, within the listener's limits.
//!
//! Made for one single-threaded runtime a core, each with its own listener on the same address (`SO_REUSEPORT`): the
//! kernel shares connections out, and no call crosses from one core to another.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate_store::Store;

use crate::connection::serve_connection;
use crate::service::RateLimitService;

/// How long accepting pauses when the process or the machine has no room for another connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves `listener` until `drain` turns true, then lets the calls under way finish.
///
/// Connections above [`Limits::max_connections`](crate::Limits::max_connections) are closed at once; see
/// [`RateLimitService::figures`].
///
/// Returns when the last connection has ended, at the latest [`Limits::drain_timeout`](crate::Limits::drain_timeout)
/// after the drain began.
pub async fn serve<S: Store, L: Store>(
    listener: TcpListener,
    service: Arc<RateLimitService<S, L>>,
    mut drain: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(ended) = connections.join_next() => {
                if ended.is_err() {
                    tracing::error!("a connection's task panicked; the others go on");
                }
                continue;
            }
            Ok(_) = drain.wait_for(|&drain| drain) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections; trying again");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let figures = &service.figures;
        figures.accepted.increment();
        if connections.len() >= service.limits.max_connections {
            figures.refused.increment();
            continue;
        }
        // Without it a reply could wait for the peer's acknowledgement; if it fails, the connection is gone.
        let _ = stream.set_nodelay(true);
        let (service, drain) = (Arc::clone(&service), drain.clone());
        connections.spawn(async move {
            if let Err(error) = serve_connection(Arc::clone(&service), stream, drain).await {
                tracing::debug!(%error, "a connection did not end well");
            }
            service.figures.closed.increment();
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Faults of a connection that was gone before it was accepted; the next one is fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}
