//! Several limits on several masters of a Cluster, charged together: the outcome on the healthy ones while
//! one is silent, and on all when the caller leaves half-way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use tollgate_core::{Algorithm, Cost, Period, Quota, Refill};
use tollgate_store::{Charge, Counter, Key, Sharing, Store as _, StoreError, Take, Verdicts};
use tollgate_store_redis::RedisStore;
use tollgate_testkit::redis::{Cluster, Options, Redis, RedisConnection};

use crate::common::{NOW, patient, run_beside, store, take, total, until_up, used, used_of, wait};

const LIMIT: u64 = 1_000_000_000;

/// A key on each master, in their order.
fn apart(cluster: &Cluster, name: &str) -> [String; 3] {
    [0, 1, 2].map(|node| {
        let mut keys = (0..).map(|nth| format!("{name}{nth}"));
        let slot = |key: &String| cluster.slot(&format!("tollgate:{{{key}}}"));
        keys.find(|key| [slot(key) <= 5460, slot(key) <= 10922, true].iter().position(|it| *it) == Some(node))
            .expect("a key")
    })
}

/// The other servers are served while one hangs, for any time.
fn cluster() -> Option<Cluster> {
    Cluster::start_with(&Options::new().set("cluster-require-full-coverage", "no"), false)
}

fn on<'a>(keys: &'a [String], quotas: &'a [Quota], costs: &'a [u64]) -> Vec<Take<'a>> {
    let takes = keys.iter().zip(quotas).zip(costs);
    takes.map(|((key, quota), cost)| counter(key, quota).take(Cost(*cost))).collect()
}

/// A bucket is leased, any other quota is exact.
fn counter<'a>(key: &'a str, quota: &'a Quota) -> Counter<'a> {
    let is_bucket = matches!(quota.algorithm(), Algorithm::TokenBucket { .. });
    let sharing = if is_bucket { Sharing::Leased } else { Sharing::Exact };
    Counter::new(Key(key.as_bytes()), quota).shared(sharing)
}

async fn together(store: &RedisStore, batch: &[Take<'_>], holds: bool) -> Verdicts {
    let mut verdicts = Verdicts::new();
    if holds {
        store.reserve(batch, Duration::ZERO, NOW, &mut verdicts).await;
    } else {
        store.take(batch, Charge::Together, NOW, &mut verdicts).await;
    }
    assert_eq!(verdicts.len(), batch.len());
    verdicts
}

/// Each answer as admitted, denied, or none.
fn told(verdicts: &Verdicts) -> Vec<Option<bool>> {
    verdicts.iter().map(|it| it.as_ref().ok().map(tollgate_core::Decision::is_admitted)).collect()
}

/// Polls this many times at most, and then drops it.
async fn polled<T>(future: impl Future<Output = T>, most: usize) -> Option<T> {
    let mut future = Box::pin(future);
    let mut polls = 0;
    std::future::poll_fn(move |cx| {
        if polls == most {
            return Poll::Ready(None);
        }
        polls += 1;
        let polled = future.as_mut().poll(cx).map(Some);
        if polled.is_pending() && polls == most { Poll::Ready(None) } else { polled }
    })
    .await
}

#[test]
fn the_limits_of_healthy_slots_hold_while_another_gives_no_answer() {
    let Some(cluster) = cluster() else { return };
    run_beside(async {
        let store = store(patient(&cluster.url()));
        let quotas: Vec<Quota> = (0..8).map(|nth| total(10 + nth)).collect();
        let keys: Vec<String> = (0..8).map(|nth| format!("k{nth}")).collect();
        let spoilt = "tollgate:{k3}";
        let owner = cluster.addresses()[cluster.owner(cluster.slot(spoilt))];
        let mut client = RedisConnection::connect(owner).expect("a connection");
        client.command(&["HSET", spoilt, "a", "1"]).expect("an answer");
        let batch = on(&keys, &quotas, &[2; 8]);
        for round in 0..9 {
            let mut wanted = [Some(true); 8];
            wanted[3] = None;
            if round >= 5 {
                wanted[0] = Some(false);
            }
            let said = told(&together(&store, &batch, round % 2 == 1).await);
            // From the sixth on `k0` denies, and soon others, each by its own permits.
            assert_eq!(said[0], wanted[0], "round {round}: {said:?}");
            assert_eq!(said[3], None, "round {round}: {said:?}");
            assert!(round >= 5 || said == wanted, "round {round}: {said:?}");
        }
        for (nth, (key, quota)) in keys.iter().zip(&quotas).enumerate().filter(|(nth, _)| *nth != 3) {
            assert_eq!(used(&store, key, quota, 10 + nth as u64).await, 10, "{key}: five rounds");
        }
    });
}

#[test]
fn a_silent_master_switches_no_limit_of_the_others_off() {
    let Some(cluster) = cluster() else { return };
    run_beside(async {
        let mut config = patient(&cluster.url());
        config.link.deadline = Duration::from_millis(300);
        let store = store(config);
        let keys = apart(&cluster, "a");
        let quotas = [total(10), total(15), total(LIMIT)];
        let warm = [total(LIMIT), total(LIMIT), total(LIMIT)];
        let warm_keys = apart(&cluster, "warm");
        wait("all masters to answer", async || {
            told(&together(&store, &on(&warm_keys, &warm, &[1; 3]), false).await) == [Some(true); 3]
        })
        .await;
        cluster.nodes[2].stop();
        let mut admitted = 0;
        let mut denied = 0;
        let mut failed = 0;
        for round in 0..200 {
            let verdicts = together(&store, &on(&keys, &quotas, &[1; 3]), round % 2 == 1).await;
            match told(&verdicts)[..] {
                [Some(true), Some(true), None] => admitted += 1,
                [Some(false), Some(true), None] => denied += 1,
                ref other => panic!("round {round}: {other:?}"),
            }
            failed += u64::from(matches!(verdicts[2], Err(StoreError::Silent { .. })));
        }
        assert_eq!((admitted, denied), (10, 190));
        assert!(failed > 0, "those that were sent may have been taken");
        assert_eq!(used(&store, &keys[0], &quotas[0], 10).await, 10);
        assert_eq!(used(&store, &keys[1], &quotas[1], 15).await, 10, "what was denied took nothing");
        cluster.nodes[2].resume();
    });
}

/// A caller leaves after the first poll, the second, and so on until one gets its answer.
#[test]
fn a_caller_that_leaves_at_any_moment_leaves_all_charged_or_nothing() {
    let Some(cluster) = cluster().map(Arc::new) else { return };
    run_beside(async {
        let mut config = patient(&cluster.url());
        config.link.deadline = Duration::from_secs(20); // no caller gets an unknown outcome
        let store = store(config);
        let full = [total(LIMIT), total(LIMIT), total(LIMIT)];
        let denying = [total(LIMIT), total(LIMIT), total(1)]; // of 3
        let leased = Algorithm::TokenBucket {
            burst: Some(5_000),
            initial: None,
            overdraft: 0,
            refill: Refill::Continuous,
        };
        let hours = Period::Span(Duration::from_secs(36_000));
        let mixed = [Quota::new(3_600, hours, leased).expect("a quota"), total(LIMIT), total(1)];
        for (name, quotas, denies) in
            [("full", &full, false), ("denied", &denying, true), ("leased", &mixed, true)]
        {
            let mut most = 1;
            let mut left = 0;
            loop {
                let keys = apart(&cluster, &format!("{name}{most}|"));
                let costs = [1_000, 7 * most as u64, 3];
                // One master answers later than the others, so that there is more than one wait.
                cluster.nodes[2].stop();
                let resumed = std::thread::spawn({
                    let cluster = cluster.clone();
                    move || {
                        std::thread::park_timeout(Duration::from_millis(20));
                        cluster.nodes[2].resume();
                    }
                });
                let holds = most % 2 == 0;
                let heard = polled(together(&store, &on(&keys, quotas, &costs), holds), most).await;
                left += u64::from(heard.is_none());
                resumed.join().expect("it ended");
                store.close().await;
                let mut gone = Vec::new();
                for (key, quota) in keys.iter().zip(quotas) {
                    gone.push(used_of(&store, counter(key, quota), whole(quota)).await);
                }
                let all = gone == costs;
                let none = gone == [0; 3];
                // Permits held for nobody are given back.
                assert!(
                    if denies || holds && heard.is_none() { none } else { all || none },
                    "{name}, {most} polls: {gone:?} of {costs:?}"
                );
                if let Some(verdicts) = heard {
                    assert_eq!(told(&verdicts).contains(&Some(false)), denies);
                    assert_eq!(all, !denies);
                    break;
                }
                most += 1;
            }
            println!("{name}: dropped at {left} moments");
            assert!(left >= 1, "{name}: a batch over three masters waits");
        }
    });
}

#[test]
fn what_is_reserved_for_a_caller_that_leaves_is_given_back() {
    let Some(server) = Redis::start(&Options::new()) else { return };
    run_beside(async {
        let mut config = patient(&server.url());
        config.link.deadline = Duration::from_secs(20); // no caller gets an unknown outcome
        let store = store(config);
        store.start();
        until_up(&store).await;
        let bucket = Quota::token_bucket(8, Duration::from_secs(36_000)).expect("a quota");
        for (name, costs) in [("one", &[3][..]), ("three", &[1, 2, 3])] {
            let counter = Counter::new(Key(name.as_bytes()), &bucket);
            let takes: Vec<_> = costs.iter().map(|cost| counter.take(Cost(*cost))).collect();
            server.stop();
            let left = polled(together(&store, &takes, true), 1).await;
            server.resume();
            assert!(left.is_none(), "{name}: the server gave no answer yet");
            store.close().await;
            assert_eq!(used_of(&store, counter, 8).await, 0, "{name}");
            let _heard = together(&store, &takes, true).await;
            assert_eq!(used_of(&store, counter, 8).await, costs.iter().sum::<u64>(), "{name}");
        }
    });
}

/// The number of permits that a fresh counter admits at once.
fn whole(quota: &Quota) -> u64 {
    match quota.algorithm() {
        Algorithm::TokenBucket { burst: Some(burst), .. } => *burst,
        _ => quota.limit(),
    }
}

/// No caller is left to decide about the silent limit.
#[test]
fn a_caller_that_leaves_while_a_master_is_silent_leaves_nothing_on_the_others() {
    let Some(cluster) = cluster() else { return };
    run_beside(async {
        let mut config = patient(&cluster.url());
        config.link.deadline = Duration::from_millis(300);
        let store = store(config);
        let quotas = [total(LIMIT), total(LIMIT), total(LIMIT)];
        let warm = apart(&cluster, "warm");
        wait("all masters to answer", async || {
            told(&together(&store, &on(&warm, &quotas, &[1; 3]), false).await) == [Some(true); 3]
        })
        .await;
        cluster.nodes[2].stop();
        let mut most = 1;
        loop {
            let keys = apart(&cluster, &format!("k{most}|"));
            let heard = polled(together(&store, &on(&keys, &quotas, &[1_000, 5, 7]), false), most).await;
            store.close().await;
            let gone = [
                used(&store, &keys[0], &quotas[0], LIMIT).await,
                used(&store, &keys[1], &quotas[1], LIMIT).await,
            ];
            match heard {
                None => assert_eq!(gone, [0, 0], "dropped after {most} polls"),
                Some(verdicts) => {
                    assert_eq!(told(&verdicts), [Some(true), Some(true), None]);
                    assert_eq!(gone, [1_000, 5]);
                    // Whoever heard it decides, and may give back; that continues by itself once it has
                    // begun.
                    for (polls, want) in [(1, [0, 0]), (100, [0, 0])] {
                        let batch = on(&keys[..2], &quotas, &[1_000, 5]);
                        let given = polled(store.give_all_back(&batch, NOW), polls).await;
                        assert_eq!(given.is_some(), polls > 1);
                        store.close().await;
                        let gone = [
                            used(&store, &keys[0], &quotas[0], LIMIT).await,
                            used(&store, &keys[1], &quotas[1], LIMIT).await,
                        ];
                        assert_eq!(gone, want, "{polls} polls");
                    }
                    break;
                }
            }
            most += 1;
        }
        assert!(most > 1);
        cluster.nodes[2].resume();
    });
}

/// Many callers with deadlines of their own, some of 0 ms, while a master hangs now and then: every charge on
/// one master was made on all.
#[test]
fn impatient_callers_leave_nothing_half_charged() {
    let Some(cluster) = cluster() else { return };
    let cluster = Arc::new(cluster);
    let ended = Arc::new(AtomicBool::new(false));
    let pauses = {
        let cluster = cluster.clone();
        let ended = ended.clone();
        std::thread::spawn(move || {
            while !ended.load(Relaxed) {
                cluster.nodes[2].stop();
                std::thread::park_timeout(Duration::from_millis(6));
                cluster.nodes[2].resume();
                std::thread::park_timeout(Duration::from_millis(6));
            }
        })
    };
    run_beside(async {
        let mut config = patient(&cluster.url());
        config.link.deadline = Duration::from_secs(20); // no caller gets an unknown outcome
        let store = store(config);
        let keys = Arc::new(apart(&cluster, "all"));
        let few = total(200_000);
        let quotas = Arc::new([total(LIMIT), total(LIMIT), few]);
        let heard = Arc::new(AtomicU64::new(0));
        let left = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..16_u64)
            .map(|caller| {
                let store = store.clone();
                let keys = keys.clone();
                let quotas = quotas.clone();
                let heard = heard.clone();
                let left = left.clone();
                tokio::spawn(async move {
                    for nth in 0..60_u64 {
                        let cost = if nth % 3 == 0 { 1_000 } else { 1 + (caller * 61 + nth * 17) % 999 };
                        let within = Duration::from_micros([50, 0, 5, 3, 20][(nth % 5) as usize] * 1_000);
                        let costs = [cost; 3];
                        let batch = on(&keys[..], &quotas[..], &costs);
                        match tokio::time::timeout(within, together(&store, &batch, nth % 4 == 0)).await {
                            Err(_) => drop(left.fetch_add(1, Relaxed)),
                            Ok(verdicts) => {
                                let said = told(&verdicts);
                                assert!(!said.contains(&None), "{verdicts:?}");
                                let all = said.iter().all(|it| *it == Some(true));
                                heard.fetch_add(if all { cost } else { 0 }, Relaxed);
                            }
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        ended.store(true, Relaxed);
        store.close().await;
        let _ = take(&store, "after", &total(5)).await.expect("it answers");
        let mut gone = Vec::new();
        for (key, quota) in keys.iter().zip(&*quotas) {
            gone.push(used(&store, key, quota, quota.limit()).await);
        }
        let heard = heard.load(Relaxed);
        let left = left.load(Relaxed);
        println!("{left} of 960 left early; {heard} permits heard, {gone:?} charged");
        assert!(gone[0] == gone[1] && gone[1] == gone[2], "{gone:?} after {heard}");
        assert!((heard..=200_000).contains(&gone[0]), "{gone:?} after {heard}");
        assert!(left > 0, "some left");
    });
    pauses.join().expect("it ended");
}
