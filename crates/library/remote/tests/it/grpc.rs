//! Services over gRPC whose every step the test takes.

use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::server::{Builder, SendResponse};
use http::{HeaderMap, Request, Response};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tollgate_remote::{AddressError, OnFailure, Permits, RemoteError, Service, TlsFiles};

use crate::PATIENCE;

type Call = (Request<h2::RecvStream>, SendResponse<Bytes>);

/// `CheckResponse { admitted: true }`, with its prefix.
const ADMITTED: &[u8] = &[0, 0, 0, 0, 2, 8, 1];

/// A service at a port of its own.
struct Fake {
    listener: TcpListener,
    builder: Builder,
}

/// Calls that arrive over one connection, which a task drives.
struct ServedConnection {
    calls: mpsc::UnboundedReceiver<Call>,
    go_away: mpsc::Sender<()>,
}

impl Fake {
    async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.expect("a port"), builder: Builder::new() }
    }

    fn service(&self) -> Service {
        let address = format!("grpc://{}", self.listener.local_addr().expect("an address"));
        Service::at(&address).expect("an address").deadline(PATIENCE)
    }

    async fn connection(&self) -> ServedConnection {
        let (stream, _) = self.listener.accept().await.expect("a connection");
        let mut h2 = self.builder.handshake::<_, Bytes>(stream).await.expect("HTTP/2");
        let (call, calls) = mpsc::unbounded_channel();
        let (go_away, mut asked) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    next = h2.accept() => match next {
                        Some(Ok(next)) => drop(call.send(next)),
                        _ => return,
                    },
                    Some(()) = asked.recv() => h2.graceful_shutdown(),
                }
            }
        });
        ServedConnection { calls, go_away }
    }
}

impl ServedConnection {
    /// The next call with a message; one that is reset before has none.
    async fn call(&mut self) -> SendResponse<Bytes> {
        loop {
            let (request, respond) = self.calls.recv().await.expect("a call");
            assert_eq!(request.uri().path(), "/tollgate.check.v1.CheckService/Check");
            assert_eq!(request.headers()["content-type"], "application/grpc");
            let mut body = request.into_body();
            let mut length = 0;
            let ended = loop {
                match body.data().await {
                    Some(Ok(chunk)) => length += chunk.len(),
                    Some(Err(error)) => break Some(error),
                    None => break None,
                }
            };
            match ended {
                None => return respond,
                Some(error) => assert_eq!((error.reason(), length), (Some(Reason::CANCEL), 0)),
            }
        }
    }
}

fn reply(mut respond: SendResponse<Bytes>, body: &'static [u8], status: Option<u16>) {
    let mut out = respond.send_response(Response::new(()), false).expect("sent");
    out.send_data(Bytes::from_static(body), false).expect("sent");
    let mut trailers = HeaderMap::new();
    if let Some(status) = status {
        trailers.insert("grpc-status", status.into());
        trailers.insert("grpc-message", "it%20says%20why".parse().expect("a value"));
    }
    out.send_trailers(trailers).expect("sent");
}

#[tokio::test]
async fn calls_that_come_together_are_in_flight_together_on_one_connection() {
    let fake = Fake::start().await;
    let service = fake.service();
    let limiter = service.limiter("shop", "api_key");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let limiter = limiter.clone();
        calls.spawn(async move { limiter.check("ann").await });
    }
    let mut connection = fake.connection().await;
    let mut arrived = Vec::new();
    for _ in 0..50 {
        arrived.push(connection.call().await);
    }
    assert_eq!(service.waiting(), 50);
    for respond in arrived {
        reply(respond, ADMITTED, Some(0));
    }
    for answer in calls.join_all().await {
        assert!(answer.expect("an answer").is_admitted);
    }
    assert_eq!(service.waiting(), 0);
}

#[tokio::test]
async fn a_call_that_the_service_has_not_begun_is_asked_again_and_fails_untaken_at_last() {
    let fake = Fake::start().await;
    let limiter = fake.service().limiter("shop", "api_key");
    let reset = async || fake.connection().await.call().await.send_reset(Reason::REFUSED_STREAM);
    let (answer, ()) = tokio::join!(limiter.check("ann"), async {
        reset().await;
        let mut connection = fake.connection().await;
        reply(connection.call().await, ADMITTED, Some(0));
        // The service goes away: what it has begun it answers, and the next call finds another connection.
        let call = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.check("bob").await }
        });
        let begun = connection.call().await;
        connection.go_away.send(()).await.expect("asked");
        let next = tokio::spawn({
            let limiter = limiter.clone();
            async move {
                // Until the connection has closed for new calls, they may still be answered there.
                while limiter.check("cid").await.is_err() {}
            }
        });
        let respond = tokio::select! {
            mut other = fake.connection() => other.call().await,
            respond = connection.call() => respond,
        };
        reply(respond, ADMITTED, Some(0));
        next.await.expect("no panic");
        reply(begun, ADMITTED, Some(0));
        assert!(call.await.expect("no panic").expect("an answer").is_admitted);
    });
    assert!(answer.expect("an answer").is_admitted);

    let fake = Fake::start().await;
    let limiter = fake.service().limiter("shop", "api_key");
    let (answer, ()) = tokio::join!(limiter.check("ann"), async {
        for _ in 0..3 {
            fake.connection().await.call().await.send_reset(Reason::REFUSED_STREAM);
        }
    });
    let error = answer.expect_err("reset each time");
    assert!(matches!(error, RemoteError::Unreachable { .. }), "{error}");
    assert_eq!(error.permits(), Permits::Untaken);
}

#[tokio::test]
async fn an_error_says_whether_permits_may_have_been_taken() {
    for (body, status, want) in [
        (ADMITTED, Some(3), Permits::Untaken),
        (ADMITTED, Some(12), Permits::Untaken),
        (ADMITTED, Some(4), Permits::Unknown),
        (ADMITTED, Some(8), Permits::Unknown),
        (ADMITTED, Some(14), Permits::Unknown),
        (ADMITTED, None, Permits::Unknown),
        (&[], Some(0), Permits::Unknown),
        (&[0, 0, 0, 0, 3, 8, 1], Some(0), Permits::Unknown),
        (&[1, 0, 0, 0, 2, 8, 1], Some(0), Permits::Unknown),
        (&[0, 0, 0, 0, 1, 8], Some(0), Permits::Unknown),
        (&[0; 70_000], Some(0), Permits::Unknown),
    ] {
        let fake = Fake::start().await;
        let limiter = fake.service().limiter("shop", "api_key");
        let (answer, _connection) = tokio::join!(limiter.check("ann"), async {
            let mut connection = fake.connection().await;
            reply(connection.call().await, body, status);
            connection
        });
        let error = answer.expect_err("no answer");
        assert_eq!(error.permits(), want, "{status:?}: {error}");
        if want == Permits::Untaken {
            assert!(error.to_string().contains("it says why"), "{error}");
        }
    }
    // The connection breaks.
    let fake = Fake::start().await;
    let limiter = fake.service().limiter("shop", "api_key");
    let (answer, ()) = tokio::join!(limiter.check("ann"), async {
        let (mut stream, _) = fake.listener.accept().await.expect("a connection");
        let mut read = [0; 4_096];
        while stream.read(&mut read).await.expect("bytes") == read.len() {}
    });
    let error = answer.expect_err("broken");
    assert!(matches!(error, RemoteError::Lost { .. }), "{error}");
    // Too long for any service: not even sent.
    let error = limiter.check(&"x".repeat(65 << 20)).await.expect_err("too long");
    assert!(matches!(error, RemoteError::Rejected { .. }), "{error}");
}

#[tokio::test]
async fn a_call_for_which_the_service_has_no_room_is_not_sent() {
    let mut fake = Fake::start().await;
    fake.builder.max_concurrent_streams(1);
    let service = fake.service();
    let limiter = service.limiter("shop", "api_key");
    let first = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.check("ann").await }
    });
    let mut connection = fake.connection().await;
    let respond = connection.call().await;
    let hurried = service.clone().deadline(Duration::from_millis(20)).limiter("shop", "api_key");
    let error = hurried.check("bob").await.expect_err("no room");
    assert!(matches!(error, RemoteError::NotSent { .. }), "{error}");
    reply(respond, ADMITTED, Some(0));
    assert!(first.await.expect("no panic").expect("an answer").is_admitted);
    let (answer, ()) = tokio::join!(limiter.check("cid"), async {
        reply(connection.call().await, ADMITTED, Some(0));
    });
    assert!(answer.expect("an answer").is_admitted);
    assert!(connection.calls.try_recv().is_err(), "bob's call never came");
}

#[tokio::test]
async fn a_service_that_falls_silent_is_noticed_while_calls_wait_and_asked_over_a_new_connection() {
    let fake = Fake::start().await;
    let service = fake.service().deadline(Duration::from_millis(20));
    let limiter = service.limiter("shop", "api_key");
    // It takes the call, and says nothing.
    let (answer, silent) = tokio::join!(limiter.check("ann"), async {
        let mut connection = fake.connection().await;
        (connection.call().await, connection)
    });
    let error = answer.expect_err("silence");
    assert!(matches!(error, RemoteError::NoAnswer { .. }), "{error}");
    let patient = service.clone().deadline(PATIENCE).limiter("shop", "api_key");
    let (answer, ()) = tokio::join!(patient.check("ann"), async {
        reply(fake.connection().await.call().await, ADMITTED, Some(0));
    });
    assert!(answer.expect("an answer").is_admitted);
    drop(silent);

    // A host that is gone: even a ping has no answer. The call could wait for an hour.
    let gone = Fake::start().await;
    let service = gone.service().deadline(Duration::from_secs(5));
    let limiter = service.limiter("shop", "api_key").on_failure(OnFailure::Allow).expect("a policy");
    let (waited, _stream) =
        tokio::join!(limiter.acquire("ann", 1, Duration::from_secs(3_600)), gone.listener.accept());
    let waited = waited.expect("the policy admits");
    assert!(waited < PATIENCE, "{waited:?}");
}

#[tokio::test]
async fn tls_files_are_for_encrypted_addresses_and_are_read_at_once() {
    let files = TlsFiles { ca_file: Some("no/such.pem".into()), ..TlsFiles::default() };
    let error = Service::with_tls("grpcs://127.0.0.1", files.clone()).expect_err("no file");
    assert!(matches!(error, AddressError::Tls(_)) && error.to_string().contains("no/such.pem"), "{error}");
    for address in ["grpc://127.0.0.1", "http://127.0.0.1"] {
        let error = Service::with_tls(address, files.clone()).expect_err("not encrypted");
        assert!(matches!(error, AddressError::NotEncrypted(_)), "{error}");
    }
}
