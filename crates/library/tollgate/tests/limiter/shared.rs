//! Limits per key without rules, over a real Redis: several processes admit together what one would.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use tollgate::rule::RedisConfig;
use tollgate::{Quotas, SharedError, SharedRateLimiter, SharedStore};
use tollgate_testkit::redis::{Distance, NetworkFault, Options, Proxy, Redis, free_port, poll};

use super::*;

fn store_at(address: impl std::fmt::Display, deadline: Duration) -> SharedStore {
    let mut config = RedisConfig::parse_url(&format!("redis://{address}")).expect("a URL");
    config.link.deadline = deadline;
    SharedStore::by(config).expect("settings")
}

/// A busy machine may need longer than the deadline that is usual.
const PATIENT: Duration = Duration::from_secs(30);

/// Ten a day, and a hundred for premium users.
fn of_two_kinds() -> Quotas<str> {
    Quotas::by(Quota::per_day(10), |user: &str| user.starts_with("premium:").then(|| Quota::per_day(100)))
}

fn node(redis: &Redis, name: &str) -> SharedRateLimiter<str> {
    let limiter = RateLimiter::keyed(of_two_kinds()).expect("quotas");
    limiter.shared(name, &store_at(redis.address(), PATIENT))
}

#[tokio::test]
async fn nodes_admit_together_what_one_would_by_the_quota_of_each_key() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let nodes = [node(&redis, "logins"), node(&redis, "logins"), node(&redis, "logins")];
    for (user, limit) in [("ann", 10), ("premium:bob", 100), ("", 10)] {
        let mut tasks = Vec::new();
        for at in 0..150 {
            let node = nodes[at % 3].clone();
            tasks.push(tokio::spawn(async move { node.check(user).await.is_ok() }));
        }
        let mut admitted = 0;
        for task in tasks {
            admitted += usize::from(task.await.expect("no panic"));
        }
        assert_eq!(admitted, limit, "{user:?}");
        let denied = nodes[0].check(user).await.expect_err("all are taken");
        let SharedError::Denied(denied) = denied else { panic!("{denied}") };
        assert!(denied.retry_after().is_some_and(|wait| wait <= Duration::from_secs(8_640)));
    }
    let other = node(&redis, "login");
    assert_eq!(other.peek("ann").await.expect("a store").remaining(), 10, "another name");
    assert_eq!(other.peek("sann").await.expect("a store").remaining(), 10, "no name runs into a key");
}

#[tokio::test]
async fn every_call_does_to_a_shared_key_what_it_does_to_one_of_this_process() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let shared = node(&redis, "logins");
    let alone = KeyedRateLimiter::with_clock(of_two_kinds(), ManualClock::at(NOON)).expect("quotas");
    let mut seed = 7_u64;
    let mut roll = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let users = ["ann", "premium:bob", "carl"];
    let mut seen = HashMap::new();
    for turn in 0..600 {
        let user = users[roll(3) as usize];
        let n = roll(14);
        let call = roll(10);
        match call {
            0 => {
                shared.give_back(user, n).await.expect("a store");
                alone.give_back(user, n);
            }
            1 => {
                shared.penalise(user, n).await.expect("a store");
                alone.penalise(user, n);
            }
            2 if roll(4) == 0 => {
                shared.reset(user).await.expect("a store");
                alone.reset(user);
            }
            _ => {
                let ours = shared.check_n(user, n).await;
                let theirs = alone.check_n(user, n);
                assert_eq!(ours.is_ok(), theirs.is_ok(), "turn {turn}: {n} of {user}: {ours:?}, {theirs:?}");
                if let (Err(SharedError::Denied(ours)), Err(theirs)) = (ours, theirs) {
                    assert_eq!(ours.retry_after().is_none(), theirs.retry_after().is_none(), "turn {turn}");
                }
                *seen.entry(theirs.is_ok()).or_insert(0) += 1;
            }
        }
        let left = shared.peek(user).await.expect("a store").remaining();
        assert_eq!(left, alone.peek(user).remaining(), "turn {turn}: {call}, {n} of {user}");
    }
    assert!(seen[&true] > 50 && seen[&false] > 50, "{seen:?}");
}

#[tokio::test]
async fn a_quota_that_changes_keeps_what_was_taken_at_every_node() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let limit = Arc::new(AtomicU64::new(10));
    let make = || {
        let limit = Arc::clone(&limit);
        let quotas = Quotas::by(Quota::per_day(1), move |_: &str| Some(Quota::per_day(limit.load(SeqCst))));
        RateLimiter::keyed(quotas).expect("quotas").shared("calls", &store_at(redis.address(), PATIENT))
    };
    let first = make();
    let second = make();
    for _ in 0..4 {
        assert!(first.check("ann").await.is_ok());
    }
    limit.store(20, SeqCst);
    first.here().ask_again("ann");
    second.here().ask_again("ann");
    assert_eq!(first.check("ann").await.map(|it| it.remaining()), Ok(15), "four and this one stay taken");
    assert_eq!(second.check("ann").await.map(|it| it.remaining()), Ok(14));
    // The quota of all keys, for a limiter without a function.
    let same = || RateLimiter::keyed::<str>(Quota::per_day(5)).expect("a quota");
    let limiter = same().shared("mails", &store_at(redis.address(), PATIENT));
    assert!(limiter.check_n("ann", 5).await.is_ok());
    limiter.here().reconfigure(Quota::per_day(8)).expect("a quota");
    assert_eq!(limiter.peek("ann").await.map(|it| it.remaining()), Ok(3));
}

#[tokio::test]
async fn an_error_says_whether_a_limit_or_the_store_said_no_and_what_became_of_the_permits() {
    let nothing = store_at(format!("127.0.0.1:{}", free_port()), Duration::from_millis(200));
    let limiter = RateLimiter::keyed::<str>(Quota::per_day(5)).expect("a quota");
    let error = limiter.shared("calls", &nothing).check("ann").await.expect_err("nobody listens");
    assert!(matches!(&error, SharedError::NotTaken(said) if said.contains("no permit was taken")), "{error}");

    let Some(redis) = Redis::start(&Options::new()) else { return };
    let proxy = Proxy::before(redis.address());
    let shared = limiter.shared("calls", &store_at(proxy.address(), Duration::from_millis(300)));
    let mut answered = false;
    for _ in 0..100 {
        answered = answered || shared.check("ann").await.is_ok(); // a busy machine may need longer at first
    }
    assert!(answered);
    proxy.set(NetworkFault::Stall);
    let error = shared.check("ann").await.expect_err("no answer");
    assert!(matches!(&error, SharedError::Unknown(said) if said.contains("may or may not")), "{error}");

    let never = limiter.shared("calls", &store_at(redis.address(), PATIENT)).check_n("bob", 6).await;
    assert!(matches!(never, Err(SharedError::Denied(denied)) if denied.retry_after().is_none()));
    // Cells shorter than the microseconds of the store's clock.
    let cells =
        RateLimiter::keyed::<str>(Quota::sliding_window(5, Duration::from_micros(5))).expect("a quota");
    let error = cells.shared("cells", &store_at(redis.address(), PATIENT)).check("ann").await;
    assert_eq!(error, Err(SharedError::Unsupported { algorithm: "sliding_window" }));
    assert!(SharedStore::at("127.0.0.1:6379").is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_wait_for_a_redis_that_dies_all_get_an_error_and_go_on_once_it_is_back() {
    let Some(mut redis) = Redis::start(&Options::new()) else { return };
    let shared = RateLimiter::keyed::<u64>(Quota::per_second(1_000_000_000)).expect("a quota");
    let shared = shared.shared("calls", &store_at(redis.address(), Duration::from_millis(500)));
    let stop = Arc::new(AtomicBool::new(false));
    let admitted = Arc::new(AtomicU64::new(0));
    let failed = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for key in 0..200 {
        let shared = shared.clone();
        let stop = Arc::clone(&stop);
        let admitted = Arc::clone(&admitted);
        let failed = Arc::clone(&failed);
        tasks.push(tokio::spawn(async move {
            while !stop.load(SeqCst) {
                match shared.check(&key).await {
                    Ok(_) => admitted.fetch_add(1, SeqCst),
                    Err(SharedError::NotTaken(_) | SharedError::Unknown(_)) => failed.fetch_add(1, SeqCst),
                    Err(other) => panic!("{other}"),
                };
                tokio::task::yield_now().await;
            }
        }));
    }
    let reaches = |count: &AtomicU64, least: u64| (count.load(SeqCst) >= least).then_some(());
    poll("answers", || reaches(&admitted, 500));
    redis.kill();
    let before = failed.load(SeqCst);
    poll("an error for each caller, twice", || reaches(&failed, before + 400));
    redis.start_again();
    let before = admitted.load(SeqCst);
    poll("answers again", || reaches(&admitted, before + 500));
    stop.store(true, SeqCst);
    for task in tasks {
        task.await.expect("no panic, and an end");
    }
}

#[tokio::test]
async fn a_store_far_away_works_with_the_defaults_from_the_first_call_on() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for round_trip_ms in [9, 15, 40, 150] {
        let far = Distance::before(redis.address(), Duration::from_micros(500 * round_trip_ms));
        let store = SharedStore::at(&format!("redis://{}", far.address())).expect("a URL");
        let limiter = RateLimiter::keyed::<u64>(Quota::per_day(12)).expect("a quota");
        let shared = limiter.shared("calls", &store);
        for nth in 0..4 {
            // At first three together, which wait for the same connection.
            let a = shared.clone();
            let b = shared.clone();
            let c = shared.clone();
            let key = &round_trip_ms;
            let all = tokio::join!(a.check(key), b.check(key), c.check(key));
            let all = [all.0, all.1, all.2];
            assert!(all.iter().all(Result::is_ok), "{round_trip_ms} ms, {nth}: {all:?}");
        }
        let denied = shared.check(&round_trip_ms).await;
        assert!(matches!(denied, Err(SharedError::Denied(_))), "{round_trip_ms} ms: {denied:?}");
    }
}

#[tokio::test]
async fn the_deadline_of_a_call_begins_once_there_is_a_connection() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let limiter = RateLimiter::keyed::<str>(Quota::per_day(12)).expect("a quota");
    // The server has the script then, so that a call is one round trip.
    let near = limiter.shared("calls", &store_at(redis.address(), PATIENT)).check("ann").await;
    assert!(near.is_ok(), "{near:?}");
    let far = Distance::before(redis.address(), Duration::from_millis(300));
    let config = RedisConfig::parse_url(&format!("redis://{}", far.address())).expect("a URL");
    let config = config.with_deadline(Duration::from_millis(1_500)).with_connect_timeout(PATIENT);
    let began = limiter.now();
    let first = limiter.shared("calls", &SharedStore::by(config).expect("settings")).check("ann").await;
    assert!(first.is_ok(), "{first:?}");
    let took = limiter.now().since(began);
    assert!(
        took >= Duration::from_millis(1_800),
        "two round trips to connect, and one for the call: {took:?}"
    );
}

#[tokio::test]
async fn an_error_of_a_slow_store_names_what_to_raise() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let limiter = RateLimiter::keyed::<str>(Quota::per_day(12)).expect("a quota");
    let far = Distance::before(redis.address(), Duration::from_millis(150));
    let config = || RedisConfig::parse_url(&format!("redis://{}", far.address())).expect("a URL");
    for (config, setting) in [
        (config().with_deadline(Duration::from_millis(50)), "with_deadline"),
        (
            config().with_connect_timeout(Duration::from_millis(50)).with_deadline(Duration::from_millis(20)),
            "with_connect_timeout",
        ),
    ] {
        let shared = limiter.shared("calls", &SharedStore::by(config).expect("settings"));
        let error = shared.check("ann").await.expect_err("too far");
        assert!(matches!(&error, SharedError::NotTaken(why) if why.contains(setting)), "{error}");
        assert!(error.to_string().contains("no permit was taken"), "{error}");
    }
}
