//! What a store of counters must do; the suite and the reference model that every store is held to.
//!
//! A store keeps one state per key and decides atomically: batch in, decisions out. It knows nothing of rules; it is
//! handed the [`Quota`] with every take and never reads a state's bits itself.
//! Not here: any store. `store-memory` and its siblings each implement [`Store`].

mod error;
mod take;

pub use error::{StoreError, StoreName};
pub use take::{Charge, Inspection, Key, Take, Verdicts};

use std::future::Future;

use tollgate_core::{Cost, Decision, Quota, Timestamp};

/// Counters by key, decided atomically.
///
/// Every method takes the time as an argument; a shared store may prefer its own server's clock.
pub trait Store: Send + Sync + 'static {
    /// How messages and metrics call this store.
    fn name(&self) -> StoreName;

    /// Decides every take of the batch, in order, and pushes one answer each onto `verdicts`.
    ///
    /// Takes of one key within a batch see each other, in order. With [`Charge::Each`] every take stands alone. With
    /// [`Charge::Together`] either all are charged or none is: when one is denied, those that would have passed are
    /// answered as admitted but nothing is taken for them.
    ///
    /// # Errors
    /// Each answer may be a [`StoreError`], which says what became of its permits.
    fn take(
        &self,
        batch: &[Take<'_>],
        charge: Charge,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) -> impl Future<Output = ()> + Send;

    /// Gives `cost` permits back to `key`, never above a full quota; answers as a peek afterwards would.
    ///
    /// # Errors
    /// [`StoreError`], which says whether the permits may have been given back.
    fn give_back(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// Forgets `key`, so that its next take finds a fresh quota. True when there was something to forget.
    ///
    /// # Errors
    /// [`StoreError`], which says whether the key may have been forgotten.
    fn reset(
        &self,
        key: Key<'_>,
        quota: &Quota,
        now: Timestamp,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// What is kept of `key`, and what a peek would answer; changes nothing.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot say.
    fn inspect(
        &self,
        key: Key<'_>,
        quota: &Quota,
        now: Timestamp,
    ) -> impl Future<Output = Result<Inspection, StoreError>> + Send;
}
