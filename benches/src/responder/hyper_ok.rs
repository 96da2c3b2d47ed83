//! hyper's HTTP/1.1 on tokio's current-thread runtime: reads the body, says `ok`.

use std::convert::Infallible;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

pub(super) async fn serve(port: u16) -> anyhow::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(ok));
        // A connection that breaks is over, and nobody is to be told.
        tokio::task::spawn_local(async move {
            let _ = connection.await;
        });
    }
}

async fn ok(request: http::Request<Incoming>) -> Result<http::Response<Full<Bytes>>, Infallible> {
    // What cannot be read is answered all the same.
    let _ = request.into_body().collect().await;
    Ok(http::Response::new(Full::new(Bytes::from_static(b"ok"))))
}
