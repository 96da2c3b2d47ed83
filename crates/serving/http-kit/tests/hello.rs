//! A surface of a few lines has all of the kit: routing, hints, problems, bodies within bounds, a page, a
//! description.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf, duplex,
};
use tokio::sync::watch;
use tollgate_http_kit::openapi::{self, About, Description, TEXT, schema};
use tollgate_http_kit::reply::text;
use tollgate_http_kit::{
    Access, AdminAccess, Api, HttpSurface, Operation, Problem, Reply, Request, SurfaceSettings, Token, page,
    query,
};
use tollgate_net::Surface as _;

struct Hello;

#[derive(Clone, Copy)]
enum Route {
    Greet,
    Shout,
    Panic,
    Page,
}

const fn row(method: Method, path: &'static str, route: Route, access: Access) -> Operation<Route> {
    Operation {
        method,
        path,
        route,
        access,
        id: path,
        summary: "<says> so",
        describe: || Description::text(TEXT),
    }
}

static OPERATIONS: &[Operation<Route>] = &[
    row(Method::GET, "/hello", Route::Greet, Access::Anyone),
    row(Method::POST, "/shout", Route::Shout, Access::Anyone),
    row(Method::DELETE, "/shout", Route::Panic, Access::Admin),
    row(Method::GET, "/", Route::Page, Access::Anyone),
];

impl Api for Hello {
    type Route = Route;

    fn operations() -> &'static [Operation<Route>] {
        OPERATIONS
    }

    async fn answer(self: &Arc<Self>, route: Route, mut request: Request<'_>) -> Result<Reply, Problem> {
        Ok(match route {
            Route::Greet => {
                let mut name = None;
                for parameter in query::parameters(request.query().unwrap_or_default()) {
                    match parameter? {
                        (key, value) if key == "name" => query::once(&mut name, "name", value.into_owned())?,
                        (key, _) => return Err(query::unknown(&key, &["name"])),
                    }
                }
                text(StatusCode::OK, format!("hello, {}", name.unwrap_or_default()))
            }
            Route::Shout => {
                let body = request.json(16).await?;
                text(StatusCode::OK, body.to_ascii_uppercase())
            }
            Route::Panic => panic!("a fault of the API"),
            Route::Page => page::page(page::head("Hello") + &page::operations(OPERATIONS)),
        })
    }
}

/// A connection to the surface, which ends with it.
fn connect(surface: &Arc<HttpSurface<Hello>>) -> DuplexStream {
    connect_holding(surface, 64 * 1024)
}

/// A connection that holds this many unread bytes.
fn connect_holding(surface: &Arc<HttpSurface<Hello>>, bytes: usize) -> DuplexStream {
    let (ours, theirs) = duplex(bytes);
    let surface = Arc::clone(surface);
    tokio::spawn(async move { surface.serve(theirs, watch::channel(false).1).await });
    ours
}

async fn until(done: impl Fn() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

/// All that comes back to `sent`, until the connection is closed.
async fn talk(surface: &Arc<HttpSurface<Hello>>, sent: &str) -> String {
    let mut stream = connect(surface);
    stream.write_all(sent.as_bytes()).await.expect("it reads");
    stream.shutdown().await.expect("half closed");
    let mut replies = String::new();
    stream.read_to_string(&mut replies).await.expect("it ends");
    replies
}

fn surface(settings: SurfaceSettings) -> Arc<HttpSurface<Hello>> {
    Arc::new(HttpSurface::new(Hello, settings))
}

#[tokio::test]
async fn requests_are_routed_by_the_table_and_others_get_a_hint() {
    let surface = surface(SurfaceSettings::default());
    for (request, status, want) in [
        ("GET /hello?name=a+b%21", "200 OK", "hello, a b!"),
        ("HEAD /hello", "200 OK", "content-length: 7"),
        ("GET /hello?nme=a", "400 Bad Request", "unknown query parameter `nme`; did you mean name?"),
        ("GET /hello?name=a&name=b", "400 Bad Request", "duplicate query parameter `name`"),
        ("GET /hello?name=%f", "400 Bad Request", "has a % without two hexadecimal digits"),
        ("GET /hello?name=%ff", "400 Bad Request", "is not UTF-8"),
        ("GET /hallo", "404 Not Found", "unknown path /hallo; did you mean /hello?"),
        ("PUT /shout", "405 Method Not Allowed", "/shout takes POST, DELETE, OPTIONS"),
        ("OPTIONS /hello", "204 No Content", "allow: GET, HEAD, OPTIONS"),
        ("OPTIONS *", "204 No Content", "allow: GET, HEAD, POST, DELETE, OPTIONS"),
        ("DELETE /shout", "403 Forbidden", "this operation needs an admin token"),
    ] {
        let reply = talk(&surface, &format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {reply}");
        assert!(reply.contains(want), "{request}: {reply}");
        let is_problem = reply.contains("content-type: application/problem+json");
        assert_eq!(is_problem, status.starts_with('4'), "{request}: {reply}");
    }
}

#[tokio::test]
async fn bodies_keep_within_their_bounds() {
    let surface = surface(SurfaceSettings { max_buffered_bytes: 4, ..SurfaceSettings::default() });
    let post = |fields: &str, body: &str| format!("POST /shout HTTP/1.1\r\nhost: x\r\n{fields}\r\n{body}");
    for (sent, status, want) in [
        (post("content-length: 3\r\n", "abc"), 200, "ABC"),
        (post("content-length: 17\r\n", "12345678901234567"), 413, "larger than 16 bytes"),
        (post("content-length: 3\r\ncontent-type: text/plain\r\n", "abc"), 415, "the body must be JSON"),
        (
            post("transfer-encoding: chunked\r\n", "5\r\nabcde\r\n1\r\nf\r\n0\r\n\r\n"),
            503,
            "half-arrived bodies",
        ),
        (post("content-length: 9\r\n", "abc"), 400, "the body cannot be read"),
    ] {
        let reply = talk(&surface, &sent).await;
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")) && reply.contains(want), "{sent}: {reply}");
    }
    assert_eq!(surface.shared().buffered_bytes(), 0, "all of it came back");
}

#[tokio::test]
async fn a_body_above_its_cap_names_the_cap_whatever_had_arrived_before() {
    let surface = surface(SurfaceSettings::default());
    let head = "POST /shout HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    for body in ["11\r\n12345678901234567\r\n0\r\n\r\n", "10\r\n1234567890123456\r\n1\r\n7\r\n0\r\n\r\n"] {
        let reply = talk(&surface, &format!("{head}{body}")).await;
        assert!(reply.contains("the body is larger than 16 bytes"), "{reply}");
    }
    let reply = talk(&surface, &format!("{head}10\r\nabcdefghijklmnop\r\n0\r\n\r\n")).await;
    assert!(reply.ends_with("ABCDEFGHIJKLMNOP"), "{reply}");
}

#[tokio::test]
async fn replies_that_clients_do_not_take_have_one_bound_together() {
    let page = talk(&surface(SurfaceSettings::default()), "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let length = page.split_once("\r\n\r\n").expect("a head").1.len();
    let settings = SurfaceSettings { max_unread_bytes: length * 3 / 2, ..SurfaceSettings::default() };
    let of_all = Arc::new(settings.shared());
    let [one, other] = [(); 2].map(|()| {
        // Each is one of two workers.
        Arc::new(HttpSurface::sharing(Hello, settings.clone(), Arc::clone(&of_all)))
    });
    let mut first = connect_holding(&one, 64);
    first.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it reads");
    until(|| of_all.unread_bytes() == length).await;
    assert_eq!(of_all.over_budget(), 0);
    let mut second = connect_holding(&other, 64);
    second.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it reads");
    until(|| of_all.over_budget() == 1 && of_all.unread_bytes() == length).await;
    let mut cut = Vec::new();
    second.read_to_end(&mut cut).await.expect("it ends");
    assert!(cut.len() <= 64, "{} bytes", cut.len());
    first.shutdown().await.expect("half closed");
    let mut whole = String::new();
    first.read_to_string(&mut whole).await.expect("it ends");
    assert_eq!(whole.split_once("\r\n\r\n").expect("a head").1.len(), length);
    until(|| of_all.unread_bytes() == 0).await;
    assert_eq!((of_all.over_budget(), of_all.slow_readers()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn guesses_at_the_token_are_slowed_by_address() {
    let admin = AdminAccess { token: Token::new("s3cret"), is_loopback: false };
    let surface = surface(SurfaceSettings { admin, ..SurfaceSettings::default() });
    let ask = async |host: u8, token: &str| {
        let (mut ours, theirs) = duplex(64 * 1024);
        let surface = Arc::clone(&surface);
        let peer = Some([192, 0, 2, host].into());
        tokio::spawn(async move { surface.serve_peer(theirs, peer, watch::channel(false).1).await });
        let sent = format!(
            "DELETE /shout HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        );
        ours.write_all(sent.as_bytes()).await.expect("it reads");
        let mut reply = String::new();
        ours.read_to_string(&mut reply).await.expect("it ends");
        reply
    };
    for number in 0..20 {
        let wrong = format!("wrong {}", number / 2); // the same one again is no further guess
        assert!(ask(1, &wrong).await.starts_with("HTTP/1.1 401 "));
    }
    let slowed = ask(1, "s3cret").await;
    assert!(slowed.starts_with("HTTP/1.1 429 ") && slowed.contains("retry-after: 1\r\n"), "{slowed}");
    assert!(slowed.contains("too many wrong admin tokens from this address"), "{slowed}");
    assert!(ask(2, "s3cret").await.starts_with("HTTP/1.1 500 "), "another address reaches the operation");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(ask(1, "s3cret").await.starts_with("HTTP/1.1 500 "), "a second later it is compared");
    let guesses = surface.shared().guesses();
    assert_eq!((guesses.wrong(), guesses.slowed()), (20, 1));
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_closed_once_it_is_idle_for_its_timeout_and_not_before() {
    let timeout = Duration::from_secs(75);
    let surface = surface(SurfaceSettings::default());
    let mut stream = connect(&surface);
    for _ in 0..3 {
        let began = tokio::time::Instant::now();
        tokio::time::advance(timeout - Duration::from_millis(10)).await;
        stream.write_all(b"GET /hello HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it is open");
        let mut reply = [0; 1024];
        assert!(stream.read(&mut reply).await.expect("it is open") > 0);
        assert!(began.elapsed() < timeout);
    }
    let began = tokio::time::Instant::now();
    assert_eq!(stream.read(&mut [0; 16]).await.expect("a proper end"), 0);
    let waited = began.elapsed();
    assert!((timeout..timeout + Duration::from_millis(10)).contains(&waited), "{waited:?}");
}

#[tokio::test]
async fn a_panic_costs_one_request() {
    let admin = AdminAccess { token: Token::new("s3cret"), is_loopback: false };
    let surface = surface(SurfaceSettings { admin, ..SurfaceSettings::default() });
    let sent = "DELETE /shout HTTP/1.1\r\nhost: x\r\nauthorization: Bearer s3cret\r\n\r\n\
                GET /hello HTTP/1.1\r\nhost: x\r\n\r\n";
    let replies = talk(&surface, sent).await;
    assert!(replies.starts_with("HTTP/1.1 500 ") && replies.contains("internal error"), "{replies}");
    assert!(replies.contains("HTTP/1.1 200 OK") && replies.ends_with("hello, "), "{replies}");
}

#[tokio::test]
async fn the_page_and_the_description_are_made_of_the_table() {
    let page = talk(&surface(SurfaceSettings::default()), "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(page.contains("<a href=\"/hello\">/hello</a>") && page.contains("DELETE /shout"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    let about = About { title: "Hello", version: "1", description: "Greets" };
    let document = openapi::document(about, OPERATIONS, &BTreeMap::new());
    let shout = &document["paths"]["/shout"];
    assert_eq!(shout["delete"]["security"], json!([{"admin": []}]));
    assert_eq!(shout["post"]["security"], Value::Null);
    let forbidden = &shout["delete"]["responses"]["403"]["content"]["application/problem+json"];
    assert_eq!(forbidden["schema"], schema("Problem"));
    assert_eq!(document["paths"]["/hello"]["get"]["responses"]["200"]["description"], "OK");
}

/// A stream that counts how often it is read.
struct CountedReads(DuplexStream, Arc<AtomicUsize>);

impl AsyncRead for CountedReads {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.1.fetch_add(1, Relaxed);
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for CountedReads {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Two reads a request: one takes it, one finds that there is no other yet.
#[tokio::test]
async fn a_request_with_a_body_is_read_and_polled_once() {
    let (mut ours, theirs) = duplex(64 * 1024);
    let reads = Arc::new(AtomicUsize::new(0));
    let surface = surface(SurfaceSettings::default());
    let counted = CountedReads(theirs, Arc::clone(&reads));
    tokio::spawn(async move { surface.serve(counted, watch::channel(false).1).await });
    let request = "POST /shout HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\nhi";
    let mut reply = vec![0; 1_024];
    for round in 0..10 {
        let before = reads.load(Relaxed);
        ours.write_all(request.as_bytes()).await.expect("it reads");
        let got = ours.read(&mut reply).await.expect("a reply");
        assert!(reply[..got].ends_with(b"HI"));
        // If anything woke the connection needlessly, it would have its turn now.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        if round > 0 {
            assert_eq!(reads.load(Relaxed) - before, 2, "request {round}");
        }
    }
}
