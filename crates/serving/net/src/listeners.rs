//! Listening sockets: several on one address, so that each worker accepts for itself.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use socket2::{Domain, Protocol, Type};

use crate::socket::{Address, Socket};
use crate::socket_file::SocketFile;

/// Options of the sockets of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sockets {
    /// Sockets that share the address; at least one is made.
    pub count: usize,
    /// Connections that the system keeps for each socket until they are accepted. The system has its own
    /// bound too (`net.core.somaxconn`), and the lower one holds.
    pub backlog: u32,
    /// Permissions of the file of a Unix socket: to connect, a process must be allowed to write to it.
    pub file_mode: u32,
}

impl Default for Sockets {
    fn default() -> Self {
        Self { count: 1, backlog: 4096, file_mode: 0o660 }
    }
}

/// Sockets that share one address.
#[derive(Debug)]
pub struct Listeners {
    /// Where they listen: with the port that was chosen, where 0 was asked for.
    pub address: Address,
    /// The sockets, non-blocking.
    pub sockets: Vec<Socket>,
}

impl Listeners {
    /// Listens on `address`, which is `host:port`, or `unix:` and the path of a Unix socket.
    ///
    /// The file of a Unix socket is removed when the first of the sockets stops accepting, or when all are
    /// dropped. A file that a killed server left behind is replaced.
    ///
    /// # Errors
    /// When the host has no address, or the port or the file is taken, also by another process that would
    /// share it: two servers that each count half of the requests would be a mistake.
    ///
    /// # Example
    /// ```
    /// # use tollgate_net::{Listeners, Sockets};
    /// let listeners = Listeners::bind("127.0.0.1:0", Sockets { count: 2, ..Sockets::default() })?;
    /// assert_eq!(listeners.sockets.len(), 2);
    /// assert!(listeners.address.is_local());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn bind(address: &str, sockets: Sockets) -> io::Result<Self> {
        if let Some(path) = address.strip_prefix("unix:") {
            return Self::bind_to_file(Path::new(path), sockets);
        }
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
        // Alone first, which fails if another process listens; then together with the others.
        let alone = bound(address, false)?;
        address = local(&alone)?;
        drop(alone);
        let backlog = i32::try_from(sockets.backlog).unwrap_or(i32::MAX);
        let sockets = (0..sockets.count.max(1))
            .map(|_| {
                let socket = bound(address, true)?;
                socket.listen(backlog)?;
                Ok(Socket::Tcp(socket.into()))
            })
            .collect::<io::Result<Vec<Socket>>>()?;
        Ok(Self { address: Address::Tcp(address), sockets })
    }

    fn bind_to_file(path: &Path, sockets: Sockets) -> io::Result<Self> {
        let backlog = i32::try_from(sockets.backlog).unwrap_or(i32::MAX);
        let (file, first) = SocketFile::bind(path, sockets.file_mode, backlog)?;
        let mut all = Vec::with_capacity(sockets.count.max(1));
        for _ in 1..sockets.count {
            all.push(Socket::Unix(file.clone(), first.try_clone()?));
        }
        all.push(Socket::Unix(file, first));
        Ok(Self { address: Address::Unix(path.to_owned()), sockets: all })
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

fn bound(address: SocketAddr, shared: bool) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn local(socket: &socket2::Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("the socket has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Sockets {
        Sockets { count: 3, backlog: 16, ..Sockets::default() }
    }

    #[test]
    fn sockets_share_the_port_that_was_chosen() {
        let listeners = Listeners::bind("127.0.0.1:0", three()).expect("a free port");
        assert_eq!(listeners.sockets.len(), 3);
        for socket in &listeners.sockets {
            let Socket::Tcp(socket) = socket else { panic!("{socket:?}") };
            assert_eq!(Address::Tcp(socket.local_addr().expect("bound")), listeners.address);
        }
    }

    #[test]
    fn sockets_share_the_file_of_a_unix_socket_until_all_are_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.sock");
        let address = format!("unix:{}", path.display());
        let mut listeners = Listeners::bind(&address, three()).expect("a free path");
        assert_eq!((listeners.address.to_string(), listeners.sockets.len()), (address.clone(), 3));
        assert!(listeners.address.is_local());
        let second = Listeners::bind(&address, three());
        assert_eq!(second.expect_err("taken").kind(), io::ErrorKind::AddrInUse);
        drop(listeners.sockets.split_off(1));
        assert!(std::os::unix::net::UnixStream::connect(&path).is_ok(), "one is left");
        drop(listeners);
        assert!(!path.exists());
    }

    #[test]
    fn a_port_that_another_server_shares_is_taken() {
        let first = Listeners::bind("127.0.0.1:0", Sockets::default()).expect("a free port");
        let second = Listeners::bind(&first.address.to_string(), Sockets::default());
        assert_eq!(second.expect_err("taken").kind(), io::ErrorKind::AddrInUse);
    }
}
