//! `RateLimitLayer`: which requests reach the service, and what the clients of the others get.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tollgate::{Clock, ManualClock, TokioClock};
use tollgate_tower::{Body, Key, Limit, MissingKey, Quota, Quotas, RateLimitLayer, Replies, Style};
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

const MINUTE: Duration = Duration::from_secs(60);

type LimitedResponse = Response<Body<Full<Bytes>>>;

fn name(text: &'static str) -> HeaderName {
    HeaderName::from_static(text)
}

fn by_user() -> Key {
    Key::header(name("user"))
}

/// A service behind a layer, and how many requests have reached it.
struct Site<C> {
    layer: RateLimitLayer<C>,
    reached: Arc<AtomicUsize>,
}

impl<C: Clock + 'static> Site<C> {
    fn new(layer: RateLimitLayer<C>) -> Self {
        Self { layer, reached: Arc::default() }
    }

    async fn ask(&self, request: Request<()>) -> LimitedResponse {
        let reached = Arc::clone(&self.reached);
        let service = self.layer.layer(service_fn(move |_: Request<()>| {
            reached.fetch_add(1, Relaxed);
            std::future::ready(Ok::<_, std::io::Error>(Response::new(Full::from("done"))))
        }));
        service.oneshot(request).await.expect("a response")
    }

    async fn ask_as(&self, user: &str) -> LimitedResponse {
        let request = Request::get("/").header("user", user);
        self.ask(request.body(()).expect("a request")).await
    }
}

async fn text(response: LimitedResponse) -> String {
    let body = response.into_body().collect().await.expect("a body");
    String::from_utf8(body.to_bytes().to_vec()).expect("a text")
}

fn limit(quota: Quota, clock: &ManualClock) -> Limit<ManualClock> {
    Limit::with_clock(quota, clock.clone()).expect("a quota")
}

#[tokio::test]
async fn two_per_minute_reach_the_service_and_the_third_gets_a_reply_with_the_wait() {
    let clock = ManualClock::default();
    let per_user = limit(Quota::per_minute(2), &clock).named("per user").by(by_user());
    let site = Site::new(RateLimitLayer::new(per_user));
    for left in ["1", "0"] {
        let passed = site.ask_as("ann").await;
        assert_eq!(passed.status(), StatusCode::OK);
        assert_eq!(passed.headers()["x-ratelimit-remaining"], left);
        assert_eq!(text(passed).await, "done");
    }
    let denied = site.ask_as("ann").await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.headers()["retry-after"], "30");
    assert_eq!(denied.headers()["content-type"], "application/problem+json");
    let problem = text(denied).await;
    assert!(problem.contains(r#""violated-policies":["per user"],"retry_after":30"#), "{problem}");
    assert_eq!(site.ask_as("bob").await.status(), StatusCode::OK);
    assert_eq!(site.reached.load(Relaxed), 3, "the denied request did not reach it");
    clock.advance(Duration::from_secs(30) - Duration::from_nanos(1));
    assert_eq!(site.ask_as("ann").await.status(), StatusCode::TOO_MANY_REQUESTS);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(site.ask_as("ann").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn several_limits_admit_together_or_take_nothing_of_any() {
    let clock = ManualClock::default();
    let all = limit(Quota::per_hour(3), &clock).named("all");
    let counter = all.limiter().clone();
    let each = limit(Quota::per_hour(1), &clock).named("each").by(by_user());
    let drafts = Replies::default().headers("draft-11".parse().expect("a style"));
    let site = Site::new(RateLimitLayer::new(all).and(each).replies(drafts));
    let passed = site.ask_as("ann").await;
    assert_eq!(passed.headers()["ratelimit"], r#""all";r=2;t=1200, "each";r=0;t=3600"#);
    let denied = site.ask_as("ann").await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(text(denied).await.contains(r#""violated-policies":["each"]"#));
    assert_eq!(counter.peek(b"").remaining(), 2);
    assert_eq!(site.ask_as("bob").await.status(), StatusCode::OK);
    assert_eq!(site.ask_as("cid").await.status(), StatusCode::OK);
    assert!(text(site.ask_as("dan").await).await.contains(r#""violated-policies":["all"]"#));
}

#[tokio::test]
async fn of_several_limits_that_deny_the_client_sees_the_longest_wait_and_its_name() {
    for is_long_first in [false, true] {
        let clock = ManualClock::default();
        let short = limit(Quota::per_second(2), &clock).named("short");
        let long = limit(Quota::per_minute(2), &clock).named("long").by(by_user());
        let drafts = Replies::default().headers("draft-11".parse().expect("a style"));
        let layer = match is_long_first {
            false => RateLimitLayer::new(short).and(long),
            true => RateLimitLayer::new(long).and(short),
        };
        let site = Site::new(layer.replies(drafts));
        for _ in 0..2 {
            assert_eq!(site.ask_as("ann").await.status(), StatusCode::OK);
        }
        let denied = site.ask_as("ann").await;
        assert_eq!(denied.headers()["retry-after"], "30");
        assert!(text(denied).await.contains(r#""violated-policies":["long"],"retry_after":30"#));
        clock.advance(Duration::from_secs(30) - Duration::from_nanos(1));
        assert_eq!(site.ask_as("ann").await.status(), StatusCode::TOO_MANY_REQUESTS);
        clock.advance(Duration::from_nanos(1));
        assert_eq!(
            site.ask_as("ann").await.status(),
            StatusCode::OK,
            "a retry after exactly the wait passes"
        );
    }
}

#[tokio::test]
async fn a_request_without_the_key_is_counted_admitted_or_rejected_as_the_limit_says() {
    use StatusCode as S;
    let without = || Request::get("/").body(()).expect("a request");
    for (missing, want) in [
        (MissingKey::Share, [S::OK, S::TOO_MANY_REQUESTS]),
        (MissingKey::Admit, [S::OK, S::OK]),
        (MissingKey::Reject(S::UNAUTHORIZED), [S::UNAUTHORIZED, S::UNAUTHORIZED]),
    ] {
        for several in [false, true] {
            let clock = ManualClock::default();
            let mut one = limit(Quota::per_hour(1), &clock).by(by_user()).on_missing_key(missing);
            if several {
                one = one.by(Key::path()).by(Key::method());
            }
            let mut layer = RateLimitLayer::new(one);
            if several {
                layer = layer.and(limit(Quota::per_hour(100), &clock));
            }
            let site = Site::new(layer);
            let got = [site.ask(without()).await.status(), site.ask(without()).await.status()];
            assert_eq!(got, want, "{missing:?}, several: {several}");
            // Those with a key are not affected.
            assert_eq!(site.ask_as("ann").await.status(), S::OK);
            assert_eq!(site.ask_as("ann").await.status(), S::TOO_MANY_REQUESTS);
        }
    }
}

#[tokio::test]
async fn the_reply_to_a_denial_is_what_was_set() {
    let clock = ManualClock::default();
    let replies = Replies::default()
        .headers(Style::OFF)
        .status(StatusCode::SERVICE_UNAVAILABLE)
        .body("application/json", r#"{"limit": "{{policy}}", "wait": {{retry_after}}}"#)
        .expect("a template");
    let limit = limit(Quota::per_hour(1), &clock).named("\"x\"");
    let site = Site::new(RateLimitLayer::new(limit).replies(replies));
    assert!(site.ask_as("ann").await.headers().is_empty());
    let denied = site.ask_as("ann").await;
    assert_eq!(denied.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(denied.headers().len(), 1, "{:?}", denied.headers());
    assert_eq!(denied.headers()["content-type"], "application/json");
    assert_eq!(text(denied).await, r#"{"limit": "\"x\"", "wait": 3600}"#);
    for (content_type, template) in [("a\nb", ""), ("text/plain", "{{nothing}}"), ("text/plain", "{{limit")] {
        Replies::default().body(content_type, template).expect_err(template);
    }
}

#[tokio::test]
async fn the_fields_of_an_inner_denial_stay() {
    let clock = ManualClock::default();
    let outer = limit(Quota::per_hour(100), &clock);
    let inner = limit(Quota::per_hour(1), &clock);
    let service =
        service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::default())));
    let service = ServiceBuilder::new()
        .layer(RateLimitLayer::new(outer))
        .layer(RateLimitLayer::new(inner))
        .service(service);
    let ask = async || service.clone().oneshot(Request::new(())).await.expect("a response");
    assert_eq!(ask().await.headers()["x-ratelimit-remaining"], "99");
    let denied = ask().await;
    assert_eq!(denied.headers()["x-ratelimit-remaining"], "0");
    assert_eq!(denied.headers()["retry-after"], "3600");
}

#[tokio::test]
async fn a_denied_request_leaves_no_place_of_the_inner_service_taken() {
    let clock = ManualClock::default();
    let service = ServiceBuilder::new()
        .layer(RateLimitLayer::new(limit(Quota::per_hour(2), &clock)))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(service_fn(async |_: Request<()>| {
            Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::default()))
        }));
    // Two connections, as of a server: each has a clone that lives on while it is idle.
    let mut one = service.clone();
    let mut other = service;
    for want in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS, StatusCode::TOO_MANY_REQUESTS] {
        for service in [&mut one, &mut other] {
            let ready = service.ready().await.expect("ready: the other keeps no place");
            assert_eq!(ready.call(Request::new(())).await.expect("a response").status(), want);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pacing_quota_holds_requests_and_one_that_is_dropped_gives_its_permit_back() {
    let clock = TokioClock::new();
    let paced = Limit::with_clock(Quota::leaky_queue(1, MINUTE).burst(2), clock).expect("a quota");
    let limiter = paced.limiter().clone();
    let site = Site::new(RateLimitLayer::new(paced));
    let began = clock.now();
    assert_eq!(site.ask_as("ann").await.status(), StatusCode::OK);
    assert_eq!(clock.now(), began);
    {
        let held = pin!(site.ask_as("ann"));
        assert!(!poll_once(held), "it is held");
        assert_eq!(limiter.peek(b"").remaining(), 0);
        assert_eq!(site.ask_as("ann").await.status(), StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!(limiter.peek(b"").remaining(), 1, "the dropped one gave it back");
    assert_eq!(site.ask_as("ann").await.status(), StatusCode::OK);
    assert_eq!(clock.now().since(began), MINUTE);
    assert_eq!(site.reached.load(Relaxed), 2);
}

fn poll_once(future: Pin<&mut impl Future>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[tokio::test]
async fn a_grpc_call_is_denied_with_resource_exhausted_and_the_wait() {
    let clock = ManualClock::default();
    let site = Site::new(RateLimitLayer::new(limit(Quota::per_minute(1), &clock).named("calls")));
    let call = || {
        let request = Request::post("/demo.Echo/Say").header("content-type", "application/grpc+proto");
        request.body(()).expect("a request")
    };
    assert_eq!(site.ask(call()).await.status(), StatusCode::OK);
    let denied = site.ask(call()).await;
    assert_eq!(denied.status(), StatusCode::OK);
    let fields = denied.headers();
    assert_eq!(fields["grpc-status"], "8");
    assert_eq!(fields["content-type"], "application/grpc");
    assert_eq!(fields["retry-after"], "60");
    assert!(fields["grpc-message"].to_str().is_ok_and(|text| text.contains("try again in 1 minute")));
    assert!(fields.contains_key("grpc-status-details-bin"));
    assert_eq!(text(denied).await, "");
}

#[test]
fn the_layer_and_its_service_are_clone_send_and_sync() {
    fn all<T: Clone + Send + Sync + 'static>(_: &T) {}
    let layer = RateLimitLayer::per_peer(Quota::per_second(1)).expect("a quota");
    all(&layer);
    all(&layer.layer(()));
}

#[tokio::test]
async fn keys_with_quotas_of_their_own_see_their_own_numbers() {
    let clock = ManualClock::default();
    let of = |key: &[u8]| key.starts_with(b"premium").then(|| Quota::per_hour(5).burst(3));
    let quotas = || Quotas::by(Quota::per_minute(2), of);
    let limit = |quotas| Limit::with_clock(quotas, clock.clone()).expect("a quota").by(by_user());
    let ietf = || Replies::default().headers("draft-11".parse().expect("a style"));
    for is_alone in [true, false] {
        let limits = match is_alone {
            true => RateLimitLayer::new(limit(quotas())),
            false => RateLimitLayer::new(limit(quotas())).and(limit(Quotas::from(Quota::per_second(1_000)))),
        };
        let site = Site::new(limits.replies(ietf()));
        for (user, admitted, policy) in
            [("ann", 2, r#""default";q=2;w=60"#), ("premium-bob", 3, r#""default";q=5;w=3600"#)]
        {
            for _ in 0..admitted {
                let passed = site.ask_as(user).await;
                assert_eq!(passed.status(), StatusCode::OK, "{user}");
                let shown = passed.headers()["ratelimit-policy"].to_str().expect("a text");
                assert!(shown.starts_with(policy), "{user}: {shown}");
            }
            let denied = site.ask_as(user).await;
            assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS, "{user}");
            let shown = denied.headers()["ratelimit-policy"].to_str().expect("a text");
            assert!(shown.starts_with(policy), "{user}: {shown}");
        }
    }
}
