//! Leased keys on a real server: the cost of a lost node, server or message, the number of calls to the
//! store, and the permits that several nodes admit together.

mod together;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tollgate_clock::SystemClock;
use tollgate_core::{Algorithm, Align, Clock as _, Cost, Decision, Period, Quota, Refill, Timestamp};
use tollgate_store::{Charge, Counter, Key, Sharing, Store as _, StoreError, Verdicts};
use tollgate_store_redis::{RedisConfig, RedisStore, StoreTime};
use tollgate_testkit::redis::{Cluster, NetworkFault, Options, Proxy, Redis};

use crate::common::{patient, run, store, until_up};

const KEY: Key<'static> = Key(b"shop|user=ann|token_bucket");
const SECOND: Duration = Duration::from_secs(1);

fn bucket(limit: u64, period: Duration, burst: u64) -> Quota {
    let burst = Some(burst);
    let refill = Refill::Continuous;
    Quota::new(
        limit,
        Period::Span(period),
        Algorithm::TokenBucket { burst, initial: None, overdraft: 0, refill },
    )
    .expect("a quota")
}

fn window(limit: u64) -> Quota {
    Quota::new(limit, Period::Span(SECOND), Algorithm::FixedWindow { align: Align::Calendar })
        .expect("a quota")
}

fn leased<'a>(key: Key<'a>, quota: &'a Quota) -> Counter<'a> {
    Counter::new(key, quota).shared(Sharing::Leased)
}

/// The time of day, which is also the server's.
fn now() -> Timestamp {
    static CLOCK: std::sync::LazyLock<SystemClock> = std::sync::LazyLock::new(SystemClock::new);
    CLOCK.now()
}

async fn take(store: &RedisStore, quota: &Quota, cost: u64) -> Result<Decision, StoreError> {
    take_at(store, quota, cost, now()).await
}

async fn take_at(
    store: &RedisStore,
    quota: &Quota,
    cost: u64,
    now: Timestamp,
) -> Result<Decision, StoreError> {
    let mut verdicts = Verdicts::new();
    let batch = [leased(KEY, quota).take(Cost(cost))];
    store.take(&batch, Charge::Each, now, &mut verdicts).await;
    verdicts.pop().expect("one answer")
}

async fn admits(store: &RedisStore, quota: &Quota, cost: u64) -> bool {
    take(store, quota, cost).await.expect("an answer").is_admitted()
}

/// Takes one at a time until denied; returns the number admitted.
async fn drain(store: &RedisStore, quota: &Quota) -> u64 {
    let mut count = 0;
    while admits(store, quota, 1).await {
        count += 1;
    }
    count
}

#[test]
fn a_hot_key_asks_the_store_once_in_a_hundred_decisions_at_most() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let store = store(patient(&redis.url()));
        store.start();
        until_up(&store).await;
        let quota = bucket(20_000, SECOND, 20_000);
        let mut ticks = interval(Duration::from_millis(5));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut before = store.stats();
        let mut decisions = 0_u64;
        for tick in 0..500 {
            if tick == 100 {
                (before, decisions) = (store.stats(), 0); // in the first half second it learns the demand
            }
            ticks.tick().await;
            for _ in 0..50 {
                assert!(admits(&store, &quota, 1).await);
                decisions += 1;
            }
        }
        let stats = store.stats();
        let calls = stats.conn.calls - before.conn.calls;
        let leased = stats.leases.permits_leased - before.leases.permits_leased;
        let batch = leased / (stats.leases.lease_requests - before.leases.lease_requests);
        println!("{decisions} decisions, {calls} calls, {batch} permits per lease; {stats:?}");
        assert!(calls * 100 <= decisions, "{calls} calls for {decisions} decisions");
        // One call per lease, except for a lease at either end that is spent only in part, and a heartbeat.
        assert!((calls - 3) * batch <= decisions, "{calls} calls of {batch} for {decisions} decisions");
        assert!(stats.leases.local_decisions * 10 >= decisions * 9);
        assert!(stats.leases.leases_held == 1 && stats.leases.leased_keys == 1, "{stats:?}");
    });
}

#[test]
fn a_small_quota_stays_central_and_its_callers_are_merged() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let store = store(patient(&redis.url()));
        store.start();
        until_up(&store).await;
        let quota = bucket(10, Duration::from_secs(3_600), 10);
        let before = store.stats().conn.calls;
        let mut tasks = tokio::task::JoinSet::new();
        for place in 0..64 {
            let store = store.clone();
            let quota = quota.clone();
            tasks.spawn(async move { (place, take(&store, &quota, 1).await.expect("an answer")) });
        }
        let admitted = tasks.join_all().await.into_iter().filter(|(_, decision)| decision.is_admitted());
        let mut left: Vec<_> = admitted.map(|(place, decision)| (place, decision.remaining())).collect();
        left.sort_unstable();
        let want: Vec<_> = (0..10).map(|place| (place, 9 - place)).collect();
        assert_eq!(left, want, "the first ten, and each gets the number that is left after it");
        let stats = store.stats();
        assert_eq!((stats.leases.central_takes, stats.leases.lease_requests), (64, 0), "{stats:?}");
        assert!(stats.conn.calls - before <= 16, "{stats:?}");
    });
}

#[test]
fn a_node_that_ends_gives_back_what_it_holds_and_one_that_crashes_loses_it_for_a_while() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let quota = bucket(3_600, Duration::from_secs(36_000), 2_000);
    let spend = |crashes: bool| {
        let url = redis.url();
        let quota = quota.clone();
        let node = thread::spawn(move || {
            run(async {
                let store = store(patient(&url));
                for _ in 0..100 {
                    assert!(admits(&store, &quota, 1).await);
                }
                let held = store.stats().leases.permits_held;
                assert!(held > 0, "{:?}", store.stats());
                if !crashes {
                    store.close().await;
                    let stats = store.stats();
                    assert_eq!(
                        (stats.leases.permits_held, stats.leases.permits_returned >= held),
                        (0, true),
                        "{stats:?}"
                    );
                }
                held
            })
        });
        node.join().expect("a node")
    };
    spend(false);
    run(async {
        let store = store(patient(&redis.url()));
        let got = drain(&store, &quota).await;
        assert!((1_900..=1_901).contains(&got), "{got}: what was given back is there at once");
        assert!(store.reset(leased(KEY, &quota), now()).await.expect("an answer"));
        let held = spend(true);
        // Permits that a crashed node held count as spent, and come back only as the bucket fills.
        let got = drain(&store, &quota).await;
        assert!((1_900 - held..=1_901 - held).contains(&got), "{got} besides {held} lost");
        let inspection = store.inspect(leased(KEY, &quota), now()).await.expect("an answer");
        assert!(inspection.is_tracked && inspection.decision.remaining() == 0, "{inspection:?}");
    });
}

#[test]
fn in_an_outage_the_lease_is_used_up_first_and_then_calls_fail_and_afterwards_all_is_normal() {
    let Some(mut redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let mut config = RedisConfig::parse_url(&redis.url()).expect("a URL");
        config.link.deadline = Duration::from_millis(200);
        let store = store(config);
        let quota = bucket(2_000, SECOND, 2_000);
        store.start();
        until_up(&store).await;
        let began = Instant::now();
        let mut admitted = 0.0;
        for _ in 0..300 {
            admitted += f64::from(u8::from(admits(&store, &quota, 1).await));
        }
        let held = store.stats().leases.permits_held;
        assert!(held > 0, "{:?}", store.stats());
        redis.kill();
        let mut lived_on = 0;
        let error = loop {
            match take(&store, &quota, 1).await {
                Ok(decision) => lived_on += u64::from(decision.is_admitted()),
                Err(error) => break error,
            }
        };
        admitted += lived_on as f64;
        assert!(lived_on > 0 && lived_on <= held, "{lived_on} of {held}");
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
        redis.restart_empty();
        let back = async {
            while take(&store, &quota, 1).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(300), back).await.expect("it is back");
        for _ in 0..5_000 {
            admitted += f64::from(u8::from(take(&store, &quota, 1).await.expect("normal").is_admitted()));
        }
        // The key was lost: one burst more is admitted, and no more than that.
        let most = 2.0 * 2_000.0 + 2_000.0 * began.elapsed().as_secs_f64();
        assert!(admitted <= most, "{admitted} of {most}");
    });
}

/// The callers set the time, 5 ms a turn, and the runtime has one thread: until this test waits, nothing is
/// sent or received. So the server is late by as many turns as this test takes, on a machine of any speed.
#[test]
fn a_late_server_is_not_waited_for_as_long_as_the_lease_lasts() {
    const LEARNT: u32 = 5; // turns; until then it learns the demand and how late answers come
    const LATEST: u32 = 20;
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let mut config = patient(&redis.url());
        config.time = StoreTime::Node;
        let store = store(config);
        let quota = bucket(4_000, SECOND, 4_000);
        let began = Timestamp::from_unix_seconds(2_524_608_000);
        let mut turn = 0;
        let mut late = 1;
        let mut answers = 0;
        let mut waited = 0;
        let mut asked = None;
        let mut heard = store.stats();
        while late <= LATEST {
            for _ in 0..10 {
                let mut take = Box::pin(take_at(&store, &quota, 1, began + Duration::from_millis(5) * turn));
                let decision = tokio::select! {
                    biased;
                    decision = &mut take => decision,
                    () = std::future::ready(()) => {
                        waited += u32::from(late > LEARNT);
                        take.await
                    }
                };
                assert!(decision.expect("an answer").is_admitted());
            }
            if asked.is_none() && store.stats().leases.lease_requests > heard.leases.lease_requests {
                asked = Some(turn);
            }
            if asked.is_some_and(|asked| asked + late <= turn) {
                let answer = async {
                    while store.stats().leases.permits_leased == heard.leases.permits_leased {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                timeout(Duration::from_secs(300), answer).await.expect("an answer");
                (asked, heard, answers) = (None, store.stats(), answers + 1);
                late += u32::from(answers % 8 == 0);
            }
            turn += 1;
        }
        println!("{waited} of {} waited; {heard:?}", turn * 10);
        assert_eq!(waited, 0, "of {} takes", turn * 10);
    });
}

#[test]
fn all_or_none_holds_between_leases_and_scripts() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let store = store(patient(&redis.url()));
        let large = bucket(3_600, Duration::from_secs(36_000), 2_000);
        let hits = window(2_000);
        let small = bucket(1, Duration::from_secs(36_000), 1);
        assert_eq!(drain_n(&store, &large, 300).await, 300, "it is leased");
        for round in 0..20 {
            let batch = [
                leased(KEY, &large).take(Cost(5)),
                leased(Key(b"shop|all|second"), &hits).take(Cost(1)),
                Counter::new(Key(b"shop|few|token_bucket"), &small).take(Cost(1)),
            ];
            let mut verdicts = Verdicts::new();
            if round % 2 == 0 {
                store.take(&batch, Charge::Together, now(), &mut verdicts).await;
            } else {
                store.reserve(&batch, Duration::ZERO, now(), &mut verdicts).await;
            }
            let admitted: Vec<_> =
                verdicts.iter().map(|it| it.as_ref().expect("an answer").is_admitted()).collect();
            assert_eq!(admitted, [true, true, round == 0]);
        }
        store.close().await;
        let got = drain(&store, &large).await;
        assert!((1_695..=1_696).contains(&got), "{got}: only the first batch was charged");
    });
}

async fn drain_n(store: &RedisStore, quota: &Quota, most: u64) -> u64 {
    let mut count = 0;
    while count < most && admits(store, quota, 1).await {
        count += 1;
    }
    count
}

#[test]
fn what_is_given_back_charged_and_reset_counts() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let one = store(patient(&redis.url()));
        let other = store(patient(&redis.url()));
        let quota = bucket(3_600, Duration::from_secs(36_000), 2_000);
        assert_eq!(drain_n(&one, &quota, 500).await, 500);
        for _ in 0..10 {
            assert!(
                one.give_back(leased(KEY, &quota), Cost(1), now()).await.expect("an answer").is_admitted()
            );
            assert!(admits(&one, &quota, 1).await);
        }
        one.close().await;
        assert!(one.give_back(leased(KEY, &quota), Cost(200), now()).await.expect("an answer").is_admitted());
        let decision = other.charge(leased(KEY, &quota), Cost(100), now()).await.expect("an answer");
        assert!((1_600..=1_601).contains(&decision.remaining()), "{decision:?}");
        let got = drain(&other, &quota).await;
        assert!((1_600..=1_601).contains(&got), "{got}");
        let decision = other.charge(leased(KEY, &quota), Cost(100), now()).await.expect("an answer");
        assert_eq!(decision.remaining(), 0);
        assert!(!admits(&other, &quota, 1).await);
        // The key is forgotten by one node, and fresh for all.
        assert!(one.reset(leased(KEY, &quota), now()).await.expect("an answer"));
        assert!(
            !one.reset(leased(KEY, &quota), now()).await.expect("an answer"),
            "there is nothing left to forget"
        );
        assert!(!one.inspect(leased(KEY, &quota), now()).await.expect("an answer").is_tracked);
        assert!(admits(&one, &quota, 1).await);
    });
}

#[test]
fn a_reset_voids_the_leases_of_others() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let one = store(patient(&redis.url()));
        let other = store(patient(&redis.url()));
        let quota = bucket(2_000, SECOND, 2_000);
        assert_eq!(drain_n(&other, &quota, 300).await, 300);
        assert!(other.stats().leases.permits_held > 0);
        // The node may spend the permits that it holds for a tau at most; then a reply shows that the ledger
        // knows nothing of them. Where it had spent all of them by then, there was nothing to lose, and it is
        // tried again.
        let began = Instant::now();
        while other.stats().leases.permits_lost == 0 && began.elapsed() < Duration::from_secs(300) {
            one.reset(leased(KEY, &quota), now()).await.expect("an answer");
            for _ in 0..1_000 {
                admits(&other, &quota, 1).await;
                if other.stats().leases.permits_lost > 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        assert!(other.stats().leases.permits_lost > 0, "{:?}", other.stats());
    });
}

#[test]
fn a_runtime_that_ends_in_the_middle_leaves_nothing_stuck() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let proxy = Proxy::before(redis.address());
    let shared = store(patient(&format!("redis://{}", proxy.address())));
    let quota = bucket(2_000, SECOND, 2_000);
    let has_begun = AtomicBool::new(false);
    thread::scope(|scope| {
        let node = scope.spawn(|| {
            run(async {
                assert_eq!(drain_n(&shared, &quota, 100).await, 100);
                proxy.set(NetworkFault::Stall);
                let waits = async { while take(&shared, &quota, 1).await.is_ok() {} };
                timeout(Duration::from_millis(100), waits).await.ok();
                has_begun.store(true, SeqCst);
            });
        });
        node.join().expect("a node");
    });
    assert!(has_begun.load(SeqCst));
    proxy.set(NetworkFault::None);
    run(async {
        let back = async {
            while !take(&shared, &quota, 1).await.is_ok_and(|it| it.is_admitted()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(300), back).await.expect("another runtime continues");
    });
}

#[test]
fn more_keys_than_may_be_kept_in_mind_make_room() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let mut config = patient(&redis.url());
        config.max_leased_keys = 640;
        let store = store(config);
        let quota = bucket(100, SECOND, 100);
        for user in 0..2_000 {
            let key = format!("shop|user={user}|token_bucket");
            let batch = [leased(Key(key.as_bytes()), &quota).take(Cost(1))];
            let mut verdicts = Verdicts::new();
            store.take(&batch, Charge::Each, now(), &mut verdicts).await;
            assert!(verdicts[0].as_ref().expect("an answer").is_admitted());
        }
        let stats = store.stats();
        assert!(stats.leases.leased_keys <= 640, "{stats:?}");
        assert!(stats.leases.leased_keys_evicted >= 1_300, "{stats:?}");
    });
}

#[test]
fn a_foreign_value_under_the_name_of_a_leased_key_is_named_and_left_alone() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let store = store(patient(&redis.url()));
        let name = "tollgate:{shop|user=ann|token_bucket}|leased";
        redis.command(&["SET", name, "42"]);
        let error = take(&store, &bucket(100, SECOND, 100), 1).await.expect_err("foreign").to_string();
        assert!(error.contains(name) && error.contains("no permit was taken"), "{error}");
        assert_eq!(redis.command(&["GET", name]).int(), 42);
    });
}

#[test]
fn where_the_callers_time_counts_leases_and_ledger_go_by_it() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let mut config = patient(&redis.url());
        config.time = StoreTime::Node;
        let store = store(config);
        let quota = bucket(2_000, SECOND, 2_000);
        let began = Timestamp::from_unix_seconds(2_524_608_000); // in 2050
        let mut admitted = 0;
        let mut latest = 0;
        for (at_ms, most) in [(0, 2_000), (100, 200), (600, 1_000), (600, 0), (500, 0), (5_600, 2_000)] {
            let now = began + Duration::from_millis(at_ms);
            let mut count = 0;
            loop {
                let mut verdicts = Verdicts::new();
                let batch = [leased(KEY, &quota).take(Cost::ONE)];
                store.take(&batch, Charge::Each, now, &mut verdicts).await;
                if !verdicts[0].as_ref().expect("an answer").is_admitted() {
                    break;
                }
                count += 1;
            }
            (admitted, latest) = (admitted + count, at_ms.max(latest));
            assert!(admitted <= 2_000 + 2 * latest, "{admitted} by {latest} ms");
            // Permits promised ahead of their refill are not spent before it; those that lapse are lost.
            assert!(count * 10 >= most * 4, "{count} of {most} at {at_ms} ms");
        }
    });
}

#[test]
fn leased_keys_live_where_their_slots_are() {
    let Some(cluster) = Cluster::start() else { return };
    run(async {
        let store = store(patient(&cluster.url()));
        let quota = bucket(2_000, SECOND, 2_000);
        for user in 0..12 {
            let key = format!("shop|user={user}|token_bucket");
            let batch = [leased(Key(key.as_bytes()), &quota).take(Cost::ONE)];
            let before = store.stats().leases.local_decisions;
            for _ in 0..100 {
                let mut verdicts = Verdicts::new();
                store.take(&batch, Charge::Each, now(), &mut verdicts).await;
                assert!(verdicts[0].as_ref().expect("an answer").is_admitted());
            }
            assert!(store.stats().leases.local_decisions > before, "{key} is leased: {:?}", store.stats());
        }
        let stats = store.stats();
        // Some leases may have ended by now; their keys are still known.
        assert_eq!(stats.leases.leased_keys, 12, "{stats:?}");
        assert!(stats.leases.local_decisions > 900, "{stats:?}");
    });
}
