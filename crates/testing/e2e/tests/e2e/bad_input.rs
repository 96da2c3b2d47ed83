//! Input of hostile or broken clients: they get an error or a bounded answer, and other clients notice
//! nothing.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use crate::drain::{self, OpenCall};
use crate::http;
use crate::rls::{self, Client, Descriptor, Entry, RateLimitRequest};
use crate::skip;
use crate::start::rules;
use crate::tollgate::Tollgate;

const RULES: &str = "domain: d
descriptors:
  - key: k
    rate_limit: {unit: year, requests_per_unit: 1000}
    descriptors:
      - {key: k, rate_limit: {unit: year, requests_per_unit: 1000}}
";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A SETTINGS frame without a setting.
const NO_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// Memory that a server may take on for any of this; a fault takes gigabytes.
const BOUND: u64 = 512 << 20;

/// A server, and a client that must be served whatever the others do.
struct Bystander {
    server: Tollgate,
    client: Client,
    asked: u32,
    resident: u64,
    _rules: tempfile::TempDir,
}

impl Bystander {
    async fn new() -> Self {
        let rules = rules(RULES);
        let server = Tollgate::start(rules.path());
        let client = Client::connect(server.grpc).await.expect("it listens");
        let resident = server.resident();
        Bystander { server, client, asked: 0, resident, _rules: rules }
    }

    /// The old client is served and its count is right, a new one gets in, the HTTP port answers, memory is
    /// bounded.
    async fn is_served(&mut self, meanwhile: &str) {
        self.asked += 1;
        let answer = self.client.ask(rls::hit("d", "k", "bystander")).await;
        let left = answer.unwrap_or_else(|e| panic!("{meanwhile}: {e}")).statuses[0].limit_remaining;
        assert_eq!(left, 1_000 - self.asked, "{meanwhile}");
        let mut new =
            Client::connect(self.server.grpc).await.unwrap_or_else(|e| panic!("{meanwhile}: {e:?}"));
        assert!(new.ask(rls::hit("d", "k", "bystander").peek()).await.is_ok(), "{meanwhile}");
        let health = http::get(self.server.http, "/healthz", &[]).await.expect("an answer");
        assert_eq!(health.status, 200, "{meanwhile}");
        assert!(self.server.runs(), "{meanwhile}");
        let grown = self.server.resident().saturating_sub(self.resident);
        assert!(grown < BOUND, "{meanwhile}: grown by {} MiB", grown >> 20);
        assert!(!self.server.printed().contains("panicked"), "{meanwhile}: {}", self.server.printed());
    }
}

/// Sends bytes as the body of a call and returns the status that gRPC has for it (0 is OK).
async fn raw_call(to: SocketAddr, body: &[u8]) -> Result<i32, h2::Error> {
    let (answer, mut stream) =
        drain::connect(to).await?.ready().await?.send_request(drain::http_request(), false)?;
    let mut rest = Bytes::copy_from_slice(body);
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let Some(Ok(room)) = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await else { break };
        let part = rest.split_to(room.min(rest.len()));
        if stream.send_data(part, false).is_err() {
            break; // it has heard enough
        }
    }
    stream.send_data(Bytes::new(), true).ok();
    let answer = answer.await?;
    let status = |headers: &::http::HeaderMap| headers.get("grpc-status")?.to_str().ok()?.parse().ok();
    if let Some(status) = status(answer.headers()) {
        return Ok(status);
    }
    let mut body = answer.into_body();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len()).ok();
    }
    Ok(body.trailers().await?.as_ref().and_then(status).expect("a gRPC status"))
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    [&[0], &length[..], message].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_messages_are_rejected_and_other_clients_are_served() {
    let mut bystander = Bystander::new().await;
    let nested_groups = [0x0b_u8].repeat(100_000); // start-group tags, one in the other
    for (what, body) in [
        ("no frame", vec![]),
        ("half a frame head", vec![0, 0, 0]),
        ("a frame cut short", framed(&[10, 1, b'd'])[..6].to_vec()),
        ("a compressed frame nobody agreed on", vec![1, 0, 0, 0, 1, 0]),
        ("an unknown frame flag", vec![7, 0, 0, 0, 1, 0]),
        ("bytes that are no message", framed(b"not a message at all")),
        ("a length past the end", framed(&[10, 0xff, 0xff, 0xff, 0x7f, b'd'])),
        (
            "an endless varint",
            framed(&[0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ),
        ("a wrong wire type", framed(&[0x08, 1])),
        ("field number zero", framed(&[0x02, 0])),
        ("groups in groups", framed(&nested_groups)),
        ("an empty message", framed(&[])),
    ] {
        let status = raw_call(bystander.server.grpc, &body).await;
        assert!(!matches!(status, Ok(0)), "{what}: answered OK");
        bystander.is_served(what).await;
    }
    // A request that is too large is decided, since a client of a proxy can cause it.
    let promise = [0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3];
    assert!(matches!(raw_call(bystander.server.grpc, &promise).await, Ok(0)), "a frame that promises 4 GiB");
    bystander.is_served("a frame that promises 4 GiB").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_huge_or_deep_get_a_bounded_answer() {
    let mut bystander = Bystander::new().await;
    let entry = |value: String| Entry { key: "k".into(), value: value.into() };
    let descriptor = |entries| Descriptor { entries, ..Descriptor::default() };
    let request = |descriptors| RateLimitRequest { domain: "d".to_owned(), descriptors, hits_addend: 0 };
    for (what, asked) in [
        ("a domain of 64 MiB", RateLimitRequest { domain: "d".repeat(64 << 20), ..request(vec![]) }),
        ("a value of 3 MiB", request(vec![descriptor(vec![entry("v".repeat(3 << 20))])])),
        ("a value of 64 KiB", request(vec![descriptor(vec![entry("v".repeat(64 << 10))])])),
        ("a descriptor of 100,000 entries", request(vec![descriptor(vec![entry("v".to_owned()); 100_000])])),
        ("100,000 descriptors", request(vec![descriptor(vec![entry("v".to_owned())]); 100_000])),
        ("1,000,000 empty descriptors", request(vec![descriptor(vec![]); 1_000_000])),
        ("control characters", request(vec![descriptor(vec![entry("\0\n\r\u{202e}{}\"".to_owned())])])),
    ] {
        // Its own connection: a server may close a connection after too many errors.
        let mut client = Client::connect(bystander.server.grpc).await.expect("it listens");
        let answer = client.ask(asked).await;
        let told = [Code::InvalidArgument, Code::OutOfRange, Code::ResourceExhausted];
        match &answer {
            Ok(answer) => assert!([rls::OK, rls::OVER_LIMIT].contains(&answer.overall_code), "{what}"),
            Err(status) => assert!(told.contains(&status.code()), "{what}: {status}"),
        }
        println!("{what}: {}", answer.map_or_else(|e| format!("{:?}", e.code()), |_| "answered".to_owned()));
        bystander.is_served(what).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_by_the_thousand_keep_nobody_out() {
    const WANTED: usize = 10_000;
    let mut bystander = Bystander::new().await;
    // The server inherits this process's limit; both keep some for their other work.
    let limits = std::fs::read_to_string("/proc/self/limits").expect("Linux");
    let files = limits.lines().find_map(|l| l.strip_prefix("Max open files")).expect("a limit");
    let files = files.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(WANTED * 2);
    let count = WANTED.min(files.saturating_sub(500));
    if count < WANTED {
        skip::skip(
            "10,000 idle connections",
            format!("{count} instead; a process here may open {files} files"),
        );
    }
    let mut idle = Vec::with_capacity(count);
    for number in 0..count {
        // Half of them begin HTTP/2 and then send nothing, half send nothing at all.
        let mut stream = TcpStream::connect(bystander.server.grpc).await.expect("it listens");
        if number % 2 == 0 {
            stream.write_all(&[PREFACE, NO_SETTINGS].concat()).await.expect("sent");
        }
        idle.push(stream);
        if number % (count / 4) == 0 {
            bystander.is_served(&format!("{number} idle connections")).await;
        }
    }
    bystander.is_served("all idle connections").await;
    let grown = bystander.server.resident() - bystander.resident;
    println!("{count} idle connections: {} KiB each", grown / 1_024 / count as u64);
    drop(idle);
    bystander.is_served("all gone at once").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_streams_and_resets_keep_nobody_out() {
    let mut bystander = Bystander::new().await;
    let mut held = Vec::new();
    for number in 0..50 {
        let connection = drain::connect(bystander.server.grpc).await.expect("a connection");
        for _ in 0..200 {
            // As many as the server lets one connection have; an error is an answer.
            let open =
                tokio::time::timeout(Duration::from_millis(200), OpenCall::open(connection.clone())).await;
            let Ok(Ok(call)) = open else { break };
            held.push(call);
        }
        if number % 10 == 0 {
            bystander.is_served(&format!("{} half-open streams", held.len())).await;
        }
    }
    bystander.is_served(&format!("{} half-open streams", held.len())).await;
    // A connection whose messages are late may be asked to go away: this call has one of its own.
    let own = drain::connect(bystander.server.grpc).await.expect("a connection");
    let last = OpenCall::open(own).await.expect("a place is left for every connection");
    assert_eq!(last.finish().await.expect("answered beside them").overall_code, rls::OK);
    drop(held); // resets them all at once
    bystander.is_served("all of them reset").await;

    for _ in 0..20 {
        let Ok(connection) = drain::connect(bystander.server.grpc).await else { continue };
        for _ in 0..1_000 {
            // Opened and reset at once, over and over; the server may hang up.
            let Ok(Ok(call)) =
                tokio::time::timeout(Duration::from_millis(200), OpenCall::open(connection.clone())).await
            else {
                break;
            };
            drop(call);
        }
    }
    bystander.is_served("opened and reset 20,000 times").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_speak_http2_or_stop_in_the_middle_keep_nobody_out() {
    let mut bystander = Bystander::new().await;
    let noise: Vec<u8> = (0..4_096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut held = Vec::new();
    for (what, bytes) in [
        ("HTTP/1.1", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
        ("the beginning of TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
        ("half a preface", PREFACE[..10].to_vec()),
        ("a preface and silence", PREFACE.to_vec()),
        ("noise", noise.clone()),
        ("a preface and noise", [PREFACE, &noise].concat()),
        ("a frame longer than allowed", [PREFACE, &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat()),
        (
            "settings that make no sense",
            [PREFACE, &[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff]].concat(),
        ),
        ("endless continuations", {
            let empty_continuation = [0, 0, 0, 9, 0, 0, 0, 0, 1].repeat(100_000);
            [PREFACE, NO_SETTINGS, &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82], &empty_continuation].concat()
        }),
        ("pings without end", {
            let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8].repeat(100_000);
            [PREFACE, NO_SETTINGS, &ping].concat()
        }),
    ] {
        let mut stream = TcpStream::connect(bystander.server.grpc).await.expect("it listens");
        // It reads no answers; a server that hangs up or stops reading has done its part.
        tokio::time::timeout(Duration::from_secs(2), stream.write_all(&bytes)).await.ok();
        bystander.is_served(what).await;
        held.push(stream);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_or_oversized_requests_to_the_http_port_end_and_keep_nobody_out() {
    let mut bystander = Bystander::new().await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(bystander.server.http).await.expect("it listens");
        stream.write_all(b"POST /json HTTP/1.1\r\nhost: x\r\nx-slow: ").await.expect("sent");
        slow.push(stream);
    }
    bystander.is_served("200 headers that never end").await;

    for (what, head, endless) in [
        ("a header without end", "GET /healthz HTTP/1.1\r\nx: ", "a"),
        ("headers without end", "GET /healthz HTTP/1.1\r\n", "a: b\r\n"),
        ("a body without end", "POST /json HTTP/1.1\r\ncontent-length: 1000000000\r\n\r\n", "[[[[[[[["),
    ] {
        let mut stream = TcpStream::connect(bystander.server.http).await.expect("it listens");
        stream.write_all(head.as_bytes()).await.expect("sent");
        let chunk = endless.repeat(8_192);
        // At most 64 MiB and five seconds: a bounded server answers or hangs up long before.
        let flood = async {
            for _ in 0..(64 << 20) / chunk.len() {
                if stream.write_all(chunk.as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(5), flood).await.ok();
        let mut answer = Vec::new();
        tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await.ok();
        let answer = String::from_utf8_lossy(&answer);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{what}: {answer}");
        bystander.is_served(what).await;
    }
    // The first to have sent half a header are shown the door.
    for stream in &mut slow {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.ok();
    }
    bystander.is_served("all slow clients ended").await;
}
