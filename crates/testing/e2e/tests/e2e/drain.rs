//! SIGTERM: not ready at once, calls in flight are answered, the end is clean.

use bytes::Bytes;
use prost::Message;

use crate::http;
use crate::rls::{self, Client};
use crate::start::rules;
use crate::tollgate::Start;

const RULES: &str =
    "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: year, requests_per_unit: 1000000}}\n";

/// A call whose head has been sent and whose message has not: in flight for as long as the test likes.
pub(crate) struct OpenCall {
    stream: h2::SendStream<Bytes>,
    answer: h2::client::ResponseFuture,
}

impl OpenCall {
    /// Opens a call on an HTTP/2 connection.
    pub(crate) async fn open(connection: h2::client::SendRequest<Bytes>) -> Result<Self, h2::Error> {
        let request = http_request();
        let (answer, stream) = connection.ready().await?.send_request(request, false)?;
        Ok(OpenCall { stream, answer })
    }

    /// Sends the message and returns the service's answer.
    pub(crate) async fn finish(mut self) -> Result<rls::RateLimitResponse, h2::Error> {
        self.stream.send_data(frame(&rls::hit("d", "k", "in flight")), true)?;
        let mut body = self.answer.await?.into_body();
        let mut bytes = Vec::new();
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len()).ok();
            bytes.extend_from_slice(&data);
        }
        Ok(rls::RateLimitResponse::decode(&bytes[5..]).expect("a message"))
    }
}

/// A bare HTTP/2 connection; its frames are driven in the background until either end closes it.
pub(crate) async fn connect(to: std::net::SocketAddr) -> Result<h2::client::SendRequest<Bytes>, h2::Error> {
    let stream = tokio::net::TcpStream::connect(to).await.expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    let (send, connection) = h2::client::handshake(stream).await?;
    tokio::spawn(connection);
    Ok(send)
}

/// The head of a `ShouldRateLimit` call.
pub(crate) fn http_request() -> ::http::Request<()> {
    let request = ::http::Request::post(format!("http://tollgate{}", rls::PATH));
    request.header("content-type", "application/grpc").header("te", "trailers").body(()).expect("a request")
}

/// A message with the five bytes before it that gRPC wants.
pub(crate) fn frame(message: &impl Message) -> Bytes {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
    [&[0], &length[..], &message[..]].concat().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_turns_readiness_off_answers_calls_in_flight_and_ends_with_0() {
    let folder = rules(RULES);
    let mut server = Start::new(folder.path()).args(["--drain-delay", "2s"]).go();
    let connection = connect(server.grpc).await.expect("a connection");
    let mut calls = Vec::new();
    for _ in 0..20 {
        calls.push(OpenCall::open(connection.clone()).await.expect("a call"));
    }
    assert_eq!(http::get(server.http, "/readyz", &[]).await.expect("an answer").status, 200);

    server.signal("TERM");
    while http::get(server.http, "/readyz", &[]).await.expect("it still answers").status != 503 {}
    let mut late =
        Client::connect(server.grpc).await.expect("it still listens while load balancers look away");
    assert!(late.admits(rls::hit("d", "k", "late")).await);
    drop(late);

    for call in calls {
        assert_eq!(call.finish().await.expect("answered").overall_code, rls::OK);
    }
    drop(connection);
    let status = server.wait();
    assert_eq!(status.code(), Some(0), "{status:?}\n{}", server.printed());
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_under_load_ends_with_0_and_no_answered_call_is_wrong() {
    let folder = rules(RULES);
    let mut server = Start::new(folder.path()).args(["--drain-delay", "0s"]).go();
    let mut load = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mut client = Client::connect(server.grpc).await.expect("it listens");
        load.spawn(async move {
            let mut answered = 0_u64;
            while let Ok(answer) = client.ask(rls::hit("d", "k", "load")).await {
                assert_eq!(answer.overall_code, rls::OK);
                answered += 1;
            }
            answered
        });
    }
    let mut watch = Client::connect(server.grpc).await.expect("it listens");
    while watch.ask(rls::hit("d", "k", "load").peek()).await.expect("an answer").statuses[0].limit_remaining
        > 999_000
    {}
    drop(watch);
    server.signal("TERM");
    let status = server.wait();
    assert_eq!(status.code(), Some(0), "{status:?}\n{}", server.printed());
    let answered: u64 = load.join_all().await.into_iter().sum();
    assert!(answered >= 1_000, "the load was there: {answered}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_never_ends_does_not_hold_the_exit_for_ever() {
    let folder = rules(RULES);
    let mut server = Start::new(folder.path()).args(["--drain-delay", "0s", "--drain-timeout", "1s"]).go();
    let connection = connect(server.grpc).await.expect("a connection");
    let _held = OpenCall::open(connection.clone()).await.expect("a call");
    assert_eq!(http::get(server.http, "/readyz", &[]).await.expect("an answer").status, 200);
    server.signal("TERM");
    let status = server.wait();
    assert_eq!(status.code(), Some(0), "{status:?}\n{}", server.printed());
}
