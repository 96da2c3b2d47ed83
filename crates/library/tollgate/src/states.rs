//! Where a limiter keeps its states: one cell, or a table by key.

use tollgate_core::{Cost, Decision, Quota, State, Timestamp};
use tollgate_store::{Counter, Key};
use tollgate_store_memory::{MemoryConfig, MemoryStats, MemoryStore, StateCell};

/// States by key. A limiter without keys has one state and passes an empty key.
pub(crate) trait States: Send + Sync {
    /// Whether there is more than one state.
    const HAS_KEYS: bool;

    fn take(&self, key: &[u8], quota: &Quota, cost: Cost, now: Timestamp) -> Decision;

    /// Applies `answer` to a [`take`](Self::take) by the quota that the states were made for. `None` if that
    /// takes another path, or `is_own` has become false; nothing was taken then.
    #[inline(always)]
    fn take_own<T>(
        &self,
        key: &[u8],
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        is_own: impl Fn() -> bool,
        answer: impl Fn(Decision) -> T,
    ) -> Option<T> {
        let _ = is_own;
        Some(answer(self.take(key, quota, cost, now)))
    }

    /// No [`take_own`](Self::take_own) changes a state from here on.
    fn close(&self) {}

    /// Runs `step` on the state of `key` and keeps the new state. `step` may be called again.
    fn update<T>(&self, key: &[u8], quota: &Quota, now: Timestamp, step: impl FnMut(&mut State) -> T) -> T;

    /// A copy of the state of `key`.
    fn get(&self, key: &[u8], quota: &Quota) -> State;

    /// An empty instance of the same size.
    fn another(&self) -> Self;
}

impl States for StateCell {
    const HAS_KEYS: bool = false;

    #[inline(always)]
    fn take(&self, _: &[u8], quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        self.take(quota, cost, now)
    }

    #[inline(always)]
    fn take_own<T>(
        &self,
        _: &[u8],
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        is_own: impl Fn() -> bool,
        answer: impl Fn(Decision) -> T,
    ) -> Option<T> {
        self.take_own_while(quota, cost, now, is_own, answer)
    }

    fn close(&self) {
        self.close();
    }

    fn update<T>(&self, _: &[u8], quota: &Quota, _: Timestamp, step: impl FnMut(&mut State) -> T) -> T {
        self.update(quota, step)
    }

    fn get(&self, _: &[u8], quota: &Quota) -> State {
        self.get(quota)
    }

    fn another(&self) -> Self {
        Self::new()
    }
}

/// A table of states within bounds.
#[derive(Debug)]
pub(crate) struct Table {
    store: MemoryStore,
    max_bytes: u64,
}

impl Table {
    pub(crate) fn new(max_bytes: u64) -> Self {
        let config = MemoryConfig { max_bytes, request_share: 0.0, ..MemoryConfig::default() };
        Self { store: MemoryStore::new(config), max_bytes }
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        self.store.stats()
    }
}

impl States for Table {
    const HAS_KEYS: bool = true;

    #[inline(always)]
    fn take(&self, key: &[u8], quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        self.store.take_one(Counter::new(Key(key), quota), cost, now)
    }

    fn update<T>(&self, key: &[u8], quota: &Quota, now: Timestamp, step: impl FnMut(&mut State) -> T) -> T {
        self.store.update_now(Counter::new(Key(key), quota), now, step)
    }

    fn get(&self, key: &[u8], quota: &Quota) -> State {
        self.store.state_now(Counter::new(Key(key), quota))
    }

    fn another(&self) -> Self {
        Self::new(self.max_bytes)
    }
}
