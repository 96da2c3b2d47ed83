//! Requests that lack what a limit counts by, where nobody has said what becomes of them.

use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Request, Response, StatusCode as S};
use parking_lot::Mutex;
use tollgate::{LimitKey, ManualClock};
use tollgate_tower::{Key, Limit, MissingKey, QueueLayer, Quota, RateLimitLayer};
use tower::{Layer, ServiceExt, service_fn};
use tracing_subscriber::fmt::MakeWriter;

/// A user that another layer has found out.
#[derive(Clone)]
struct User;

impl LimitKey for User {
    fn key_bytes(&self) -> tollgate::KeyBytes<'_> {
        tollgate::KeyBytes::borrowed(b"user")
    }
}

/// The text that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().clone()).expect("a text");
        text.lines().map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The status of a request, and the code of gRPC.
async fn ask(layer: &RateLimitLayer<ManualClock>, request: Request<()>) -> (S, Option<String>) {
    let service = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(String::new())));
    let response = layer.layer(service).oneshot(request).await.expect("a response");
    let code = response.headers().get("grpc-status").map(|code| code.to_str().expect("a text").to_owned());
    (response.status(), code)
}

fn limit(keys: Vec<Key>) -> Limit<ManualClock> {
    let limit = Limit::with_clock(Quota::per_hour(2), ManualClock::default()).expect("a quota").named("mine");
    keys.into_iter().fold(limit, Limit::by)
}

fn header() -> Key {
    Key::header(HeaderName::from_static("x-api-key"))
}

#[tokio::test]
async fn a_key_that_only_the_service_can_leave_out_is_an_error_of_the_service_and_is_logged_once() {
    let found = Key::address(|head| head.extensions.get::<SocketAddr>().map(SocketAddr::ip));
    for (keys, why) in [
        (vec![Key::peer_ip()], "into_make_service_with_connect_info"),
        (vec![Key::forwarded_ip(2)], "no address in place 2 from the end of the field x-forwarded-for"),
        (vec![found], "the function of Key::address finds no address"),
        (vec![Key::extension::<User>()], "User is among the extensions"),
        (vec![header(), Key::peer_ip()], "into_make_service_with_connect_info"),
    ] {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
        let guard = tracing::subscriber::set_default(subscriber);
        for several in [false, true] {
            let layer = RateLimitLayer::new(limit(keys.clone()));
            let layer = if several { layer.and(limit(Vec::new())) } else { layer };
            for _ in 0..4 {
                assert_eq!(ask(&layer, Request::new(())).await, (S::INTERNAL_SERVER_ERROR, None), "{keys:?}");
            }
            let call = Request::builder().header("content-type", "application/grpc");
            let (_, code) = ask(&layer, call.body(()).expect("a request")).await;
            assert_eq!(code.as_deref(), Some("13"), "{keys:?}");
        }
        drop(guard);
        let lines = log.lines();
        assert_eq!(lines.len(), 2, "one for each limit: {lines:?}");
        assert!(lines.iter().all(|line| line.contains("ERROR") && line.contains(why)), "{lines:?}");
        assert!(lines[0].contains("limit=mine") && lines[0].contains("on_missing_key"), "{lines:?}");
    }
}

#[tokio::test]
async fn clients_that_leave_out_a_key_share_one_and_that_is_logged_once() {
    let part = Key::from_fn(|head| head.uri.path().split('/').nth(1).map(str::to_owned));
    for keys in [vec![header()], vec![part], vec![header(), Key::path()]] {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
        let guard = tracing::subscriber::set_default(subscriber);
        let layer = RateLimitLayer::new(limit(keys.clone()));
        for want in [S::OK, S::OK, S::TOO_MANY_REQUESTS] {
            assert_eq!(ask(&layer, Request::new(())).await.0, want, "{keys:?}");
        }
        drop(guard);
        let lines = log.lines();
        assert!(lines.len() == 1 && lines[0].contains("WARN"), "{lines:?}");
        assert!(lines[0].contains("share the permits of one key"), "{lines:?}");
    }
}

#[tokio::test]
async fn what_is_set_holds_for_every_key() {
    for key in [Key::peer_ip(), Key::extension::<User>(), header()] {
        for (missing, want) in [
            (MissingKey::Share, [S::OK, S::OK, S::TOO_MANY_REQUESTS]),
            (MissingKey::Admit, [S::OK; 3]),
            (MissingKey::Reject(S::FORBIDDEN), [S::FORBIDDEN; 3]),
        ] {
            let layer = RateLimitLayer::new(limit(vec![key.clone()]).on_missing_key(missing));
            for want in want {
                assert_eq!(ask(&layer, Request::new(())).await.0, want, "{key:?} {missing:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_queue_rejects_them_as_well() {
    let layer = QueueLayer::new(limit(vec![Key::peer_ip()]), Duration::ZERO);
    let service = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(String::new())));
    let response = layer.layer(service).oneshot(Request::new(())).await.expect("a response");
    assert_eq!(response.status(), S::INTERNAL_SERVER_ERROR);
}
