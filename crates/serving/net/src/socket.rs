//! A listening socket and a connection, over TCP or over a Unix socket. The rest of the crate does not know
//! which it is. Not here: how an address becomes sockets (`listeners`).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::socket_file::SocketFile;

/// Where a surface listens. Displayed as `host:port` or `unix:/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Whether only this machine can connect.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket that listens, not yet on a runtime.
#[derive(Debug)]
pub enum Socket {
    /// On a TCP port that other sockets may share; the system deals connections out among them.
    Tcp(std::net::TcpListener),
    /// On a Unix socket. Several of them share one queue: the first that asks gets the next connection. The
    /// file comes first, so that it is removed before the socket is closed.
    Unix(Arc<SocketFile>, std::os::unix::net::UnixListener),
}

impl Socket {
    /// Puts it on the current runtime.
    ///
    /// # Errors
    /// When the runtime cannot use it.
    pub fn listen(self) -> io::Result<Listener> {
        Ok(match self {
            Self::Tcp(socket) => Listener::Tcp(TcpListener::from_std(socket)?),
            Self::Unix(file, socket) => Listener::Unix(file, UnixListener::from_std(socket)?),
        })
    }
}

/// A socket that listens, on a runtime.
#[derive(Debug)]
pub enum Listener {
    /// On a TCP port.
    Tcp(TcpListener),
    /// On a Unix socket, whose queue others may share.
    Unix(Arc<SocketFile>, UnixListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl Listener {
    /// The next connection, and where it comes from if that has an address.
    pub(crate) async fn accept(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Stream::tcp(stream), Some(peer)))
            }
            Self::Unix(_, listener) => Ok((Stream::Unix(listener.accept().await?.0), None)),
        }
    }

    /// The connections that wait to be accepted. Closes the listener; a Unix socket's file is removed first,
    /// so that no connection comes after the last one.
    pub(crate) fn backlog(self) -> Vec<(Stream, Option<SocketAddr>)> {
        let mut waiting = Vec::new();
        match self {
            Self::Tcp(listener) => {
                let Ok(listener) = listener.into_std() else { return waiting };
                while let Ok((stream, peer)) = listener.accept() {
                    let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
                    waiting.extend(stream.map(|stream| (Stream::tcp(stream), Some(peer))));
                }
            }
            Self::Unix(file, listener) => {
                file.remove();
                let Ok(listener) = listener.into_std() else { return waiting };
                while let Ok((stream, _)) = listener.accept() {
                    let stream = stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream));
                    waiting.extend(stream.map(|stream| (Stream::Unix(stream), None)));
                }
            }
        }
        waiting
    }

    /// Lets the kernel drop each packet that would begin a handshake. A connection that is made between the
    /// last accept and the close would be reset, and its client may have sent a request. A client that
    /// connects now fails when it tries again, a second later. Returns false where the system cannot do it.
    #[cfg(target_os = "linux")]
    pub(crate) fn begins_no_handshake(&self) -> bool {
        use socket2::{SockFilter, SockRef};
        // A Unix socket has no handshake: without its file, no connection begins.
        let Self::Tcp(listener) = self else { return false };
        let filter = [
            SockFilter::new(0x30, 0, 0, 13),   // load the byte of flags of the TCP header
            SockFilter::new(0x45, 0, 1, 0x02), // unless SYN is set, skip one
            SockFilter::new(0x06, 0, 0, 0),    // drop
            SockFilter::new(0x06, 0, 0, u32::MAX), // take
        ];
        SockRef::from(listener).attach_filter(&filter).is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn begins_no_handshake(&self) -> bool {
        false
    }

    /// Whether other sockets take connections off the same queue, so that each may get any number of them.
    pub(crate) const fn shares_its_queue(&self) -> bool {
        matches!(self, Self::Unix(..))
    }
}

/// An accepted connection.
#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    fn tcp(stream: TcpStream) -> Self {
        // Without it a reply could wait for the peer's acknowledgement; if it fails, the connection is gone.
        let _ = stream.set_nodelay(true);
        Self::Tcp(stream)
    }
}

/// Calls a method of the stream, whatever its kind.
macro_rules! of_either {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            Stream::Unix(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        of_either!(self.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        of_either!(self.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_either!(self.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_either!(self.poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        of_either!(self.poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true // both kinds
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn once_no_handshake_begins_what_was_connected_is_accepted_and_nobody_else_connects() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let to = listener.local_addr().expect("bound");
        let listener = Listener::from(listener);
        let connect = || std::net::TcpStream::connect_timeout(&to, Duration::from_millis(50));
        let _first = connect().expect("the kernel takes it");
        assert!(listener.begins_no_handshake());
        assert_eq!(connect().expect_err("dropped").kind(), io::ErrorKind::TimedOut);
        assert_eq!(listener.backlog().len(), 1);
        assert_eq!(connect().expect_err("closed").kind(), io::ErrorKind::ConnectionRefused);
    }
}
