//! Services that do not answer as they should; `crates/server/tests/process` asks a real one.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

mod grpc;

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tollgate_remote::{
    AcquireError, AddressError, DecidedBy, OnFailure, Permits, Quota, RemoteError, Service,
};

const PATIENCE: Duration = Duration::from_secs(300);

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    (listener, address)
}

/// The body of the next request.
async fn asked(stream: &mut TcpStream) -> serde_json::Value {
    let mut text = Vec::new();
    loop {
        let mut chunk = [0; 4_096];
        let read = stream.read(&mut chunk).await.expect("a request");
        assert!(read > 0, "the connection ended");
        text.extend_from_slice(&chunk[..read]);
        let whole = String::from_utf8_lossy(&text);
        if let Some((_, body)) = whole.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            return body;
        }
    }
}

async fn reply(stream: &mut TcpStream, status: u16, body: &str) {
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("sent");
}

fn decision(outcome: &str) -> String {
    format!(
        r#"{{"outcome":"{outcome}","limit":5,"remaining":4,"delay_ms":0,"retry_after_ms":7,"reset_after_ms":9,
        "rule":"api_key","degraded":null,"descriptors":[]}}"#
    )
}

fn decisions(outcomes: &[&str]) -> String {
    let each: Vec<_> = outcomes.iter().map(|outcome| decision(outcome)).collect();
    format!(r#"{{"decisions":[{}]}}"#, each.join(","))
}

#[tokio::test]
async fn calls_that_come_while_the_service_is_asked_travel_together() {
    let (listener, address) = listener().await;
    let service = Service::at(&address).expect("an address").deadline(PATIENCE);
    let limiter = service.limiter("shop", "api_key");
    let call = |value: &'static str| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.check(value).await })
    };
    let first = call("a");
    let (mut stream, _) = listener.accept().await.expect("a connection");
    assert_eq!(asked(&mut stream).await["requests"].as_array().map(Vec::len), Some(1));
    let rest = [call("b"), call("c"), call("d")];
    while service.waiting() < 3 {
        tokio::task::yield_now().await;
    }
    rest[1].abort(); // given up before it was sent: it takes nothing
    while !rest[1].is_finished() {
        tokio::task::yield_now().await;
    }
    reply(&mut stream, 200, &decisions(&["admit"])).await;
    let together = asked(&mut stream).await;
    let values: Vec<_> = together["requests"]
        .as_array()
        .expect("a batch")
        .iter()
        .map(|request| request["descriptors"][0][0]["value"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(values, ["b", "d"]);
    reply(&mut stream, 200, &decisions(&["deny", "admit"])).await;
    assert!(first.await.expect("joined").expect("an answer").is_admitted);
    let [b, _, d] = rest;
    let b = b.await.expect("joined").expect("an answer");
    assert_eq!((b.is_admitted, b.retry_after), (false, Some(Duration::from_millis(7))));
    assert_eq!((b.rule.as_deref(), b.decided_by), (Some("api_key"), DecidedBy::Service));
    assert!(d.await.expect("joined").expect("an answer").is_admitted);
}

#[tokio::test]
async fn permits_that_are_used_are_told_as_such_and_what_nobody_counted_is_an_error_or_counted_here() {
    let (listener, address) = listener().await;
    let service = Service::at(&address).expect("an address").deadline(PATIENCE);
    let limiter = service.limiter("llm", "team");
    let call = tokio::spawn(async move { limiter.consume("search", 900).await });
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let request = asked(&mut stream).await["requests"][0].clone();
    assert_eq!((&request["consumed"], &request["hits"]), (&900.into(), &serde_json::Value::Null));
    let owing = decision("admit").replace(r#""degraded":null"#, r#""degraded":null,"owed":800"#);
    reply(&mut stream, 200, &format!(r#"{{"decisions":[{owing}]}}"#)).await;
    let answer = call.await.expect("joined").expect("an answer");
    assert_eq!((answer.is_admitted, answer.owed), (true, 800));

    drop((stream, listener));
    let (gone, address) = self::listener().await;
    drop(gone);
    let limiter = Service::at(&address).expect("an address").limiter("llm", "team");
    for policy in [OnFailure::Error, OnFailure::Allow, OnFailure::Deny] {
        let limiter = limiter.clone().on_failure(policy).expect("a policy");
        assert!(limiter.consume("search", 3).await.is_err());
    }
    let local = limiter.on_failure(OnFailure::Local(Quota::per_hour(2))).expect("a quota");
    assert!(local.consume("search", 3).await.is_ok_and(|answer| answer.is_admitted));
    assert!(local.check("search").await.is_ok_and(|answer| !answer.is_admitted));
}

#[tokio::test]
async fn a_question_that_is_rejected_does_not_fail_those_that_travel_with_it() {
    let (listener, address) = listener().await;
    let service = Service::at(&address).expect("an address").deadline(PATIENCE);
    let limiter = service.limiter("shop", "api_key");
    let first = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.check("a").await }
    });
    let (mut stream, _) = listener.accept().await.expect("a connection");
    asked(&mut stream).await;
    let serve = async {
        reply(&mut stream, 200, &decisions(&["admit"])).await;
        for (asks, status) in [(2, 400), (1, 400), (1, 200)] {
            let batch = asked(&mut stream).await;
            assert_eq!(batch["requests"].as_array().map(Vec::len), Some(asks));
            reply(&mut stream, status, &decisions(&["admit"])).await;
        }
    };
    // Both questions are there before the answer to the first one.
    let (bad, good, ()) = tokio::join!(limiter.check("bad"), limiter.check("good"), serve);
    let first = first.await.expect("joined");
    assert!(first.is_ok() && good.is_ok());
    let error = bad.expect_err("rejected");
    assert!(matches!(&error, RemoteError::Rejected { status: 400, .. }), "{error}");
    assert_eq!(error.permits(), Permits::Untaken);
}

#[tokio::test]
async fn an_error_says_whether_permits_may_have_been_taken() {
    let short = Duration::from_millis(20);
    // Nothing listens at this address.
    let (gone, address) = listener().await;
    drop(gone);
    let error = Service::at(&address).expect("an address").limiter("d", "k").check("v").await;
    let error = error.expect_err("unreachable");
    assert!(matches!(error, RemoteError::Unreachable { .. }), "{error}");
    assert_eq!(error.permits(), Permits::Untaken);
    // One that reads the question and says nothing.
    let (silent, address) = listener().await;
    let service = Service::at(&address).expect("an address").deadline(short);
    let limiter = service.limiter("d", "k");
    let (error, _) = tokio::join!(limiter.check("v"), async {
        let (mut stream, _) = silent.accept().await.expect("a connection");
        asked(&mut stream).await;
        stream
    });
    let error = error.expect_err("no answer");
    assert_eq!(error.permits(), Permits::Unknown, "{error}");
    // Ones whose answers make no sense.
    for (status, body) in [(200, "{}".to_owned()), (200, decisions(&[])), (500, String::new())] {
        let (faulty, address) = listener().await;
        let limiter = Service::at(&address).expect("an address").deadline(PATIENCE).limiter("d", "k");
        let (error, ()) = tokio::join!(limiter.check("v"), async {
            let (mut stream, _) = faulty.accept().await.expect("a connection");
            asked(&mut stream).await;
            reply(&mut stream, status, &body).await;
        });
        let error = error.expect_err("lost");
        assert!(matches!(error, RemoteError::Lost { .. }), "{error}");
        assert_eq!(error.permits(), Permits::Unknown);
    }
    for address in
        ["", "127.0.0.1:80", "ftp://127.0.0.1", "http://127.0.0.1/v1", "http://", "grpc://", "grpc://a?b"]
    {
        assert!(matches!(Service::at(address), Err(AddressError::Invalid(_))), "{address}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_does_so_no_longer_than_it_said() {
    let (silent, address) = listener().await;
    for policy in [OnFailure::Error, OnFailure::Allow] {
        let service = Service::at(&address).expect("an address").deadline(PATIENCE);
        let limiter = service.limiter("shop", "api_key").on_failure(policy).expect("a quota");
        let began = tokio::time::Instant::now();
        let timeout = Duration::from_millis(20);
        let error = limiter.acquire("ann", 1, timeout).await;
        assert!(matches!(error, Err(AcquireError::Remote(_))), "{error:?}");
        assert!(began.elapsed() <= timeout + Duration::from_millis(1), "{:?}", began.elapsed());
    }
    drop(silent);
}

#[tokio::test]
async fn a_delay_beyond_the_deadline_is_an_error_that_says_that_the_permits_are_used() {
    let (listener, address) = listener().await;
    let limiter = Service::at(&address).expect("an address").deadline(PATIENCE).limiter("shop", "api_key");
    let call = tokio::spawn(async move { limiter.acquire("ann", 1, PATIENCE).await });
    let (mut stream, _) = listener.accept().await.expect("a connection");
    asked(&mut stream).await;
    let delayed = decision("admit").replace(r#""delay_ms":0"#, r#""delay_ms":400000"#);
    reply(&mut stream, 200, &delayed).await;
    let delay = Duration::from_secs(400);
    assert_eq!(call.await.expect("no panic"), Err(AcquireError::DelayedTooLong { delay }));
}

#[tokio::test]
async fn a_service_that_comes_back_is_found_by_callers_that_never_pause() {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let address = format!("http://{}", socket.local_addr().expect("an address"));
    let limiter = Service::at(&address).expect("an address").deadline(PATIENCE).limiter("shop", "api_key");
    let error = limiter.check("ann").await.expect_err("nobody listens yet");
    assert!(matches!(error, RemoteError::Unreachable { .. }), "{error}");

    let listener = socket.listen(8).expect("it listens");
    let serve = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        asked(&mut stream).await;
        reply(&mut stream, 200, &decisions(&["admit"])).await;
        stream
    };
    let ask = async {
        let began = tokio::time::Instant::now();
        loop {
            match limiter.check("ann").await {
                Ok(answer) => break answer.is_admitted,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
        }
    };
    let (is_admitted, _) = tokio::join!(ask, serve);
    assert!(is_admitted);
}

#[tokio::test]
async fn while_the_service_does_not_answer_the_policy_of_the_limiter_decides() {
    let (gone, address) = listener().await;
    drop(gone);
    let limiter = Service::at(&address).expect("an address").limiter("d", "k");
    let by = async |policy: OnFailure, value: &str| {
        let limiter = limiter.clone().on_failure(policy).expect("a quota");
        let mut answers = Vec::new();
        for _ in 0..3 {
            let answer = limiter.check(value).await.expect("an answer");
            assert_eq!(answer.decided_by, DecidedBy::OnFailure);
            answers.push(answer.is_admitted);
        }
        answers
    };
    assert_eq!(by(OnFailure::Allow, "v").await, [true, true, true]);
    assert_eq!(by(OnFailure::Deny, "v").await, [false, false, false]);
    assert_eq!(by(OnFailure::Local(Quota::per_hour(2)), "v").await, [true, true, false]);
    assert!(limiter.clone().on_failure(OnFailure::Local(Quota::per_hour(2).burst(0))).is_err());
    let local = limiter.on_failure(OnFailure::Local(Quota::per_hour(1))).expect("a quota");
    assert!(local.acquire("v", 1, PATIENCE).await.is_ok());
    let error = local.acquire("v", 1, PATIENCE).await;
    assert!(matches!(error, Err(AcquireError::TooLong { .. })), "{error:?}");
    assert_eq!(local.acquire("v", 2, PATIENCE).await, Err(AcquireError::NeverFits));
}
