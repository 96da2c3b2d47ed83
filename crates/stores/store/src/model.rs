//! The reference model: a map behind one lock, simple enough to be verified by reading.
//!
//! Every store must answer as this one does; the suite (feature `suite`) compares them. It forgets nothing,
//! so that the comparison shows states that a store drops too early. Not here: speed, a cap, or anything for
//! production.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tollgate_core::{Acquired, Cost, Decision, Expiry, Holder, Released, Slots, State, Timestamp, Wide};

use crate::{Charge, Counter, Inspection, Key, SlotKey, Store, StoreError, StoreName, Take, Verdicts};

type States = BTreeMap<Vec<u8>, State>;

/// A store that is a map behind one lock: the oracle of the suite, and a stand-in for small tests.
///
/// # Example
/// ```
/// # use tollgate_store::{Charge, Counter, Key, ModelStore, Store, block_on};
/// # use tollgate_core::{Cost, Quota, Timestamp};
/// # use std::time::Duration;
/// let store = ModelStore::default();
/// let quota = Quota::token_bucket(2, Duration::from_secs(1))?;
/// let take = Counter::new(Key(b"a"), &quota).take(Cost::ONE);
/// let mut verdicts = Vec::new();
/// block_on(store.take(&[take, take, take], Charge::Each, Timestamp::ZERO, &mut verdicts));
/// let admitted = verdicts.iter().flatten().filter(|decision| decision.is_admitted()).count();
/// assert_eq!(admitted, 2);
/// # Ok::<(), tollgate_core::QuotaError>(())
/// ```
#[derive(Debug, Default)]
pub struct ModelStore {
    states: Mutex<States>,
}

impl ModelStore {
    /// The number of keys with a state, including expired ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// True when no key was ever written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The expiry of the state of `key`; `None` if it has no state.
    #[must_use]
    pub fn expiry(&self, key: Key<'_>) -> Option<Expiry> {
        self.lock().get(key.0).map(State::expires)
    }

    /// Drops every state that has expired at `now`, as any store may at any time: that changes no answer.
    pub fn forget_expired(&self, now: Timestamp) {
        self.lock().retain(|_, state| !state.expires().is_past(now));
    }

    fn lock(&self) -> MutexGuard<'_, States> {
        self.states.lock()
    }
}

impl Store for ModelStore {
    fn name(&self) -> StoreName {
        StoreName::new("model")
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        let mut states = self.lock();
        let before = match charge {
            Charge::Each => None,
            Charge::Together => Some(states.clone()),
        };
        let mut all_admitted = true;
        for take in batch {
            debug_assert!(charge == Charge::Each || !take.payment.is_after(), "together, {take:?}");
            let decision = step(&mut states, take.counter, |state| {
                take.payment.step(take.counter.quota, state, take.cost, now)
            });
            all_admitted &= decision.is_admitted();
            verdicts.push(Ok(decision));
        }
        if let (Some(before), false) = (before, all_admitted) {
            *states = before;
            begin(&mut states, batch, now);
        }
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        Ok(step(&mut self.lock(), counter, |state| counter.quota.give_back(state, cost, now)))
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        let mut states = self.lock();
        let before = states.clone();
        let mut all_admitted = true;
        for Take { counter, cost, .. } in batch {
            let decision =
                step(&mut states, *counter, |state| counter.quota.reserve(state, *cost, max_wait, now));
            all_admitted &= decision.is_admitted();
            verdicts.push(Ok(decision));
        }
        if !all_admitted {
            *states = before;
            begin(&mut states, batch, now);
        }
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Result<Decision, StoreError> {
        Ok(step(&mut self.lock(), counter, |state| counter.quota.charge(state, cost, now)))
    }

    async fn reset(&self, counter: Counter<'_>, now: Timestamp) -> Result<bool, StoreError> {
        Ok(self.lock().remove(counter.key.0).is_some_and(|state| !state.expires().is_past(now)))
    }

    async fn inspect(&self, counter: Counter<'_>, now: Timestamp) -> Result<Inspection, StoreError> {
        let mut state = find(&self.lock(), counter);
        let is_tracked = !state.expires().is_past(now);
        Ok(Inspection { decision: counter.quota.take(&mut state, Cost::PEEK, now), is_tracked })
    }

    async fn acquire(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Acquired, StoreError> {
        Ok(on_wide(&mut self.lock(), key.key, |state| slots.acquire(state, holder, now)))
    }

    async fn release(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Released, StoreError> {
        Ok(on_wide(&mut self.lock(), key.key, |state| slots.release(state, holder, now)))
    }
}

/// Runs `change` on the wide state of `key`, or on a fresh one, and keeps it.
fn on_wide<T>(states: &mut States, key: Key<'_>, change: impl FnOnce(&mut Wide) -> T) -> T {
    let mut state = match states.remove(key.0) {
        Some(State::Wide(state)) => state,
        _ => Wide::default(),
    };
    let answer = change(&mut state);
    if !state.cells.is_empty() {
        states.insert(key.0.to_vec(), State::Wide(state));
    }
    answer
}

/// Runs `change` on the state of `counter`, or on a fresh one, and keeps the result.
fn step(states: &mut States, counter: Counter<'_>, change: impl FnOnce(&mut State) -> Decision) -> Decision {
    let old = find(states, counter);
    let mut new = old.clone();
    let decision = change(&mut new);
    if new != old {
        states.insert(counter.key.0.to_vec(), new);
    }
    decision
}

/// The effect of a denial that changes nothing else: a bucket that does not start full begins to fill.
fn begin(states: &mut States, batch: &[Take<'_>], now: Timestamp) {
    for take in batch.iter().filter(|take| take.counter.quota.starts_partial() && !take.cost.is_peek()) {
        let _peek = step(states, take.counter, |state| {
            take.counter.quota.start_refill(state, now);
            take.counter.quota.take(state, Cost::PEEK, now)
        });
    }
}

fn find(states: &States, Counter { key, quota, .. }: Counter<'_>) -> State {
    // A state of another shape was written by another algorithm, before the rule changed: it counts nothing.
    states.get(key.0).filter(|state| state.shape() == quota.shape()).cloned().unwrap_or_else(|| quota.fresh())
}
