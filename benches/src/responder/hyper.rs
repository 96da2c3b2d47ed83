//! hyper's HTTP/1.1 on tokio's current-thread runtime.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

pub(super) async fn serve<F, R>(port: u16, answer: F) -> anyhow::Result<()>
where
    F: Fn(http::Request<Incoming>) -> R + Copy + 'static,
    R: Future<Output = Result<http::Response<Full<Bytes>>, Infallible>> + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        // A connection that breaks is over.
        tokio::task::spawn_local(async move {
            let _ = connection.await;
        });
    }
}
