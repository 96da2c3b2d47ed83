//! Rules with `on_limit: queue`: calls wait for their turn.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::sync::Arc;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tollgate_core::{Clock, Timestamp};
use tollgate_envoy_rls::proto::rls;
use tollgate_envoy_rls::{Limits, RateLimitService, ReplyOptions};
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_net::{AcceptLimits, ConnectionStats, accept};
use tollgate_rule_files::parse_text;
use tollgate_store_memory::{MemoryConfig, MemoryStore};

use crate::common::{GrpcClient, NOW, SHOULD_RATE_LIMIT, call, descriptor, framed, outcome, request};

const RULES: &str = "
domain: shop
descriptors:
  - key: fast
    rate_limit: {rate: 10/s burst 1, on_limit: queue, max_wait: 30s}
  - key: slow
    rate_limit: {rate: 1/20s burst 1, on_limit: queue, max_wait: 30s}
";

/// Real time, from noon on.
struct NoonClock(tokio::time::Instant);

impl Clock for NoonClock {
    fn now(&self) -> Timestamp {
        NOW + self.0.elapsed()
    }
}

/// A server, and its limiter.
async fn start() -> (std::net::SocketAddr, Arc<Limiter<MemoryStore>>) {
    let policy = parse_text("rules.yaml", RULES).expect("rules without fault");
    let store = MemoryStore::new(MemoryConfig::default());
    let limiter: Arc<Limiter<MemoryStore>> =
        Arc::new(Limiter::new(policy, store, LimiterSettings::default()));
    let clock = Arc::new(NoonClock(tokio::time::Instant::now()));
    let ready = watch::channel(true).1;
    let drain = watch::channel(false).1;
    let options = ReplyOptions::default();
    let limits = Limits::default();
    let service = RateLimitService::new(Arc::clone(&limiter), clock, ready, options, limits);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let bounds = Arc::new(AcceptLimits::default());
    let stats = Arc::new(ConnectionStats::default());
    tokio::spawn(accept(listener, Arc::new(service), None, bounds, stats, drain));
    (address, limiter)
}

async fn connect(address: std::net::SocketAddr) -> (SendRequest<Bytes>, tokio::task::JoinHandle<()>) {
    let stream = TcpStream::connect(address).await.expect("connected");
    let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    (send, tokio::spawn(async move { drop(connection.await) }))
}

fn begin(send: &mut SendRequest<Bytes>, key: &str, deadline: &str) -> ResponseFuture {
    let header = call(SHOULD_RATE_LIMIT).header("grpc-timeout", deadline).body(()).unwrap();
    let (response, mut out) = send.send_request(header, false).expect("open");
    out.send_data(framed(&request(vec![descriptor(key, "ann")])), true).expect("open");
    response
}

/// Waits until the metrics have this line.
async fn shows(limiter: &Limiter<MemoryStore>, line: &str) {
    while !limiter.metrics().render().lines().any(|it| it == line) {
        tokio::task::yield_now().await;
    }
}

fn event(event: &str, number: u64) -> String {
    format!(r#"tollgate_queue_events_total{{event="{event}"}} {number}"#)
}

#[tokio::test]
async fn calls_over_the_limit_are_answered_ok_at_their_turns() {
    let (address, limiter) = start().await;
    let channel = tonic::transport::Channel::from_shared(format!("http://{address}")).expect("a URI");
    let mut client = GrpcClient(tonic::client::Grpc::new(channel.connect().await.expect("connected")));
    for _ in 0..3 {
        let reply = client.ask(request(vec![descriptor("fast", "ann")])).await.expect("an answer");
        assert_eq!(reply.overall_code(), rls::Code::Ok);
    }
    // On a machine that is slow enough a permit is there before it is asked for.
    let text = limiter.metrics().render();
    let denied = r#"tollgate_decisions_total{domain="shop",rule="fast",outcome="deny"} 0"#;
    assert!(text.contains(denied) && text.contains(&event("timed_out", 0)), "{text}");
}

#[tokio::test]
async fn a_call_whose_deadline_is_before_its_turn_is_over_the_limit_at_once() {
    let (address, limiter) = start().await;
    let (mut send, _connection) = connect(address).await;
    assert_eq!(outcome(begin(&mut send, "slow", "1H")).await.expect("an answer"), (200, 0));
    // Answered, not failed with DEADLINE_EXCEEDED (4).
    assert_eq!(outcome(begin(&mut send, "slow", "5S")).await.expect("an answer"), (200, 0));
    let text = limiter.metrics().render();
    assert!(text.contains(&event("too_long", 1)) && text.contains(&event("joined", 0)), "{text}");
    let denied = r#"tollgate_decisions_total{domain="shop",rule="slow",outcome="deny"} 1"#;
    assert!(text.contains(denied), "{text}");
}

#[tokio::test]
async fn calls_that_are_reset_and_connections_that_close_leave_the_line() {
    let (address, limiter) = start().await;
    let (mut send, connection) = connect(address).await;
    assert_eq!(outcome(begin(&mut send, "slow", "1H")).await.expect("an answer"), (200, 0));
    let reset = begin(&mut send, "slow", "1H");
    shows(&limiter, "tollgate_queued_requests 1").await;
    drop(reset);
    shows(&limiter, &event("left", 1)).await;
    let _lost = begin(&mut send, "slow", "1H");
    shows(&limiter, "tollgate_queued_requests 1").await;
    connection.abort();
    shows(&limiter, &event("left", 2)).await;
    shows(&limiter, "tollgate_queued_requests 0").await;
}
