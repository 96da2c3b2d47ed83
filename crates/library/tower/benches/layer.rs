//! Overhead of a `RateLimitLayer` for a request, and of a `ConcurrencyLayer`; the variables are the key and
//! the fields, and the limit.
//!
//! `cargo bench -p tollgate-tower` takes a few seconds. Both sides alternate within each repeat, and the
//! median of the repeats is shown. `--only NAME` runs one line.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::disallowed_methods, reason = "a bench")]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::Empty;
use tollgate::AdaptiveLimiter;
use tollgate::adaptive::Gradient2;
use tollgate_tower::{ConcurrencyLayer, Key, Limit, Quota, RateLimitLayer, Replies, Style};
use tower::{Layer, Service, service_fn};

/// `cargo test --bench layer`: everything once, to see that it works.
fn is_smoke() -> bool {
    !std::env::args().any(|argument| argument == "--bench")
}

/// Rounds of 256 requests.
fn rounds() -> u32 {
    if is_smoke() { 1 } else { 781 }
}

/// So much that a run never uses it up.
const PLENTY: u64 = 1_000_000_000;

fn main() {
    let header = Key::header(HeaderName::from_static("x-api-key"));
    println!("{:36} {:>10} {:>10} {:>8}", "ns per request", "without", "with", "added");
    for (name, keys, style) in [
        ("no key, no fields", vec![], Style::OFF),
        ("peer address, no fields", vec![Key::peer_ip()], Style::OFF),
        ("header, no fields", vec![header.clone()], Style::OFF),
        ("peer address and path, no fields", vec![Key::peer_ip(), Key::path()], Style::OFF),
        ("peer address, legacy fields", vec![Key::peer_ip()], Style::default()),
    ] {
        let limit = Limit::new(Quota::per_second(PLENTY)).expect("a quota");
        let limit = keys.into_iter().fold(limit, Limit::by);
        let layer = RateLimitLayer::new(limit).replies(Replies::default().headers(style));
        let inner = || service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(())));
        compare(name, inner(), layer.layer(inner()));
    }
    // What three fields cost that are written by nobody in particular: most of it is the map's.
    let marked = service_fn(async |_: Request<()>| {
        let mut response = Response::new(());
        let fields = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
        for name in fields.map(HeaderName::from_static) {
            response.headers_mut().insert(name, HeaderValue::from_static("1000000000"));
        }
        Ok::<_, std::io::Error>(response)
    });
    let inner = || service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(())));
    compare("no layer, three constant fields", inner(), marked);
    let adaptive = AdaptiveLimiter::new(Gradient2::default()).expect("settings");
    for (name, layer) in [
        ("in flight, fixed", ConcurrencyLayer::fixed(20)),
        ("in flight, per peer address", ConcurrencyLayer::per_key(20, Key::peer_ip())),
        ("in flight, adaptive", ConcurrencyLayer::adaptive(adaptive)),
    ] {
        let inner = || {
            service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(Empty::<Bytes>::new())))
        };
        compare(name, inner(), layer.layer(inner()));
    }
}

fn compare(name: &str, mut bare: impl Service<Request<()>>, mut limited: impl Service<Request<()>>) {
    if std::env::args().skip_while(|argument| argument != "--only").nth(1).is_some_and(|only| only != name) {
        return;
    }
    let mut without = Vec::new();
    let mut with = Vec::new();
    for _ in 0..if is_smoke() { 1 } else { 15 } {
        without.push(timed(&mut bare));
        with.push(timed(&mut limited));
    }
    let without = median(without);
    let with = median(with);
    println!("{name:36} {without:10.1} {with:10.1} {:8.1}", with - without);
}

fn timed<S: Service<Request<()>>>(service: &mut S) -> f64 {
    let mut context = Context::from_waker(Waker::noop());
    let mut requests: Vec<Request<()>> = (0..256_u32)
        .map(|number| {
            let mut request = Request::get("/search").header("x-api-key", format!("client-{number}"));
            let address = IpAddr::V4(Ipv4Addr::from(number << 8));
            request = request.extension(address);
            request.body(()).expect("a request")
        })
        .collect();
    let mut nanos = 0;
    for _ in 0..rounds() {
        let prepared = requests.clone();
        let began = Instant::now();
        for request in prepared {
            let _ready = service.poll_ready(&mut context);
            match pin!(service.call(black_box(request))).poll(&mut context) {
                Poll::Ready(response) => drop(black_box(response)),
                Poll::Pending => unreachable!("nothing waits here"),
            }
        }
        nanos += began.elapsed().as_nanos();
    }
    requests.clear();
    nanos as f64 / f64::from(rounds() * 256)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
