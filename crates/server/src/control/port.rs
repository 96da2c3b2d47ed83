//! The one port: browsers and programs by HTTP/1.1, nodes by HTTP/2. The first bytes of a
//! connection show which it is, since those of HTTP/2 are always the same.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;
use tollgate_fleet_hub::{FleetService, PeerAddress};
use tollgate_http_kit::HttpSurface;
use tollgate_net::{Peer, Surface, draining};
use tollgate_shares::{Place, Places, Room, machine};
use tower_service::Service as _;

use super::api::PlaneApi;
use super::rewound::Rewound;

/// With this begins every connection of HTTP/2 (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Timeout of a client's first bytes.
const FIRST_BYTES: Duration = Duration::from_secs(10);
/// Longest time for a connection of HTTP/2 to open the stream of a node.
const FIRST_ATTACH: Duration = Duration::from_secs(10);
/// Streams of one connection: a node has one, and a second one for a moment when it attaches again.
const MOST_STREAMS: u32 = 4;
/// Interval of pings on a silent connection.
const ALIVE: Duration = Duration::from_secs(20);

/// Surfaces of the port and their bounds.
pub(crate) struct Port {
    /// Pages, API, metrics.
    pub(crate) http: Arc<HttpSurface<PlaneApi>>,
    /// The gRPC service for nodes.
    pub(crate) nodes: FleetService,
    /// Nodes must have shown a certificate.
    pub(crate) needs_certificate: bool,
    /// Connections, of which a machine has a share. Those of nodes that have attached have places there.
    pub(crate) connections: Arc<Places>,
}

/// Connections besides those of nodes: fewer than the accept loop serves.
pub(crate) const MOST_CONNECTIONS: u64 = 9_000;

impl Surface for Port {
    fn serve<IO>(self: Arc<Self>, io: IO, drain: watch::Receiver<bool>) -> impl Future<Output = ()> + Send
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.serve_client(io, Peer::default(), drain)
    }

    async fn serve_client<IO>(self: Arc<Self>, io: IO, client: Peer, mut drain: watch::Receiver<bool>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let from = client.address.map_or_else(String::new, |address| machine(&address.to_string()));
        let Ok(place) = self.connections.take(&[(&from, 1)], Room::PLACE, false) else {
            return tracing::debug!(from, "a connection was closed: its address has its share of them");
        };
        let first = timeout(FIRST_BYTES, Rewound::until_it_differs(io, PREFACE));
        let first = tokio::select! {
            first = first => first,
            () = draining(&mut drain) => return,
        };
        match first {
            Ok(Ok((io, true))) => self.serve_node(io, client, place, drain).await,
            Ok(Ok((io, false))) => {
                let peer = client.address.map(|address| address.ip());
                Arc::clone(&self.http).serve_peer(io, peer, drain).await;
            }
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

impl Port {
    /// Serves the stream of a node. It has no end of its own, so a drain cuts it off: nodes connect anew.
    async fn serve_node<IO>(&self, io: IO, client: Peer, place: Place, mut drain: watch::Receiver<bool>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if self.needs_certificate && !client.is_certified {
            let address = client.address.map(|address| address.to_string());
            return tracing::warn!(
                address,
                "a node without a certificate of the node-client-ca was rejected"
            );
        }
        let nodes = self.nodes.clone();
        let (attached, mut has_attached) = watch::channel(false);
        let mut place = Some(place);
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            if let Some(address) = client.address {
                request.extensions_mut().insert(PeerAddress(canonical(address)));
            }
            let answer = nodes.clone().call(request);
            let attached = attached.clone();
            async move {
                let answer = answer.await?;
                // A call that is rejected has its status in the head.
                if !answer.headers().contains_key("grpc-status") {
                    attached.send_replace(true);
                }
                Ok::<_, std::convert::Infallible>(answer)
            }
        });
        // Without a token that is good, a connection is not kept, however often it answers to pings.
        let in_vain = async move {
            if timeout(FIRST_ATTACH, has_attached.wait_for(|it| *it)).await.is_ok() {
                place.take(); // from now on it has one among the streams
                std::future::pending::<()>().await;
            }
        };
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(MOST_STREAMS)
            .max_header_list_size(16 * 1024)
            .keep_alive_interval(ALIVE)
            .keep_alive_timeout(ALIVE)
            .serve_connection(TokioIo::new(io), service);
        tokio::select! {
            ended = connection => if let Err(error) = ended {
                tracing::debug!(%error, "the connection of a node ended");
            },
            () = in_vain => tracing::debug!("a connection without the stream of a node was closed"),
            () = draining(&mut drain) => {}
        }
    }
}

/// An IPv4 address as one, also when it came over a socket of both families.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
