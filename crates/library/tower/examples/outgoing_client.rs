//! A client of hyper that stays within the limits of the server that it calls:
//!
//! ```sh
//! cargo run -p tollgate-tower --example outgoing_client
//! ```
//!
//! The same layer wraps any client that is a `tower::Service<http::Request<_>>`.
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tollgate_tower::client::{Backoff, ClientLayer, ReplayClone};
use tollgate_tower::{Limit, Quota, RateLimitLayer};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

/// A server with a limit of its own: one request each 20 ms, three at once.
async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error + Send + Sync>> {
    let limit = RateLimitLayer::new(Limit::new(Quota::per_second(50).burst(3))?);
    loop {
        let (stream, _) = listener.accept().await?;
        let answer = service_fn(async |_: Request<Incoming>| {
            Ok::<_, std::io::Error>(Response::new(Full::new(Bytes::from("pong"))))
        });
        let service = limit.layer(answer);
        let service = hyper::service::service_fn(move |request| service.clone().oneshot(request));
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
        );
    }
}

/// Sends each request on a connection of its own.
async fn send(
    to: SocketAddr,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, Box<dyn Error + Send + Sync>> {
    let stream = TokioIo::new(TcpStream::connect(to).await?);
    let (mut sender, connection) = http1::handshake(stream).await?;
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener));

    let client = ClientLayer::new()
        .wait_up_to(Duration::from_secs(10))
        .retry(3, ReplayClone)
        .backoff(Backoff { first: Duration::from_millis(50), ..Backoff::default() });
    let mut client = ServiceBuilder::new().layer(client).service_fn(move |request| send(address, request));

    // Five requests, two more than the server admits at once: the client waits instead of failing.
    for number in 1..=5 {
        let request = Request::get(format!("http://{address}/ping")).header("host", "ping.example");
        let response = client.ready().await?.call(request.body(Full::default())?).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        println!("{number}: {status} {}", String::from_utf8_lossy(&body));
        assert!(status.is_success() && body == "pong");
    }
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error + Send + Sync>> {
    main()
}
