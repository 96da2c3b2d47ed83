//! Callers of stores that are far away: `far_loop URL WAY_US LATE_OF_1000 LATE_MS STORES CALLERS RATE SECONDS
//! [DEADLINE_MS]`. A proxy adds the delay; each store has a thread of its own. RATE is in decisions per
//! second and store; 0 is a closed loop. Prints the calls without an answer, and the times of decisions.
#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a tool for the hand"
)]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::Instant;
use tollgate_core::{Cost, Quota, Timestamp};
use tollgate_store::{Charge, Counter, Key, Store};
use tollgate_store_redis::{RedisConfig, RedisStats, RedisStore};
use tollgate_testkit::redis::Distance;

struct LoopOptions {
    url: String,
    callers: u64,
    rate: u64,
    lasts: Duration,
    deadline: Duration,
}

/// The time of each decision, and the number of decisions not made by the store.
#[derive(Default)]
struct DecisionTimes {
    took_us: Vec<u64>,
    degraded: u64,
    stats: RedisStats,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let server = args.next().expect("a server's address, host:port").parse().expect("an address");
    let mut number = |default: u64| args.next().map_or(default, |text| text.parse().expect("a number"));
    let way = number(1000);
    let late = number(0);
    let late_ms = number(12);
    let stores = number(1);
    let proxy = Distance::before(server, Duration::from_micros(way));
    proxy.set_late(0, Duration::from_millis(late_ms));
    let callers = number(8);
    let rate = number(0);
    let lasts = Duration::from_secs(number(5));
    let deadline = Duration::from_millis(number(10));
    let threads: Vec<_> = (0..stores)
        .map(|nth| {
            let plan =
                LoopOptions { url: format!("redis://{}", proxy.address()), callers, rate, lasts, deadline };
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let begin = Duration::from_millis(500);
                runtime.expect("a runtime").block_on(LocalSet::new().run_until(run(plan, begin, nth)))
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(400));
    let before = proxy.answers();
    proxy.set_late(late, Duration::from_millis(late_ms));
    let mut all = DecisionTimes::default();
    for thread in threads {
        let seen = thread.join().expect("no panic");
        all.degraded += seen.degraded;
        all.took_us.extend(seen.took_us);
        let sum = &mut all.stats.conn;
        let of = seen.stats.conn;
        for (sum, of) in [
            (&mut sum.silent, of.silent),
            (&mut sum.unsent, of.unsent),
            (&mut sum.connects, of.connects),
            (&mut sum.breaker_opened, of.breaker_opened),
            (&mut sum.breaker_blocked, of.breaker_blocked),
            (&mut sum.flights, of.flights),
            (&mut sum.calls, of.calls),
        ] {
            *sum += of;
        }
    }
    let (answers, late) = proxy.answers();
    all.took_us.sort_unstable();
    let n = all.took_us.len();
    let at = |share: f64| all.took_us.get((n as f64 * share) as usize).map_or(0.0, |us| *us as f64 / 1000.0);
    let of = &all.stats.conn;
    println!(
        "{n} decisions, degraded {:.2} %, late answers {:.2} %; p50 {:.1} p99 {:.1} max {:.1} ms; silent {}, unsent {}, blocked by a breaker {}, \
         connects {}, breaker opened {}, flights {}",
        all.degraded as f64 * 100.0 / n as f64,
        (late - before.1) as f64 * 100.0 / (answers - before.0).max(1) as f64,
        at(0.5),
        at(0.99),
        at(0.999_999_999),
        of.silent,
        of.unsent,
        of.breaker_blocked,
        of.connects,
        of.breaker_opened,
        of.flights,
    );
}

async fn run(plan: LoopOptions, begin: Duration, nth: u64) -> DecisionTimes {
    let mut config = RedisConfig::parse_url(&plan.url).expect("a URL");
    config.link.deadline = plan.deadline;
    let store = RedisStore::new(config).expect("settings");
    let seen = Rc::new(RefCell::new(DecisionTimes::default()));
    let began = Instant::now();
    while !take(&store, nth, 0).await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(begin.saturating_sub(began.elapsed())).await;
    let began = Instant::now();
    let first = store.stats();
    let tasks: Vec<_> = (0..plan.callers)
        .map(|caller| {
            let store = store.clone();
            let seen = seen.clone();
            let plan = (plan.rate, plan.callers, plan.lasts);
            tokio::task::spawn_local(async move {
                let (rate, callers, lasts) = plan;
                let mut chance = (caller + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mut next = began;
                while began.elapsed() < lasts {
                    if rate > 0 {
                        chance ^= chance << 13;
                        chance ^= chance >> 7;
                        chance ^= chance << 17;
                        let wait = -((chance >> 11) as f64 / (1_u64 << 53) as f64).max(1e-9).ln();
                        next += Duration::from_secs_f64(wait * callers as f64 / rate as f64);
                        tokio::time::sleep_until(next).await;
                        let store = store.clone();
                        let seen = seen.clone();
                        tokio::task::spawn_local(async move { one(&store, &seen, nth, caller).await });
                    } else if !one(&store, &seen, nth, caller).await {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    tokio::time::sleep(plan.deadline).await;
    let stats = store.stats();
    let mut seen = seen.take();
    seen.stats = stats;
    for (of, first) in
        [(&mut seen.stats.conn.silent, first.conn.silent), (&mut seen.stats.conn.unsent, first.conn.unsent)]
    {
        *of -= first;
    }
    seen
}

async fn one(store: &RedisStore, seen: &RefCell<DecisionTimes>, nth: u64, caller: u64) -> bool {
    let asked = Instant::now();
    let is_decided = take(store, nth, caller).await;
    let mut seen = seen.borrow_mut();
    seen.degraded += u64::from(!is_decided);
    seen.took_us.push(asked.elapsed().as_micros() as u64);
    is_decided
}

async fn take(store: &RedisStore, nth: u64, caller: u64) -> bool {
    let quota = Quota::token_bucket(1000, Duration::from_secs(1)).expect("a quota");
    let key = format!("domain|store={nth},caller={caller}");
    let mut verdicts = Vec::new();
    let take = Counter::new(Key(key.as_bytes()), &quota).take(Cost::ONE);
    store.take(&[take], Charge::Each, Timestamp::ZERO, &mut verdicts).await;
    verdicts.iter().all(Result::is_ok)
}
