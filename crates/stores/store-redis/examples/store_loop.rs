//! Callers in a closed loop over one thread's lane: `store_loop URL CALLERS KEYS DECISIONS`. Prints decisions
//! a second and how they shared script calls. For stats by hand and for counting instructions; `benches/`
//! compares with others.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "a tool for the hand")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::Instant;
use tollgate_core::{Cost, Quota, Timestamp};
use tollgate_store::{Charge, Counter, Key, Store};
use tollgate_store_redis::{RedisConfig, RedisStore};

fn main() {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let mut number = |default: u64| args.next().map_or(default, |text| text.parse().expect("a number"));
    let callers = number(64);
    let keys = number(1);
    let decisions = number(100_000);
    let mut config = RedisConfig::parse_url(&url).expect("a URL");
    config.link.deadline = Duration::from_secs(30);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let store = RedisStore::new(config).expect("settings");
    runtime.block_on(LocalSet::new().run_until(run(store, callers, keys, decisions)));
}

async fn run(store: RedisStore, callers: u64, keys: u64, decisions: u64) {
    let quota = Quota::token_bucket(1000, Duration::from_secs(1)).expect("a quota");
    let left = Rc::new(Cell::new(decisions));
    let began = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let store = store.clone();
            let quota = quota.clone();
            let left = left.clone();
            tokio::task::spawn_local(async move {
                let mut verdicts = Vec::new();
                let mut failed = 0_u64;
                let mut chance = caller.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                let mut key = *b"domain|client=0000000000000000";
                while left.get() > 0 {
                    left.set(left.get() - 1);
                    chance ^= chance << 13;
                    chance ^= chance >> 7;
                    chance ^= chance << 17;
                    let mut digits = chance % keys;
                    for digit in key[14..].iter_mut().rev() {
                        *digit = b'0' + (digits % 10) as u8;
                        digits /= 10;
                    }
                    verdicts.clear();
                    let take = Counter::new(Key(&key), &quota).take(Cost::ONE);
                    store.take(&[take], Charge::Each, Timestamp::ZERO, &mut verdicts).await;
                    failed += verdicts.iter().filter(|verdict| verdict.is_err()).count() as u64;
                    if verdicts.iter().any(Result::is_err) {
                        tokio::task::yield_now().await;
                    }
                }
                failed
            })
        })
        .collect();
    let mut failed = 0;
    for task in tasks {
        failed += task.await.expect("no panic");
    }
    let took = began.elapsed();
    let stats = store.stats();
    println!(
        "{callers} callers, {keys} keys: {:.0} decisions/s, {:.1} calls a flight, {:.1} decisions a call, {failed} failed",
        decisions as f64 / took.as_secs_f64(),
        stats.conn.calls as f64 / stats.conn.flights.max(1) as f64,
        stats.conn.requests as f64 / stats.conn.calls.max(1) as f64,
    );
}
