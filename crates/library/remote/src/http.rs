//! Questions over HTTP/1.1: one connection carries batches, and questions that may wait for their turn at the
//! service have connections of their own.

pub(crate) mod alone;
pub(crate) mod batch;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

use crate::connect::Connector;
use crate::error::RemoteError;

/// Longest reply, in bytes.
const MAX_REPLY: usize = 4 << 20;

type Sender = SendRequest<Full<Bytes>>;

/// A new connection, which a task drives until the sender is dropped.
async fn connect(connector: &Connector) -> Result<Sender, String> {
    let io = TokioIo::new(connector.open().await?);
    let (sender, connection) = http1::handshake(io).await.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Sends a body to `/v1/check`, and returns the body of the reply.
async fn exchange(sender: &mut Sender, connector: &Connector, body: Vec<u8>) -> Result<Bytes, RemoteError> {
    let request = Request::post("/v1/check")
        .header(header::HOST, connector.authority.as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::from(body))
        .map_err(|error| RemoteError::Rejected { status: 400, detail: error.to_string() })?;
    let response = sender.send_request(request).await.map_err(|error| {
        let cause = error.to_string();
        // The request was never written, since the service had closed the connection.
        if error.is_canceled() { RemoteError::Unreachable { cause } } else { RemoteError::Lost { cause } }
    })?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_REPLY).collect().await;
    let body = body.map_err(|error| RemoteError::Lost { cause: error.to_string() })?.to_bytes();
    let text = || String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned();
    if status.is_client_error() {
        return Err(RemoteError::Rejected { status: status.as_u16(), detail: text() });
    }
    if status != StatusCode::OK {
        return Err(RemoteError::Lost { cause: format!("status {}: {}", status.as_u16(), text()) });
    }
    Ok(body)
}
