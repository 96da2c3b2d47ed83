//! Calls that stay open: their greatest number, the calls that are served beside them, and the ways in which
//! they end.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::time::Duration;

use crate::common::{SHOULD_RATE_LIMIT, Server, call, descriptor, framed, outcome, request};
use bytes::Bytes;
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tollgate_envoy_rls::Limits;
use tollgate_limiter::Undecided;

const DEADLINE_EXCEEDED: i32 = 4;
const RESOURCE_EXHAUSTED: i32 = 8;

/// A call whose message has not been sent.
type Open = (ResponseFuture, SendStream<Bytes>);

fn open(send: &mut SendRequest<Bytes>) -> Open {
    send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false).expect("a stream")
}

/// Sends the message of a call that is open.
async fn finished((response, mut out): Open) -> Result<(u16, i32), h2::Error> {
    out.send_data(framed(&request(vec![descriptor("free", "x")])), true)?;
    outcome(response).await
}

/// A client whose calls come in two parts, so that each waits for its message.
async fn a_call_in_two_parts_is_served(server: &Server) {
    let mut send = server.raw().await;
    let waiting = server.shared.waiting_calls();
    let call = open(&mut send);
    while server.shared.waiting_calls() == waiting {
        yield_now().await;
    }
    assert_eq!(finished(call).await.expect("an answer"), (200, 0));
}

#[tokio::test]
async fn calls_without_messages_stay_within_their_places_and_others_are_served() {
    const CONNECTIONS: usize = 400;
    // On a slow machine, too, nothing is late before the clock is moved.
    let message_timeout = Duration::from_secs(3_600);
    let limits = Limits { max_waiting_calls: 2_000, message_timeout, ..Limits::default() };
    let limits = Limits { request_timeout: message_timeout, ..limits };
    let server = Server::undecided(Undecided::Error, limits.clone()).await;
    let bound = limits.max_waiting_calls + 4 * (CONNECTIONS + 1);
    let mut held = Vec::new();
    let mut announced = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut send = server.raw().await;
        // Answered, so the announcement has arrived.
        assert_eq!(finished(open(&mut send)).await.expect("an answer"), (200, 0));
        let streams = send.current_max_send_streams();
        announced.push(streams);
        held.extend((1..streams).map(|_| open(&mut send)));
        // So has all that was sent before this.
        let (response, _) =
            send.send_request(call("/no.such/Method").body(()).unwrap(), true).expect("a call");
        let _ = outcome(response).await;
        assert!(server.shared.waiting_calls() <= bound, "{} calls wait", server.shared.waiting_calls());
        held.push(open(&mut send));
    }
    assert_eq!(
        (announced[0], announced[CONNECTIONS - 1]),
        (1_000, 32),
        "the more connections, the fewer streams"
    );
    assert!(server.shared.waiting_calls() >= limits.max_waiting_calls, "the attack was one");
    assert!(server.shared.rejected_calls() > 0);
    a_call_in_two_parts_is_served(&server).await;
    let mut client = server.client().await;
    client.ask(request(vec![descriptor("free", "x")])).await.expect("an answer");

    // They have had their time.
    tokio::time::pause();
    tokio::time::advance(limits.message_timeout).await;
    tokio::time::resume();
    let mut late = 0;
    for (response, _out) in held {
        match outcome(response).await {
            Ok((200, DEADLINE_EXCEEDED)) => late += 1,
            Ok((200, RESOURCE_EXHAUSTED)) => {}
            // Its connection was asked to go away before it was sent.
            Err(error) if error.is_go_away() => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(late >= limits.max_waiting_calls, "{late}");
    while server.shared.waiting_calls() > 0 {
        yield_now().await;
    }
}

#[tokio::test]
async fn a_call_that_its_client_resets_frees_its_place_at_once() {
    let limits = Limits { max_waiting_calls: 0, ..Limits::default() };
    let server = Server::undecided(Undecided::Error, limits).await;
    let mut send = server.raw().await;
    let mut calls: Vec<Open> = (0..4).map(|_| open(&mut send)).collect();
    let (response, _out) = open(&mut send);
    assert_eq!(outcome(response).await.expect("an answer"), (200, RESOURCE_EXHAUSTED), "the fifth");
    assert_eq!((server.shared.waiting_calls(), server.shared.rejected_calls()), (4, 1));
    let (_, mut out) = calls.remove(0);
    out.send_reset(h2::Reason::CANCEL);
    while server.shared.waiting_calls() > 3 {
        yield_now().await;
    }
    assert_eq!(finished(open(&mut send)).await.expect("an answer"), (200, 0), "there is a place");
    for call in calls {
        assert_eq!(finished(call).await.expect("an answer"), (200, 0), "the others wait on");
    }
}

#[tokio::test]
async fn a_connection_that_ends_frees_the_places_of_its_calls() {
    let server = Server::plain().await;
    let mut send = server.raw().await;
    let calls: Vec<Open> = (0..100).map(|_| open(&mut send)).collect();
    while server.shared.waiting_calls() < 100 {
        yield_now().await;
    }
    drop((send, calls));
    while server.shared.waiting_calls() > 0 {
        yield_now().await;
    }
    a_call_in_two_parts_is_served(&server).await;
}

#[tokio::test]
async fn a_connection_whose_messages_are_late_again_and_again_is_asked_to_go_away() {
    // On a slow machine, too, nothing is late while the clock runs.
    let message_timeout = Duration::from_secs(3_600);
    let limits = Limits { message_timeout, request_timeout: message_timeout, ..Limits::default() };
    let server = Server::with(limits).await;
    for (late, leaves) in [(15, false), (16, true)] {
        let stream = TcpStream::connect(server.address).await.expect("connected");
        let (mut send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        let connection = tokio::spawn(connection);
        let calls: Vec<Open> = (0..late).map(|_| open(&mut send)).collect();
        tokio::time::pause();
        for (response, _out) in calls {
            assert_eq!(outcome(response).await.expect("an answer"), (200, DEADLINE_EXCEEDED));
        }
        tokio::time::resume();
        if leaves {
            while send.clone().ready().await.is_ok() {
                yield_now().await;
            }
            drop(send);
            connection.await.expect("no panic").expect("a proper end");
        } else {
            assert_eq!(finished(open(&mut send)).await.expect("an answer"), (200, 0), "it is served");
            assert!(!connection.is_finished());
        }
    }
}
