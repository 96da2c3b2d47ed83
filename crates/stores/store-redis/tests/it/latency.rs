//! A real server that is far away, or lets scripts wait. (How many calls are answered in time at which
//! distance is measured without a server, in a time of its own: `src/redis-link/tests/far`.)

use std::time::Duration;

use tokio::time::Instant;
use tollgate_store::StoreError;
use tollgate_store_redis::{Severity, StoreState};
use tollgate_testkit::redis::{Distance, Options, Redis};

use crate::common::{patient, run_beside, store, take, take_many, total, until_down, until_up, used, wait};
use crate::faults::all_is_well;

const LIMIT: u64 = 10_000_000;

/// Scripts may write, so they wait; `PING` is answered meanwhile.
#[test]
fn while_clients_are_paused_for_writes_calls_fail_at_once() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run_beside(async {
        let mut config = patient(&redis.url());
        config.link.deadline = Duration::from_millis(100);
        let store = store(config);
        let quota = total(LIMIT);
        wait("the first answer", async || take(&store, "k", &quota).await.is_ok()).await;
        redis.command(&["CLIENT", "PAUSE", "60000", "WRITE"]);
        wait("the breaker to open", async || {
            take(&store, "k", &quota).await.is_err() && store.stats().conn.breakers_open > 0
        })
        .await;
        let refused = store.stats().conn.breaker_blocked;
        for _ in 0..100 {
            let error = take(&store, "k", &quota).await.expect_err("scripts wait");
            assert!(matches!(error, StoreError::Unreachable { .. }), "nothing was taken: {error}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(store.stats().conn.breaker_blocked, refused + 100, "no probe passed for an answer");
        assert!(matches!(store.state(), StoreState::Down { .. }));
        redis.command(&["CLIENT", "UNPAUSE"]);
        let back = Instant::now();
        wait("an answer", async || take(&store, "k", &quota).await.is_ok()).await;
        println!("normal {:?} after the pause", back.elapsed());
        until_up(&store).await;
    });
}

#[test]
fn a_server_too_far_for_the_deadline_is_named_with_the_deadline_to_set() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let proxy = Distance::before(redis.address(), Duration::from_millis(15));
    let url = format!("redis://{}", proxy.address());
    run_beside(async {
        let mut config = patient(&url);
        config.link.deadline = Duration::from_millis(10);
        let near = store(config);
        near.start();
        let why = until_down(&near).await;
        assert!(why.contains("too slow") && why.contains("deadline of a call is 10ms"), "{why}");
        let (_, advice) = why.split_once("set --store-deadline").expect("what to do");
        let (_, advice) = advice.split_once(" to ").expect("how much");
        let deadline: u64 = advice.split("ms").next().and_then(|ms| ms.parse().ok()).expect("a number of ms");
        assert!((45..1000).contains(&deadline), "{why}");
        let findings = near.check().await;
        let told = |it: &tollgate_store_redis::Finding| {
            it.severity == Severity::Unknown && it.message.contains("--store-deadline")
        };
        assert!(findings.iter().any(told), "{findings:?}");

        let mut config = patient(&url);
        config.link.deadline = Duration::from_millis(deadline.max(1000));
        let far = store(config);
        let quota = total(LIMIT);
        wait("the first answer", async || take(&far, "k", &quota).await.is_ok()).await;
        let before = used(&far, "k", &quota, LIMIT).await;
        all_is_well(&far, "k", &quota).await;
        assert_eq!(used(&far, "k", &quota, LIMIT).await, before + 50);
        assert!(far.stats().conn.round_trip_us >= 30_000, "{:?}", far.stats());
        assert_eq!(far.slow(), None);
    });
}

#[test]
fn a_server_that_answers_many_calls_too_late_is_up_and_named_as_too_slow() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let proxy = Distance::before(redis.address(), Duration::from_millis(2));
    run_beside(async {
        let mut config = patient(&format!("redis://{}", proxy.address()));
        config.link.deadline = Duration::from_millis(200);
        config.node_timeout = Duration::from_millis(300); // looks at it each 100 ms
        let store = store(config);
        let quota = total(LIMIT);
        wait("the first answer", async || take(&store, "k", &quota).await.is_ok()).await;
        let before = used(&store, "k", &quota, LIMIT).await;
        proxy.set_late(300, Duration::from_millis(300));
        let mut told = crate::common::Told::default();
        wait("it to be named", async || {
            told.add(take_many(&store, "k", &quota, 20).await);
            store.slow().is_some()
        })
        .await;
        let why = store.slow().expect("named");
        assert!(why.contains("too slow: round trip") && why.contains("deadline 200ms"), "{why}");
        proxy.set_late(0, Duration::ZERO);
        wait("it to be well again", async || {
            told.add(take_many(&store, "k", &quota, 20).await);
            store.state().is_up() && store.slow().is_none()
        })
        .await;
        assert!(told.silent > 0, "{told:?}");
        told.explains(used(&store, "k", &quota, LIMIT).await - before);
    });
}
