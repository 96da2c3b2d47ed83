//! Permits that requests turn out to use, counted behind axum over real sockets: by handlers, by fields of
//! responses, by bytes; also of bodies that clients do not read to the end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::routing::get;
use axum::{Extension, Router};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tollgate::ManualClock;
use tollgate_tower::{Key, Limit, MissingKey, PostPaidLayer, Quota, Used};
use tower::{Layer, ServiceExt, service_fn};

const TEAM: HeaderName = HeaderName::from_static("x-team");

fn tokens(quota: Quota, clock: &ManualClock) -> Limit<ManualClock> {
    Limit::with_clock(quota, clock.clone()).expect("a quota").named("tokens").by(Key::header(TEAM))
}

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("an address");
    tokio::spawn(axum::serve(listener, app).into_future());
    at
}

async fn connect(at: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(at).await.expect("a server");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-team: search\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request");
    stream
}

/// The status of a request, and its answer.
async fn ask(at: SocketAddr, path: &str) -> (u16, String) {
    let mut answer = String::new();
    connect(at, path).await.read_to_string(&mut answer).await.expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, answer)
}

/// Permits left of the team's limit, and its debt.
fn left(limit: &Limit<ManualClock>) -> (u64, u64) {
    let decision = match limit.limiter().pay(b"search", 0) {
        Ok(admitted) => admitted.decision(),
        Err(denied) => denied.decision(),
    };
    (decision.remaining(), decision.owed())
}

type ToLayer = fn(Limit<ManualClock>) -> PostPaidLayer<ManualClock>;

fn used_of(_status: StatusCode, fields: &HeaderMap) -> u64 {
    fields.get("x-tokens-used").and_then(|it| it.to_str().ok()?.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn what_a_response_has_used_counts_in_full_and_what_is_owed_denies_the_next() {
    // By the handler, by a field of the response, and by the bytes of its body.
    let by_handler = |limit| PostPaidLayer::new(limit);
    let by_field = |limit| PostPaidLayer::new(limit).used(used_of);
    let by_bytes = |limit| PostPaidLayer::new(limit).bytes();
    let layers: [(&str, ToLayer); 3] = [("/handler", by_handler), ("/field", by_field), ("/bytes", by_bytes)];
    for (path, layer) in layers {
        let clock = ManualClock::default();
        let limit = tokens(Quota::per_second(10).burst(1_000), &clock);
        let app = Router::new()
            .route("/handler", get(async |Extension(used): Extension<Used>| used.add(900)))
            .route("/field", get(async || [("x-tokens-used", "900")]))
            .route("/bytes", get(async || "x".repeat(900)))
            .layer(layer(limit.clone()));
        let at = serve(app).await;
        for (status, owed) in [(200, (100, 0)), (200, (0, 800)), (429, (0, 800)), (429, (0, 800))] {
            assert_eq!((ask(at, path).await.0, left(&limit)), (status, owed), "{path}");
        }
        assert!(ask(at, path).await.1.contains("\r\nretry-after: 81\r\n"), "{path}: 801 at ten a second");
        clock.advance(std::time::Duration::from_millis(80_099));
        assert_eq!(ask(at, path).await.0, 429, "{path}: a millisecond early");
        clock.advance(std::time::Duration::from_millis(1));
        let (status, answer) = ask(at, path).await;
        assert_eq!(status, 200, "{path}: {answer}");
        assert!(answer.contains("\r\nx-ratelimit-remaining: 1\r\n"), "before it: {answer}");
    }
}

/// A body of the frames that are sent to it, which says when it is dropped.
struct Fed {
    frames: mpsc::Receiver<Frame<Bytes>>,
    dropped: Arc<Notify>,
}

impl Drop for Fed {
    fn drop(&mut self) {
        self.dropped.notify_one();
    }
}

impl http_body::Body for Fed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.frames.poll_recv(context).map(|frame| frame.map(Ok))
    }
}

fn data(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

#[tokio::test]
async fn a_stream_counts_while_it_is_sent_and_one_that_is_dropped_has_counted_what_was_read() {
    let limit = tokens(Quota::per_second(10).burst(1_000), &ManualClock::default());
    let (to, frames) = mpsc::channel(1);
    let dropped = Arc::new(Notify::new());
    let body = Arc::new(parking_lot::Mutex::new(None));
    *body.lock() = Some(Fed { frames, dropped: Arc::clone(&dropped) });
    let stream = async move |Extension(used): Extension<Used>| {
        let body = body.lock().take().expect("asked once");
        used.add(7); // the question itself
        Response::new(Body::new(body))
    };
    let app = Router::new().route("/", get(stream)).layer(PostPaidLayer::new(limit.clone()).bytes());
    let at = serve(app).await;
    let mut client = connect(at, "/").await;
    let mut read = Vec::new();
    for (piece, used) in [("a".repeat(400), 407), ("b".repeat(900), 1_307)] {
        let last = piece.as_bytes()[0];
        to.send(data(piece.leak())).await.expect("the body is read");
        // The client has read the whole piece, so the layer has counted it.
        while read.iter().filter(|byte| **byte == last).count() < if last == b'a' { 400 } else { 900 } {
            assert!(
                client.read_buf(&mut read).await.expect("more") > 0,
                "{}",
                String::from_utf8_lossy(&read)
            );
        }
        assert_eq!(left(&limit), (1_000_u64.saturating_sub(used), used.saturating_sub(1_000)));
    }
    assert_eq!(ask(at, "/").await.0, 429, "while the stream is still sent");
    drop(client);
    while !to.is_closed() {
        let _ = to.try_send(data("c")); // the server finds the client gone when it writes
        tokio::task::yield_now().await;
    }
    dropped.notified().await;
    assert!(left(&limit).1 >= 307, "{:?}: nothing is given back", left(&limit));
}

#[tokio::test]
async fn trailers_are_read_too_and_several_limits_are_all_charged() {
    let clock = ManualClock::default();
    let team = tokens(Quota::per_second(10).burst(1_000), &clock);
    let all = Limit::with_clock(Quota::per_second(1).burst(5_000), clock).expect("a quota").cost(2);
    let layer = PostPaidLayer::new(team.clone()).and(all.clone()).used(used_of);
    let service = layer.layer(service_fn(async |_: Request<()>| {
        let (to, frames) = mpsc::channel(2);
        let trailers = HeaderMap::from_iter([(
            HeaderName::from_static("x-tokens-used"),
            HeaderValue::from_static("800"),
        )]);
        to.try_send(data("answer")).expect("room");
        to.try_send(Frame::trailers(trailers)).expect("room");
        let mut response = Response::new(Fed { frames, dropped: Arc::default() });
        response.headers_mut().insert("x-tokens-used", HeaderValue::from_static("100"));
        Ok::<_, Infallible>(response)
    }));
    let request = || Request::builder().header(TEAM, "search").body(()).expect("a request");
    let response = service.clone().oneshot(request()).await.expect("an answer");
    assert_eq!((left(&team), all.limiter().peek(b"").remaining()), ((900, 0), 4_800), "the head's");
    response.into_body().collect().await.expect("a body");
    assert_eq!((left(&team), all.limiter().peek(b"").remaining()), ((100, 0), 3_200), "and the trailers'");
    // The limit of all denies, though the team has some left: nothing counts but what is used.
    let _ = all.limiter().pay(b"", 3_200);
    let denied = service.oneshot(request()).await.expect("an answer");
    assert_eq!((denied.status(), left(&team)), (StatusCode::TOO_MANY_REQUESTS, (100, 0)));
}

#[tokio::test]
async fn a_request_without_the_key_is_counted_as_its_limit_says_and_clones_count_for_the_same_request() {
    let clock = ManualClock::default();
    for (missing, status) in [
        (MissingKey::Admit, StatusCode::OK),
        (MissingKey::Share, StatusCode::OK),
        (MissingKey::Reject(StatusCode::UNAUTHORIZED), StatusCode::UNAUTHORIZED),
    ] {
        let limit = tokens(Quota::per_second(10).burst(1_000), &clock).on_missing_key(missing);
        let service = PostPaidLayer::new(limit.clone()).layer(service_fn(async |request: Request<()>| {
            let used = request.extensions().get::<Used>().expect("always there").clone();
            tokio::task::spawn(async move { used.add(u64::MAX) }).await.expect("run");
            Ok::<_, Infallible>(Response::new(String::new()))
        }));
        for call in 0..2 {
            let answer = service.clone().oneshot(Request::new(())).await.expect("an answer");
            let is_shared = missing == MissingKey::Share;
            let want = if is_shared && call == 1 { StatusCode::TOO_MANY_REQUESTS } else { status };
            assert_eq!(answer.status(), want, "{missing:?}, call {call}");
        }
        assert_eq!(left(&limit), (1_000, 0), "{missing:?}: not of the team");
    }
}
