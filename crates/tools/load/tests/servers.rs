//! The load generator against tiny servers over real sockets: its report agrees with the servers' behaviour.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tollgate_load::{Ask, Bench, Distribution, End, Plan, Report, RunOutcome};
use tollgate_testkit::certificates::Authority;

fn plan(target: String, ask: Ask) -> Plan {
    Plan {
        target: target.parse().expect("a target"),
        ask,
        connections: 3,
        in_flight: 4,
        rate: None,
        end: End::Requests(1_000),
        warm_up: Duration::ZERO,
        keys: 100,
        distribution: Distribution::Zipf(0.99),
        seed: 1,
        threads: 2,
        cores: Vec::new(),
        patience: Duration::from_secs(300),
        ca: None,
        identity: None,
        token: None,
    }
}

fn check() -> Ask {
    Ask::Check { domain: "d".to_owned(), entries: vec![("k".to_owned(), "{key}".to_owned())], hits: 1 }
}

fn run(plan: &Plan) -> Report {
    plan.run(&mut |_| {}).expect("a run")
}

/// Serves every connection in a thread of its own, each for as long as `serve` likes, and returns the
/// address.
fn serving(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Reads requests that end with `end`, and writes a reply of `answer` to each, until there are no more or the
/// client closes.
fn converse(mut stream: TcpStream, end: &[u8], mut answer: impl FnMut() -> Option<String>) {
    let mut input = Vec::<u8>::new();
    let mut buffer = [0; 4_096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        input.extend(&buffer[..count]);
        while let Some(at) = input.windows(end.len()).position(|window| window == end) {
            input.drain(..at + end.len());
            match answer() {
                Some(text) if stream.write_all(text.as_bytes()).is_ok() => {}
                // Reading on keeps the system from resetting the connection, which would take answers with
                // it.
                _ => {
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                    while let Ok(1..) = stream.read(&mut buffer) {}
                    return;
                }
            }
        }
    }
}

/// Answers like redis-cell: the first 300 of all are admitted, every tenth after that is an error, the rest
/// are denied.
fn three_hundred_pass() -> String {
    let seen = AtomicU64::new(0);
    serving(move |stream| {
        converse(stream, b"$4\r\n3600\r\n", || {
            Some(match seen.fetch_add(1, Ordering::Relaxed) {
                0..300 => "*5\r\n:0\r\n:300\r\n:1\r\n:-1\r\n:5\r\n".to_owned(),
                number if number % 10 == 0 => "-BUSY ask later\r\n".to_owned(),
                _ => "*5\r\n:1\r\n:300\r\n:0\r\n:7\r\n:5\r\n".to_owned(),
            })
        });
    })
}

fn throttle() -> Ask {
    Ask::Command(["CL.THROTTLE", "{key}", "1000", "1000", "3600"].map(str::to_owned).to_vec())
}

#[test]
fn every_reply_of_a_redis_server_is_counted_as_what_it_is() {
    for rate in [None, Some(50_000)] {
        let report = run(&Plan { rate, ..plan(format!("resp://{}", three_hundred_pass()), throttle()) });
        assert_eq!((report.requests, report.admitted, report.denied, report.errors), (1_000, 300, 630, 70));
        assert_eq!(report.error_kinds[0].what, "BUSY ask later");
        assert_eq!(report.sent_late_us.is_some(), rate.is_some());
        assert!(
            report.latency_us.p50 <= report.latency_us.p99 && report.latency_us.p99 <= report.latency_us.max
        );
    }
}

#[test]
fn the_command_prints_json_that_says_the_same() {
    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        bench: Bench,
    }
    let target = format!("resp://{}", three_hundred_pass());
    let words =
        ["bench", "--target", &target, "--throttle", "1000 1000 3600", "-n", "400", "-c", "2", "--json"];
    let mut out = Vec::new();
    let mut talk = Vec::new();
    let outcome = CommandLine::parse_from(words).bench.run(&mut out, &mut talk).expect("written");
    let told = String::from_utf8_lossy(&talk);
    assert_eq!(outcome, RunOutcome::Errors, "{told}");
    let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(
        (&value["requests"], &value["admitted"], &value["errors"]),
        (&400.into(), &300.into(), &10.into())
    );
}

#[test]
fn a_run_that_no_rule_limits_ends_with_a_warning_and_exit_1() {
    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        bench: Bench,
    }
    let seen = AtomicU64::new(0);
    let none = r#"{"outcome":"admit","limit":null,"remaining":null,"rule":null,"descriptors":[]}"#;
    let some = r#"{"outcome":"admit","limit":5,"remaining":4,"rule":"api_key","descriptors":[]}"#;
    let address = serving(move |stream| {
        converse(stream, b"}]]}", || {
            let body = if seen.fetch_add(1, Ordering::Relaxed) < 100 { none } else { some };
            Some(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
        });
    });
    let target = format!("http://{address}");
    let run = |number| {
        let words = ["bench", "--target", &target, "--domain", "shpo", "-n", number, "-c", "1"];
        let mut out = Vec::new();
        let mut talk = Vec::new();
        let outcome = CommandLine::parse_from(words).bench.run(&mut out, &mut talk).expect("written");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (outcome, text(out), text(talk))
    };
    let (outcome, out, talk) = run("90");
    assert_eq!(outcome, RunOutcome::Errors, "{talk}");
    assert!(
        talk.starts_with("warning: nothing was limited: the server has no rule in domain \"shpo\""),
        "{talk}"
    );
    assert!(out.contains("  no rule    90 of those admitted\n"), "{out}");
    let (outcome, out, talk) = run("50");
    assert_eq!((outcome, talk.as_str()), (RunOutcome::Answered, ""), "some matched");
    assert!(out.contains("  no rule    10 of those admitted\n"), "{out}");
    assert!(!run("50").1.contains("no rule"));
}

#[test]
fn without_a_server_it_says_what_to_start() {
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port").local_addr().expect("an address");
    let error = plan(format!("resp://{free}"), throttle()).run(&mut |_| {}).expect_err("nobody there");
    let told = error.to_string();
    assert!(told.contains("Connection refused") && told.contains("--resp 127.0.0.1:"), "{told}");
}

#[test]
fn a_server_that_ends_its_connections_is_dialled_again() {
    // 50 answers a connection.
    let address = serving(|stream| {
        let mut left = 50;
        converse(stream, b"\r\n\r\n", || {
            left -= 1;
            (left >= 0).then(|| "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_owned())
        });
    });
    let report = run(&Plan { in_flight: 1, ..plan(format!("http://{address}/"), Ask::Get) });
    assert_eq!(report.requests, 1_000);
    // The one that finds the connection closed is lost, for it may have been decided.
    assert!((975..=985).contains(&report.admitted), "{report}");
    assert_eq!(report.errors, 1_000 - report.admitted, "{report}");
}

#[test]
fn a_server_that_says_goodbye_costs_no_request() {
    // Every 50th answer says that it is the last; requests pipelined behind it are sent again.
    let address = serving(|stream| {
        let mut left = 50;
        converse(stream, b"\r\n\r\n", || {
            left -= 1;
            let last = if left == 0 { "connection: close\r\n" } else { "" };
            (left >= 0).then(|| format!("HTTP/1.1 200 OK\r\n{last}content-length: 2\r\n\r\nok"))
        });
    });
    for rate in [None, Some(20_000)] {
        let report = run(&Plan { rate, ..plan(format!("http://{address}/"), Ask::Get) });
        assert_eq!((report.requests, report.admitted), (1_000, 1_000), "{report}");
    }
}

#[test]
fn a_server_that_never_answers_costs_no_more_than_the_patience() {
    let address = serving(|stream| converse(stream, b"never", || None));
    for rate in [None, Some(10_000)] {
        let plan = plan(format!("http://{address}/"), Ask::Get);
        let report =
            run(&Plan { rate, end: End::Requests(100), patience: Duration::from_millis(200), ..plan });
        assert_eq!((report.requests, report.errors, report.admitted), (100, 100, 0), "{report}");
        assert!(report.error_kinds.iter().any(|kind| kind.what == "no answer within 200ms"), "{report}");
    }
}

#[test]
fn a_rejected_token_ends_the_connections_with_the_reason() {
    let address = serving(|stream| {
        converse(stream, b"\r\nwrong\r\n", || Some("-WRONGPASS no such token\r\n".to_owned()))
    });
    let plan = Plan { token: Some("wrong".to_owned()), ..plan(format!("resp://{address}"), throttle()) };
    let report = run(&plan);
    assert_eq!((report.requests, report.errors), (1_000, 1_000), "{report}");
    let told = report.to_string();
    assert!(told.contains("the token was rejected: WRONGPASS no such token"), "{told}");
}

/// A gRPC server by the `h2` crate: every third call is over the limit, every tenth of the rest fails.
fn grpc_server(max_streams: u32, tls: Option<tokio_rustls::TlsAcceptor>) -> String {
    let (told, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
            told.send(listener.local_addr().expect("an address").to_string()).expect("somebody waits");
            let seen = Arc::new(AtomicU64::new(0));
            while let Ok((stream, _)) = listener.accept().await {
                let seen = seen.clone();
                match tls.clone() {
                    None => drop(tokio::spawn(answer_calls(stream, max_streams, seen))),
                    Some(tls) => drop(tokio::spawn(async move {
                        // A client that does not trust the certificate disconnects.
                        if let Ok(stream) = tls.accept(stream).await {
                            answer_calls(stream, max_streams, seen).await;
                        }
                    })),
                }
            }
        });
    });
    address.recv().expect("an address")
}

async fn answer_calls<IO>(stream: IO, max_streams: u32, seen: Arc<AtomicU64>)
where
    IO: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(max_streams);
    let mut connection = builder.handshake(stream).await.expect("HTTP/2");
    while let Some(Ok((mut request, mut respond))) = connection.accept().await {
        assert_eq!(request.uri().path(), "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
        assert_eq!(request.headers()["content-type"], "application/grpc");
        assert_eq!(request.headers()["te"], "trailers");
        let seen = seen.clone();
        tokio::spawn(async move {
            let message = request.body_mut().data().await.expect("a message").expect("whole");
            assert_eq!(message.len(), 37);
            let number = seen.fetch_add(1, Ordering::Relaxed);
            let response = || http::Response::builder().header("content-type", "application/grpc");
            if !number.is_multiple_of(3) && number % 10 == 1 {
                let denial = response().header("grpc-status", "8").body(()).expect("a response");
                respond.send_response(denial, true).expect("sent");
                return;
            }
            let code = if number.is_multiple_of(3) { 2 } else { 1 };
            let mut send =
                respond.send_response(response().body(()).expect("a response"), false).expect("sent");
            send.send_data(bytes::Bytes::copy_from_slice(&[0, 0, 0, 0, 2, 8, code]), false).expect("sent");
            let trailers = http::HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-status"),
                http::HeaderValue::from_static("0"),
            )]);
            send.send_trailers(trailers).expect("sent");
        });
    }
}

#[test]
fn calls_of_a_grpc_server_are_counted_as_what_they_are() {
    // With fewer streams than the plan wants in flight, the plan waits for the server.
    for (max_streams, rate) in [(100, None), (2, None), (100, Some(20_000))] {
        let plan = plan(format!("grpc://{}", grpc_server(max_streams, None)), check());
        let report = run(&Plan { rate, end: End::Requests(3_000), ..plan });
        assert_eq!((report.requests, report.denied, report.errors), (3_000, 1_000, 200), "{report}");
        assert_eq!(report.error_kinds[0].what, "gRPC status 8 (resource exhausted)", "{report}");
    }
}

#[test]
fn a_protocol_that_the_server_does_not_speak_is_reported_plainly() {
    let address = serving(|stream| {
        converse(stream, b"\r\n\r\n", || {
            Some("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_owned())
        });
    });
    let report = run(&Plan { end: End::Requests(10), ..plan(format!("grpc://{address}"), check()) });
    assert_eq!(report.errors, 10);
    assert!(report.to_string().contains("not of HTTP/2"), "{report}");
}

#[test]
fn inside_tls_calls_are_counted_too_and_an_unknown_server_or_client_is_rejected() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let issued = authority.issue("the server", 2100);
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, authority: &Authority| {
        let file = folder.path().join(name);
        std::fs::write(&file, authority.pem()).expect("written");
        Some(file)
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let of_clients = rustls::server::WebPkiClientVerifier::builder_with_provider(
        Arc::new(authority.roots()),
        Arc::new(rustls::crypto::aws_lc_rs::default_provider()),
    );
    let mut config = config
        .expect("versions")
        .with_client_cert_verifier(of_clients.allow_unauthenticated().build().expect("a verifier"))
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(issued.cert.as_bytes()).expect("PEM")],
            PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).expect("PEM"),
        )
        .expect("a pair");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let address = grpc_server(100, Some(Arc::new(config).into()));
    let plan = Plan { end: End::Requests(300), ..plan(format!("grpcs://{address}"), check()) };
    let report = run(&Plan { ca: file("ours", &authority), ..plan.clone() });
    assert_eq!((report.requests, report.denied), (300, 100), "{report}");
    // A server that asks for a certificate gets that of --cert; one of a stranger is not accepted.
    for (signer, denied) in [(&authority, 100), (&stranger, 0)] {
        let own = tempfile::tempdir().expect("a folder");
        let identity = Some(signer.issue("a client", 2100).write(own.path()));
        let plan = Plan { ca: file("ours", &authority), identity, ..plan.clone() };
        match plan.run(&mut |_| {}) {
            Ok(report) => assert_eq!((report.requests, report.denied), (300, denied), "{report}"),
            Err(error) => assert!(denied == 0, "{error}"),
        }
    }
    for (ca, why) in [(file("theirs", &stranger), "invalid peer certificate"), (None, "--ca FILE")] {
        let error = Plan { ca, ..plan.clone() }.run(&mut |_| {}).expect_err("not trusted").to_string();
        assert!(error.contains(why), "{error}");
    }
}
