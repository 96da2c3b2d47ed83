//! The interface of a store of counters; the suite and the reference model that every store is held to.
//!
//! A store keeps one state per key and decides atomically: batch in, decisions out. It knows nothing of
//! rules; it gets a [`Counter`] with every call, and never reads a state's bits itself. [`routed`] puts a
//! shared store and a local one together. Not here: any store that counts in production. `store-memory` and
//! its siblings each implement [`Store`].
#![deny(missing_docs)] // it is published

mod counter;
mod error;
mod model;
#[cfg(feature = "remote")]
pub mod remote;
pub mod routed;
mod scan;
#[cfg(feature = "suite")]
pub mod suite;
mod take;
mod wait;

pub use counter::{Counter, Key, Origin, Sharing, SlotKey};
pub use error::{StoreError, StoreName};
pub use model::ModelStore;
pub use scan::{Kept, MAX_SCANNED, ScanError, Scanned, ScannedKey};
pub use take::{Charge, Inspection, Payment, Take, Verdicts};
pub use wait::{at_once, block_on};

use std::future::{Future, ready};
use std::time::Duration;

#[cfg(doc)]
use tollgate_core::Quota;
use tollgate_core::{Acquired, Cost, Decision, Holder, Released, Slots, Timestamp};

/// Counters by key, decided atomically.
///
/// These laws hold for every store, and are tested by the suite (feature `suite`) against [`ModelStore`]:
/// - an unseen key, a forgotten one and an expired one answer alike: a fresh quota;
/// - a key goes with one quota at a time (or its successors, [`Quota::migrated_from`]), or with any that keep
///   instants ([`Quota::keeping_instants`]); handing in a quota of another shape starts afresh;
/// - concurrent calls are as if made one after another: no two callers ever share a permit;
/// - time is an argument and may step back: nothing is minted, nothing freezes for longer than the step. A
///   shared store may prefer its own server's clock.
pub trait Store: Send + Sync + 'static {
    /// The name of this store in messages and metrics.
    fn name(&self) -> StoreName;

    /// The number of nodes that count here together, this one included, as far as is known; at least 1. It
    /// determines the share that a node may admit by itself while this store gives no answer.
    fn live_nodes(&self) -> u32 {
        1
    }

    /// Whether calls wait for a network, so that several decisions are better made at the same time than one
    /// after another.
    fn is_remote(&self) -> bool {
        false
    }

    /// Whether counters of [`Sharing::Local`] are kept in this node's memory, beside a store that nodes
    /// share.
    fn has_local(&self) -> bool {
        false
    }

    /// Decides every take of the batch, in order, and pushes one answer each onto `verdicts` (its earlier
    /// contents stay).
    ///
    /// Takes of one key within a batch see each other, in order. With [`Charge::Each`] every take stands
    /// alone, and may be [paid for](Payment) before or after. With [`Charge::Together`] either all are
    /// charged or none is: the answers are those that the takes would get one after another, and if any of
    /// them is a denial, everything is left as it was before the batch (also the hits that a fixed window
    /// counts when it denies). Other callers never see the batch half done.
    ///
    /// A store of several servers may lack the answers of one: those takes are errors. With
    /// [`Charge::Together`] the others then are charged, or none of them is where any denies. The caller
    /// decides about the rest, and gives back with [`Store::give_all_back`] the charges that must not stay.
    /// When the future is dropped before its end, no part of such a batch stays charged: at most all of it.
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

    /// Gives `cost` permits back to `counter`, never above a full quota; returns the state afterwards.
    ///
    /// # Errors
    /// [`StoreError`], which says whether the permits may have been given back.
    fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// Gives back the charges of the takes of `batch`. Stores that must be waited for run it to its end once
    /// it has begun, also when the future is dropped.
    ///
    /// # Errors
    /// [`StoreError`] when some was not given back, or may not have been: it counts as used.
    fn give_all_back(
        &self,
        batch: &[Take<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async move {
            for take in batch {
                let _ = self.give_back(take.counter, take.cost, now).await?;
            }
            Ok(())
        }
    }

    /// Holds the permits of every take of the batch, or none: as [`Store::take`] with [`Charge::Together`],
    /// but if a quota can promise permits that are not available yet, a take is also admitted if they will be
    /// available within `max_wait`; the decision's [`delay`](Decision::delay) is the time until then
    /// ([`Quota::reserve`]). Pushes one answer each onto `verdicts`.
    ///
    /// Held permits are given back with [`Store::give_back`]. When the future is dropped before its end, the
    /// permits that it held are given back, or count as used where the store cannot do that by itself.
    ///
    /// # Errors
    /// Each answer may be a [`StoreError`], which says what became of its permits.
    fn reserve(
        &self,
        batch: &[Take<'_>],
        max_wait: Duration,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) -> impl Future<Output = ()> + Send;

    /// Takes `cost` permits of `counter` even if they are not available: the work turned out to use more
    /// permits than it held. Later permits repay the debt. Returns the state afterwards.
    ///
    /// # Errors
    /// [`StoreError`], which says whether the permits may have been taken.
    fn charge(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// Forgets `counter`, so that its next take finds a fresh quota. True when there was a state that had not
    /// expired.
    ///
    /// # Errors
    /// [`StoreError`], which says whether the counter may have been forgotten.
    fn reset(
        &self,
        counter: Counter<'_>,
        now: Timestamp,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// The stored state of `counter`, and the decision that a peek would get; changes nothing.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot say.
    fn inspect(
        &self,
        counter: Counter<'_>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Inspection, StoreError>> + Send;

    /// Lists counters whose keys begin with `start` and a bar, such as `shop` or `shop|user=ann`: at most
    /// [`MAX_SCANNED`] from `cursor` on, which is empty for the first page. A page may be empty without being
    /// the last. A counter that exists from the first page to the last is listed; one that comes or goes
    /// meanwhile may be listed.
    ///
    /// # Errors
    /// [`ScanError::Unsupported`] unless the store says otherwise.
    fn scan(&self, start: &[u8], cursor: &str) -> impl Future<Output = Result<Scanned, ScanError>> + Send {
        let _ = (start, cursor);
        ready(Err(ScanError::Unsupported { store: self.name() }))
    }

    /// Takes one of the `slots` of `key` for `holder`, or renews the one that it has ([`Slots::acquire`]).
    /// Keys of slots are apart from those of counters. Asking again after silence is safe.
    ///
    /// # Errors
    /// [`StoreError`], which says whether the slot may have been taken; [`StoreError::Unsupported`] unless
    /// the store says otherwise.
    fn acquire(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> impl Future<Output = Result<Acquired, StoreError>> + Send {
        let _ = (key, slots, holder, now);
        ready(Err(StoreError::Unsupported { store: self.name(), algorithm: "concurrency" }))
    }

    /// Frees the slot of `holder`; further calls change nothing.
    ///
    /// # Errors
    /// [`StoreError`], which says whether the slot may have been freed; [`StoreError::Unsupported`] unless
    /// the store says otherwise.
    fn release(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> impl Future<Output = Result<Released, StoreError>> + Send {
        let _ = (key, slots, holder, now);
        ready(Err(StoreError::Unsupported { store: self.name(), algorithm: "concurrency" }))
    }
}
