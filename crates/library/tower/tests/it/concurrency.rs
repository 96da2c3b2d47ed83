//! `ConcurrencyLayer`: how many requests a service works on at the same time, and what it learns from them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tollgate::adaptive::{AdaptiveLimit, Finish, Sample, Window};
use tollgate::{AdaptiveLimiter, ConcurrencyLimiter, ManualClock};
use tollgate_tower::{ConcurrencyLayer, HeldBody, Key};
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

type HeldResponse = Response<HeldBody<Full<Bytes>>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

const SECOND: Duration = Duration::from_secs(1);

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn grpc() -> Request<()> {
    let call = Request::post("/demo.Echo/Say").header("content-type", "application/grpc");
    call.body(()).expect("a request")
}

/// Samples that a limiter has learned, one for each call.
#[derive(Clone, Debug, Default)]
pub(super) struct LearnedSamples(Arc<Mutex<Vec<Sample>>>);

impl AdaptiveLimit for LearnedSamples {
    fn limit(&self) -> u64 {
        2
    }

    fn update(&mut self, sample: Sample) {
        self.0.lock().push(sample);
    }
}

impl LearnedSamples {
    pub(super) fn limiter(&self) -> AdaptiveLimiter<ManualClock> {
        let each = Window::default().span(Duration::ZERO).min_samples(1).min_rtt(Duration::ZERO);
        AdaptiveLimiter::with_clock(self.clone(), each, ManualClock::default()).expect("settings")
    }

    /// Ends of the calls since the last look; those that are ignored are missing.
    pub(super) fn take(&self) -> Vec<Finish> {
        let samples = std::mem::take(&mut *self.0.lock());
        let finish = |call: Sample| if call.is_overload { Finish::Overload } else { Finish::Success };
        samples.into_iter().map(finish).collect()
    }
}

/// A service that answers when the test says so.
#[derive(Clone, Default)]
struct Backend {
    go: Arc<Notify>,
    inside: Arc<AtomicU64>,
}

impl Backend {
    async fn answer(self) -> Result<Response<Full<Bytes>>, Infallible> {
        struct Leaves(Arc<AtomicU64>);
        impl Drop for Leaves {
            fn drop(&mut self) {
                self.0.fetch_sub(1, SeqCst);
            }
        }
        self.inside.fetch_add(1, SeqCst);
        let _leaves = Leaves(self.inside);
        self.go.notified().await;
        Ok(Response::new(Full::from("done")))
    }

    fn ask(
        &self,
        layer: &ConcurrencyLayer,
        request: Request<()>,
    ) -> Pin<Box<dyn Future<Output = HeldResponse> + Send>> {
        let backend = self.clone();
        let service = layer.layer(service_fn(move |_: Request<()>| backend.clone().answer()));
        Box::pin(async move { service.oneshot(request).await.unwrap_or_else(|never| match never {}) })
    }
}

#[tokio::test]
async fn requests_beyond_the_limit_are_rejected_at_once_and_say_when_to_retry() {
    let backend = Backend::default();
    let layer = ConcurrencyLayer::fixed(2);
    let mut running = [backend.ask(&layer, Request::new(())), backend.ask(&layer, Request::new(()))];
    running.iter_mut().for_each(|request| assert!(poll(request.as_mut()).is_pending()));
    let rejected = backend.ask(&layer, Request::new(())).await;
    assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(rejected.headers()["retry-after"], "1");
    let text = rejected.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(text, "too many requests are in flight; retry later");
    let call = backend.ask(&layer, grpc()).await;
    assert_eq!(
        (call.status(), &call.headers()["grpc-status"]),
        (StatusCode::OK, &"14".parse().expect("a value"))
    );
    assert!(call.headers().contains_key("grpc-status-details-bin"), "a RetryInfo");

    let other = layer.clone().status(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_millis(2_001));
    let rejected = backend.ask(&other, Request::new(())).await;
    assert_eq!(
        (rejected.status().as_u16(), &rejected.headers()["retry-after"]),
        (429, &"3".parse().expect("a value"))
    );
    assert_eq!(backend.ask(&other, grpc()).await.headers()["grpc-status"], "8");
    let silent = backend.ask(&layer.clone().retry_after(Duration::ZERO), grpc()).await;
    assert!(!silent.headers().contains_key("retry-after"));
    assert!(!silent.headers().contains_key("grpc-status-details-bin"));

    backend.go.notify_waiters();
    for request in running {
        assert_eq!(request.await.status(), StatusCode::OK);
    }
    assert!(poll(backend.ask(&layer, Request::new(())).as_mut()).is_pending(), "there is room again");
}

#[tokio::test]
async fn a_slot_is_held_until_the_body_has_been_read_or_dropped() {
    let limiter = ConcurrencyLimiter::direct(5);
    let layer = ConcurrencyLayer::new(limiter.clone());
    let ask = |layer: &ConcurrencyLayer| {
        let service = layer.layer(service_fn(async |_: Request<()>| {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("some text")))
        }));
        async move { service.oneshot(Request::new(())).await.expect("a response") }
    };
    let mut response = ask(&layer).await;
    assert_eq!(limiter.in_use(), 1);
    let frame = response.body_mut().frame().await.expect("a frame").expect("data");
    assert_eq!(frame.into_data().expect("data"), "some text");
    assert_eq!(limiter.in_use(), 0, "nothing comes after it, and no server looks again");
    drop(ask(&layer).await);
    assert_eq!(limiter.in_use(), 0);
    let response = ask(&layer.until_head()).await;
    assert_eq!(limiter.in_use(), 0);
    drop(response);
    let empty = ConcurrencyLayer::new(limiter.clone())
        .layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))));
    let _response = empty.oneshot(Request::new(())).await.expect("a response");
    assert_eq!(limiter.in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn requests_wait_in_order_for_a_time_and_in_a_line_that_is_bounded() {
    let backend = Backend::default();
    let layer = ConcurrencyLayer::fixed(1).max_wait(10 * SECOND).max_waiting(2);
    let mut first = backend.ask(&layer, Request::new(()));
    assert!(poll(first.as_mut()).is_pending());
    let [mut second, mut third] =
        [backend.ask(&layer, Request::new(())), backend.ask(&layer, Request::new(()))];
    assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
    assert_eq!(backend.inside.load(SeqCst), 1);
    let full = backend.ask(&layer, Request::new(())).await;
    assert_eq!(full.status(), StatusCode::SERVICE_UNAVAILABLE);
    let text = full.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(text, "too many requests wait already; retry later");

    backend.go.notify_waiters();
    drop(first.await); // with its body
    assert!(poll(third.as_mut()).is_pending());
    assert!(poll(second.as_mut()).is_pending());
    assert_eq!(backend.inside.load(SeqCst), 1, "the second is with the backend");
    drop(second); // its client has gone
    assert!(poll(third.as_mut()).is_pending());
    assert_eq!(backend.inside.load(SeqCst), 1, "and now the third");
    let began = tokio::time::Instant::now();
    let late = backend.ask(&layer, Request::new(())).await;
    assert_eq!((late.status(), began.elapsed()), (StatusCode::SERVICE_UNAVAILABLE, 10 * SECOND));
    drop(third);
    assert_eq!(backend.inside.load(SeqCst), 0);
}

#[tokio::test]
async fn callers_have_slots_of_their_own() {
    let layer = ConcurrencyLayer::per_key(1, Key::header(HeaderName::from_static("user")));
    let backend = Backend::default();
    let from = |user: &str| Request::get("/").header("user", user).body(()).expect("a request");
    let mut ann = backend.ask(&layer, from("ann"));
    let mut bob = backend.ask(&layer, from("bob"));
    let mut unnamed = backend.ask(&layer, Request::new(()));
    assert!(poll(ann.as_mut()).is_pending() && poll(bob.as_mut()).is_pending());
    assert!(poll(unnamed.as_mut()).is_pending());
    assert_eq!(backend.ask(&layer, from("ann")).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(backend.ask(&layer, Request::new(())).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(ann);
    assert!(poll(backend.ask(&layer, from("ann")).as_mut()).is_pending());
}

#[tokio::test]
async fn a_handler_that_panics_gives_its_slot_back() {
    let seen = LearnedSamples::default();
    let limiter = seen.limiter();
    let routes: Router = Router::new()
        .route("/", get(async || -> &'static str { std::panic::resume_unwind(Box::new("a fault")) }))
        .layer(ConcurrencyLayer::adaptive(limiter.clone()));
    for _ in 0..3 {
        let request = Request::new(axum::body::Body::empty());
        assert!(tokio::spawn(routes.clone().oneshot(request)).await.is_err_and(|error| error.is_panic()));
    }
    assert_eq!((limiter.in_flight(), seen.take()), (0, vec![]));
}

#[tokio::test]
async fn statuses_say_which_calls_are_an_overload() {
    let seen = LearnedSamples::default();
    let layer = ConcurrencyLayer::adaptive(seen.limiter());
    let good = vec![Finish::Success];
    let shed = vec![Finish::Overload];
    let end = async |layer: &ConcurrencyLayer<ManualClock>, status: u16, code: Option<&'static str>| {
        let service = layer.layer(service_fn(move |_: Request<()>| {
            let mut response = Response::builder().status(status);
            if let Some(code) = code {
                response = response.header("grpc-status", code);
            }
            std::future::ready(Ok::<_, Infallible>(response.body(Full::<Bytes>::from("x")).expect("valid")))
        }));
        let response = service.oneshot(Request::new(())).await.expect("a response");
        response.into_body().collect().await.expect("a body");
        seen.take()
    };
    for (status, code, wanted) in [
        (200, None, &good),
        (404, None, &good),
        (302, None, &good),
        (408, None, &shed),
        (429, None, &shed),
        (503, None, &shed),
        (504, None, &shed),
        (500, None, &vec![]),
        (502, None, &vec![]),
        (200, Some("0"), &good),
        (200, Some("5"), &good), // NOT_FOUND
        (200, Some("4"), &shed),
        (200, Some("8"), &shed),
        (200, Some("14"), &shed),
        (200, Some("13"), &vec![]),
    ] {
        assert_eq!(end(&layer, status, code).await, *wanted, "{status} {code:?}");
        let early = layer.clone().until_head();
        assert_eq!(end(&early, status, code).await, *wanted, "{status} {code:?} by its head");
    }
    let own = layer.judge(|status, _| if status == 500 { Finish::Overload } else { Finish::Ignored });
    assert_eq!(end(&own, 500, None).await, shed);
    assert_eq!(end(&own, 503, None).await, vec![]);
}

#[tokio::test]
async fn errors_that_are_timeouts_are_an_overload_and_others_if_one_says_so() {
    async fn fail<E: Send + 'static>(
        layer: &ConcurrencyLayer<ManualClock>,
        error: impl Fn() -> E + Clone + Send + 'static,
    ) {
        let service = layer.layer(service_fn(move |_: Request<()>| {
            std::future::ready(Err::<Response<Full<Bytes>>, E>(error()))
        }));
        assert!(service.oneshot(Request::new(())).await.is_err());
    }
    let seen = LearnedSamples::default();
    let limiter = seen.limiter();
    let layer = ConcurrencyLayer::adaptive(limiter.clone());
    fail(&layer, || io::Error::from(io::ErrorKind::TimedOut)).await;
    fail(&layer, || BoxError::from(io::Error::other(io::Error::from(io::ErrorKind::TimedOut)))).await;
    fail(&layer, || -> BoxError { io::Error::from(io::ErrorKind::TimedOut).into() }).await;
    let slow = layer.layer(service_fn(async |_: Request<()>| {
        let never = std::future::pending::<Response<Full<Bytes>>>();
        tokio::time::timeout(Duration::ZERO, never).await
    }));
    assert!(slow.oneshot(Request::new(())).await.is_err());
    assert_eq!(seen.take(), [Finish::Overload; 4]);
    fail(&layer, || io::Error::from(io::ErrorKind::ConnectionReset)).await;
    fail(&layer, || BoxError::from("overloaded")).await;
    assert_eq!(seen.take(), []);
    let own = layer
        .overload_error(|error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset)
        .overload_error(|error: &BoxError| error.to_string() == "overloaded");
    fail(&own, || io::Error::from(io::ErrorKind::ConnectionReset)).await;
    fail(&own, || BoxError::from("overloaded")).await;
    fail(&own, || BoxError::from("a fault")).await;
    assert_eq!(seen.take(), [Finish::Overload; 2]);
    assert_eq!(limiter.in_flight(), 0);
}

/// A body of frames, the last of which may be an error.
struct Frames(VecDeque<Result<Frame<Bytes>, io::Error>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(self.0.pop_front())
    }
}

#[tokio::test]
async fn the_trailers_of_a_call_say_how_it_ended_and_a_body_that_breaks_says_nothing() {
    let seen = LearnedSamples::default();
    let limiter = seen.limiter();
    let layer = ConcurrencyLayer::adaptive(limiter.clone());
    let ask = async |code: Option<&'static str>| {
        let service = layer.layer(service_fn(move |_: Request<()>| {
            let last = match code {
                Some(code) => {
                    let fields = [(HeaderName::from_static("grpc-status"), code.parse().expect("a value"))];
                    Ok(Frame::trailers(HeaderMap::from_iter(fields)))
                }
                None => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
            };
            let frames = Frames([Ok(Frame::data(Bytes::from("x"))), last].into());
            std::future::ready(Ok::<_, Infallible>(Response::new(frames)))
        }));
        let mut body = service.oneshot(grpc()).await.expect("a response").into_body();
        body.frame().await.expect("a frame").expect("data");
        assert_eq!((limiter.in_flight(), seen.take()), (1, vec![]));
        let _last = body.frame().await.expect("a frame");
        assert_eq!(limiter.in_flight(), 0, "before the body is dropped");
        seen.take()
    };
    assert_eq!(ask(Some("0")).await, [Finish::Success]);
    assert_eq!(ask(Some("8")).await, [Finish::Overload]);
    assert_eq!(ask(Some("13")).await, []);
    assert_eq!(ask(None).await, []);
}

#[tokio::test]
async fn a_server_of_axum_and_hyper_reads_every_body_to_its_end() {
    let seen = LearnedSamples::default();
    let limiter = seen.limiter();
    let routes: Router = Router::new()
        .route("/text", get(async || "text"))
        .route("/empty", get(async || StatusCode::NO_CONTENT))
        .route("/busy", get(async || (StatusCode::SERVICE_UNAVAILABLE, "busy")))
        .layer(ConcurrencyLayer::adaptive(limiter.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        let service = hyper::service::service_fn(move |request| routes.clone().oneshot(request));
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await
    });
    let stream = TokioIo::new(TcpStream::connect(address).await.expect("a connection"));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.expect("a handshake");
    let client = tokio::spawn(connection);
    for (path, wanted) in [
        ("/text", Finish::Success),
        ("/empty", Finish::Success),
        ("/busy", Finish::Overload),
        ("/none", Finish::Success),
    ] {
        let request = Request::get(path).header("host", "a").body(Empty::<Bytes>::new());
        let response = sender.send_request(request.expect("a request")).await.expect("a response");
        response.into_body().collect().await.expect("a body");
        assert_eq!((seen.take(), limiter.in_flight()), (vec![wanted], 0), "{path}");
    }
    drop(sender);
    assert!(client.await.is_ok_and(|end| end.is_ok()) && server.await.is_ok_and(|end| end.is_ok()));
}

#[derive(Clone, Debug)]
enum CallStep {
    Ask,
    /// A client that waits for its answer goes.
    Go(usize),
    /// The backend answers all that it works on.
    Answer,
    /// A body is read.
    Read(usize),
    Limit(u64),
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever clients and the backend do: never more than the limit are inside, and none is turned away or
    /// kept waiting while there is room.
    #[test]
    fn the_backend_works_on_as_many_as_the_limit_allows_and_no_more(
        steps in prop::collection::vec(prop_oneof![
            5 => Just(CallStep::Ask),
            2 => any::<usize>().prop_map(CallStep::Go),
            2 => Just(CallStep::Answer),
            4 => any::<usize>().prop_map(CallStep::Read),
            1 => (0..5_u64).prop_map(CallStep::Limit),
        ], 1..60),
        waits: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let _entered = runtime.enter();
        let limiter = ConcurrencyLimiter::direct(2);
        let wait = if waits { 3_600 * SECOND } else { Duration::ZERO };
        let backend = Backend::default();
        let layer = ConcurrencyLayer::new(limiter.clone()).max_wait(wait);
        let mut asking = Vec::new();
        let mut answered = Vec::new();
        for step in steps {
            let room_before = limiter.in_use() < limiter.limit();
            match step {
                CallStep::Ask => {
                    let mut request = backend.ask(&layer, Request::new(()));
                    match poll(request.as_mut()) {
                        Poll::Pending => {
                            prop_assert!(waits || room_before);
                            asking.push(request);
                        }
                        Poll::Ready(reply) => {
                            prop_assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
                            // A limit of 0 has nothing to wait for.
                            prop_assert!(!room_before && (!waits || limiter.limit() == 0));
                        }
                    }
                }
                CallStep::Go(which) if !asking.is_empty() => drop(asking.swap_remove(which % asking.len())),
                CallStep::Answer => backend.go.notify_waiters(),
                CallStep::Read(which) if !answered.is_empty() => {
                    let response: HeldResponse =
                        answered.swap_remove(which % answered.len());
                    let mut body = response.into_body();
                    prop_assert!(poll(pin!(body.frame())).is_ready());
                }
                CallStep::Limit(limit) => limiter.set_limit(limit),
                _ => {}
            }
            // Whoever was woken looks.
            for mut request in std::mem::take(&mut asking) {
                match poll(request.as_mut()) {
                    Poll::Ready(reply) if reply.status() == StatusCode::OK => answered.push(reply),
                    Poll::Ready(_) => prop_assert_eq!(limiter.limit(), 0),
                    Poll::Pending => asking.push(request),
                }
            }
            let inside = backend.inside.load(SeqCst);
            prop_assert_eq!(inside + answered.len() as u64, limiter.in_use());
            if limiter.waiting() > 0 {
                prop_assert!(limiter.in_use() >= limiter.limit());
            }
        }
        drop((asking, answered));
        prop_assert_eq!((limiter.in_use(), limiter.waiting(), backend.inside.load(SeqCst)), (0, 0, 0));
    }
}

/// Other layers of tower are in front of it and behind it.
#[tokio::test]
async fn it_wraps_what_is_not_ready_yet() {
    let limiter = ConcurrencyLimiter::direct(2);
    let service = ServiceBuilder::new()
        .layer(ConcurrencyLayer::new(limiter.clone()))
        .layer(tower::limit::ConcurrencyLimitLayer::new(1))
        .service(service_fn(async |_: Request<()>| {
            std::future::pending::<()>().await;
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        }));
    let mut first = pin!(service.clone().oneshot(Request::new(())));
    assert!(poll(first.as_mut()).is_pending());
    {
        let mut second = pin!(service.clone().oneshot(Request::new(())));
        assert!(poll(second.as_mut()).is_pending());
        assert_eq!(limiter.in_use(), 2, "it waits for the inner layer, with a slot");
    }
    assert_eq!(limiter.in_use(), 1);
}
