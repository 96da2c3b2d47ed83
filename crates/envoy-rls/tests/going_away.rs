//! A server that will end asks its peers to go away in two steps, so that no call is lost on the way.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

mod common;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use common::{SHOULD_RATE_LIMIT, Server, call, descriptor, framed, outcome, request};
use h2::client::SendRequest;
use tokio::net::TcpStream;
use tokio::task::{JoinSet, yield_now};

/// One connection, and its end.
async fn connected(server: &Server) -> (SendRequest<Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let stream = TcpStream::connect(server.address).await.expect("connected");
    let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    (send, tokio::spawn(connection))
}

fn ask(send: &mut SendRequest<Bytes>) -> Result<h2::client::ResponseFuture, h2::Error> {
    let (response, mut out) = send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false)?;
    out.send_data(framed(&request(vec![descriptor("free", "x")])), true)?;
    Ok(response)
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
    out.send_data(framed(&request(vec![descriptor("free", "x")])), true).expect("still open");
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

/// Calls on one connection after another, sixteen at once, until the server listens no more. Returns how
/// often it connected; fails if a call that was sent had no answer, and the server did not say that it
/// had not begun it.
async fn call_until_closed(to: std::net::SocketAddr, answered: Arc<AtomicU64>) -> Result<u32, String> {
    let mut connections = 0;
    while let Ok(stream) = TcpStream::connect(to).await {
        let Ok((mut send, connection)) = h2::client::handshake(stream).await else { break };
        let ended = tokio::spawn(connection);
        connections += 1;
        let (mut calls, mut is_served) = (JoinSet::new(), false);
        loop {
            // An error here is one of a call that was not sent.
            let is_open = poll_fn(|cx| send.poll_ready(cx)).await.is_ok();
            let sent = if is_open { ask(&mut send).ok() } else { None };
            let is_last = sent.is_none();
            if let Some(response) = sent {
                calls.spawn(outcome(response));
            }
            while calls.len() >= 16 || is_last && !calls.is_empty() {
                match calls.join_next().await.expect("some").expect("no panic") {
                    Ok(status) => assert_eq!(status, (200, 0)),
                    // The server says that it has not begun this one: it crossed the announcement on its way.
                    Err(error) if error.is_go_away() && error.is_remote() => continue,
                    // It was still waiting to be accepted when the server stopped listening.
                    Err(error) if error.is_io() && !is_served => return Ok(connections),
                    Err(error) => return Err(format!("a call was lost: {error}")),
                }
                is_served = true;
                answered.fetch_add(1, Relaxed);
            }
            if is_last {
                break;
            }
        }
        drop(send);
        ended.await.expect("no panic").map_err(|error| format!("a connection broke: {error}"))?;
    }
    Ok(connections)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_on_a_busy_connection_is_lost_when_the_server_ends() {
    for announces in [true, false] {
        let server = Server::plain().await;
        let answered = Arc::new(AtomicU64::new(0));
        let mut clients = JoinSet::new();
        for _ in 0..32 {
            clients.spawn(call_until_closed(server.address, Arc::clone(&answered)));
        }
        let more = async |calls: u64| {
            let until = answered.load(Relaxed) + calls;
            while answered.load(Relaxed) < until {
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
