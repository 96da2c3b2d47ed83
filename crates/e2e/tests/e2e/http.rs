//! A small HTTP/1.1 client: one request on one connection, the whole answer as text.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer; header names in lower case, in the order received.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// The value of the first header called `name` (lower case).
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        let mut lines = head.lines();
        let status = lines.next().and_then(|l| l.split(' ').nth(1)).and_then(|s| s.parse().ok());
        let headers =
            lines.filter_map(|l| l.split_once(": ")).map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()));
        Answer { status: status.expect("a status"), headers: headers.collect(), body: body.to_owned() }
    }
}

/// Sends `GET path` with more header lines and reads to the end.
pub(crate) async fn get(to: SocketAddr, path: &str, headers: &[(&str, &str)]) -> std::io::Result<Answer> {
    send(to, "GET", path, headers, "").await
}

/// Sends `POST path` with `body` and reads to the end.
pub(crate) async fn post(to: SocketAddr, path: &str, body: &str) -> std::io::Result<Answer> {
    send(to, "POST", path, &[("content-type", "application/json")], body).await
}

async fn send(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(to).await?;
    let more: String = headers.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-length: {length}\r\n{more}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut text = Vec::new();
    tokio::time::timeout(crate::rls::PATIENCE, stream.read_to_end(&mut text)).await??;
    Ok(Answer::parse(&String::from_utf8_lossy(&text)))
}
