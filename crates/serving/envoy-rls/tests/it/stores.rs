//! Stores that must be waited for, never answer, or panic: one call's trouble is no other call's.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{RULES, SHOULD_RATE_LIMIT, call, descriptor, framed, outcome, request};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tollgate_core::{Cost, Decision, ManualClock, Timestamp};
use tollgate_envoy_rls::{Limits, RateLimitService, ReplyOptions, Shared};
use tollgate_limiter::{Limiter, LimiterSettings, Undecided};
use tollgate_net::{AcceptLimits, ConnectionStats, accept};
use tollgate_rule_files::parse_text;
use tollgate_store::{Charge, Counter, Inspection, Store, StoreError, StoreName, Take, Verdicts};
use tollgate_store_memory::{MemoryConfig, MemoryStore};

/// A memory store behind a gate for keys that hold `slow`; it panics at keys that hold `panic`.
struct Gated {
    inner: MemoryStore,
    gate: Arc<Semaphore>,
}

impl Store for Gated {
    fn name(&self) -> StoreName {
        StoreName::new("gated")
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        let says = |word: &[u8]| {
            batch.iter().any(|take| take.counter.key.0.windows(word.len()).any(|part| part == word))
        };
        assert!(!says(b"panic"), "as asked");
        if says(b"slow") {
            let _pass = self.gate.acquire().await.expect("open");
            return self.inner.take(batch, charge, now, verdicts).await;
        }
        self.inner.take(batch, charge, now, verdicts).await;
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.inner.give_back(counter, cost, now).await
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        self.inner.reserve(batch, max_wait, now, verdicts).await;
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Result<Decision, StoreError> {
        self.inner.charge(counter, cost, now).await
    }

    async fn reset(&self, counter: Counter<'_>, now: Timestamp) -> Result<bool, StoreError> {
        self.inner.reset(counter, now).await
    }

    async fn inspect(&self, counter: Counter<'_>, now: Timestamp) -> Result<Inspection, StoreError> {
        self.inner.inspect(counter, now).await
    }
}

/// One connection to a server with a gated store.
async fn connected(gate: &Arc<Semaphore>) -> h2::client::SendRequest<bytes::Bytes> {
    connected_within(gate, &Arc::new(Shared::new(&Limits::default()))).await
}

/// The same, with the places of `shared`.
async fn connected_within(
    gate: &Arc<Semaphore>,
    shared: &Arc<Shared>,
) -> h2::client::SendRequest<bytes::Bytes> {
    let policy = parse_text("rules.yaml", RULES).expect("rules without fault");
    let store = Gated { inner: MemoryStore::new(MemoryConfig::default()), gate: Arc::clone(gate) };
    let settings = LimiterSettings { undecided: Undecided::Error, ..LimiterSettings::default() };
    let limiter: Limiter<Gated> = Limiter::new(policy, store, settings);
    let clock = Arc::new(ManualClock::at(crate::common::NOW));
    let ready = watch::channel(true).1;
    let drain = watch::channel(false).1;
    let limits = Limits::default();
    let service = RateLimitService::new(Arc::new(limiter), clock, ready, ReplyOptions::default(), limits)
        .sharing(Arc::clone(shared));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let stream =
        tokio::net::TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connected");
    let bounds = Arc::new(AcceptLimits::default());
    let stats = Arc::new(ConnectionStats::default());
    tokio::spawn(accept(listener, Arc::new(service), None, bounds, stats, drain));
    let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    send
}

fn begin(
    send: &mut h2::client::SendRequest<bytes::Bytes>,
    key: &str,
    deadline: &str,
) -> h2::client::ResponseFuture {
    let header = call(SHOULD_RATE_LIMIT).header("grpc-timeout", deadline).body(()).unwrap();
    let (response, mut out) = send.send_request(header, false).expect("open");
    out.send_data(framed(&request(vec![descriptor("api_key", key)])), true).expect("open");
    response
}

#[tokio::test]
async fn a_slow_decision_holds_up_no_other_of_its_connection() {
    let gate = Arc::new(Semaphore::new(0));
    let mut send = connected(&gate).await;
    let slow: Vec<_> = (0..3).map(|_| begin(&mut send, "slow", "1H")).collect();
    for _ in 0..3 {
        let quick = begin(&mut send, "quick", "1H");
        assert_eq!(outcome(quick).await.expect("an answer"), (200, 0));
    }
    gate.add_permits(3);
    for slow in slow {
        assert_eq!(outcome(slow).await.expect("an answer"), (200, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_never_comes_ends_at_the_callers_deadline() {
    let mut send = connected(&Arc::new(Semaphore::new(0))).await;
    let began = tokio::time::Instant::now();
    let stuck = begin(&mut send, "slow", "200m");
    assert_eq!(outcome(stuck).await.expect("an answer"), (200, 4));
    assert!(began.elapsed().as_millis() >= 200);
}

#[tokio::test]
async fn a_call_that_its_client_resets_stops_waiting_for_its_store() {
    let gate = Arc::new(Semaphore::new(0));
    let shared = Arc::new(Shared::new(&Limits::default()));
    let mut send = connected_within(&gate, &shared).await;
    let reset = begin(&mut send, "slow", "1H");
    let kept = begin(&mut send, "slow", "1H");
    while shared.waiting_calls() < 2 {
        tokio::task::yield_now().await;
    }
    drop(reset);
    while shared.waiting_calls() > 1 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(1);
    assert_eq!(outcome(kept).await.expect("an answer"), (200, 0));
}

#[tokio::test]
async fn calls_that_wait_for_their_store_have_the_same_places() {
    let limits = Limits { max_waiting_calls: 0, ..Limits::default() };
    let gate = Arc::new(Semaphore::new(0));
    let shared = Arc::new(Shared::new(&limits));
    let mut send = connected_within(&gate, &shared).await;
    let waiting: Vec<_> = (0..4).map(|_| begin(&mut send, "slow", "1H")).collect();
    assert_eq!(outcome(begin(&mut send, "slow", "1H")).await.expect("an answer"), (200, 8));
    assert_eq!(outcome(begin(&mut send, "quick", "1H")).await.expect("an answer"), (200, 0));
    gate.add_permits(4);
    for slow in waiting {
        assert!(outcome(slow).await.is_ok());
    }
    assert_eq!((shared.waiting_calls(), shared.rejected_calls()), (0, 1));
}

#[tokio::test]
async fn a_panic_costs_one_call() {
    let mut send = connected(&Arc::new(Semaphore::new(0))).await;
    let before = begin(&mut send, "quick", "1H");
    let hurt = begin(&mut send, "panic", "1H");
    let after = begin(&mut send, "quick", "1H");
    assert_eq!(outcome(hurt).await.expect("an answer"), (200, 13));
    for unhurt in [before, after] {
        assert_eq!(outcome(unhurt).await.expect("an answer"), (200, 0));
    }
}
