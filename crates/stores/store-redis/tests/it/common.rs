//! The helpers that the tests share.

use std::future::Future;
use std::time::Duration;

use tollgate_core::{Algorithm, Cost, Decision, Period, Quota, Timestamp};
use tollgate_store::{Charge, Counter, Key, Store as _, StoreError};
use tollgate_store_redis::{RedisConfig, RedisStore, StoreState};

/// The instant that the store gets; the server has a clock of its own.
pub(crate) const NOW: Timestamp = Timestamp::from_unix_seconds(1_790_000_000);

/// Runs `what` on a runtime of this thread.
pub(crate) fn run<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(what)
}

/// Runs `what` on this thread and its spawned tasks on another, so that a test may wait for a server without
/// holding its callers up.
pub(crate) fn run_beside<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(what)
}

/// Settings for tests on a busy machine: the wait of a test takes as long as it takes.
pub(crate) fn patient(url: &str) -> RedisConfig {
    let mut config = RedisConfig::parse_url(url).expect(url);
    config.link.deadline = Duration::from_secs(2);
    config.link.connect_timeout = Duration::from_secs(5);
    config
}

pub(crate) fn store(config: RedisConfig) -> RedisStore {
    RedisStore::new(config).expect("settings that can work")
}

/// Waits until the store has the wanted state.
pub(crate) async fn until(
    store: &RedisStore,
    what: &str,
    wanted: impl Fn(&StoreState) -> bool,
) -> StoreState {
    let mut states = store.watch();
    let waited = tokio::time::timeout(Duration::from_secs(300), states.wait_for(|state| wanted(state))).await;
    waited
        .unwrap_or_else(|_| panic!("waited too long for {what}: {:?}", store.state()))
        .expect("the store lives")
        .clone()
}

pub(crate) async fn until_up(store: &RedisStore) {
    until(store, "the store to be up", StoreState::is_up).await;
}

/// Waits until the store is down, and returns the reason.
pub(crate) async fn until_down(store: &RedisStore) -> String {
    match until(store, "the store to be down", |state| matches!(state, StoreState::Down { .. })).await {
        StoreState::Down { why, .. } => why.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Waits for a condition.
pub(crate) async fn wait(what: &str, mut so: impl AsyncFnMut() -> bool) {
    for _ in 0..2000 {
        if so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited too long for {what}");
}

/// A quota of this many permits and never more: each permit taken can be counted.
pub(crate) fn total(limit: u64) -> Quota {
    Quota::new(limit, Period::Span(Duration::from_secs(86_400)), Algorithm::Total).expect("a quota")
}

/// The answers to callers, counted by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
    /// The fate of the permit is unknown.
    pub(crate) silent: u64,
    /// Nothing was taken: not sent.
    pub(crate) unreachable: u64,
    /// Nothing was taken: the server rejected the call.
    pub(crate) refused: u64,
}

impl Told {
    pub(crate) fn note(&mut self, answer: &Result<Decision, StoreError>) {
        match answer {
            Ok(decision) if decision.is_admitted() => self.admitted += 1,
            Ok(_) => self.denied += 1,
            Err(StoreError::Silent { .. }) => self.silent += 1,
            Err(StoreError::Unreachable { .. }) => self.unreachable += 1,
            Err(_) => self.refused += 1,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.admitted += other.admitted;
        self.denied += other.denied;
        self.silent += other.silent;
        self.unreachable += other.unreachable;
        self.refused += other.refused;
    }

    /// No count is lost: the permits gone are those that callers were admitted, and at most those with an
    /// unknown outcome besides.
    pub(crate) fn explains(self, used: u64) {
        let range = self.admitted..=self.admitted + self.silent;
        assert!(range.contains(&used), "{used} permits are gone, and {self:?}");
    }
}

pub(crate) async fn take(store: &RedisStore, key: &str, quota: &Quota) -> Result<Decision, StoreError> {
    let mut verdicts = Vec::new();
    let take = Counter::new(Key(key.as_bytes()), quota).take(Cost::ONE);
    store.take(&[take], Charge::Each, NOW, &mut verdicts).await;
    verdicts.pop().expect("an answer")
}

/// Runs this many takes at once.
pub(crate) async fn take_many(store: &RedisStore, key: &str, quota: &Quota, many: u64) -> Told {
    let tasks: Vec<_> = (0..many)
        .map(|_| {
            let store = store.clone();
            let key = key.to_owned();
            let quota = quota.clone();
            tokio::spawn(async move { take(&store, &key, &quota).await })
        })
        .collect();
    let mut told = Told::default();
    for task in tasks {
        told.note(&task.await.expect("no panic"));
    }
    told
}

/// The number of permits of a [`total`] that are gone, asked until there is an answer.
pub(crate) async fn used(store: &RedisStore, key: &str, quota: &Quota, limit: u64) -> u64 {
    used_of(store, Counter::new(Key(key.as_bytes()), quota), limit).await
}

/// As [`used`], of any counter that admits `limit` when it is fresh.
pub(crate) async fn used_of(store: &RedisStore, counter: Counter<'_>, limit: u64) -> u64 {
    let mut left = None;
    wait("the key to be read", async || {
        left = store.inspect(counter, NOW).await.ok().map(|it| it.decision.remaining());
        left.is_some()
    })
    .await;
    limit - left.expect("read")
}
