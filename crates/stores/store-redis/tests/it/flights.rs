//! Flights lose nothing: the suite of all stores, callers that share calls, callers that go away.

use std::future::Future;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate_core::{Algorithm, Cost, Period, Quota, Timestamp};
use tollgate_store::suite::{self, Executor, Options as Suite};
use tollgate_store::{Charge, Counter, Key, Store as _, StoreError};
use tollgate_store_redis::{FLIGHT_EDGES, HashTag, RedisConfig, RedisStore, StoreTime};
use tollgate_testkit::redis::{Cluster, NetworkFault, Options, Proxy, Redis};

use crate::common::{NOW, patient, run, store, take, take_many, total, until_up, used};
use crate::one_slot::OneSlot;

/// Far enough ahead that no key expires by the server's clock: 2050.
pub(crate) const AHEAD: Timestamp = Timestamp::from_unix_seconds(2_524_608_000);

struct Threads(Runtime);

impl Threads {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self(runtime.expect("a runtime"))
    }
}

impl Executor for Threads {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }
}

pub(crate) fn suite_over<S: tollgate_store::Store>(
    url: &str,
    tag: HashTag,
    wrap: impl Fn(RedisStore) -> S,
    options: &Suite,
) {
    let nth = AtomicU32::new(0);
    // One runtime per store, made before the store: its connections end with it.
    let threads = Threads::new();
    let make = || {
        let mut config = patient(url);
        config.prefix = format!("t{}:", nth.fetch_add(1, Relaxed));
        config.time = StoreTime::Node;
        config.hash_tag = tag;
        wrap(store(config))
    };
    suite::run(&threads, make, options);
}

#[test]
fn flights_answer_as_the_model_does_with_64_callers_a_key() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    suite_over(
        &redis.url(),
        HashTag::Counter,
        |store| store,
        &Suite { begins: AHEAD, cases: 24, takes: 20, threads: 64, ..Suite::default() },
    );
}

#[test]
fn a_cluster_answers_as_the_model_does() {
    let Some(cluster) = Cluster::start() else { return };
    suite_over(
        &cluster.url(),
        HashTag::Domain,
        OneSlot,
        &Suite { begins: AHEAD, cases: 16, takes: 20, threads: 16, ..Suite::default() },
    );
}

/// Row 33: the setting decides which counters of a Cluster share a slot, and so a server.
#[test]
fn the_hash_tag_decides_which_counters_share_a_slot() {
    let Some(cluster) = Cluster::start() else { return };
    let counters = [
        "shop|user=ann|path=/a|minute",
        "shop|user=ann|path=/b|minute",
        "shop|user=bob|path=/a|minute",
        "shop|region=eu|remote_address=192.0.2.1|minute",
        "shop|region=eu|remote_address=192.0.2.2|minute",
        "mail|user=ann|path=/a|minute",
    ];
    for (prefix, tag, groups) in [
        ("a:", HashTag::Counter, [0, 1, 2, 3, 4, 5]),
        ("b:", HashTag::FirstEntry, [0, 0, 1, 2, 2, 3]),
        ("c:", HashTag::Domain, [0, 0, 0, 0, 0, 1]),
    ] {
        let mut config = patient(&cluster.url());
        (config.prefix, config.hash_tag) = (prefix.to_owned(), tag);
        run(async {
            let store = store(config);
            for counter in counters {
                assert!(take(&store, counter, &total(1)).await.expect("an answer").is_admitted());
            }
        });
        let keys: Vec<String> = cluster
            .nodes
            .iter()
            .flat_map(|node| node.command(&["KEYS", "*"]).array().to_vec())
            .map(|key| key.text())
            .collect();
        let slots = counters.map(|counter| {
            let is_it = |key: &&String| key.replace(['{', '}'], "") == format!("{prefix}{counter}");
            cluster.slot(keys.iter().find(is_it).unwrap_or_else(|| panic!("{counter} of {keys:?}")))
        });
        for (a, b) in (0..counters.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let one = counters[a];
            let other = counters[b];
            assert_eq!(slots[a] == slots[b], groups[a] == groups[b], "{tag:?}: {one} and {other}");
        }
    }
}

/// Row 28: a slot that one node holds cannot be held by another.
#[test]
fn nodes_share_the_slots_of_a_key_and_hold_no_more_than_there_are() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let threads = Threads::new();
    let node = || {
        let mut config = patient(&redis.url());
        config.time = StoreTime::Node;
        store(config)
    };
    let options = Suite { begins: AHEAD, takes: 20, threads: 16, ..Suite::default() };
    suite::check_nodes(&threads, &[node(), node()], &options).expect("both count together");
}

#[test]
fn callers_of_one_key_share_script_calls_and_no_permit() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let store = store(patient(&redis.url()));
        let quota = total(1500);
        let told = take_many(&store, "hot", &quota, 2000).await;
        assert_eq!((told.admitted, told.denied), (1500, 500), "{told:?}");
        let stats = store.stats();
        assert_eq!(stats.conn.requests, 2000);
        assert!(stats.conn.calls < 100, "calls: {}", stats.conn.calls);
        assert!(stats.conn.merged > 1900, "merged: {}", stats.conn.merged);
        assert_eq!(stats.flights.sizes.iter().sum::<u64>(), stats.conn.flights);
    });
}

#[test]
fn a_batch_is_answered_in_its_order_and_takes_of_a_key_see_each_other() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let store = store(patient(&redis.url()));
        let two = total(2);
        let five = total(5);
        let on = |key: &'static str, quota, cost| Counter::new(Key(key.as_bytes()), quota).take(Cost(cost));
        let mut verdicts = Vec::new();
        let batch =
            [on("a", &two, 1), on("b", &five, 3), on("a", &two, 1), on("a", &two, 1), on("b", &five, 2)];
        store.take(&batch, Charge::Each, NOW, &mut verdicts).await;
        let left: Vec<_> = verdicts
            .iter()
            .map(|verdict| verdict.as_ref().expect("it answers"))
            .map(|decision| (decision.is_admitted(), decision.remaining()))
            .collect();
        assert_eq!(left, [(true, 1), (true, 2), (true, 0), (false, 0), (true, 0)]);
    });
}

/// One take of each key, all in one batch.
async fn take_each(store: &RedisStore, keys: &[String], quotas: &[Quota]) -> Vec<Result<bool, StoreError>> {
    let takes = keys.iter().zip(quotas.iter().cycle());
    let batch: Vec<_> =
        takes.map(|(key, quota)| Counter::new(Key(key.as_bytes()), quota).take(Cost::ONE)).collect();
    let mut verdicts = Vec::new();
    store.take(&batch, Charge::Each, NOW, &mut verdicts).await;
    verdicts.into_iter().map(|verdict| verdict.map(|decision| decision.is_admitted())).collect()
}

#[test]
fn keys_of_one_algorithm_share_a_script_call_and_a_foreign_one_among_them_harms_no_other() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let store = store(patient(&redis.url()));
        // Totals of two sizes, buckets, and windows whose states are lists; two takes fit each.
        let hour = Period::Span(Duration::from_secs(3600));
        let cells = Algorithm::sliding_window(10);
        let slowly = Quota::token_bucket(2, Duration::from_secs(86_400)).expect("a quota");
        let quotas = [total(2), Quota::new(2, hour, cells).expect("a quota"), total(1), slowly];
        let keys: Vec<String> = (0..400).map(|nth| format!("k{nth}")).collect();
        let foreign = [0_usize, 77, 201, 398];
        for nth in foreign {
            redis.command(&["HSET", &format!("tollgate:{{k{nth}}}"), "a", "1"]);
        }
        let mut calls = 0;
        for round in 1..=3 {
            let told = take_each(&store, &keys, &quotas).await;
            for (nth, told) in told.into_iter().enumerate() {
                let fits = round <= if nth % 4 == 2 { 1 } else { 2 };
                match told {
                    Ok(admitted) => assert_eq!(admitted, fits, "key {nth}, round {round}"),
                    Err(error) => {
                        assert!(foreign.contains(&nth), "key {nth}, round {round}: {error}");
                        assert!(error.to_string().contains(&format!("{{k{nth}}}")), "{error}");
                    }
                }
            }
            let stats = store.stats();
            if round > 1 {
                // 200 totals, 100 windows, 100 buckets, at most 64 per call; more only if they were not all
                // in flight at once.
                assert!(stats.conn.calls - calls <= 12, "{} calls", stats.conn.calls - calls);
            }
            calls = stats.conn.calls;
            assert!(stats.conn.keys >= 400 * round, "{}", stats.conn.keys);
        }
        for nth in foreign {
            assert_eq!(redis.command(&["TYPE", &format!("tollgate:{{k{nth}}}")]).text(), "hash");
        }
    });
}

/// A proxy before a Cluster that says that it is one server, as managed services do.
fn hides_the_cluster(server: SocketAddr) -> SocketAddr {
    fn pass(mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let says = b"mode\r\n$7\r\ncluster";
            let instead = b"mode\r\n$10\r\nstandalone";
            let bytes = &buffer[..length];
            let sent = match bytes.windows(says.len()).position(|at| at == says) {
                Some(at) => to.write_all(&[&bytes[..at], instead, &bytes[at + says.len()..]].concat()),
                None => to.write_all(bytes),
            };
            if sent.is_err() {
                break;
            }
        }
        to.shutdown(Shutdown::Both).ok();
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(behind) = TcpStream::connect(server) else { return };
            let twice = |stream: &TcpStream| stream.try_clone().expect("a handle");
            let asks = twice(&client);
            let hears = twice(&behind);
            std::thread::spawn(move || pass(asks, behind));
            std::thread::spawn(move || pass(hears, client));
        }
    });
    address
}

#[test]
fn a_server_that_keeps_slots_apart_is_asked_key_by_key() {
    let Some(redis) = Redis::start(&Options::new().set("cluster-enabled", "yes")) else { return };
    redis.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    run(async {
        crate::common::wait("the slots to be served", async || {
            redis.command(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok")
        })
        .await;
        let store = store(patient(&format!("redis://{}", hides_the_cluster(redis.address()))));
        let keys: Vec<String> = (0..100).map(|nth| format!("k{nth}")).collect();
        for round in 1..=3 {
            let told = take_each(&store, &keys, &[total(2)]).await;
            for told in told {
                assert_eq!(told.expect("an answer"), round <= 2, "round {round}");
            }
        }
        assert_eq!(store.stats().conn.rejected, 0);
    });
}

#[test]
fn together_across_slots_charges_all_or_gives_back() {
    let Some(cluster) = Cluster::start() else { return };
    run(async {
        let store = store(patient(&cluster.url()));
        let quotas: Vec<Quota> = (0..8).map(|nth| total(10 + nth)).collect();
        let keys: Vec<String> = (0..8).map(|nth| format!("k{nth}")).collect();
        let batch: Vec<_> = keys
            .iter()
            .zip(&quotas)
            .map(|(key, quota)| Counter::new(Key(key.as_bytes()), quota).take(Cost(2)))
            .collect();
        for round in 0..8 {
            let mut verdicts = Vec::new();
            store.take(&batch, Charge::Together, NOW, &mut verdicts).await;
            let admitted = verdicts.iter().filter(|it| it.as_ref().is_ok_and(|it| it.is_admitted())).count();
            assert_eq!(verdicts.len(), 8);
            assert_eq!(admitted == 8, round < 5, "round {round}: {verdicts:?}");
        }
        for (nth, (key, quota)) in keys.iter().zip(&quotas).enumerate() {
            assert_eq!(
                used(&store, key, quota, 10 + nth as u64).await,
                10,
                "{key}: denied rounds took nothing"
            );
        }
    });
}

#[test]
fn a_caller_that_goes_away_before_its_call_is_sent_takes_nothing() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let proxy = Proxy::before(redis.address());
    run(async {
        let store = store(patient(&format!("redis://{}", proxy.address())));
        let quota = total(100);
        let _ = take(&store, "k", &quota).await.expect("it answers");
        // The first is in flight, the others wait for it; all but two go away meanwhile.
        proxy.set(NetworkFault::Latency(Duration::from_millis(300)));
        let first = tokio::spawn({
            let store = store.clone();
            let quota = quota.clone();
            async move { take(&store, "k", &quota).await }
        });
        let flights = store.stats().conn.flights;
        crate::common::wait("the first to fly", async || store.stats().conn.flights > flights).await;
        let others: Vec<_> = (0..20)
            .map(|_| {
                let store = store.clone();
                let quota = quota.clone();
                tokio::spawn(async move { take(&store, "k", &quota).await })
            })
            .collect();
        let asked = store.stats().conn.requests;
        crate::common::wait("all to ask", async || store.stats().conn.requests >= 22.max(asked)).await;
        for other in &others[2..] {
            other.abort();
        }
        let _ = first.await.expect("no panic").expect("it answers");
        for other in others.into_iter().take(2) {
            let _ = other.await.expect("no panic").expect("it answers");
        }
        proxy.set(NetworkFault::None);
        assert_eq!(used(&store, "k", &quota, 100).await, 4);
    });
}

#[test]
fn calls_beyond_a_full_queue_fail_at_once_and_take_nothing() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let mut config = patient(&redis.url());
        config.link.max_queued = 10;
        let store = store(config);
        let quota = total(1000);
        let told = take_many(&store, "k", &quota, 50).await;
        assert_eq!((told.admitted, told.unreachable), (10, 40), "{told:?}");
        assert_eq!(store.stats().conn.queue_full, 40);
        assert_eq!(used(&store, "k", &quota, 1000).await, 10);
    });
}

#[test]
fn a_flight_carries_no_more_than_it_may() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let mut config = patient(&redis.url());
        config.link.max_flight = 8;
        let store = store(config);
        let keys: Vec<String> = (0..100).map(|nth| format!("k{nth}")).collect();
        for told in take_each(&store, &keys, &[total(1)]).await {
            assert!(told.expect("an answer"), "all are new");
        }
        let stats = store.stats();
        let above_8 = FLIGHT_EDGES.iter().position(|edge| *edge == 8).expect("an edge") + 1;
        assert!(stats.flights.sizes[above_8..].iter().all(|flights| *flights == 0), "{stats:?}");
    });
}

#[test]
fn a_call_outside_of_a_runtime_is_an_error() {
    let store =
        RedisStore::new(RedisConfig::parse_url("redis://127.0.0.1:1").expect("a URL")).expect("settings");
    let error = tollgate_store::block_on(take(&store, "k", &total(1))).expect_err("nobody drives it");
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
}

#[test]
fn runtimes_come_and_go_and_each_has_connections_of_its_own() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let store = store(patient(&redis.url()));
    let quota = total(100);
    for _ in 0..3 {
        run(async {
            let _ = take(&store, "k", &quota).await.expect("it answers");
            store.start();
            until_up(&store).await;
        });
    }
    assert_eq!(run(used(&store, "k", &quota, 100)), 3);
    assert_eq!(store.stats().conn.connections, 0, "they ended with their runtimes");
}
