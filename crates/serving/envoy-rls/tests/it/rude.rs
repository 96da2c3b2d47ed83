//! Malicious or faulty clients: each gets a clear end, and others are served meanwhile.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{SHOULD_RATE_LIMIT, Server, call, descriptor, framed, limiter_with, outcome, request};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_envoy_rls::proto::rls::{Code, Entry};
use tollgate_envoy_rls::{Limits, ReplyOptions, Shared};
use tollgate_limiter::Undecided;

const INVALID_ARGUMENT: i32 = 3;
const DEADLINE_EXCEEDED: i32 = 4;
const RESOURCE_EXHAUSTED: i32 = 8;
const UNIMPLEMENTED: i32 = 12;
const INTERNAL: i32 = 13;

/// Asserts that another client is served.
async fn others_are_served(server: &Server) {
    let mut client = server.client().await;
    let response = client.ask(request(vec![descriptor("free", "x")])).await.expect("an answer");
    assert_eq!(response.overall_code(), Code::Ok);
}

fn prefixed(flag: u8, length: u32, rest: &[u8]) -> Bytes {
    [&[flag][..], &length.to_be_bytes(), rest].concat().into()
}

#[tokio::test]
async fn a_body_that_is_no_request_ends_with_a_status_that_says_so() {
    let server = Server::undecided(Undecided::Error, Limits::default()).await;
    let mut send = server.raw().await;
    let good = framed(&request(vec![descriptor("free", "x")]));
    let two = [&good[..], &good].concat();
    for (name, body, want) in [
        ("nothing", Bytes::new(), INVALID_ARGUMENT),
        ("an empty message", prefixed(0, 0, b""), INVALID_ARGUMENT),
        ("a cut prefix", Bytes::from_static(b"\0\0"), INVALID_ARGUMENT),
        ("a cut message", prefixed(0, 9, b"\x0a"), INVALID_ARGUMENT),
        ("no protobuf", prefixed(0, 4, b"\xff\xff\xff\xff"), INVALID_ARGUMENT),
        ("no descriptor", prefixed(0, 3, b"\x0a\x01\xff"), INVALID_ARGUMENT),
        ("two messages", two.into(), INVALID_ARGUMENT),
        ("more than the message", [&good[..], b"x"].concat().into(), INVALID_ARGUMENT),
        ("a compressed message", prefixed(1, 1, b"x"), INTERNAL),
        ("another flag", prefixed(7, 1, b"x"), INTERNAL),
        ("a huge message", prefixed(0, 4_194_305, b"x"), RESOURCE_EXHAUSTED),
        ("the largest length", prefixed(0, u32::MAX, b"x"), RESOURCE_EXHAUSTED),
    ] {
        let (response, mut out) =
            send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false).unwrap();
        out.send_data(body, true).expect("open");
        assert_eq!(outcome(response).await.expect(name), (200, want), "{name}");
    }
    others_are_served(&server).await;
}

#[tokio::test]
async fn a_header_that_is_no_grpc_ends_with_a_status_that_says_so() {
    let server = Server::plain().await;
    let mut send = server.raw().await;
    let get = http::Request::get("http://tollgate/").body(()).unwrap();
    let json = http::Request::post(format!("http://tollgate{SHOULD_RATE_LIMIT}"));
    let json = json.header("content-type", "application/json").body(()).unwrap();
    for (asked, want) in [
        (get, (405, -1)),
        (json, (415, -1)),
        (call("/no.such.Service/Method").body(()).unwrap(), (200, UNIMPLEMENTED)),
        (call("/envoy.service.ratelimit.v3.RateLimitService/Other").body(()).unwrap(), (200, UNIMPLEMENTED)),
        (call(SHOULD_RATE_LIMIT).header("grpc-encoding", "gzip").body(()).unwrap(), (200, UNIMPLEMENTED)),
        (call(SHOULD_RATE_LIMIT).header("grpc-timeout", "soon").body(()).unwrap(), (200, INVALID_ARGUMENT)),
    ] {
        let name = format!("{asked:?}");
        let (response, _) = send.send_request(asked, true).unwrap();
        assert_eq!(outcome(response).await.expect("an answer"), want, "{name}");
    }
    let gzip = call(SHOULD_RATE_LIMIT).header("grpc-encoding", "gzip").body(()).unwrap();
    let (response, _) = send.send_request(gzip, true).unwrap();
    assert_eq!(response.await.expect("an answer").headers()["grpc-accept-encoding"], "identity");
}

#[tokio::test]
async fn a_message_may_come_byte_by_byte_and_in_no_piece_that_fits() {
    let server = Server::plain().await;
    let mut send = server.raw().await;
    let (response, mut out) = send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false).unwrap();
    for byte in framed(&request(vec![descriptor("free", "x")])) {
        out.send_data(Bytes::copy_from_slice(&[byte]), false).expect("open");
    }
    out.send_data(Bytes::new(), true).expect("open");
    assert_eq!(outcome(response).await.expect("an answer"), (200, 0));
}

#[tokio::test]
async fn requests_of_absurd_size_are_rejected_and_large_ones_answered() {
    let server = Server::undecided(Undecided::Error, Limits::default()).await;
    let mut client = server.client().await;
    let entries = |count| vec![Entry { key: "k".into(), value: "v".into() }; count];
    let mut deep = descriptor("k", "v");
    deep.entries = entries(5_000);
    assert_eq!(client.ask(request(vec![deep.clone()])).await.expect("an answer").overall_code(), Code::Ok);
    let long = descriptor("api_key", &"x".repeat(60_000));
    assert_eq!(client.ask(request(vec![long])).await.expect("an answer").overall_code(), Code::Ok);
    let many = client.ask(request(vec![descriptor("k", "v"); 1_000])).await.expect("an answer");
    assert_eq!(many.statuses.len(), 1_000);
    for (asked, want) in [
        (request(vec![descriptor("k", "v"); 1_001]), tonic::Code::InvalidArgument),
        (request(vec![deep.clone(), deep, descriptor("k", "v")]), tonic::Code::InvalidArgument),
        (request(vec![descriptor("api_key", &"x".repeat(4 << 20))]), tonic::Code::ResourceExhausted),
    ] {
        assert_eq!(client.ask(asked).await.expect_err("rejected").code(), want);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_its_message_ends_at_its_deadline() {
    let server = Server::plain().await;
    let mut send = server.raw().await;
    let slow = call(SHOULD_RATE_LIMIT).header("grpc-timeout", "50m").body(()).unwrap();
    let (response, _out) = send.send_request(slow, false).unwrap();
    assert_eq!(outcome(response).await.expect("an answer"), (200, DEADLINE_EXCEEDED));
    // Without a deadline of its own it has the server's for messages.
    let began = tokio::time::Instant::now();
    let (response, _out) = send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false).unwrap();
    assert_eq!(outcome(response).await.expect("an answer"), (200, DEADLINE_EXCEEDED));
    assert_eq!(began.elapsed().as_secs(), Limits::default().message_timeout.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_speaks_no_http2_is_closed_in_time() {
    let server = Server::plain().await;
    let mut silent = TcpStream::connect(server.address).await.expect("connected");
    let mut wrong = TcpStream::connect(server.address).await.expect("connected");
    wrong.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    let mut bytes = Vec::new();
    // Bytes that the server sends before (its settings) do not matter, only that it closes.
    let _ = wrong.read_to_end(&mut bytes).await;
    let _ = silent.read_to_end(&mut bytes).await;
    tokio::time::resume();
    others_are_served(&server).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_asked_to_go_away_and_a_dead_one_is_dropped() {
    let limits = Limits { idle_timeout: Duration::from_secs(300), ..Limits::default() };
    let server = Server::with(limits).await;
    let idle = TcpStream::connect(server.address).await.expect("connected");
    let (_send, connection) = h2::client::handshake(idle).await.expect("HTTP/2");
    connection.await.expect("goes away without an error");

    // This one answers no ping.
    let mut dead = TcpStream::connect(server.address).await.expect("connected");
    dead.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("sent");
    let _ = dead.read_to_end(&mut Vec::new()).await;
    while server.stats.open() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_connection_is_asked_to_go_away_and_then_dropped() {
    let limits = Limits {
        max_connection_age: Duration::from_secs(60),
        max_connection_age_grace: Duration::from_secs(5),
        ..Limits::default()
    };
    let server = Server::with(limits).await;
    let began = tokio::time::Instant::now();
    let stream = TcpStream::connect(server.address).await.expect("connected");
    let (mut send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    // A call that never ends keeps the connection until the grace is over.
    let (_response, _out) = send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false).unwrap();
    let mut watch = server.raw().await;
    let (watched, _keep) =
        watch.send_request(call("/grpc.health.v1.Health/Watch").body(()).unwrap(), false).unwrap();
    drop((watched, connection.await));
    assert!(began.elapsed() >= Duration::from_secs(60));
    assert!(began.elapsed() <= Duration::from_secs(66), "{:?}", began.elapsed());
}

#[tokio::test]
async fn calls_that_are_reset_at_once_end_their_own_connection_only() {
    let server = Server::plain().await;
    let mut send = server.raw().await;
    for _ in 0..20_000 {
        if send.clone().ready().await.is_err() {
            break;
        }
        let Ok((_response, mut out)) = send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false)
        else {
            break;
        };
        out.send_reset(h2::Reason::CANCEL);
    }
    others_are_served(&server).await;
}

#[tokio::test]
async fn a_flood_on_one_connection_leaves_room_for_another() {
    let server = Server::plain().await;
    let send = server.raw().await;
    let body = framed(&request(vec![descriptor("api_key", "flood")]));
    let flood = tokio::spawn(async move {
        loop {
            tokio::task::yield_now().await;
            let Ok(mut send) = send.clone().ready().await else { return };
            let Ok((response, mut out)) = send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false)
            else {
                return;
            };
            let _ = out.send_data(body.clone(), true);
            tokio::spawn(outcome(response));
        }
    });
    for _ in 0..50 {
        others_are_served(&server).await;
    }
    flood.abort();
}

#[tokio::test]
async fn replies_that_no_client_reads_are_not_kept_for_ever() {
    let server = Server::plain().await;
    let stream = TcpStream::connect(server.address).await.expect("connected");
    let (mut send, connection) = h2::client::Builder::new()
        .initial_window_size(0)
        .handshake::<_, Bytes>(stream)
        .await
        .expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let body = framed(&request(vec![descriptor("free", "x")]));
    let mut held = Vec::new();
    for _ in 0..50 {
        let (response, mut out) =
            send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false).unwrap();
        out.send_data(body.clone(), true).expect("open");
        held.push(response.await.expect("a header"));
    }
    // From here on only time can help.
    tokio::time::pause();
    let _ = connection.await.expect("no panic");
    while server.stats.open() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn unfinished_messages_of_all_connections_together_have_a_cap() {
    let limits = Limits { max_buffered_bytes: 100_000, ..Limits::default() };
    let server = Server::undecided(Undecided::Error, limits).await;
    let mut send = server.raw().await;
    let begun = prefixed(0, 50_000, &[0; 40_000]);
    let mut calls = Vec::new();
    for _ in 0..3 {
        let (response, mut out) =
            send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false).unwrap();
        out.send_data(begun.clone(), false).expect("open");
        calls.push((response, out));
    }
    let (last, mut out) = calls.pop().expect("three");
    out.send_data(vec![0; 10_000].into(), true).expect("open");
    assert_eq!(outcome(last).await.expect("an answer"), (200, RESOURCE_EXHAUSTED));
    drop(calls);
    others_are_served(&server).await;
    let whole = framed(&request(vec![descriptor("free", &"x".repeat(50_000))]));
    let (response, mut out) = send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false).unwrap();
    out.send_data(whole, true).expect("open");
    assert_eq!(outcome(response).await.expect("an answer"), (200, 0), "room came back");
}

#[tokio::test]
async fn the_services_of_all_workers_have_one_cap_on_unfinished_messages() {
    let limits = Limits { max_buffered_bytes: 100_000, ..Limits::default() };
    let shared = Arc::new(Shared::new(&limits));
    let mut servers = Vec::new();
    for _ in 0..2 {
        let all = Arc::clone(&shared);
        let options = ReplyOptions::default();
        let limiter = limiter_with(Undecided::Error);
        servers.push(Server::sharing(all, None, limiter, options, limits.clone()).await);
    }
    let begun = prefixed(0, 50_000, &[0; 40_000]);
    let mut calls = Vec::new();
    for (number, server) in [&servers[0], &servers[1]].into_iter().enumerate() {
        let mut send = server.raw().await;
        let (response, mut out) =
            send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false).unwrap();
        out.send_data(begun.clone(), false).expect("open");
        while shared.buffered_bytes() < 40_000 * (number + 1) {
            tokio::task::yield_now().await;
        }
        calls.push((send, response, out));
    }
    let mut send = servers[1].raw().await;
    let (third, mut out) = send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false).unwrap();
    out.send_data(begun, false).expect("open");
    out.send_data(vec![0; 10_000].into(), true).expect("open");
    assert_eq!(outcome(third).await.expect("an answer"), (200, RESOURCE_EXHAUSTED));
    drop(calls);
    while shared.buffered_bytes() > 0 {
        tokio::task::yield_now().await;
    }
}

/// A connection that gives its replies no window, and that many calls of it, or as many as the server allows.
async fn without_window(server: &Server, calls: usize) -> impl Sized + use<> {
    let stream = TcpStream::connect(server.address).await.expect("connected");
    let mut client = h2::client::Builder::new();
    let (send, connection) =
        client.initial_window_size(0).handshake::<_, Bytes>(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    let mut held = Vec::new();
    for _ in 0..calls {
        let Ok(mut ready) = send.clone().ready().await else { break };
        let Ok((response, mut out)) = ready.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false)
        else {
            break;
        };
        if out.send_data(framed(&request(vec![descriptor("free", "x")])), true).is_err() {
            break;
        }
        held.push(response);
    }
    (send, held)
}

/// Polls until `is_so`; a hang ends with the test's own timeout.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn replies_that_nobody_takes_are_counted_and_given_back() {
    let server = Server::plain().await;
    let stuck = without_window(&server, 50).await;
    until(|| server.shared.unread_bytes() == 50 * 1_024).await;
    others_are_served(&server).await;
    assert_eq!(server.shared.unread_bytes(), 50 * 1_024, "of those who read nothing is held");
    drop(stuck);
    until(|| server.stats.open() == 0).await;
    assert_eq!((server.shared.unread_bytes(), server.shared.cut_connections()), (0, 0));
}

#[tokio::test]
async fn of_the_clients_that_take_no_replies_those_above_an_equal_share_are_closed() {
    let server = Server::with(Limits { max_buffered_bytes: 100 * 1_024, ..Limits::default() }).await;
    let few = without_window(&server, 10).await;
    until(|| server.shared.unread_bytes() == 10 * 1_024).await;
    let many = without_window(&server, 85).await;
    until(|| server.shared.unread_bytes() == 95 * 1_024).await;
    assert_eq!(server.shared.cut_connections(), 0, "both fit");
    // Above the budget. Its own share is 33, and so is that of the one with 10, which is left alone.
    let greedy = without_window(&server, 60).await;
    until(|| server.shared.cut_connections() > 0).await;
    others_are_served(&server).await;
    until(|| server.shared.unread_bytes() < 100 * 1_024).await;
    assert_eq!(server.shared.cut_connections(), 1);
    drop((few, many, greedy));
    until(|| server.stats.open() == 0).await;
    assert_eq!(server.shared.unread_bytes(), 0);
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The bytes of a client that sends many calls at once, and then a ping, before it has read anything.
fn at_once(calls: u32) -> Vec<u8> {
    let field = |tag: u8, value: &str| [&[tag, value.len() as u8], value.as_bytes()].concat();
    let first =
        [&[0x83, 0x86][..], &field(0x44, SHOULD_RATE_LIMIT), &field(0x5f, "application/grpc")].concat();
    let message = framed(&request(vec![descriptor("free", "x")]));
    let mut out = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat();
    for number in 0..calls {
        // The first header is remembered, and the others refer to it.
        let header = if number == 0 { &first[..] } else { &[0x83, 0x86, 0xbf, 0xbe] };
        out.extend(frame(1, 4, 2 * number + 1, header));
        out.extend(frame(0, 1, 2 * number + 1, &message));
    }
    out.extend(frame(6, 0, 0, b"the end?"));
    out
}

#[tokio::test]
async fn a_hundred_calls_before_their_number_is_known_are_borne_and_four_hundred_are_not() {
    let server = Server::with(Limits { max_concurrent_streams: 32, ..Limits::default() }).await;
    for (calls, is_borne) in [(32, true), (100, true), (400, false)] {
        let mut stream = TcpStream::connect(server.address).await.expect("connected");
        stream.write_all(&at_once(calls)).await.expect("it fits");
        let mut read = Vec::new();
        let ping = frame(6, 1, 0, b"the end?");
        let is_answered = |read: &[u8]| read.windows(ping.len()).any(|bytes| bytes == ping);
        while !is_answered(&read) && stream.read_buf(&mut read).await.is_ok_and(|bytes| bytes > 0) {}
        assert_eq!(is_answered(&read), is_borne, "{calls} calls");
        drop(stream);
        until(|| server.stats.open() == 0).await;
        assert_eq!(server.shared.faulty_connections(), u64::from(!is_borne), "{calls} calls");
        others_are_served(&server).await;
    }
}

#[tokio::test]
async fn questions_that_come_before_replies_are_taken_are_held_up_to_four_kibibytes() {
    let server = Server::plain().await;
    let stream = TcpStream::connect(server.address).await.expect("connected");
    let (mut send, connection) = h2::client::Builder::new()
        .initial_window_size(0)
        .handshake::<_, Bytes>(stream)
        .await
        .expect("HTTP/2");
    tokio::spawn(connection);
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let (response, mut out) = send.send_request(call(path).body(()).unwrap(), false).unwrap();
    // Each asks for the services, and takes seven bytes.
    let questions = |number: usize| Bytes::from(prefixed(0, 2, &[0x3a, 0]).repeat(number));
    out.send_data(questions(500), false).expect("open");
    until(|| server.shared.buffered_bytes() == 500 * 7).await;
    out.send_data(questions(100), false).expect("open");
    assert_eq!(outcome(response).await.expect("an answer"), (200, RESOURCE_EXHAUSTED));
    until(|| server.shared.buffered_bytes() == 0).await;
    others_are_served(&server).await;
}
