//! A surface on a socket of one worker, whatever the surface's type.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;
use tollgate_net::{AcceptLimits, ConnectionStats, Listener, Socket, Surface, Tls, accept};

/// Runs until its socket is closed.
pub(crate) type Accepting = Pin<Box<dyn Future<Output = ()> + Send>>;

type Accept = dyn FnOnce(Listener, ListenerOptions, watch::Receiver<bool>) -> Accepting + Send;

/// Accepts connections for a surface.
pub(crate) struct Acceptor(Box<Accept>);

/// Options shared by the sockets of one surface.
#[derive(Clone, Debug)]
pub(crate) struct ListenerOptions {
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) limits: Arc<AcceptLimits>,
    pub(crate) stats: Arc<ConnectionStats>,
}

/// A surface bound to a socket, not accepting yet.
#[derive(Debug)]
pub(crate) struct BoundSurface {
    acceptor: Acceptor,
    socket: Socket,
    options: ListenerOptions,
}

impl Acceptor {
    /// Accepts connections for `surface`.
    pub(crate) fn of<S: Surface>(surface: Arc<S>) -> Self {
        Self(Box::new(move |socket, options, drain| {
            let ListenerOptions { tls, limits, stats } = options;
            Box::pin(accept(socket, surface, tls, limits, stats, drain))
        }))
    }

    /// Accepts connections of `socket`.
    pub(crate) fn bind(self, socket: Socket, options: ListenerOptions) -> BoundSurface {
        BoundSurface { acceptor: self, socket, options }
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

impl BoundSurface {
    /// Accepts connections on the current runtime until `drain` becomes true.
    ///
    /// # Errors
    /// When the runtime cannot use the socket.
    pub(crate) fn accept(self, drain: watch::Receiver<bool>) -> io::Result<Accepting> {
        let Self { acceptor: Acceptor(accept), socket, options } = self;
        Ok(accept(socket.listen()?, options, drain))
    }
}
