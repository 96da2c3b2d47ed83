//! The application behind a proxy: counts what reaches it, and keeps the keys that it sees.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Larger than any head that a proxy of these tests forwards.
const MAX_HEAD: usize = 8 * 1024 * 1024;

/// A running application. Answers `/forbidden` with 403, `/broken` with 500, everything else with 200, and
/// closes the connection. `/alive` is not counted.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) at: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A request that the application received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The values of its fields `X-Api-Key`, in order.
    pub(crate) keys: Vec<Vec<u8>>,
}

impl App {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let app = Self { at: listener.local_addr().expect("bound"), seen: Arc::default() };
        let running = app.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let app = running.clone();
                tokio::spawn(async move { app.answer(stream).await });
            }
        });
        app
    }

    /// The body of its answers, which no other application has.
    pub(crate) fn body(&self) -> String {
        format!("app on port {}", self.at.port())
    }

    /// Number of requests that have reached it.
    pub(crate) fn reached(&self) -> usize {
        self.seen.lock().len()
    }

    /// The requests that have reached it since there were `from`.
    pub(crate) fn seen_since(&self, from: usize) -> Vec<Seen> {
        self.seen.lock()[from..].to_vec()
    }

    /// Forgets the requests after the first `count`.
    pub(crate) fn forget_since(&self, count: usize) {
        self.seen.lock().truncate(count);
    }

    async fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut head = Vec::new();
        let mut chunk = vec![0; 64 * 1024];
        let end = loop {
            let searched = head.len().saturating_sub(3);
            match stream.read(&mut chunk).await? {
                0 => return Ok(()),
                _ if head.len() > MAX_HEAD => return Ok(()),
                count => head.extend_from_slice(&chunk[..count]),
            }
            let found = head[searched..].windows(4).position(|bytes| bytes == b"\r\n\r\n");
            if let Some(place) = found {
                break searched + place;
            }
        };
        let head = &head[..end];
        let mut lines =
            head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let path = lines.next().and_then(|line| line.split(|byte| *byte == b' ').nth(1)).unwrap_or_default();
        if path != b"/alive" {
            let keys = lines.filter_map(|line| {
                let colon = line.iter().position(|byte| *byte == b':')?;
                let (name, value) = line.split_at(colon);
                name.eq_ignore_ascii_case(b"x-api-key").then(|| value[1..].trim_ascii().to_vec())
            });
            let seen = Seen { keys: keys.collect() };
            self.seen.lock().push(seen);
        }
        let status = match path {
            b"/forbidden" => "403 Forbidden",
            b"/broken" => "500 Internal Server Error",
            _ => "200 OK",
        };
        let (body, length) = (self.body(), self.body().len());
        let answer =
            format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await?;
        // The rest of the request is read until the proxy closes, or it would get a reset instead of the
        // answer.
        stream.shutdown().await?;
        while stream.read(&mut chunk).await? > 0 {}
        Ok(())
    }
}
