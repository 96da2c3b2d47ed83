//! Runtimes, and stores that know nothing of one another on one memcached.
#![expect(clippy::expect_used, reason = "a helper that fails must say why, as a test does")]

use std::cell::Cell;
use std::future::Future;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tollgate_core::{Cost, Decision, Quota, Timestamp};
use tollgate_store::suite::Executor;
use tollgate_store::{Charge, Counter, Key, Store, StoreError};
use tollgate_store_memcache::{MemcacheConfig, MemcacheStore, StoreState};

/// All instants of a test are this one, so that windows end only where the test says so.
pub(crate) const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

/// Runs the store's futures on several runtimes, each with connections of its own, as several nodes would
/// have.
pub(crate) struct Nodes(Vec<Runtime>);

impl Nodes {
    pub(crate) fn new(nodes: usize) -> Self {
        let node = |_| Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        Self((0..nodes).map(node).collect())
    }
}

impl Executor for Nodes {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        thread_local!(static OWN: Cell<Option<usize>> = const { Cell::new(None) });
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let node = OWN.get().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed));
        OWN.set(Some(node));
        self.0[node % self.0.len()].block_on(future)
    }
}

/// Settings with a prefix that no other test has, and a deadline that a busy machine does not pass.
pub(crate) fn config(url: &str) -> MemcacheConfig {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut config = MemcacheConfig::parse_url(url).expect("a URL");
    config.prefix = format!("t{}:", NEXT.fetch_add(1, Ordering::Relaxed));
    config.deadline = Duration::from_secs(10);
    config
}

pub(crate) fn store(config: MemcacheConfig) -> MemcacheStore {
    MemcacheStore::new(config).expect("settings")
}

pub(crate) fn hourly(limit: u64) -> Quota {
    Quota::fixed_window(limit, Duration::from_secs(3600)).expect("a quota")
}

/// One take of one permit.
pub(crate) async fn take(store: &MemcacheStore, key: &str, quota: &Quota) -> Result<Decision, StoreError> {
    let mut verdicts = Vec::new();
    let batch = [Counter::new(Key(key.as_bytes()), quota).take(Cost::ONE)];
    store.take(&batch, Charge::Each, NOON, &mut verdicts).await;
    verdicts.remove(0)
}

/// Waits until the store reports this state.
pub(crate) async fn until(store: &MemcacheStore, so: impl Fn(&StoreState) -> bool) {
    let mut states = store.watch();
    let changed = tokio::time::timeout(Duration::from_secs(300), states.wait_for(so));
    assert!(changed.await.is_ok(), "it stays {:?}", store.state());
}
