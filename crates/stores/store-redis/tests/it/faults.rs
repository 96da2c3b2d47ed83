//! Faults of the server or of the way to it: each is reported clearly, no call hangs, no count is lost, and
//! when it is over nothing fails any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::{Algorithm, Align, Holder, Period, Quota, Slots};
use tollgate_store::{Key, SlotKey, Store as _, StoreError};
use tollgate_store_redis::{RedisStore, StoreState};
use tollgate_testkit::redis::{NetworkFault, Options, Proxy, Redis};

use crate::common::{
    NOW, Told, patient, run, run_beside, store, take, take_many, total, until_down, until_up, used, wait,
};

const LIMIT: u64 = 10_000_000;
/// Resolution of the runtime's timers.
const TICK: Duration = Duration::from_millis(1);

/// Its script asks for the time at which a key expires.
fn daily(limit: u64) -> Quota {
    let day = Period::Span(Duration::from_secs(86_400));
    Quota::new(limit, day, Algorithm::FixedWindow { align: Align::Calendar }).expect("a quota")
}

/// Callers that ask without a pause until they are stopped.
pub(crate) struct Callers {
    ended: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Told>>,
}

impl Callers {
    /// Begins `each` callers per key; all have been admitted once when it returns, so that their connections
    /// are there.
    pub(crate) async fn begin(store: &RedisStore, keys: &[&str], quota: &Quota, each: usize) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let admitted = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = keys
            .iter()
            .cycle()
            .take(keys.len() * each)
            .map(|key| {
                let store = store.clone();
                let key = (*key).to_owned();
                let quota = quota.clone();
                let ended = ended.clone();
                let admitted = admitted.clone();
                tokio::spawn(async move {
                    let mut told = Told::default();
                    while !ended.load(Relaxed) {
                        let answer = take(&store, &key, &quota).await;
                        told.note(&answer);
                        if told.admitted == 1 {
                            admitted.fetch_add(1, Relaxed);
                        }
                        // While the breaker is open an answer takes no time at all: let others run.
                        tokio::time::sleep(Duration::from_micros(if answer.is_ok() { 200 } else { 2000 }))
                            .await;
                    }
                    told
                })
            })
            .collect();
        wait("all callers to be admitted", async || admitted.load(Relaxed) >= tasks.len()).await;
        Self { ended, tasks }
    }

    /// The answers to all of them together.
    pub(crate) async fn end(self) -> Told {
        self.ended.store(true, Relaxed);
        let mut told = Told::default();
        for task in self.tasks {
            told.add(task.await.expect("no panic"));
        }
        told
    }
}

/// Takes that must all be admitted.
pub(crate) async fn all_is_well(store: &RedisStore, key: &str, quota: &Quota) -> Told {
    let told = take_many(store, key, quota, 50).await;
    assert_eq!(told, Told { admitted: 50, ..Told::default() }, "{:?}", store.state());
    told
}

async fn refused(store: &RedisStore, key: &str, quota: &Quota) -> String {
    match take(store, key, quota).await {
        Err(StoreError::Failed { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn whatever_the_network_does_no_count_is_lost_and_all_is_well_afterwards() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for (fault, deadline_ms, word) in [
        (NetworkFault::Stall, 200, "within"),
        (NetworkFault::DropReplies, 200, "within"),
        (NetworkFault::DropRequests, 200, "within"),
        (NetworkFault::CutReplies, 200, "closed"),
        (NetworkFault::Refuse, 200, "refused"),
        (NetworkFault::Latency(Duration::from_millis(500)), 200, "00ms"),
        (NetworkFault::Latency(Duration::from_millis(50)), 10, "10ms"),
    ] {
        let proxy = Proxy::before(redis.address());
        run_beside(async {
            let mut config = patient(&format!("redis://{}", proxy.address()));
            config.link.deadline = Duration::from_millis(deadline_ms);
            config.link.connect_timeout = Duration::from_millis(500);
            let store = store(config);
            let quota = total(LIMIT);
            let key = format!("{fault:?}");
            wait("the first answer", async || take(&store, &key, &quota).await.is_ok()).await;
            let before = used(&store, &key, &quota, LIMIT).await;

            let callers = Callers::begin(&store, &[&key], &quota, 8).await;
            proxy.set(fault);
            if matches!(fault, NetworkFault::Refuse) {
                proxy.cut();
            }
            let why = until_down(&store).await;
            // A probe may have been the last to fail.
            assert!(why.contains(word) || why.contains("or not at all"), "{fault:?}: {why}");
            let refused = store.stats().conn.breaker_blocked;
            wait("calls to fail at once", async || store.stats().conn.breaker_blocked > refused + 20).await;
            proxy.set(NetworkFault::None);
            until_up(&store).await;
            if deadline_ms > 100 {
                all_is_well(&store, "after", &total(LIMIT)).await;
            }
            let told = callers.end().await;
            told.explains(used(&store, &key, &quota, LIMIT).await - before);
            assert!(told.unreachable > 0 && told.denied == 0, "{fault:?}: {told:?}");
            // Where connections are cut, a reply may already be in flight.
            assert!(told.silent > 0 || matches!(fault, NetworkFault::Refuse), "{fault:?}: {told:?}");
        });
    }
}

/// Runs in a time that stops while anything happens, and otherwise jumps to the next timer.
#[test]
fn a_call_without_a_reply_takes_its_deadline_and_at_most_a_tick_more() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let proxy = Proxy::before(redis.address());
    run(async {
        let mut config = patient(&format!("redis://{}", proxy.address()));
        config.link.deadline = Duration::from_millis(10);
        config.link.breaker.failures = 1000;
        let store = store(config.clone());
        let quota = total(LIMIT);
        wait("the first answer", async || take(&store, "k", &quota).await.is_ok()).await;
        proxy.set(NetworkFault::Stall);
        tokio::time::pause();
        for nth in 0..10 {
            // The first is sent.
            tokio::time::advance(Duration::from_micros(371)).await; // timers ring at whole milliseconds
            let asked = Instant::now();
            let error = take(&store, "k", &quota).await.expect_err("nobody answers");
            let took = asked.elapsed();
            // Other calls may find another connection that was open before, or none.
            assert!(nth > 0 || matches!(error, StoreError::Silent { .. }), "{error:?}");
            assert!(took <= config.link.deadline + TICK, "{took:?} of {:?}", config.link.deadline);
            assert!(
                nth > 0 || took + 3 * TICK >= config.link.deadline,
                "{took:?} of {:?}",
                config.link.deadline
            );
        }
    });
}

#[test]
fn a_call_that_was_not_sent_in_time_is_never_sent() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let proxy = Proxy::before(redis.address());
    run_beside(async {
        let mut config = patient(&format!("redis://{}", proxy.address()));
        config.link.deadline = Duration::from_millis(200);
        config.link.breaker.failures = 1000;
        let store = store(config);
        let quota = total(LIMIT);
        let warm = async || take_many(&store, "k", &quota, 10).await.admitted == 10;
        wait("the first answers", warm).await;
        let before = used(&store, "k", &quota, LIMIT).await;
        proxy.set(NetworkFault::Stall);
        let told = take_many(&store, "k", &quota, 10).await;
        let sent = told.silent;
        assert!(sent >= 1 && sent + told.unreachable == 10, "sent, and nobody knows: {told:?}");
        let told = take_many(&store, "k", &quota, 10).await;
        assert_eq!(told.unreachable, 10, "there was no connection to send them by: {told:?}");
        proxy.set(NetworkFault::None);
        wait("the store to answer", async || take(&store, "other", &quota).await.is_ok()).await;
        let after = used(&store, "k", &quota, LIMIT).await;
        assert!(
            (before..=before + sent).contains(&after),
            "only those that were sent may have arrived: {after}"
        );
    });
}

#[test]
fn permits_whose_replies_are_lost_are_reported_as_unknown_and_counted() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let proxy = Proxy::before(redis.address());
    run_beside(async {
        let mut config = patient(&format!("redis://{}", proxy.address()));
        config.link.deadline = Duration::from_millis(200);
        config.link.connect_timeout = Duration::from_millis(300);
        let store = store(config);
        let quota = total(LIMIT);
        let warm = async || take_many(&store, "k", &quota, 10).await.admitted == 10;
        wait("the first answers", warm).await;
        let before = used(&store, "k", &quota, LIMIT).await;
        // Half open: the server receives everything, the node nothing.
        proxy.set(NetworkFault::DropReplies);
        let told = take_many(&store, "k", &quota, 10).await;
        assert!(
            told.silent >= 1 && told.silent + told.unreachable == 10,
            "none is believed to be nothing: {told:?}"
        );
        let after = until_down(&store).await;
        assert!(after.contains("within"), "{after}");
        proxy.set(NetworkFault::None);
        until_up(&store).await;
        let after = used(&store, "k", &quota, LIMIT).await;
        assert_eq!(after, before + told.silent, "what was sent was done, what is reported as unsent was not");
    });
}

#[test]
fn connections_that_are_closed_while_idle_are_replaced_before_they_are_needed() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run_beside(async {
        let store = store(patient(&redis.url()));
        let quota = total(LIMIT);
        let _ = take(&store, "k", &quota).await.expect("it answers");
        for _ in 0..5 {
            let connects = store.stats().conn.connects;
            redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
            wait("a new connection", async || store.stats().conn.connects > connects).await;
            all_is_well(&store, "k", &quota).await;
        }
        assert_eq!(used(&store, "k", &quota, LIMIT).await, 251);
    });
}

#[test]
fn scripts_that_a_server_forgets_are_loaded_again_within_the_call() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run_beside(async {
        let store = store(patient(&redis.url()));
        let quota = total(LIMIT);
        let _ = take(&store, "k", &quota).await.expect("it answers");
        let before = used(&store, "k", &quota, LIMIT).await;
        let callers = Callers::begin(&store, &["k"], &quota, 4).await;
        for _ in 0..20 {
            // By this the server knows the script; otherwise its load would be in flight together with the
            // call.
            assert!(take(&store, "k", &quota).await.expect("it answers").is_admitted());
            let reloads = store.stats().flights.script_loads;
            redis.command(&["SCRIPT", "FLUSH"]);
            wait("the scripts to be loaded again", async || store.stats().flights.script_loads > reloads)
                .await;
        }
        let told = callers.end().await;
        assert_eq!(told, Told { admitted: told.admitted, ..Told::default() });
        assert_eq!(used(&store, "k", &quota, LIMIT).await - before, told.admitted + 20);
        assert!(store.stats().flights.script_loads >= 20, "{:?}", store.stats());
    });
}

#[test]
fn what_a_server_rejects_is_reported_and_takes_nothing() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run_beside(async {
        let mut config = patient(&redis.url());
        config.node_timeout = Duration::from_secs(3600); // no heartbeat comes before the call
        let store = store(config);
        let quota = total(LIMIT);
        all_is_well(&store, "k", &quota).await;
        for (set, back, words) in [
            ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", ["memory is full", "OOM"]),
            (
                "CONFIG SET min-replicas-to-write 1",
                "CONFIG SET min-replicas-to-write 0",
                ["fewer replicas", "NOREPLICAS"],
            ),
            ("ACL SETUSER default -evalsha", "ACL SETUSER default +evalsha", ["lacks permissions", "NOPERM"]),
        ] {
            let ask = |command: &str| redis.command(&command.split(' ').collect::<Vec<_>>());
            ask(set);
            let reason = refused(&store, "k", &quota).await;
            assert!(words.iter().all(|word| reason.contains(word)), "{reason}");
            let why = until_down(&store).await;
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
            ask(back);
            until_up(&store).await;
            all_is_well(&store, "k", &quota).await;
        }
        redis.command(&["LPUSH", "tollgate:{foreign}", "not ours"]);
        let reason = refused(&store, "foreign", &quota).await;
        assert!(reason.contains("tollgate:{foreign}"), "{reason}");
        assert_eq!(redis.command(&["LRANGE", "tollgate:{foreign}", "0", "-1"]).array()[0].text(), "not ours");
        assert_eq!(used(&store, "k", &quota, LIMIT).await, 200);
    });
}

#[test]
fn a_server_that_cannot_save_takes_nothing_and_is_used_again_once_it_can() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run_beside(async {
        let mut config = patient(&redis.url());
        config.node_timeout = Duration::from_millis(600);
        let store = store(config);
        let quota = total(LIMIT);
        all_is_well(&store, "k", &quota).await;
        // A folder has the name of its file.
        let file = redis.folder().join("dump.rdb");
        std::fs::create_dir(&file).expect("made");
        redis.command(&["CONFIG", "SET", "save", "3600 1"]);
        let saved = async |wanted: &str| {
            wait("the server to have saved, or not", async || {
                redis.ask(&["BGSAVE"]).ok(); // an error while one is in progress
                redis.info("rdb_last_bgsave_status").as_deref() == Some(wanted)
            })
            .await;
        };
        saved("err").await;
        // The server reports it for a call, or for the health check, whichever comes first.
        let error = take(&store, "k", &quota).await.expect_err("it takes no writes");
        let reason = match &error {
            StoreError::Unreachable { source, .. } => source.to_string(),
            StoreError::Failed { reason, .. } => reason.clone(),
            other => panic!("{other:?}"),
        };
        assert!(reason.contains("cannot save to disk") && reason.contains("MISCONF"), "{reason}");
        let why = until_down(&store).await;
        assert!(why.contains("cannot save to disk"), "{why}");
        std::fs::remove_dir(&file).expect("removed");
        saved("ok").await;
        until_up(&store).await;
        all_is_well(&store, "k", &quota).await;
        assert_eq!(used(&store, "k", &quota, LIMIT).await, 100);
    });
}

#[test]
fn an_error_names_the_permissions_that_a_user_lacks() {
    let options = Options::new()
        .user("weak on >secret ~* +@all -evalsha")
        .user("weaker on >secret ~* +@all -pexpiretime")
        .user("elsewhere on >secret ~other:* +@all");
    let Some(redis) = Redis::start(&options) else { return };
    run_beside(async {
        all_is_well(&store(patient(&redis.url())), "k", &daily(LIMIT)).await;
        for user in ["weak", "weaker", "elsewhere"] {
            let store = store(patient(&redis.url_as(&format!("{user}:secret"))));
            let reason = refused(&store, "k", &daily(LIMIT)).await;
            assert!(reason.contains(&format!("user `{user}` lacks permissions")), "{reason}");
        }
    });
}

#[test]
fn a_master_that_becomes_a_replica_is_asked_no_more_until_it_is_one_again() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let Some(other) = Redis::start(&Options::new()) else { return };
    run_beside(async {
        let mut config = patient(&redis.url());
        config.node_timeout = Duration::from_millis(600);
        let store = store(config);
        let quota = total(LIMIT);
        all_is_well(&store, "k", &quota).await;
        let port = other.address().port().to_string();
        redis.command(&["REPLICAOF", "127.0.0.1", &port]);
        let error = take(&store, "k", &quota).await.expect_err("it takes no writes");
        assert!(matches!(error, StoreError::Unreachable { .. }), "nothing was taken: {error:?}");
        wait(
            "the state to tell",
            async || matches!(store.state(), StoreState::Down { why, .. } if why.contains("is a replica")),
        )
        .await;
        redis.command(&["REPLICAOF", "NO", "ONE"]);
        until_up(&store).await;
        all_is_well(&store, "k", &quota).await;
    });
}

#[test]
fn a_server_busy_with_another_script_is_reported_and_waited_for() {
    let Some(redis) = Redis::start(&Options::new().set("busy-reply-threshold", "50")) else { return };
    std::thread::scope(|scope| {
        run_beside(async {
            let store = store(patient(&redis.url()));
            let quota = total(LIMIT);
            all_is_well(&store, "k", &quota).await;
            let forever = scope.spawn(|| redis.command(&["EVAL", "while true do end", "0"]));
            let mut told = Told::default();
            let mut reason = String::new();
            wait("the server to be busy", async || {
                let answer = take(&store, "k", &quota).await;
                told.note(&answer);
                if let Err(error) = answer {
                    reason = match &error {
                        StoreError::Failed { reason, .. } => reason.clone(),
                        StoreError::Unreachable { source, .. } => source.to_string(),
                        other => panic!("{other:?}"),
                    };
                }
                reason.contains("SCRIPT KILL")
            })
            .await;
            assert!(reason.contains("BUSY"), "{reason}");
            let why = until_down(&store).await;
            assert!(why.contains("BUSY"), "{why}");
            redis.command(&["SCRIPT", "KILL"]);
            assert!(forever.join().expect("it ended").error().is_some());
            until_up(&store).await;
            all_is_well(&store, "k", &quota).await;
            assert_eq!(used(&store, "k", &quota, LIMIT).await, 100 + told.admitted);
        });
    });
}

/// One call, and its answer cut off: it is counted once, the caller gets an unknown outcome, and no
/// connection sends it again.
#[test]
fn an_answer_that_is_lost_is_not_asked_for_again() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let proxy = Proxy::before(redis.address());
    run_beside(async {
        let (store, quota) = (store(patient(&format!("redis://{}", proxy.address()))), total(LIMIT));
        for round in 0..5 {
            wait("an answer", async || take(&store, "warm", &quota).await.is_ok()).await;
            proxy.set(NetworkFault::CutReplies);
            let said = take(&store, "k", &quota).await;
            proxy.set(NetworkFault::None);
            assert!(matches!(said, Err(StoreError::Silent { .. })), "{said:?}");
            assert_eq!(used(&store, "k", &quota, LIMIT).await, round + 1);
        }
    });
}

/// The slots of a key and its counter have two names; a value that is neither's stays as it is, and is named.
#[test]
fn slots_and_a_counter_of_one_key_do_not_meet_and_each_names_what_is_foreign() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let store = store(patient(&redis.url()));
        let quota = total(LIMIT);
        let slots = Slots::new(2, Duration::from_secs(60)).expect("slots");
        let acquire = async |key: &str, holder| {
            store.acquire(SlotKey::new(Key(key.as_bytes())), &slots, Holder(holder), NOW).await
        };
        assert_eq!(acquire("k", 1).await.expect("a slot").decision.remaining(), 1);
        assert_eq!(take(&store, "k", &quota).await.expect("a permit").remaining(), LIMIT - 1);
        assert_eq!(acquire("k", 2).await.expect("a slot").decision.remaining(), 0);
        assert!(
            store.release(SlotKey::new(Key(b"k")), &slots, Holder(1), NOW).await.expect("an answer").was_held
        );
        let type_of = |key: &str| redis.command(&["TYPE", key]).text();
        assert_eq!(
            (type_of("tollgate:{k}"), type_of("tollgate:{k}|slots")),
            ("string".into(), "zset".into())
        );

        redis.command(&["ZADD", "tollgate:{set}", "1", "holder"]);
        redis.command(&["SET", "tollgate:{text}|slots", "7"]);
        let reason = refused(&store, "set", &quota).await;
        assert!(reason.contains("key tollgate:{set} holds a value of another type"), "{reason}");
        for error in [
            acquire("text", 1).await.expect_err("it is no set"),
            store
                .release(SlotKey::new(Key(b"text")), &slots, Holder(1), NOW)
                .await
                .expect_err("it is no set"),
        ] {
            let told = error.to_string();
            assert!(told.contains("key tollgate:{text}|slots holds a value of another type"), "{told}");
        }
        assert_eq!(
            (type_of("tollgate:{set}"), type_of("tollgate:{text}|slots")),
            ("zset".into(), "string".into())
        );
    });
}
