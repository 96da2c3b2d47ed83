//! The reply to a head that cannot be read, and the end of its connection. `hyper`'s own reply has no body,
//! ignores the API's handling of such requests, and may be lost: a connection that is closed while bytes of
//! its client are unread is reset, and a proxy takes that for an outage.

use std::io;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::problem::{Problem, Reason};
use crate::reply::Reply;

/// Longest time, and most bytes, of reading after the reply, so that the client receives it.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// The problem of a head that `hyper` would answer by `status`.
pub(super) fn problem(status: StatusCode, max_bytes: usize, max_fields: usize) -> Problem {
    let (reason, detail) = match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (
            Reason::TooLarge,
            format!("the request's line and fields have more than {max_bytes} bytes or {max_fields} fields"),
        ),
        StatusCode::URI_TOO_LONG => {
            (Reason::TooLarge, "the request's target has more than 65534 bytes".to_owned())
        }
        _ => (
            Reason::Malformed,
            "the request's head is not HTTP/1.1, or has a character that is not allowed".to_owned(),
        ),
    };
    Problem::new(status, detail).because(reason)
}

/// Why a head is not read to its end: the heads of all connections are too large.
pub(super) fn over_budget() -> Problem {
    let detail = "too many bytes of half-arrived requests; nothing was done, try again later";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).because(Reason::Overload)
}

/// Sends `reply` as the last of its connection, and ends it so that the client receives the reply.
pub(super) async fn send_last<IO>(io: &mut IO, reply: Reply, write_timeout: Duration) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let (head, body) = reply.into_parts();
    let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes);
    let reason = head.status.canonical_reason().unwrap_or_default();
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", head.status.as_str()).into_bytes();
    for (name, value) in &head.headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
        .extend_from_slice(format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(&body);
    let write = async {
        io.write_all(&bytes).await?;
        io.flush().await?;
        io.shutdown().await
    };
    timeout(write_timeout, write).await??;
    let linger = async {
        let mut left = LINGER_BYTES;
        let mut rest = [0; 4096];
        while left > 0 {
            match io.read(&mut rest).await? {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
        Ok(())
    };
    timeout(LINGER, linger).await.unwrap_or(Ok(()))
}
