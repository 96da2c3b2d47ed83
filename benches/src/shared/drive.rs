//! Many tasks that call one store, on the measuring thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep};
use tollgate_clock::SystemClock;
use tollgate_core::{Clock as _, Cost, Decision, Quota};
use tollgate_store::{Charge, Counter, Key, Sharing, Store as _, StoreError};
use tollgate_store_redis::{RedisConfig, RedisStore};

use super::Redis;

/// A worker as in a server: one thread with a runtime of its own.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// A node: a store with connections of its own, and the time.
#[derive(Clone)]
pub(super) struct DrivenNode {
    pub(super) store: RedisStore,
    clock: SystemClock,
    quota: Quota,
    sharing: Sharing,
}

/// One call to the store and its outcome.
#[derive(Clone, Copy)]
pub(super) struct StoreCall {
    /// When it was to begin, since the run began.
    pub(super) at: Duration,
    pub(super) took: Duration,
    pub(super) said: CallOutcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallOutcome {
    Admitted,
    Denied,
    Failed,
}

impl DrivenNode {
    /// A node with this deadline, or the product's default one.
    pub(super) fn of(redis: &Redis, quota: &Quota, deadline: Option<Duration>) -> anyhow::Result<Self> {
        let mut config = RedisConfig::parse_url(&redis.url())?;
        if let Some(deadline) = deadline {
            config.link.deadline = deadline;
        }
        Ok(Self {
            store: RedisStore::new(config)?,
            clock: SystemClock::new(),
            quota: quota.clone(),
            sharing: Sharing::Exact,
        })
    }

    pub(super) fn with(&self, quota: &Quota) -> Self {
        Self { quota: quota.clone(), ..self.clone() }
    }

    pub(super) const fn shared(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    pub(super) async fn take(&self, key: &str) -> Result<Decision, StoreError> {
        let counter = Counter::new(Key(key.as_bytes()), &self.quota).shared(self.sharing);
        let batch = [counter.take(Cost::ONE)];
        let mut verdicts = Vec::with_capacity(1);
        self.store.take(&batch, Charge::Each, self.clock.now(), &mut verdicts).await;
        match verdicts.pop() {
            Some(verdict) => verdict,
            None => unreachable!("one answer a take"),
        }
    }

    /// Takes until it is answered: connections and scripts are there then.
    pub(super) async fn first(&self) -> anyhow::Result<()> {
        for _ in 0..200 {
            if self.take("another").await.is_ok() {
                return Ok(());
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(self.take("another").await.map(drop)?)
    }

    async fn call(&self, key: &str, begun: Instant, at: Duration) -> StoreCall {
        let said = match self.take(key).await {
            Ok(decision) if decision.is_admitted() => CallOutcome::Admitted,
            Ok(_) => CallOutcome::Denied,
            Err(_) => CallOutcome::Failed,
        };
        StoreCall { at, took: begun.elapsed().saturating_sub(at), said }
    }
}

/// Results of a run.
pub(super) struct Run {
    pub(super) calls: Vec<StoreCall>,
    pub(super) seconds: f64,
    /// CPU time of this thread meanwhile: the cost of calling, regardless of other load on the machine.
    pub(super) cpu_seconds: f64,
}

impl Run {
    pub(super) fn rate(&self) -> f64 {
        self.calls.len() as f64 / self.seconds
    }

    /// CPU time of this thread a call, in µs.
    pub(super) fn cpu_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.calls.len() as f64
    }

    pub(super) fn count(&self, said: CallOutcome) -> usize {
        self.calls.iter().filter(|call| call.said == said).count()
    }

    /// The latency that this many hundredths of the calls stay below, in µs.
    pub(super) fn percentile(&self, hundredths: f64) -> f64 {
        let mut took: Vec<Duration> = self.calls.iter().map(|call| call.took).collect();
        took.sort_unstable();
        let at = ((took.len() as f64 * hundredths / 100.0) as usize).min(took.len().saturating_sub(1));
        took.get(at).map_or(f64::NAN, |took| took.as_secs_f64() * 1e6)
    }
}

/// `tasks` tasks, each asking again as soon as it was answered, until all `keys` were asked for.
pub(super) async fn closed(nodes: &[DrivenNode], tasks: usize, keys: &Arc<[String]>) -> Run {
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let cpu = cpu_seconds();
    let mut workers = JoinSet::new();
    for task in 0..tasks {
        let node = nodes[task % nodes.len()].clone();
        let keys = keys.clone();
        let next = next.clone();
        workers.spawn(async move {
            let mut calls = Vec::with_capacity(keys.len() / tasks);
            while let Some(key) = keys.get(next.fetch_add(1, Relaxed)) {
                let call = node.call(key, begun, begun.elapsed()).await;
                calls.push(call);
                if call.said == CallOutcome::Failed || calls.len().is_multiple_of(64) {
                    yield_now().await; // a store that need not wait would keep the thread to itself
                }
            }
            calls
        });
    }
    let calls = workers.join_all().await.concat();
    Run { calls, seconds: begun.elapsed().as_secs_f64(), cpu_seconds: cpu_seconds() - cpu }
}

/// Starts `rate` calls per second, in the order of `keys`, each when it is due, whether or not earlier calls
/// have returned.
pub(super) async fn paced(nodes: &[DrivenNode], rate: f64, keys: &Arc<[String]>) -> Run {
    let begun = Instant::now();
    let cpu = cpu_seconds();
    let mut calls = JoinSet::new();
    let mut done = Vec::with_capacity(keys.len());
    let mut sent = 0;
    while done.len() < keys.len() {
        let due = (begun.elapsed().as_secs_f64() * rate) as usize;
        while sent < due.min(keys.len()) {
            let node = nodes[sent % nodes.len()].clone();
            let keys = keys.clone();
            let index = sent;
            let at = Duration::from_secs_f64(sent as f64 / rate);
            calls.spawn(async move { node.call(&keys[index], begun, at).await });
            sent += 1;
        }
        while let Some(Ok(call)) = calls.try_join_next() {
            done.push(call);
        }
        yield_now().await;
    }
    Run { calls: done, seconds: begun.elapsed().as_secs_f64(), cpu_seconds: cpu_seconds() - cpu }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
