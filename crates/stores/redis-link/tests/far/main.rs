//! A client of a server that is far away, is paused, forgets or lies, in a time that passes only while
//! nothing else can happen: the tests measure the order of events, not the machine.
#![expect(
    clippy::expect_used,
    reason = "a failed step of a test must say which, and what was counted is shown"
)]

mod attribution;
mod distance;
#[path = "../../src/echo.rs"]
mod echo;
mod server;
mod stalls;

use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};
use tollgate_redis_link::{
    Client, Item, LinkSettings, PerThread, Planned, Replies, Request, Script, Shared, ThreadMap, Traffic,
    Value, Waiter, Workload, array, bulk,
};
use tollgate_store::StoreName;
use tollgate_store::remote::{ConnStats, Failure};

use echo::{Echo, EchoCall};
use server::Far;

/// Resolution of the runtime's timers.
const TICK: Duration = Duration::from_millis(1);

/// Runs `what` on this thread, in a time of its own.
fn run<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(what)
}

/// A client whose calls are answered with their keys.
#[derive(Clone)]
struct Tested(Arc<Client<Echo>>);

/// A client of `far`, with settings as by default except those that `set` changes.
fn store(far: &Arc<Far>, set: impl FnOnce(&mut LinkSettings)) -> Tested {
    let mut settings = LinkSettings::parse_url("redis://far:1").expect("a URL");
    set(&mut settings);
    let network = Arc::new(server::To(far.clone()));
    let client = Client::new(settings, StoreName::new("redis"), Echo, Some(network));
    Tested(Arc::new(client.expect("settings")))
}

impl Tested {
    fn shared(&self) -> &Shared {
        self.0.shared()
    }

    fn stats(&self) -> ConnStats {
        self.shared().counters().conn.snapshot()
    }

    fn script_loads(&self) -> u64 {
        self.shared().counters().flights().script_loads
    }

    async fn send(&self, traffic: Traffic, key: &[u8], by: Instant) -> Result<(), Failure> {
        let (to, answer) = oneshot::channel();
        let node = self.0.node_of(0, by).await?;
        self.0.send(traffic, node, EchoCall::new(key, Waiter::new(to, by)))?;
        let said = self.0.receive(answer).await?;
        assert_eq!(said, Value::BulkString(key.to_vec()), "another call's answer");
        Ok(())
    }
}

/// Sends one call and waits for its answer.
async fn ask(store: &Tested, key: &str) -> Result<(), Failure> {
    let by = Instant::now() + store.shared().patience();
    store.send(Traffic::Foreground, key.as_bytes(), by).await
}

/// Asks until there is an answer.
async fn warm(store: &Tested) {
    while ask(store, "warm").await.is_err() {
        tokio::time::sleep(TICK).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Random numbers, the same in each run.
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

/// The output of `what`, and the time that it took.
async fn timed<T>(what: impl Future<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    (what.await, began.elapsed())
}
