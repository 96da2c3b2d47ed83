//! The conformance suite over leased keys: one node, whose callers come one after another, or many at once.
//!
//! Laws that leases cannot obey are left out by the suite's options; `docs/guarantees.md` says why.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tollgate_core::{Acquired, Cost, Decision, Holder, Released, Slots, Timestamp};
use tollgate_store::suite::Options as Suite;
use tollgate_store::{
    Charge, Counter, Inspection, Sharing, SlotKey, Store, StoreError, StoreName, Take, Verdicts,
};
use tollgate_store_redis::{HashTag, RedisStore};
use tollgate_testkit::redis::{Options, Redis};

use crate::flights::{AHEAD, suite_over};

/// Asks only leased counters.
#[derive(Debug)]
struct Leasing {
    store: RedisStore,
    /// Before each call, the permits held are given back and all requests in flight have ended. A history's
    /// time jumps, but a node that would give back idle permits does not notice that; and permits being
    /// granted at this moment are not reported.
    settles: bool,
    /// Set once permits have lapsed, which they do by real time: the machine stalled for half a second.
    has_stalled: Arc<AtomicBool>,
}

impl Leasing {
    async fn store(&self) -> &RedisStore {
        if self.settles {
            self.store.close().await;
        }
        &self.store
    }
}

impl Drop for Leasing {
    fn drop(&mut self) {
        if self.store.stats().leases.permits_lost > 0 {
            self.has_stalled.store(true, Relaxed);
        }
    }
}

fn leased(counter: Counter<'_>) -> Counter<'_> {
    counter.shared(Sharing::Leased)
}

fn all<'a>(batch: &[Take<'a>]) -> Vec<Take<'a>> {
    batch.iter().map(|take| Take { counter: leased(take.counter), ..*take }).collect()
}

impl Store for Leasing {
    fn name(&self) -> StoreName {
        self.store.name()
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        self.store().await.take(&all(batch), charge, now, verdicts).await;
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.store().await.give_back(leased(counter), cost, now).await
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        self.store().await.reserve(&all(batch), max_wait, now, verdicts).await;
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Result<Decision, StoreError> {
        self.store().await.charge(leased(counter), cost, now).await
    }

    async fn reset(&self, counter: Counter<'_>, now: Timestamp) -> Result<bool, StoreError> {
        self.store().await.reset(leased(counter), now).await
    }

    async fn inspect(&self, counter: Counter<'_>, now: Timestamp) -> Result<Inspection, StoreError> {
        self.store().await.inspect(leased(counter), now).await
    }

    async fn acquire(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Acquired, StoreError> {
        self.store().await.acquire(key, slots, holder, now).await
    }

    async fn release(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Released, StoreError> {
        self.store().await.release(key, slots, holder, now).await
    }
}

/// Algorithms that are never leased: they are counted exactly, and tested elsewhere.
const NOT_LEASED: &[&str] = &[
    "sliding_window",
    "sliding_window_counter",
    "sliding_window_log",
    "total",
    "concurrency",
    "warm_up",
    "priority_buckets",
    "smooth_bursty",
    "overdraft",
];

#[test]
fn leases_of_one_node_answer_as_the_model_does() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let cases = std::env::var("TOLLGATE_SUITE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    let histories = Suite {
        begins: AHEAD,
        cases,
        takes: 10,
        threads: 4,
        unsupported: NOT_LEASED,
        tick: Duration::from_micros(1),
        steps_back: false,
        promises: false,
        // A hit that its node denies by itself is not counted. And an empty account is not kept; otherwise a
        // batch that is denied as a whole would begin a window by its returns.
        whole_windows: false,
        most: 1_000,
        ..Suite::default()
    };
    let crowds = Suite { cases: 0, takes: 100, threads: 16, ..histories.clone() };
    for (settles, suite) in [(true, histories), (false, crowds)] {
        for tries_left in (0..5).rev() {
            let has_stalled = Arc::new(AtomicBool::new(false));
            let leasing = |store| Leasing { store, settles, has_stalled: Arc::clone(&has_stalled) };
            let run = || suite_over(&redis.url(), HashTag::Counter, leasing, &suite);
            let result = catch_unwind(AssertUnwindSafe(run));
            redis.command(&["FLUSHALL"]); // the next begins with the same names
            match result {
                Ok(()) => break,
                // The model does not know leases that end in the middle of a history: the history is run once
                // more.
                Err(_) if has_stalled.load(Relaxed) && tries_left > 0 => {}
                Err(panic) => resume_unwind(panic),
            }
        }
    }
}
