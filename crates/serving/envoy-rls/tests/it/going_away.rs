//! A server that will end asks its peers to go away in two steps, so that no call is lost on the way.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::common::{SHOULD_RATE_LIMIT, Server, call, descriptor, framed, outcome, request};
use bytes::Bytes;
use h2::client::SendRequest;
use tokio::net::TcpStream;
use tokio::task::{JoinSet, yield_now};
use tollgate_testkit::grpc::{self, Called, call_until_closed};

/// One connection, and its end.
async fn connected(server: &Server) -> (SendRequest<Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let stream = TcpStream::connect(server.address).await.expect("connected");
    let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    (send, tokio::spawn(connection))
}

/// A message that is always admitted.
fn free() -> Bytes {
    framed(&request(vec![descriptor("free", "x")]))
}

fn ask(send: &mut SendRequest<Bytes>) -> Result<h2::client::ResponseFuture, h2::Error> {
    grpc::ask(send, &free())
}

#[tokio::test]
async fn a_connection_is_asked_to_go_away_as_soon_as_the_server_will_end() {
    let server = Server::plain().await;
    let (mut old, old_ends) = connected(&server).await;
    assert_eq!(outcome(ask(&mut old).expect("open")).await.expect("an answer"), (200, 0));
    let begun = old.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false).expect("a call");
    server.leaving.send_replace(true);
    while old.clone().ready().await.is_ok() {
        yield_now().await;
    }
    // It is still served to the end of its calls.
    let (response, mut out) = begun;
    out.send_data(free(), true).expect("still open");
    assert_eq!(outcome(response).await.expect("an answer"), (200, 0));
    drop(old);
    old_ends.await.expect("no panic").expect("no error");

    // Where a load balancer still sends clients here, they are served, as often as they like.
    let (mut new, new_ends) = connected(&server).await;
    for _ in 0..100 {
        assert_eq!(outcome(ask(&mut new).expect("open")).await.expect("an answer"), (200, 0));
    }
    assert!(!new_ends.is_finished());
    server.drain.send_replace(true);
    new_ends.await.expect("no panic").expect("no error");
    server.ended.await.expect("ended well");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_on_a_busy_connection_is_lost_when_the_server_ends() {
    for announces in [true, false] {
        let server = Server::plain().await;
        let called = Arc::new(Called::default());
        let mut clients = JoinSet::new();
        for _ in 0..32 {
            clients.spawn(call_until_closed(server.address, free(), Arc::clone(&called)));
        }
        let more = async |calls: u64| {
            let until = called.answered.load(Relaxed) + calls;
            while called.answered.load(Relaxed) < until {
                yield_now().await;
            }
        };
        more(2_000).await;
        if announces {
            server.leaving.send_replace(true);
            more(2_000).await;
        }
        server.drain.send_replace(true);
        while let Some(client) = clients.join_next().await {
            let connections = client.expect("no panic").expect("nothing is lost");
            assert!(connections >= if announces { 2 } else { 1 });
        }
        server.ended.await.expect("ended well");
    }
}
