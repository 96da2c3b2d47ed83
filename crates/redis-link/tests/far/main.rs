//! Links to a server that is far away, stands still, forgets or lies, in a time that passes only while nothing else can happen: what
//! is measured here is the order of things, not the machine.

mod attribution;
mod distance;
mod far;
mod stalls;

pub(crate) use far::Far;

use std::future::Future;
use std::sync::{Arc, LazyLock};

use redis::Value;
use tokio::time::{Duration, Instant};
use tollgate_core::{Cost, Quota, Timestamp};
use tollgate_store::{Charge, Key, Store as _, StoreError, Take};

use crate::call::Call;
use crate::config::RedisConfig;
use crate::script::Script;
use crate::store::RedisStore;

/// Of the runtime's timers.
const TICK: Duration = Duration::from_millis(1);

/// Answers its key.
static ECHO: LazyLock<Script> = LazyLock::new(|| Script::of(&["return KEYS[1]"]));

/// Runs `what` on this thread, in a time of its own.
fn run<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(what)
}

/// A store before `far`, with settings as by default but for those that `set` changes.
fn store(far: &Arc<Far>, set: impl FnOnce(&mut RedisConfig)) -> RedisStore {
    let mut config = RedisConfig::parse_url("redis://far:1").expect("a URL");
    config.node_timeout = Duration::from_secs(3600); // nobody else's traffic
    set(&mut config);
    let store = RedisStore::new(config).expect("settings");
    assert!(store.hub().dialer().instead.set(far.clone()).is_ok());
    store
}

async fn take(store: &RedisStore, key: &str) -> Result<(), StoreError> {
    let quota = Quota::token_bucket(1000, Duration::from_secs(1)).expect("a quota");
    let mut verdicts = Vec::new();
    let take = Take { key: Key(key.as_bytes()), quota: &quota, cost: Cost::ONE };
    store.take(&[take], Charge::Each, Timestamp::ZERO, &mut verdicts).await;
    verdicts.pop().expect("an answer").map(drop)
}

/// A call that the server answers with its key.
async fn echo(store: &RedisStore, key: &str) -> Result<(), StoreError> {
    let said = store.run(Call { script: &ECHO, keys: vec![key.into()], args: Vec::new() }).await?;
    assert_eq!(said, Value::BulkString(key.into()), "another call's answer");
    Ok(())
}

/// Asks until there is an answer.
async fn warm(store: &RedisStore) {
    while take(store, "warm").await.is_err() {
        tokio::time::sleep(TICK).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Numbers by chance, the same in each run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn one_of(&mut self, thousand: u64) -> bool {
        self.next() % 1000 < thousand
    }
}

/// How long it took.
async fn timed<T>(what: impl Future<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    (what.await, began.elapsed())
}
