//! `QueueLayer`: requests that wait for their turn.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tollgate::{Clock, TokioClock};
use tollgate_tower::{Body, Limit, QueueLayer, Quota};
use tower::limit::ConcurrencyLimitLayer;
use tower::{ServiceBuilder, ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);

fn one_per_second() -> Limit<TokioClock> {
    Limit::with_clock(Quota::per_second(1), TokioClock::new()).expect("a quota")
}

async fn ask(layer: &QueueLayer<TokioClock>, request: Request<()>) -> Response<Body<Full<Bytes>>> {
    let service = ServiceBuilder::new()
        .layer(layer.clone())
        .service(service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(Full::default()))));
    service.oneshot(request).await.expect("a response")
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_turn_and_those_that_cannot_be_in_time_are_denied_at_once() {
    let clock = TokioClock::new();
    let limit = one_per_second();
    let layer = QueueLayer::new(limit.clone(), 2 * SECOND);
    let began = clock.now();
    let requests = (0..4).map(|_| async {
        let response = ask(&layer, Request::new(())).await;
        (response.status(), clock.now().since(began), response.headers().get("retry-after").cloned())
    });
    let mut all: Vec<_> = requests.map(Box::pin).collect();
    // All of them come before any waits: polled once each, in their order.
    let mut done = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    all.retain_mut(|request| match request.as_mut().poll(&mut context) {
        std::task::Poll::Ready(answer) => {
            done.push(answer);
            false
        }
        std::task::Poll::Pending => true,
    });
    for request in all {
        done.push(request.await);
    }
    let seconds = |number: u32| number * SECOND;
    assert_eq!(done[0], (StatusCode::OK, seconds(0), None));
    assert_eq!(done[1], (StatusCode::TOO_MANY_REQUESTS, seconds(0), Some("1".parse().expect("a value"))));
    assert_eq!(done[2], (StatusCode::OK, seconds(1), None));
    assert_eq!(done[3], (StatusCode::OK, seconds(2), None));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_while_it_waits_leaves_the_line() {
    let clock = TokioClock::new();
    let limit = one_per_second();
    let layer = QueueLayer::new(limit.clone(), 10 * SECOND);
    let began = clock.now();
    ask(&layer, Request::new(())).await;
    {
        let mut context = Context::from_waker(Waker::noop());
        let mut waits = pin!(ask(&layer, Request::new(())));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        assert_eq!(limit.limiter().waiting(), 1);
    }
    assert_eq!(limit.limiter().waiting(), 0);
    ask(&layer, Request::new(())).await;
    assert_eq!(clock.now().since(began), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_between_its_turn_and_the_service_gives_its_permit_back() {
    let limit = one_per_second();
    let service = ServiceBuilder::new()
        .layer(QueueLayer::new(limit.clone(), SECOND))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(service_fn(async |_: Request<()>| {
            std::future::pending::<()>().await;
            Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::default()))
        }));
    let mut context = Context::from_waker(Waker::noop());
    let mut busy = pin!(service.clone().oneshot(Request::new(())));
    assert!(busy.as_mut().poll(&mut context).is_pending());
    tokio::time::advance(SECOND).await;
    assert_eq!(limit.limiter().peek(b"").remaining(), 1);
    {
        let mut second = pin!(service.oneshot(Request::new(())));
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert_eq!(limit.limiter().peek(b"").remaining(), 0);
    }
    assert_eq!(limit.limiter().peek(b"").remaining(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_line_is_bounded() {
    let limit = one_per_second();
    let layer = QueueLayer::new(limit, 10 * SECOND).max_waiting(1);
    ask(&layer, Request::new(())).await;
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = pin!(ask(&layer, Request::new(())));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    assert_eq!(ask(&layer, Request::new(())).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    let call = Request::post("/demo.Echo/Say").header("content-type", "application/grpc");
    let busy = ask(&layer, call.body(()).expect("a request")).await;
    assert_eq!(busy.headers()["grpc-status"], "14");
    assert_eq!(waits.await.status(), StatusCode::OK);
}
