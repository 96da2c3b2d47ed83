//! `ConcurrencyLayer` in front of a service of tonic, over a real connection.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::uri::PathAndQuery;
use tokio::net::TcpListener;
use tollgate::ConcurrencyLimiter;
use tollgate::adaptive::Finish;
use tollgate_tower::ConcurrencyLayer;
use tonic::body::Body;
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

use super::concurrency::LearnedSamples;

/// Returns what it gets, or a status of that number.
#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "demo.Echo";
}

impl UnaryService<String> for Echo {
    type Response = String;
    type Future = Ready<Result<Response<String>, Status>>;

    fn call(&mut self, request: tonic::Request<String>) -> Self::Future {
        let text = request.into_inner();
        ready(match text.parse() {
            Ok(code) => Err(Status::new(Code::from_i32(code), "as you wish")),
            Err(_) => Ok(Response::new(text)),
        })
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

async fn say(client: &mut tonic::client::Grpc<Channel>, text: &str) -> Result<String, Status> {
    client.ready().await.expect("a connection");
    let request = tonic::Request::new(text.to_owned());
    let path = "/demo.Echo/Say";
    let codec = ProstCodec::<String, String>::default();
    Ok(client.unary(request, PathAndQuery::from_static(path), codec).await?.into_inner())
}

#[tokio::test]
async fn calls_of_tonic_are_measured_to_their_trailers_and_rejected_as_unavailable() {
    let seen = LearnedSamples::default();
    let limiter = seen.limiter();
    let places = ConcurrencyLimiter::direct(1);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let server = Server::builder()
        .layer(ConcurrencyLayer::new(places.clone()))
        .layer(ConcurrencyLayer::adaptive(limiter.clone()))
        .add_service(Echo);
    let server = tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let channel = Endpoint::new(address).expect("an address").connect().await.expect("a connection");
    let mut client = tonic::client::Grpc::new(channel);

    for (text, wanted) in [
        ("hello", vec![Finish::Success]),
        ("5", vec![Finish::Success]), // NOT_FOUND
        ("8", vec![Finish::Overload]),
        ("14", vec![Finish::Overload]),
        ("13", vec![]),
    ] {
        let answer = say(&mut client, text).await;
        assert_eq!(answer.is_ok(), text == "hello");
        assert_eq!((seen.take(), limiter.in_flight(), places.in_use()), (wanted, 0, 0), "{text}");
    }
    let taken = places.try_enter().expect("it is free");
    let status = say(&mut client, "hello").await.expect_err("there is no place");
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "too many requests are in flight; retry later")
    );
    assert!(String::from_utf8_lossy(status.details()).contains("google.rpc.RetryInfo"));
    drop(taken);
    assert_eq!(say(&mut client, "hello").await.expect("it is free again"), "hello");
    server.abort();
}
