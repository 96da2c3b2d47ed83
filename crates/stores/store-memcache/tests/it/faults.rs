//! The server dies, hangs, comes back; the network loses messages.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_store::StoreError;
use tollgate_store::suite::Executor;
use tollgate_store_memcache::{MemcacheConfig, MemcacheStore, StoreState};
use tollgate_testkit::redis::{Memcached, NetworkFault, Proxy};

use crate::helpers::{Nodes, config, hourly, store, take, until};

/// Long enough for a busy machine; never reached by calls that fail at once.
const DEADLINE: Duration = Duration::from_millis(300);

fn settings(url: &str) -> MemcacheConfig {
    let mut config = config(url);
    config.deadline = DEADLINE;
    config
}

/// The results of takes. The first may be answered after the fault was set: a stopped process runs on for a
/// moment.
#[derive(Debug, Default)]
struct Told {
    admitted: u64,
    /// The fate of the hit is unknown.
    silent: u64,
    unreachable: u64,
}

/// Takes until the breaker is open, so that takes fail at once.
async fn until_the_breaker_opens(store: &MemcacheStore) -> Told {
    let mut told = Told::default();
    let began = Instant::now();
    while store.stats().conn.breaker_blocked == 0 {
        let asked = Instant::now();
        match take(store, "ann", &hourly(1_000_000)).await {
            Ok(_) => told.admitted += 1,
            Err(StoreError::Silent { .. }) => told.silent += 1,
            Err(StoreError::Unreachable { .. }) => told.unreachable += 1,
            Err(error) => panic!("{error}"),
        }
        assert!(asked.elapsed() < DEADLINE * 10, "a call hangs");
        assert!(began.elapsed() < Duration::from_secs(300), "the breaker stays closed");
    }
    told
}

fn is_down(state: &StoreState) -> bool {
    matches!(state, StoreState::Down { .. })
}

#[test]
fn calls_to_a_killed_server_fail_at_once_until_it_is_back() {
    let Some(mut memcached) = Memcached::start() else { return };
    let store = store(settings(&memcached.url()));
    Nodes::new(1).block_on(async {
        let _ = take(&store, "ann", &hourly(5)).await.expect("an answer");
        memcached.kill();
        until_the_breaker_opens(&store).await;
        until(&store, is_down).await; // calls fail a moment before it is reported
        assert_eq!(store.stats().conn.breakers_open, 1);
        assert_eq!(store.stats().conn.connections, 0);
        memcached.start_again();
        until(&store, StoreState::is_up).await;
        for remaining in [4, 3, 2] {
            let decision = take(&store, "ann", &hourly(5)).await.expect("no call fails any more");
            assert_eq!(decision.remaining(), remaining, "it has begun anew");
        }
        assert_eq!(store.stats().conn.breakers_open, 0);
    });
}

#[test]
fn a_server_that_hangs_costs_the_deadline_and_then_nothing() {
    let Some(memcached) = Memcached::start() else { return };
    let store = store(settings(&memcached.url()));
    Nodes::new(1).block_on(async {
        let before = take(&store, "ann", &hourly(1_000_000)).await.expect("an answer").remaining();
        memcached.stop();
        let mut told = until_the_breaker_opens(&store).await;
        assert!(told.silent > 0, "what was sent may have been taken");
        let at_once = Instant::now();
        for _ in 0..1_000 {
            let error = take(&store, "ann", &hourly(5)).await.expect_err("it hangs");
            told.silent += u64::from(matches!(error, StoreError::Silent { .. })); // a probe
        }
        let each = at_once.elapsed() / 1_000;
        assert!(each < DEADLINE / 10, "{each:?} for a refusal");
        memcached.resume();
        until(&store, StoreState::is_up).await;
        let after = take(&store, "ann", &hourly(1_000_000)).await.expect("an answer").remaining();
        let taken = before - after - 1;
        assert!(
            (told.admitted..=told.admitted + told.silent).contains(&taken),
            "{taken} were taken: {told:?}"
        );
    });
}

#[test]
fn a_server_that_starts_again_between_calls_fails_none() {
    let Some(mut memcached) = Memcached::start() else { return };
    let store = store(settings(&memcached.url()));
    Nodes::new(1).block_on(async {
        let _ = take(&store, "ann", &hourly(5)).await.expect("an answer");
        let connects = store.stats().conn.connects;
        memcached.start_again();
        let began = Instant::now();
        while store.stats().conn.connects == connects || !store.state().is_up() {
            assert!(began.elapsed() < Duration::from_secs(300), "it is not connected again");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let _ = take(&store, "ann", &hourly(5)).await.expect("an answer");
    });
}

#[test]
fn no_server_at_the_start_is_no_reason_to_wait() {
    let Some(mut memcached) = Memcached::start() else { return };
    memcached.kill();
    let store = store(settings(&memcached.url()));
    Nodes::new(1).block_on(async {
        store.start();
        let told = until_the_breaker_opens(&store).await;
        assert!(told.silent == 0 && told.unreachable > 0, "nothing can have been taken: {told:?}");
        memcached.start_again();
        until(&store, StoreState::is_up).await;
        let _ = take(&store, "ann", &hourly(5)).await.expect("an answer");
    });
}

#[test]
fn what_the_network_loses_is_reported_and_counted_at_most_once() {
    let Some(memcached) = Memcached::start() else { return };
    let proxy = Proxy::before(memcached.address());
    for fault in [
        NetworkFault::DropReplies,
        NetworkFault::DropRequests,
        NetworkFault::CutReplies,
        NetworkFault::Stall,
        NetworkFault::Latency(DEADLINE * 2),
    ] {
        let store = store(settings(&format!("memcache://{}", proxy.address())));
        Nodes::new(1).block_on(async {
            let quota = hourly(1_000_000);
            let before = take(&store, "ann", &quota).await.expect("an answer").remaining();
            proxy.set(fault);
            let told = until_the_breaker_opens(&store).await;
            assert!(told.silent > 0, "{fault:?}");
            proxy.set(NetworkFault::None);
            proxy.cut();
            until(&store, StoreState::is_up).await;
            // A call may still meet the connection that was cut; its hit was not answered either.
            let mut lost = told.silent;
            let after = loop {
                match take(&store, "ann", &quota).await {
                    Ok(decision) => break decision.remaining(),
                    Err(_) => lost += 1,
                }
            };
            let taken = before - after - 1;
            let may_be = told.admitted..=told.admitted + lost;
            assert!(may_be.contains(&taken), "{fault:?}: {taken} were taken of {may_be:?}");
        });
    }
}

#[test]
fn a_refused_connection_opens_the_breaker_without_a_wait() {
    let Some(memcached) = Memcached::start() else { return };
    let proxy = Proxy::before(memcached.address());
    proxy.set(NetworkFault::Refuse);
    let store = store(settings(&format!("memcache://{}", proxy.address())));
    Nodes::new(1).block_on(async {
        let began = Instant::now();
        assert_eq!(until_the_breaker_opens(&store).await.silent, 0);
        assert!(began.elapsed() < DEADLINE * 10);
        proxy.set(NetworkFault::None);
        until(&store, StoreState::is_up).await;
        let _ = take(&store, "ann", &hourly(5)).await.expect("an answer");
    });
}

#[test]
fn calls_beyond_the_queue_fail_while_the_server_is_still_silent() {
    let Some(memcached) = Memcached::start() else { return };
    let proxy = Proxy::before(memcached.address());
    let mut config = config(&format!("memcache://{}", proxy.address())); // its deadline is far away
    (config.max_queued, config.max_flight) = (4, 1);
    let store = store(config);
    Nodes::new(1).block_on(async {
        let _ = take(&store, "ann", &hourly(5)).await.expect("an answer");
        proxy.set(NetworkFault::Stall);
        let flights = store.stats().conn.flights;
        let call = |n| {
            let store = store.clone();
            tokio::spawn(async move { take(&store, &format!("user={n}"), &hourly(5)).await })
        };
        let mut calls = vec![call(0)];
        while store.stats().conn.flights == flights {
            tokio::task::yield_now().await;
        }
        calls.extend((1..100).map(call));
        // One request is in flight and four wait. The others end although no byte comes from the server.
        let began = Instant::now();
        while calls.iter().filter(|call| call.is_finished()).count() < 95 {
            assert!(began.elapsed() < Duration::from_secs(300), "{:?}", store.stats());
            tokio::task::yield_now().await;
        }
        assert_eq!(store.stats().conn.queue_full, 95);
        proxy.set(NetworkFault::None);
        let mut admitted = 0;
        let mut failed = 0;
        for call in calls {
            match call.await.expect("no panic") {
                Ok(decision) => admitted += u64::from(decision.remaining() == 4),
                Err(StoreError::Unreachable { .. }) => failed += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((admitted, failed), (5, 95), "{:?}", store.stats());
    });
}

#[test]
fn what_answers_like_no_memcached_is_not_believed() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 100]);
            let _ = stream.write_all(b"-ERR unknown command 'version'\r\n");
        }
    });
    let store = store(settings(&format!("memcache://{address}")));
    Nodes::new(1).block_on(async {
        until_the_breaker_opens(&store).await;
        let StoreState::Down { why, .. } = store.state() else { panic!("{:?}", store.state()) };
        assert!(why.contains(&address.to_string()) && why.contains("not the memcached protocol"), "{why}");
    });
}

#[test]
fn a_server_that_answers_the_probe_and_nothing_more_is_given_up_at_once() {
    let Some(memcached) = Memcached::start() else { return };
    let proxy = Proxy::before(memcached.address());
    let mut settings = settings(&format!("memcache://{}", proxy.address()));
    (settings.breaker.failures, settings.deadline) = (2, DEADLINE * 2);
    let store = store(settings);
    Nodes::new(1).block_on(async {
        let _ = take(&store, "ann", &hourly(5)).await.expect("an answer");
        proxy.set(NetworkFault::DropReplies);
        until_the_breaker_opens(&store).await;
        proxy.set(NetworkFault::None);
        until(&store, StoreState::is_up).await;
        proxy.set(NetworkFault::DropReplies);
        let failures = store.stats().conn.connect_failures;
        take(&store, "ann", &hourly(1_000_000)).await.expect_err("nobody answers");
        until(&store, is_down).await;
        assert_eq!(store.stats().conn.connect_failures, failures, "the one call was enough");
    });
}
