//! A store that fails when a test says so.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::{Acquired, Cost, Decision, Holder, Released, Slots, Timestamp};

use crate::{
    Charge, Counter, Inspection, Key, ModelStore, SlotKey, Store, StoreError, StoreName, Take, Verdicts,
};

/// The keys that are not answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Down {
    /// No key: the store is up.
    #[default]
    Nothing,
    /// Every key: the store is down.
    All,
    /// Keys that contain this text, as while one node of a cluster is down.
    Holding(&'static str),
}

/// The switches of an [`OutageStore`], shared by its clones.
#[derive(Debug)]
pub struct Outage {
    down: Mutex<Down>,
    nodes: AtomicU32,
    keeps_all: AtomicBool,
    given_back: AtomicU32,
}

impl Default for Outage {
    fn default() -> Self {
        Self {
            down: Mutex::default(),
            nodes: AtomicU32::new(1),
            keeps_all: AtomicBool::new(false),
            given_back: AtomicU32::new(0),
        }
    }
}

impl Outage {
    /// Stops answering these keys from now on.
    pub fn set(&self, down: Down) {
        *self.down.lock() = down;
    }

    /// Sets the number of nodes that it reports.
    pub fn set_nodes(&self, nodes: u32) {
        self.nodes.store(nodes, SeqCst);
    }

    /// Whether nothing can be given back.
    pub fn set_keeps_all(&self, keeps_all: bool) {
        self.keeps_all.store(keeps_all, SeqCst);
    }

    /// The number of takes that were to be given back.
    #[must_use]
    pub fn given_back(&self) -> u32 {
        self.given_back.load(SeqCst)
    }
}

/// A store around another one, the model by default, that fails when a test says so.
///
/// A charge takes effect together with its answer; a batch to give back is given back once that has begun.
#[derive(Debug, Default)]
pub struct OutageStore<S = ModelStore> {
    inner: S,
    outage: Arc<Outage>,
    waits: u32,
    is_unable: bool,
}

impl<S: Store> OutageStore<S> {
    /// `inner`, which is up.
    #[must_use]
    pub fn new(inner: S) -> Self {
        Self { inner, outage: Arc::default(), waits: 0, is_unable: false }
    }

    /// A store that is down from the beginning.
    #[must_use]
    pub fn down(self) -> Self {
        self.outage.set(Down::All);
        self
    }

    /// A store that reports this many nodes.
    #[must_use]
    pub fn with_nodes(self, nodes: u32) -> Self {
        self.outage.set_nodes(nodes);
        self
    }

    /// A store whose calls are pending for this many polls before they are answered.
    #[must_use]
    pub const fn with_waits(mut self, polls: u32) -> Self {
        self.waits = polls;
        self
    }

    /// A store that cannot count the quota that it is asked to take from.
    #[must_use]
    pub const fn unable(mut self) -> Self {
        self.is_unable = true;
        self
    }

    /// The switches that fail it.
    #[must_use]
    pub const fn outage(&self) -> &Arc<Outage> {
        &self.outage
    }

    async fn wait(&self) {
        let mut left = self.waits;
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            match left.checked_sub(1) {
                None => Poll::Ready(()),
                Some(less) => {
                    left = less;
                    Poll::Pending
                }
            }
        })
        .await;
    }

    fn error(&self) -> StoreError {
        if self.is_unable {
            return StoreError::Unsupported { store: self.name(), algorithm: "token_bucket" };
        }
        StoreError::Silent { store: self.name(), waited: Duration::from_millis(10) }
    }

    fn is_down(&self, key: Key<'_>) -> bool {
        match *self.outage.down.lock() {
            Down::Nothing => self.is_unable,
            Down::All => true,
            Down::Holding(text) => String::from_utf8_lossy(key.0).contains(text),
        }
    }

    fn ask(&self, key: Key<'_>) -> Result<&S, StoreError> {
        if self.is_down(key) { Err(self.error()) } else { Ok(&self.inner) }
    }

    /// Pushes the answers to the takes that are up, and an error for each of the others, in the batch's
    /// order.
    fn merge(&self, batch: &[Take<'_>], answers: Verdicts, verdicts: &mut Verdicts) {
        let mut answers = answers.into_iter();
        verdicts.extend(batch.iter().map(|take| match self.is_down(take.counter.key) {
            true => Err(self.error()),
            false => answers.next().unwrap_or_else(|| Err(self.error())),
        }));
    }

    fn up<'a>(&self, batch: &[Take<'a>]) -> Vec<Take<'a>> {
        batch.iter().copied().filter(|take| !self.is_down(take.counter.key)).collect()
    }
}

impl<S: Store> Store for OutageStore<S> {
    fn name(&self) -> StoreName {
        StoreName::new("outage")
    }

    fn live_nodes(&self) -> u32 {
        self.outage.nodes.load(SeqCst)
    }

    fn is_remote(&self) -> bool {
        true
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        self.wait().await;
        let mut answers = Verdicts::new();
        self.inner.take(&self.up(batch), charge, now, &mut answers).await;
        self.merge(batch, answers, verdicts);
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.wait().await;
        if self.outage.keeps_all.load(SeqCst) {
            return Err(self.error());
        }
        self.ask(counter.key)?.give_back(counter, cost, now).await
    }

    async fn give_all_back(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        for take in batch {
            assert!(!self.is_down(take.counter.key), "it was never charged");
            self.outage.given_back.fetch_add(1, SeqCst);
            if self.outage.keeps_all.load(SeqCst) {
                return Err(self.error());
            }
            let _ = self.inner.give_back(take.counter, take.cost, now).await?;
        }
        self.wait().await;
        Ok(())
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        self.wait().await;
        let mut answers = Verdicts::new();
        self.inner.reserve(&self.up(batch), max_wait, now, &mut answers).await;
        self.merge(batch, answers, verdicts);
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Result<Decision, StoreError> {
        self.ask(counter.key)?.charge(counter, cost, now).await
    }

    async fn reset(&self, counter: Counter<'_>, now: Timestamp) -> Result<bool, StoreError> {
        self.ask(counter.key)?.reset(counter, now).await
    }

    async fn inspect(&self, counter: Counter<'_>, now: Timestamp) -> Result<Inspection, StoreError> {
        self.ask(counter.key)?.inspect(counter, now).await
    }

    async fn acquire(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Acquired, StoreError> {
        self.wait().await;
        self.ask(key.key)?.acquire(key, slots, holder, now).await
    }

    async fn release(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Released, StoreError> {
        self.wait().await;
        self.ask(key.key)?.release(key, slots, holder, now).await
    }
}
