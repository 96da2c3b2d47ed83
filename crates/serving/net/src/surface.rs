//! The interface between the accept loop and a transport. Not here: any transport.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// `None` where connections have no address.
    pub address: Option<SocketAddr>,
    /// It has shown a certificate that the client CA of the listener has signed.
    pub is_certified: bool,
}

/// Serves a protocol on connections from the accept loop.
///
/// # Example
/// ```
/// # use std::sync::Arc;
/// # use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
/// # use tokio::sync::watch;
/// use tollgate_net::Surface;
///
/// /// Says how many bytes came before the end.
/// struct Counter;
///
/// impl Surface for Counter {
///     async fn serve<IO>(self: Arc<Self>, mut io: IO, _drain: watch::Receiver<bool>)
///     where
///         IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
///     {
///         let mut bytes = Vec::new();
///         if io.read_to_end(&mut bytes).await.is_ok() {
///             let _ = io.write_all(bytes.len().to_string().as_bytes()).await;
///         }
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let (mut ours, theirs) = tokio::io::duplex(64);
/// ours.write_all(b"four").await.unwrap();
/// ours.shutdown().await.unwrap();
/// Arc::new(Counter).serve(theirs, watch::channel(false).1).await;
/// let mut said = String::new();
/// ours.read_to_string(&mut said).await.unwrap();
/// assert_eq!(said, "4");
/// # });
/// ```
pub trait Surface: Send + Sync + 'static {
    /// Serves one connection until it ends. It is closed when `io` is dropped.
    ///
    /// When `drain` turns true, requests in flight are finished and the connection ends, in a bounded time. A
    /// `drain` without a sender never turns; see [`draining`](crate::draining) and
    /// [`DrainWatch`](crate::DrainWatch). Bounds on what a peer can make grow, and on
    /// how long it can be silent, are the surface's own; a panic costs this one connection.
    ///
    /// Flush written bytes before waiting for more: over TLS they may stay in a buffer until then. Shut `io`
    /// down to end it properly; over TLS the peer cannot otherwise distinguish an end from a cut.
    fn serve<IO>(self: Arc<Self>, io: IO, drain: watch::Receiver<bool>) -> impl Future<Output = ()> + Send
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Like [`serve`](Self::serve), for a connection whose client is at `peer`, if it has an address. For
    /// surfaces that distinguish clients by address; the others need not implement it.
    fn serve_peer<IO>(
        self: Arc<Self>,
        io: IO,
        peer: Option<IpAddr>,
        drain: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let _ = peer;
        self.serve(io, drain)
    }

    /// Like [`serve_peer`](Self::serve_peer), for surfaces that distinguish clients with a certificate.
    fn serve_client<IO>(
        self: Arc<Self>,
        io: IO,
        client: Peer,
        drain: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.serve_peer(io, client.address.map(|address| address.ip()), drain)
    }
}
