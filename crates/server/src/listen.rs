//! Listening sockets: one for HTTP, several on one port for gRPC, so that each worker accepts for itself.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the system keeps for us until they are accepted.
const BACKLOG: i32 = 4096;

/// Sockets that share one port; the system deals connections out among them.
#[derive(Debug)]
pub struct Listeners {
    /// Where they listen: with the port that was chosen, where 0 was asked for.
    pub address: SocketAddr,
    /// The sockets, non-blocking.
    pub sockets: Vec<TcpListener>,
}

impl Listeners {
    /// Binds `count` sockets to `address`, which is `host:port`.
    ///
    /// # Errors
    /// When the host has no address, or the port is taken, also by another process that would share it: two servers
    /// that each count half of the requests are never what was meant.
    pub fn bind(address: &str, count: usize) -> io::Result<Self> {
        let mut tried = Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
        for resolved in address.to_socket_addrs()? {
            tried = Self::bind_to(resolved, count);
            if tried.is_ok() {
                break;
            }
        }
        tried
    }

    /// The address and the first socket.
    #[must_use]
    pub fn into_one(self) -> Option<(SocketAddr, TcpListener)> {
        Some((self.address, self.sockets.into_iter().next()?))
    }

    fn bind_to(mut address: SocketAddr, count: usize) -> io::Result<Self> {
        // Alone first, which fails where anybody listens; then together with the others.
        let alone = bound(address, false)?;
        address = local(&alone)?;
        drop(alone);
        let sockets = (0..count.max(1))
            .map(|_| {
                let socket = bound(address, true)?;
                socket.listen(BACKLOG)?;
                Ok(socket.into())
            })
            .collect::<io::Result<Vec<TcpListener>>>()?;
        Ok(Self { address, sockets })
    }
}

/// Lets this process have as many connections as the system grants: each needs a file descriptor, and many systems let
/// a process begin with 1,024 and have hundreds of thousands.
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
        let listeners = Listeners::bind("127.0.0.1:0", 3).expect("a free port");
        assert_ne!(listeners.address.port(), 0);
        for socket in &listeners.sockets {
            assert_eq!(socket.local_addr().expect("bound"), listeners.address);
        }
    }

    #[test]
    fn a_port_that_another_server_shares_is_taken() {
        let first = Listeners::bind("127.0.0.1:0", 2).expect("a free port");
        let second = Listeners::bind(&first.address.to_string(), 2);
        assert_eq!(second.expect_err("taken").kind(), io::ErrorKind::AddrInUse);
    }
}
