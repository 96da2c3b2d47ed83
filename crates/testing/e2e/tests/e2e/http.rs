//! A small HTTP/1.1 client: one request on one connection, the whole answer as text.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::rls::PATIENCE;

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

/// A connection that is kept for one request after another.
pub(crate) struct Kept(BufReader<TcpStream>);

impl Kept {
    pub(crate) async fn connect(to: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends `POST path` with `body` and reads an answer that says its length.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> std::io::Result<Answer> {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: tollgate\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes()).await?;
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") {
            if timeout(PATIENCE, self.0.read_line(&mut text)).await?? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        let length = Answer::parse(&text).header("content-length").and_then(|it| it.parse().ok());
        let mut body = vec![0; length.expect("a length")];
        timeout(PATIENCE, self.0.read_exact(&mut body)).await??;
        Ok(Answer::parse(&(text + &String::from_utf8_lossy(&body))))
    }
}

async fn send(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> std::io::Result<Answer> {
    let mut more: String = headers.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
    if !headers.iter().any(|(name, _)| *name == "host") {
        more += &format!("host: {to}\r\n");
    }
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n{more}\r\n{body}"
    );
    send_raw(to, request.as_bytes()).await
}

/// Sends any bytes on a connection of their own, and reads to the end.
pub(crate) async fn send_raw(to: SocketAddr, request: &[u8]) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(to).await?;
    stream.write_all(request).await?;
    let mut text = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut text)).await??;
    if text.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into()); // closed without an answer
    }
    Ok(Answer::parse(&String::from_utf8_lossy(&text)))
}
