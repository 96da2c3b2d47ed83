//! A shared store and this node's memory behind one [`Store`]: each counter is kept as its sharing says.
//!
//! [`RoutedStore`] sends counters of [`Sharing::Local`] to the local store and all others to the shared one,
//! and puts the answers back into the order of the batch. Not here: the decision on a take that the shared
//! store does not answer (`limiter`), counting (the two stores).

mod all_or_none;
mod parts;

use std::time::Duration;

use tollgate_core::{Acquired, Cost, Decision, Holder, Released, Slots, Timestamp};

use self::all_or_none::{BatchCharge, take_all_or_none};
use self::parts::{is_local, merge, split};
use crate::{
    Charge, Counter, Inspection, ScanError, Scanned, Sharing, SlotKey, Store, StoreError, StoreName, Take,
    Verdicts,
};

/// Two stores as one: counters of [`Sharing::Local`] are kept in `L`, this node's memory, and all others in
/// `S`.
///
/// # Example
/// ```
/// # use tollgate_store::routed::RoutedStore;
/// # use tollgate_core::{Cost, Quota, Timestamp};
/// # use tollgate_store::{Charge, Counter, Key, ModelStore, Sharing, Store, block_on};
/// # use std::time::Duration;
/// let store = RoutedStore::new(ModelStore::default(), ModelStore::default());
/// let quota = Quota::fixed_window(2, Duration::from_secs(60))?;
/// let here = Counter::new(Key(b"a"), &quota).shared(Sharing::Local);
/// let everywhere = Counter::new(Key(b"b"), &quota);
/// let (batch, mut verdicts) = ([here.take(Cost::ONE), everywhere.take(Cost::ONE)], Vec::new());
/// block_on(store.take(&batch, Charge::Together, Timestamp::ZERO, &mut verdicts));
/// assert_eq!(verdicts.iter().flatten().filter(|decision| decision.is_admitted()).count(), 2);
/// assert_eq!((store.local().len(), store.shared().len()), (1, 1));
/// # Ok::<(), tollgate_core::QuotaError>(())
/// ```
#[derive(Debug)]
pub struct RoutedStore<S, L> {
    shared: S,
    local: L,
}

impl<S: Store, L: Store> RoutedStore<S, L> {
    /// Counts local counters in `local`, and all others in `shared`. `local` must be memory: its futures must
    /// be ready when they are first polled, since giving back must not wait.
    #[must_use]
    pub const fn new(shared: S, local: L) -> Self {
        Self { shared, local }
    }

    /// The store that several nodes share.
    pub const fn shared(&self) -> &S {
        &self.shared
    }

    /// This node's memory.
    pub const fn local(&self) -> &L {
        &self.local
    }
}

/// `$call` with `$counter` first, on the store that keeps it.
macro_rules! route {
    ($self:ident, $call:ident($counter:expr $(, $argument:expr)*)) => {
        match is_local($counter) {
            true => $self.local.$call($counter $(, $argument)*).await,
            false => $self.shared.$call($counter $(, $argument)*).await,
        }
    };
}

impl<S: Store, L: Store> Store for RoutedStore<S, L> {
    /// The shared store's name: faults happen there.
    fn name(&self) -> StoreName {
        self.shared.name()
    }

    fn live_nodes(&self) -> u32 {
        self.shared.live_nodes()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn has_local(&self) -> bool {
        true
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        let local = batch.iter().filter(|take| is_local(take.counter)).count();
        if local == 0 {
            return self.shared.take(batch, charge, now, verdicts).await;
        }
        if local == batch.len() {
            return self.local.take(batch, charge, now, verdicts).await;
        }
        match charge {
            Charge::Each => {
                let parts = split(batch);
                let mut of_local = Verdicts::new();
                let mut of_shared = Verdicts::new();
                self.local.take(&parts.local, charge, now, &mut of_local).await;
                self.shared.take(&parts.shared, charge, now, &mut of_shared).await;
                merge(batch, of_local, of_shared, verdicts);
            }
            Charge::Together => {
                take_all_or_none(&self.shared, &self.local, batch, BatchCharge::Take, now, verdicts).await
            }
        }
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        route!(self, give_back(counter, cost, now))
    }

    /// Gives back in memory first, without waiting: even if the future is dropped, nothing stays charged
    /// there.
    async fn give_all_back(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        let parts = split(batch);
        if !parts.local.is_empty() {
            self.local.give_all_back(&parts.local, now).await?;
        }
        if parts.shared.is_empty() { Ok(()) } else { self.shared.give_all_back(&parts.shared, now).await }
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        let local = batch.iter().filter(|take| is_local(take.counter)).count();
        if local == 0 {
            self.shared.reserve(batch, max_wait, now, verdicts).await;
        } else if local == batch.len() {
            self.local.reserve(batch, max_wait, now, verdicts).await;
        } else {
            take_all_or_none(
                &self.shared,
                &self.local,
                batch,
                BatchCharge::Reserve { max_wait },
                now,
                verdicts,
            )
            .await;
        }
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Result<Decision, StoreError> {
        route!(self, charge(counter, cost, now))
    }

    async fn reset(&self, counter: Counter<'_>, now: Timestamp) -> Result<bool, StoreError> {
        route!(self, reset(counter, now))
    }

    async fn inspect(&self, counter: Counter<'_>, now: Timestamp) -> Result<Inspection, StoreError> {
        route!(self, inspect(counter, now))
    }

    /// The counters of the shared store: memory keeps no names.
    async fn scan(&self, start: &[u8], cursor: &str) -> Result<Scanned, ScanError> {
        self.shared.scan(start, cursor).await
    }

    async fn acquire(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Acquired, StoreError> {
        match key.sharing {
            Sharing::Local => self.local.acquire(key, slots, holder, now).await,
            _ => self.shared.acquire(key, slots, holder, now).await,
        }
    }

    async fn release(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Released, StoreError> {
        match key.sharing {
            Sharing::Local => self.local.release(key, slots, holder, now).await,
            _ => self.shared.release(key, slots, holder, now).await,
        }
    }
}
