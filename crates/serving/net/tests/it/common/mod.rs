//! A surface that echoes, and a listener in front of it.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_net::{AcceptLimits, ConnectionStats, Surface, Tls, accept, draining};

/// Echoes each word; panics at `panic`; sends `bye` and ends when it is drained.
pub struct Echo;

impl Surface for Echo {
    async fn serve<IO>(self: Arc<Self>, mut io: IO, mut drain: watch::Receiver<bool>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut heard = [0; 1024];
        loop {
            tokio::select! {
                read = io.read(&mut heard) => match read {
                    Ok(length @ 1..) => {
                        assert_ne!(&heard[..length], b"panic", "as asked");
                        let _ = io.write_all(&heard[..length]).await;
                        let _ = io.flush().await;
                    }
                    _ => return,
                },
                () = draining(&mut drain) => {
                    let _ = io.write_all(b"bye").await;
                    let _ = io.shutdown().await;
                    return;
                }
            }
        }
    }
}

pub struct TestServer {
    pub address: SocketAddr,
    pub stats: Arc<ConnectionStats>,
    pub drain: watch::Sender<bool>,
    pub ended: JoinHandle<()>,
}

impl TestServer {
    pub async fn start(tls: Option<Arc<Tls>>, limits: AcceptLimits) -> Self {
        Self::with(Echo, tls, limits).await
    }

    pub async fn with(surface: impl Surface, tls: Option<Arc<Tls>>, limits: AcceptLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let stats = Arc::new(ConnectionStats::default());
        let (drain, draining) = watch::channel(false);
        let loops = accept(listener, Arc::new(surface), tls, Arc::new(limits), Arc::clone(&stats), draining);
        Self { address, stats, drain, ended: tokio::spawn(loops) }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the system accepts")
    }

    /// `open`, `accepted`, `rejected`, `closed`, `tls_failed`.
    pub fn counts(&self) -> [u64; 5] {
        let ConnectionStats { accepted, rejected, closed, tls_failed } = &*self.stats;
        [self.stats.open(), accepted.get(), rejected.get(), closed.get(), tls_failed.get()]
    }

    /// Waits until this number of connections is open.
    pub async fn opened(&self, open: u64) {
        while self.stats.open() != open {
            tokio::task::yield_now().await;
        }
    }
}

/// The reply to `word`; empty when the connection is closed or broken.
pub async fn say(io: &mut (impl AsyncRead + AsyncWrite + Unpin), word: &str) -> String {
    let mut heard = vec![0; word.len()];
    let said = async {
        io.write_all(word.as_bytes()).await?;
        io.flush().await?;
        io.read_exact(&mut heard).await
    };
    match said.await {
        Ok(_) => String::from_utf8(heard).expect("what was said"),
        Err(_) => String::new(),
    }
}

/// All that comes until the connection ends, however it does.
pub async fn rest(io: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut heard = Vec::new();
    let _ = io.read_to_end(&mut heard).await;
    heard
}
