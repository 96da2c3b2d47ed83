//! Batches over several servers: the outcome on the healthy ones while one hangs, and on all when the caller
//! leaves half-way.
#![expect(clippy::expect_used, reason = "a helper that fails must say why, as a test does")]

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate_core::{Cost, Decision, Quota};
use tollgate_store::suite::Executor;
use tollgate_store::{Charge, Counter, Key, Store, Take, Verdicts};
use tollgate_store_memcache::{MemcacheConfig, MemcacheStore};
use tollgate_testkit::redis::Memcached;

use crate::helpers::{NOON, Nodes, config, hourly, store, take};

fn three() -> Option<[Memcached; 3]> {
    Some([Memcached::start()?, Memcached::start()?, Memcached::start()?])
}

fn over(servers: &[Memcached], deadline_ms: u64) -> MemcacheConfig {
    let servers: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
    let mut config = config(&format!("memcache://{}", servers.join(",")));
    config.deadline = Duration::from_millis(deadline_ms);
    config
}

/// A key on the stopped server of three, and two on the others.
async fn apart(store: &MemcacheStore, stopped: &Memcached, name: &str) -> [String; 3] {
    stopped.stop();
    let mut answer = Vec::new();
    let mut silent = None;
    for nth in 0.. {
        let key = format!("{name}{nth}");
        match store.inspect(Counter::new(Key(key.as_bytes()), &hourly(5)), NOON).await {
            Ok(_) => answer.push(key),
            Err(_) => silent = Some(key),
        }
        if answer.len() >= 2 && silent.is_some() {
            break;
        }
    }
    stopped.resume();
    [answer.remove(0), answer.remove(0), silent.expect("one")]
}

fn on<'a>(keys: &'a [String], quotas: &'a [Quota], costs: &'a [u64]) -> Vec<Take<'a>> {
    let takes = keys.iter().zip(quotas).zip(costs);
    takes.map(|((key, quota), cost)| Counter::new(Key(key.as_bytes()), quota).take(Cost(*cost))).collect()
}

async fn together(store: &MemcacheStore, batch: &[Take<'_>]) -> Verdicts {
    let mut verdicts = Verdicts::new();
    store.take(batch, Charge::Together, NOON, &mut verdicts).await;
    assert_eq!(verdicts.len(), batch.len());
    verdicts
}

fn told(verdicts: &Verdicts) -> Vec<Option<bool>> {
    verdicts.iter().map(|it| it.as_ref().ok().map(Decision::is_admitted)).collect()
}

async fn used(store: &MemcacheStore, key: &str, quota: &Quota) -> u64 {
    for _ in 0..2_000 {
        if let Ok(seen) = store.inspect(Counter::new(Key(key.as_bytes()), quota), NOON).await {
            return quota.limit() - seen.decision.remaining();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not answer")
}

/// Polls this many times at most, and then drops it.
async fn polled<T>(future: impl Future<Output = T>, most: usize) -> Option<T> {
    let mut future = Box::pin(future);
    let mut polls = 0;
    std::future::poll_fn(move |cx| {
        polls += 1;
        let polled = future.as_mut().poll(cx).map(Some);
        if polled.is_pending() && polls >= most { Poll::Ready(None) } else { polled }
    })
    .await
}

#[test]
fn a_server_that_hangs_switches_no_limit_of_the_others_off() {
    let Some(servers) = three() else { return };
    let store = store(over(&servers, 300));
    Nodes::new(1).block_on(async {
        let keys = apart(&store, &servers[1], "k").await;
        let quotas = [hourly(9), hourly(15), hourly(1_000)];
        for key in &keys {
            used(&store, key, &hourly(5)).await; // all answer
        }
        servers[1].stop();
        let mut admitted = 0;
        let mut denied = 0;
        for round in 0..200 {
            match told(&together(&store, &on(&keys, &quotas, &[1; 3])).await)[..] {
                [Some(true), Some(true), None] => admitted += 1,
                [Some(false), Some(true), None] => denied += 1,
                ref other => panic!("round {round}: {other:?}"),
            }
        }
        assert_eq!((admitted, denied), (9, 191));
        assert_eq!(used(&store, &keys[0], &quotas[0]).await, 9);
        assert_eq!(used(&store, &keys[1], &quotas[1]).await, 9, "what was denied took nothing");
        servers[1].resume();
    });
}

#[test]
fn a_caller_that_leaves_at_any_moment_leaves_all_charged_or_nothing() {
    let Some(servers) = three().map(Arc::new) else { return };
    let store = store(over(&servers[..], 20_000));
    let silent = self::store(over(&servers[..], 300));
    Nodes::new(1).block_on(async {
        let wide = [hourly(1_000_000), hourly(1_000_000), hourly(1_000_000)];
        let mut most = 1;
        loop {
            // A server answers later than the others, so that there is more than one wait.
            let keys = apart(&silent, &servers[2], &format!("all{most}|")).await;
            for key in &keys {
                used(&store, key, &wide[0]).await;
            }
            servers[2].stop();
            let resumed = std::thread::spawn({
                let servers = servers.clone();
                move || {
                    std::thread::park_timeout(Duration::from_millis(20));
                    servers[2].resume();
                }
            });
            let costs = [1_000, 7 * most as u64, 3];
            let heard = polled(together(&store, &on(&keys, &wide, &costs)), most).await;
            resumed.join().expect("it ended");
            store.close().await;
            let mut gone = Vec::new();
            for (key, quota) in keys.iter().zip(&wide) {
                gone.push(used(&store, key, quota).await);
            }
            assert!(gone == costs || gone == [0; 3], "{most} polls: {gone:?} of {costs:?}");
            if let Some(verdicts) = heard {
                assert_eq!((told(&verdicts), gone), (vec![Some(true); 3], costs.to_vec()));
                break;
            }
            most += 1;
        }
        assert!(most > 2, "it looks, and then charges");
    });
}

/// A caller finds enough; then another takes the last of one key; the first is denied there, and leaves
/// before or after that.
#[test]
fn callers_that_lose_a_race_and_leave_leave_nothing_charged() {
    let Some(servers) = three() else { return };
    let store = store(over(&servers, 20_000));
    Nodes::new(1).block_on(async {
        let quotas = [hourly(1_000_000), hourly(1_000_000), hourly(1)];
        let mut most = 1;
        loop {
            let keys = ["one", "two", "few"].map(|key| format!("{key}{most}"));
            let costs = [1_000, 7 * most as u64, 1];
            let batch = on(&keys, &quotas, &costs);
            let mut late = Box::pin(together(&store, &batch));
            assert!(polled(&mut late, 1).await.is_none(), "it looks");
            // Over the same connections, so after that look.
            for (key, quota) in keys.iter().zip(&quotas) {
                assert_eq!(used(&store, key, quota).await, 0);
            }
            assert!(take(&store, &keys[2], &quotas[2]).await.expect("an answer").is_admitted());
            let heard = polled(late, most).await;
            store.close().await;
            for (key, quota) in keys.iter().zip(&quotas) {
                let other = u64::from(quota.limit() == 1);
                assert_eq!(used(&store, key, quota).await, other, "{key} after {most} polls");
            }
            if let Some(verdicts) = heard {
                assert_eq!(told(&verdicts), [Some(true), Some(true), Some(false)]);
                break;
            }
            most += 1;
        }
        assert!(most > 2, "it charges, and then gives back");
        assert_eq!(store.stats().left_counted, 0);
    });
}
