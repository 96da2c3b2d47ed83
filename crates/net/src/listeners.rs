//! Listening sockets: several on one port, so that each worker accepts for itself.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use socket2::{Domain, Protocol, Socket, Type};

/// How a port is listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sockets {
    /// Sockets that share the port; at least one is made.
    pub count: usize,
    /// Connections that the system keeps for each socket until they are accepted. The system has its own
    /// bound too (`net.core.somaxconn`), and the lower one holds.
    pub backlog: u32,
}

impl Default for Sockets {
    fn default() -> Self {
        Self { count: 1, backlog: 4096 }
    }
}

/// Sockets that share one port; the system deals connections out among them.
#[derive(Debug)]
pub struct Listeners {
    /// Where they listen: with the port that was chosen, where 0 was asked for.
    pub address: SocketAddr,
    /// The sockets, non-blocking.
    pub sockets: Vec<TcpListener>,
}

impl Listeners {
    /// Listens on `address`, which is `host:port`.
    ///
    /// # Errors
    /// When the host has no address, or the port is taken, also by another process that would share it: two
    /// servers that each count half of the requests are never what was meant.
    ///
    /// # Example
    /// ```
    /// # use tollgate_net::{Listeners, Sockets};
    /// let listeners = Listeners::bind("127.0.0.1:0", Sockets { count: 2, ..Sockets::default() })?;
    /// assert_eq!(listeners.sockets.len(), 2);
    /// assert_ne!(listeners.address.port(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn bind(address: &str, sockets: Sockets) -> io::Result<Self> {
        let mut tried = Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
        for resolved in address.to_socket_addrs()? {
            tried = Self::bind_to(resolved, sockets);
            if tried.is_ok() {
                break;
            }
        }
        tried
    }

    fn bind_to(mut address: SocketAddr, sockets: Sockets) -> io::Result<Self> {
        // Alone first, which fails where anybody listens; then together with the others.
        let alone = bound(address, false)?;
        address = local(&alone)?;
        drop(alone);
        let backlog = i32::try_from(sockets.backlog).unwrap_or(i32::MAX);
        let sockets = (0..sockets.count.max(1))
            .map(|_| {
                let socket = bound(address, true)?;
                socket.listen(backlog)?;
                Ok(socket.into())
            })
            .collect::<io::Result<Vec<TcpListener>>>()?;
        Ok(Self { address, sockets })
    }
}

/// Lets this process have as many connections as the system grants: each needs a file descriptor, and many
/// systems let a process begin with 1,024 and have hundreds of thousands.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

fn bound(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn local(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("the socket has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_share_the_port_that_was_chosen() {
        let listeners =
            Listeners::bind("127.0.0.1:0", Sockets { count: 3, backlog: 16 }).expect("a free port");
        assert_eq!(listeners.sockets.len(), 3);
        for socket in &listeners.sockets {
            assert_eq!(socket.local_addr().expect("bound"), listeners.address);
        }
    }

    #[test]
    fn a_port_that_another_server_shares_is_taken() {
        let first = Listeners::bind("127.0.0.1:0", Sockets::default()).expect("a free port");
        let second = Listeners::bind(&first.address.to_string(), Sockets::default());
        assert_eq!(second.expect_err("taken").kind(), io::ErrorKind::AddrInUse);
    }
}
