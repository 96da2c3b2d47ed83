//! A Unix socket that several accept loops share: its bounds, its end, its file.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{Echo, rest, say};
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tollgate_net::{AcceptLimits, ConnectionStats, Listeners, Sockets, Tls, TlsFiles, accept};
use tollgate_testkit::certificates::Authority;

/// Two loops on one Unix socket.
struct UnixServer {
    path: PathBuf,
    stats: Arc<ConnectionStats>,
    drain: watch::Sender<bool>,
    loops: JoinSet<()>,
    _folder: TempDir,
}

impl UnixServer {
    fn start(tls: Option<Arc<Tls>>, max_connections: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("echo.sock");
        let sockets = Sockets { count: 2, ..Sockets::default() };
        let listeners = Listeners::bind(&format!("unix:{}", path.display()), sockets).expect("a free path");
        let stats = Arc::new(ConnectionStats::default());
        let limits = Arc::new(AcceptLimits { max_connections, ..AcceptLimits::default() });
        let (drain, draining) = watch::channel(false);
        let mut loops = JoinSet::new();
        for socket in listeners.sockets {
            let listener = socket.listen().expect("a runtime");
            let surface = Arc::new(Echo);
            let tls = tls.clone();
            let limits = Arc::clone(&limits);
            let stats = Arc::clone(&stats);
            loops.spawn(accept(listener, surface, tls, limits, stats, draining.clone()));
        }
        Self { path, stats, drain, loops, _folder: folder }
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).await.expect("it listens")
    }
}

#[tokio::test]
async fn all_loops_together_serve_as_many_connections_as_one_may() {
    let server = UnixServer::start(None, 5);
    let mut held = Vec::new();
    for number in 0..5 {
        let mut stream = server.connect().await;
        assert_eq!(say(&mut stream, "one of five").await, "one of five", "{number}");
        held.push(stream);
    }
    for closed in 1..=20 {
        assert_eq!(rest(&mut server.connect().await).await, b"");
        assert_eq!((server.stats.open(), server.stats.rejected.get()), (5, closed));
    }
    drop(held.pop());
    while server.stats.open() > 4 {
        tokio::task::yield_now().await;
    }
    let mut next = server.connect().await;
    assert_eq!(say(&mut next, "a place").await, "a place");
}

#[tokio::test]
async fn a_drain_removes_the_file_and_serves_those_that_wait() {
    let mut server = UnixServer::start(None, 100);
    let mut served = server.connect().await;
    assert_eq!(say(&mut served, "here").await, "here");
    // Nothing is awaited that would let the loops run, so these wait to be accepted when the drain begins.
    let waiting: Vec<_> =
        (0..10).map(|_| std::os::unix::net::UnixStream::connect(&server.path).expect("it listens")).collect();
    server.drain.send_replace(true);
    assert_eq!(rest(&mut served).await, b"bye");
    for stream in waiting {
        stream.set_nonblocking(true).expect("set");
        assert_eq!(rest(&mut UnixStream::from_std(stream).expect("a runtime")).await, b"bye");
    }
    while let Some(ended) = server.loops.join_next().await {
        ended.expect("no panic");
    }
    assert!(!server.path.exists());
    assert_eq!((server.stats.open(), server.stats.closed.get()), (0, 11));
}

#[tokio::test]
async fn tls_works_over_a_unix_socket_too() {
    let authority = Authority::new();
    let folder = TempDir::new().expect("a folder");
    let (cert, key) = authority.issue("server", 2060).write(folder.path());
    let files = TlsFiles { cert, key, client_ca: None, client_name: None, is_client_optional: false };
    let server = UnixServer::start(Some(Arc::new(Tls::load(files, &[]).expect("files"))), 5);
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(authority.client(None, &[]));
    let mut stream = connector.connect(name, server.connect().await).await.expect("through");
    assert_eq!(say(&mut stream, "hello").await, "hello");
}
