//! A gRPC service of tonic whose calls are limited by client address:
//!
//! ```sh
//! cargo run -p tollgate-tower --example tonic_service
//! ```
#![allow(clippy::print_stdout, reason = "an example")]

use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::uri::PathAndQuery;
use tokio::net::TcpListener;
use tollgate_tower::{Key, Limit, Quota, RateLimitLayer};
use tonic::body::Body;
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};
use tonic::transport::{Endpoint, Server};
use tonic::{Code, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

/// Code as `tonic-build` writes it for `service Echo { rpc Say(StringValue) returns (StringValue); }`.
#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "demo.Echo";
}

impl UnaryService<String> for Echo {
    type Response = String;
    type Future = Ready<Result<Response<String>, Status>>;

    fn call(&mut self, request: tonic::Request<String>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<String, String>::default());
            Ok(grpc.unary(Self, request).await)
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let peer = Key::address(|head| Some(head.extensions.get::<TcpConnectInfo>()?.remote_addr()?.ip()));
    let limit = Limit::new(Quota::per_minute(2))?.named("calls").by(peer);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let server = Server::builder().layer(RateLimitLayer::new(limit)).add_service(Echo);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let mut client = tonic::client::Grpc::new(Endpoint::new(address)?.connect().await?);
    for number in 1..=3 {
        client.ready().await?;
        let request = tonic::Request::new("hello".to_owned());
        let path = "/demo.Echo/Say";
        let codec = ProstCodec::<String, String>::default();
        let answer = client.unary(request, PathAndQuery::from_static(path), codec).await;
        println!("{number}: {answer:?}");
        match answer {
            Ok(said) => assert!(number <= 2 && said.get_ref() == "hello"),
            Err(status) => {
                assert!(number == 3 && status.code() == Code::ResourceExhausted, "{status:?}");
                // A `RetryInfo`, as Google's and other clients read it.
                let details = String::from_utf8_lossy(status.details());
                assert!(details.contains("type.googleapis.com/google.rpc.RetryInfo"));
            }
        }
    }
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
