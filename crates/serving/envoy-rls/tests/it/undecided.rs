//! Calls that the rules cannot decide, since they are too large or there is no room for them: each is
//! answered by a decision, on a connection that stays open.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use prost::Message;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate_envoy_rls::Limits;
use tollgate_envoy_rls::proto::check::{CheckRequest, CheckResponse};
use tollgate_envoy_rls::proto::rls::{Code, Entry, RateLimitRequest, RateLimitResponse};
use tollgate_envoy_rls::proto::slots::{AcquireRequest, AcquireResponse};
use tollgate_limiter::Undecided;

use crate::common::{SHOULD_RATE_LIMIT, Server, call, descriptor, framed, request};

const CHECK: &str = "/tollgate.check.v1.CheckService/Check";
const ACQUIRE: &str = "/tollgate.slots.v1.SlotService/Acquire";

/// A whole gRPC answer.
async fn answer(response: h2::client::ResponseFuture) -> RateLimitResponse {
    let mut body = response.await.expect("an answer").into_body();
    let mut bytes = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.expect("whole");
        body.flow_control().release_capacity(chunk.len()).expect("open");
        bytes.extend_from_slice(&chunk);
    }
    RateLimitResponse::decode(&bytes[5..]).expect("a response")
}

fn metric(server: &Server, status: &str, reason: &str) -> u64 {
    let series =
        format!(r#"tollgate_bad_requests_total{{surface="grpc",status="{status}",reason="{reason}"}} "#);
    let metrics = server.limiter.metrics().render();
    metrics
        .lines()
        .find_map(|line| line.strip_prefix(&series))
        .map_or(0, |count| count.parse().expect("a number"))
}

#[tokio::test]
async fn a_request_that_is_too_large_is_decided_by_the_setting() {
    let many = vec![Entry { key: "k".into(), value: "v".into() }; 10_001];
    let entries_of = |request: &mut RateLimitRequest| request.descriptors[0].entries.clone_from(&many);
    let mut deep = request(vec![descriptor("free", "x")]);
    entries_of(&mut deep);
    for (undecided, code, status) in [
        (Undecided::Deny, Some(Code::OverLimit), "OVER_LIMIT"),
        (Undecided::Allow, Some(Code::Ok), "OK"),
        (Undecided::Error, None, "RESOURCE_EXHAUSTED"),
    ] {
        let server = Server::undecided(undecided, Limits::default()).await;
        let mut client = server.client().await;
        for asked in [
            request(vec![descriptor("free", &"x".repeat(4 << 20))]),
            request(vec![descriptor("free", &"x".repeat(20 << 20))]),
        ] {
            let got = client.ask(asked).await;
            match (code, got) {
                (Some(code), Ok(answer)) => {
                    assert_eq!((answer.overall_code(), answer.statuses.len()), (code, 0))
                }
                (None, Err(error)) => assert_eq!(error.code(), tonic::Code::ResourceExhausted),
                (want, got) => panic!("{want:?}: {got:?}"),
            }
        }
        assert_eq!(metric(&server, status, "too_large"), 2);
        for asked in [deep.clone(), request(vec![descriptor("k", "v"); 1_001])] {
            assert_eq!(client.ask(asked).await.ok().map(|answer| answer.overall_code()), code);
        }
        // Just as large as may be, over the same connection.
        let largest = request(vec![descriptor("free", &"x".repeat((4 << 20) - 100))]);
        assert_eq!(client.ask(largest).await.expect("an answer").overall_code(), Code::Ok);
    }
}

#[tokio::test]
async fn programs_get_a_decision_too_and_calls_without_one_an_error() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let entries = vec![Entry { key: "free".into(), value: vec![b'x'; 5 << 20] }];
    let check = CheckRequest { domain: "shop".into(), entries: entries.clone(), ..CheckRequest::default() };
    let answer: CheckResponse = client.unary(CHECK, check).await.expect("an answer");
    assert_eq!((answer.admitted, answer.limit, answer.retry_after), (false, None, None));
    let acquire = AcquireRequest { domain: "shop".into(), entries, id: String::new() };
    let error = client.unary::<_, AcquireResponse>(ACQUIRE, acquire).await.expect_err("too large");
    assert_eq!(error.code(), tonic::Code::ResourceExhausted);
    assert_eq!(
        (metric(&server, "OVER_LIMIT", "too_large"), metric(&server, "RESOURCE_EXHAUSTED", "too_large")),
        (1, 1)
    );
}

#[tokio::test]
async fn calls_without_a_place_or_room_are_denied_and_the_others_decided() {
    let limits = Limits { max_waiting_calls: 0, max_buffered_bytes: 50_000, ..Limits::default() };
    let server = Server::with(limits).await;
    let mut send = server.raw().await;
    let mut open = || send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false).expect("a stream");
    let whole = framed(&request(vec![descriptor("free", &"x".repeat(60_000))]));
    // Larger than all that may be held of calls that have not arrived whole.
    let (response, mut out) = open();
    out.send_data(whole.slice(..40_000), false).expect("open");
    out.send_data(whole.slice(40_000..), true).expect("open");
    assert_eq!(answer(response).await.overall_code(), Code::OverLimit);
    // Four of a connection may always wait.
    let waiting: Vec<_> = (0..4).map(|_| open()).collect();
    let (fifth, _out) = open();
    assert_eq!(answer(fifth).await.overall_code(), Code::OverLimit);
    assert_eq!(metric(&server, "OVER_LIMIT", "overload"), 2);
    for (response, mut out) in waiting {
        out.send_data(framed(&request(vec![descriptor("free", "x")])), true).expect("open");
        assert_eq!(answer(response).await.overall_code(), Code::Ok);
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A proxy resets the calls of clients that go away at once, and sends all of it in one piece.
#[tokio::test]
async fn calls_that_are_reset_at_once_cost_the_connection_of_other_calls_nothing() {
    const RESETS: u32 = 3_000;
    let server = Server::plain().await;
    let mut stream = TcpStream::connect(server.address).await.expect("connected");
    let literal = |name: &str, value: &str| {
        let name_length = name.len() as u8;
        let value_length = value.len() as u8;
        [&[0, name_length], name.as_bytes(), &[value_length], value.as_bytes()].concat()
    };
    let head = [
        vec![0x83, 0x86], // POST, http
        literal(":path", SHOULD_RATE_LIMIT),
        literal(":authority", "x"),
        literal("content-type", "application/grpc"),
        literal("te", "trailers"),
    ]
    .concat();
    let message = framed(&request(vec![descriptor("free", "x")]));
    let mut bytes = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat();
    for number in 0..RESETS {
        let stream = 2 * number + 1;
        bytes.extend(frame(1, 4, stream, &head));
        bytes.extend(frame(0, 1, stream, &message));
        bytes.extend(frame(3, 0, stream, &8_u32.to_be_bytes())); // RST_STREAM: CANCEL
    }
    let last = 2 * RESETS + 1;
    bytes.extend(frame(1, 4, last, &head));
    bytes.extend(frame(0, 1, last, &message));
    stream.write_all(&bytes).await.expect("it reads");
    let mut read = Vec::new();
    // The reply to the last call ends with its trailers.
    let ended = |read: &[u8]| {
        let mut rest = read;
        while let [a, b, c, kind, flags, s, t, u, v, after @ ..] = rest {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let Some(after) = after.get(length..) else { return false };
            assert_ne!(*kind, 7, "the connection goes away");
            if (*kind, *flags & 1, u32::from_be_bytes([*s, *t, *u, *v])) == (1, 1, last) {
                return true;
            }
            rest = after;
        }
        false
    };
    while !ended(&read) {
        assert!(stream.read_buf(&mut read).await.expect("open") > 0, "closed");
    }
    assert_eq!(server.shared.faulty_connections(), 0);
    let mut client = server.client().await;
    client.ask(request(vec![descriptor("free", "x")])).await.expect("an answer");
}
