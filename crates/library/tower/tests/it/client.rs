//! `ClientLayer`: a client that stays within the limits of its servers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, response};
use http_body_util::{BodyExt, Full};
use tokio::sync::Mutex;
use tollgate::{Clock, Timestamp, TokioClock};
use tollgate_tower::Quota;
use tollgate_tower::client::{Backoff, Client, ClientError, ClientLayer, LimitedBy, Replay, ReplayClone};
use tower::{Layer, Service, ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);
const EXACT: Backoff = Backoff { first: SECOND, longest: Duration::from_secs(30), jitter_percent: 0 };

/// A server that answers with these replies, the last one again and again, and when it was asked.
#[derive(Clone)]
struct ScriptedServer {
    replies: Arc<Mutex<Vec<Response<()>>>>,
    asked: Arc<Mutex<Vec<Timestamp>>>,
    clock: TokioClock,
}

fn status(code: u16) -> response::Builder {
    Response::builder().status(code)
}

impl ScriptedServer {
    fn new(replies: Vec<response::Builder>) -> Self {
        let replies = replies.into_iter().rev().map(|reply| reply.body(()).expect("a reply")).collect();
        Self { replies: Arc::new(Mutex::new(replies)), asked: Arc::default(), clock: TokioClock::new() }
    }

    fn layer(&self) -> ClientLayer<tollgate_tower::client::NoReplay, TokioClock> {
        ClientLayer::with_clock(self.clock).backoff(EXACT)
    }

    fn behind<P: Replay<String>>(
        &self,
        layer: ClientLayer<P, TokioClock>,
    ) -> impl Service<
        Request<String>,
        Response = Response<tollgate_tower::Body<Full<Bytes>>>,
        Error = ClientError<std::io::Error>,
        Future: Send,
    > + Clone {
        let server = self.clone();
        let client: Client<_, P, TokioClock> = layer.layer(service_fn(move |request: Request<String>| {
            let server = server.clone();
            async move {
                server.asked.lock().await.push(server.clock.now());
                let mut replies = server.replies.lock().await;
                let reply = if replies.len() > 1 { replies.pop() } else { replies.first().cloned() };
                let reply = reply.expect("one at least");
                Ok::<_, std::io::Error>(reply.map(|()| Full::from(request.into_body())))
            }
        }));
        client
    }

    /// When it was asked, in seconds since the first time.
    async fn asked(&self) -> Vec<u64> {
        let asked = self.asked.lock().await;
        asked.iter().map(|at| at.since(asked[0]).as_secs()).collect()
    }
}

fn get(target: &str) -> Request<String> {
    Request::get(target).body("ping".to_owned()).expect("a request")
}

fn limited<T: std::fmt::Debug>(
    result: Result<T, ClientError<std::io::Error>>,
) -> tollgate_tower::client::Limited {
    match result {
        Err(ClientError::Limited(limited)) => limited,
        other => panic!("not limited: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_form_in_which_a_server_names_a_wait_holds_requests_back_for_that_long() {
    let in_a_minute = (TokioClock::new().now().unix_seconds() + 60).to_string();
    for (name, fields) in [
        ("Retry-After", vec![("retry-after", "60")]),
        ("Retry-After-Ms", vec![("retry-after-ms", "60000")]),
        ("legacy", vec![("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "60")]),
        ("a moment", vec![("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", in_a_minute.as_str())]),
        ("draft 3", vec![("ratelimit-limit", "9"), ("ratelimit-remaining", "0"), ("ratelimit-reset", "60")]),
        ("draft 7", vec![("ratelimit", "limit=9, remaining=0, reset=60")]),
        ("draft 11", vec![("ratelimit", r#""a";r=0;t=60"#)]),
    ] {
        let denial = fields.into_iter().fold(status(429), |reply, (field, value)| reply.header(field, value));
        let server = ScriptedServer::new(vec![denial, status(200)]);
        let client = server.behind(server.layer().wait_up_to(61 * SECOND));
        let first = limited(client.clone().oneshot(get("http://a.example/")).await);
        assert_eq!((first.by, first.was_sent), (LimitedBy::Server, true), "{name}");
        assert_eq!(first.status, Some(StatusCode::TOO_MANY_REQUESTS));
        // Another server is not concerned.
        assert!(client.clone().oneshot(get("http://b.example/")).await.is_ok());
        assert!(client.oneshot(get("http://a.example/")).await.is_ok());
        let asked = server.asked().await;
        assert!(asked[1] == 0 && (59..=60).contains(&asked[2]), "{name}: {asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_fails_at_once_with_a_typed_error_while_the_server_wants_none() {
    let server = ScriptedServer::new(vec![status(429).header("retry-after", "60"), status(200)]);
    let client = server.behind(server.layer());
    let ask = async || client.clone().oneshot(get("http://a.example/")).await;
    assert!(limited(ask().await).reading.is_some());
    tokio::time::advance(20 * SECOND).await;
    let held = limited(ask().await);
    assert_eq!((held.by, held.was_sent, held.status), (LimitedBy::Server, false, None));
    assert_eq!(held.retry_after, Some(40 * SECOND));
    assert_eq!(held.to_string(), "the server's rate limit is exceeded; retry in 40s; nothing was sent");
    assert_eq!(server.asked().await, [0], "it was not asked meanwhile");
    tokio::time::advance(40 * SECOND).await;
    assert!(ask().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn denied_requests_are_sent_again_after_a_backoff_that_doubles() {
    let server = ScriptedServer::new(vec![status(429), status(429), status(429), status(200)]);
    let client = server.behind(server.layer().retry(3, ReplayClone).wait_up_to(60 * SECOND));
    let response = client.oneshot(get("http://a.example/")).await.expect("a response");
    assert_eq!(response.into_body().collect().await.expect("a body").to_bytes(), "ping");
    assert_eq!(server.asked().await, [0, 1, 3, 7]);
}

#[tokio::test(start_paused = true)]
async fn retries_end_with_their_number_and_before_a_wait_that_is_too_long() {
    let server = ScriptedServer::new(vec![status(429)]);
    let client = server.behind(server.layer().retry(2, ReplayClone).wait_up_to(60 * SECOND));
    assert!(limited(client.oneshot(get("http://a.example/")).await).was_sent);
    assert_eq!(server.asked().await, [0, 1, 3]);

    let server = ScriptedServer::new(vec![status(429), status(429).header("retry-after", "60")]);
    let began = server.clock.now();
    let client = server.behind(server.layer().retry(9, ReplayClone).wait_up_to(10 * SECOND));
    let limited = limited(client.oneshot(get("http://a.example/")).await);
    assert_eq!((limited.retry_after, limited.was_sent), (Some(60 * SECOND), true));
    assert_eq!(server.clock.now().since(began), SECOND, "no wait for what comes too late");
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_asked_again_only_for_what_may_be_repeated() {
    for (method, asked) in [("GET", 2), ("PUT", 2), ("POST", 1)] {
        let server = ScriptedServer::new(vec![status(503).header("retry-after", "1"), status(200)]);
        let client = server.behind(server.layer().retry(1, ReplayClone).wait_up_to(60 * SECOND));
        let request = Request::builder().method(method).uri("http://a.example/").body(String::new());
        let result = client.oneshot(request.expect("a request")).await;
        assert_eq!((result.is_ok(), server.asked().await.len()), (asked == 2, asked), "{method}");
    }
    // Without a wait it is a response like any other.
    let server = ScriptedServer::new(vec![status(503)]);
    let response = server.behind(server.layer()).oneshot(get("http://a.example/")).await;
    assert_eq!(response.expect("a response").status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_client_is_advice_and_the_servers_answer_holds() {
    // Its own limit would admit a thousand; the server denies the second one.
    let server = ScriptedServer::new(vec![status(200), status(429).header("retry-after", "5"), status(200)]);
    let layer = server.layer().own_limit(Quota::per_second(1_000), server.clock).expect("a quota");
    let client = server.behind(layer);
    let ask = async || client.clone().oneshot(get("http://a.example/")).await;
    assert!(ask().await.is_ok());
    assert_eq!(limited(ask().await).by, LimitedBy::Server);
    assert_eq!(limited(ask().await).by, LimitedBy::Server);
    tokio::time::advance(5 * SECOND).await;
    assert!(ask().await.is_ok());

    // Its own limit spares the server a request that the server would admit, and says whose limit it was.
    let server = ScriptedServer::new(vec![status(200)]);
    let layer = server.layer().own_limit(Quota::per_second(1), server.clock).expect("a quota");
    let client = server.behind(layer.clone());
    let ask = async || client.clone().oneshot(get("http://a.example/")).await;
    assert!(ask().await.is_ok());
    let own = limited(ask().await);
    assert_eq!((own.by, own.retry_after, own.was_sent), (LimitedBy::Client, Some(SECOND), false));
    let patient = server.behind(layer.wait_up_to(SECOND));
    assert!(patient.oneshot(get("http://a.example/")).await.is_ok());
    assert_eq!(server.asked().await, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_never_sent_gives_its_permit_back() {
    // The server wants no requests for a minute; the client has two permits an hour of its own.
    let server = ScriptedServer::new(vec![status(429).header("retry-after", "60"), status(200)]);
    let layer = server.layer().own_limit(Quota::per_hour(2), server.clock).expect("a quota");
    let client = server.behind(layer.wait_up_to(120 * SECOND));
    let ask = async || client.clone().oneshot(get("http://a.example/")).await;
    assert_eq!(limited(ask().await).by, LimitedBy::Server);
    let given_up = tokio::time::timeout(SECOND, ask()).await;
    assert!(given_up.is_err(), "it waits for the server");
    assert!(ask().await.is_ok(), "the second permit is there again");

    // Nor does one whose service fails before it is called use a permit.
    let server = ScriptedServer::new(vec![status(200)]);
    let layer = server.layer().own_limit(Quota::per_hour(1), server.clock).expect("a quota");
    let failed = layer.clone().layer(NeverReady).oneshot(get("http://a.example/")).await;
    assert!(matches!(failed, Err(ClientError::Service(_))));
    assert!(server.behind(layer).oneshot(get("http://a.example/")).await.is_ok());
}

/// A service that fails before it takes a request.
#[derive(Clone)]
struct NeverReady;

impl tower::Service<Request<String>> for NeverReady {
    type Response = Response<Full<Bytes>>;
    type Error = std::io::Error;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Err(std::io::Error::other("it is gone")))
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        std::future::ready(Err(std::io::Error::other("called before it was ready")))
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_grpc_heeds_the_status_and_its_retry_info() {
    use tollgate_tower::{Limit, RateLimitLayer, Style};
    let clock = TokioClock::new();
    let limit = Limit::with_clock(Quota::per_minute(1), clock).expect("a quota");
    let replies = tollgate_tower::Replies::default().headers(Style::OFF);
    let server = RateLimitLayer::new(limit).replies(replies).layer(service_fn(async |_: Request<String>| {
        Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::default()))
    }));
    let client = ClientLayer::with_clock(clock).backoff(EXACT).layer(server);
    let call = async || {
        let request =
            Request::post("http://a.example/demo.Echo/Say").header("content-type", "application/grpc");
        client.clone().oneshot(request.body(String::new()).expect("a request")).await
    };
    assert!(call().await.is_ok());
    let denied = limited(call().await);
    assert_eq!((denied.retry_after, denied.was_sent), (Some(60 * SECOND), true));
    tokio::time::advance(30 * SECOND).await;
    assert_eq!(limited(call().await).retry_after, Some(30 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn no_server_holds_a_client_back_for_longer_than_it_allows() {
    let server = ScriptedServer::new(vec![status(429).header("retry-after", "99999999999"), status(200)]);
    let client = server.behind(server.layer().longest_hold(10 * SECOND));
    assert_eq!(
        limited(client.clone().oneshot(get("http://a.example/")).await).retry_after,
        Some(10 * SECOND)
    );
    tokio::time::advance(10 * SECOND).await;
    assert!(client.oneshot(get("http://a.example/")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn after_its_last_permit_a_client_that_looks_ahead_waits_for_the_reset() {
    let used_up = || status(200).header("ratelimit", r#""a";r=0;t=30"#);
    for (looks_ahead, passes) in [(true, false), (false, true)] {
        let server = ScriptedServer::new(vec![used_up()]);
        let layer = if looks_ahead { server.layer().hold_at_zero() } else { server.layer() };
        let client = server.behind(layer);
        assert!(client.clone().oneshot(get("http://a.example/")).await.is_ok());
        assert_eq!(client.oneshot(get("http://a.example/")).await.is_ok(), passes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_is_used_again_while_it_is_fresh_and_only_for_the_same_request() {
    let fresh = || status(200).header("cache-control", "max-age=10");
    let server = ScriptedServer::new(vec![fresh()]);
    let client = server.behind(server.layer().cache(2));
    let ask = async |request: Request<String>| {
        let response = client.clone().oneshot(request).await.expect("a response");
        assert_eq!(response.into_body().collect().await.expect("a body").to_bytes(), "ping");
    };
    let as_user = |user: &str| {
        let request = Request::get("http://a.example/").header("authorization", user);
        request.body("ping".to_owned()).expect("a request")
    };
    for (name, request, asked) in [
        ("the first", get("http://a.example/"), 1),
        ("the same", get("http://a.example/"), 1),
        ("another path", get("http://a.example/b"), 2),
        ("another user", as_user("ann"), 3), // takes the place of the first, since only two are kept
        ("that user", as_user("ann"), 3),
        ("the first again", get("http://a.example/"), 4),
    ] {
        ask(request).await;
        assert_eq!(server.asked().await.len(), asked, "{name}");
    }
    tokio::time::advance(10 * SECOND).await;
    ask(get("http://a.example/")).await;
    assert_eq!(server.asked().await.len(), 5, "it is fresh for ten seconds");
}

#[tokio::test(start_paused = true)]
async fn what_must_not_be_kept_is_asked_for_each_time() {
    for (name, reply, method) in [
        ("no age", status(200), "GET"),
        ("no-store", status(200).header("cache-control", "max-age=10, no-store"), "GET"),
        ("vary", status(200).header("cache-control", "max-age=10").header("vary", "user-agent"), "GET"),
        ("old", status(200).header("cache-control", "max-age=10").header("age", "10"), "GET"),
        ("status", status(404).header("cache-control", "max-age=10"), "GET"),
        ("method", status(200).header("cache-control", "max-age=10"), "POST"),
    ] {
        let server = ScriptedServer::new(vec![reply]);
        let client = server.behind(server.layer().cache(10));
        for _ in 0..2 {
            let request = Request::builder().method(method).uri("http://a.example/").body(String::new());
            let response = client.clone().oneshot(request.expect("a request")).await.expect("a response");
            response.into_body().collect().await.expect("a body");
        }
        assert_eq!(server.asked().await.len(), 2, "{name}");
    }
    // A body that is too long, and one that is not read to its end.
    let server = ScriptedServer::new(vec![status(200).header("cache-control", "max-age=10")]);
    let client = server.behind(server.layer().cache(10));
    for body in ["x".repeat((64 << 10) + 1), "unread".to_owned()] {
        for _ in 0..2 {
            let request = Request::get("http://a.example/").body(body.clone()).expect("a request");
            let response = client.clone().oneshot(request).await.expect("a response");
            if body != "unread" {
                response.into_body().collect().await.expect("a body");
            }
        }
    }
    assert_eq!(server.asked().await.len(), 4);
}
