//! All or none of a batch over two stores.
//!
//! Memory is charged first, since it can be given back for certain. If it denies, the shared store decides
//! without charging anything, so that the longest of all waits is known. If the shared store denies, the
//! charges of memory are given back. Between the two another request of this node may find permits missing
//! that come back: it may be denied needlessly, never admitted wrongly.
//!
//! A future that is dropped leaves nothing half charged: the charges of memory go back with it
//! ([`LocalCharge`]), and the shared store settles its own part ([`Store::take`]). Nothing is awaited between
//! the shared store's answer and that. Not here: all or none within one store, which that store does itself.

use std::time::Duration;

use tollgate_core::{Algorithm, Cost, Decision, Timestamp};

use super::parts::{Parts, merge, split};
use crate::{Charge, Store, Take, Verdicts, at_once};

/// The operation by which a batch is charged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BatchCharge {
    /// [`Store::take`] with [`Charge::Together`].
    Take,
    /// [`Store::reserve`], for at most `max_wait`.
    Reserve { max_wait: Duration },
}

impl BatchCharge {
    async fn run(self, store: &impl Store, batch: &[Take<'_>], now: Timestamp, verdicts: &mut Verdicts) {
        match self {
            Self::Take => store.take(batch, Charge::Together, now, verdicts).await,
            Self::Reserve { max_wait } => store.reserve(batch, max_wait, now, verdicts).await,
        }
    }

    /// Answers as [`Self::run`] would, and charges nothing.
    async fn decide_only(
        self,
        store: &impl Store,
        batch: &[Take<'_>],
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) {
        // All or none is charged, so none with a take that never fits.
        let has_end = |take: &&Take<'_>| *take.counter.quota.algorithm() != Algorithm::Unlimited;
        let Some(never) = batch.iter().find(has_end).map(|take| Take { cost: Cost(u64::MAX), ..*take })
        else {
            return store.take(batch, Charge::Each, now, verdicts).await; // nothing is counted
        };
        let all = [batch, &[never]].concat();
        let before = verdicts.len();
        self.run(store, &all, now, verdicts).await;
        verdicts.truncate(before + batch.len());
    }
}

/// Charges every take of `batch`, which has some of both stores, or none of them.
///
/// Takes that the shared store does not answer are errors; the others are then charged unless any of them is
/// denied.
pub(crate) async fn take_all_or_none(
    shared_store: &impl Store,
    local_store: &impl Store,
    batch: &[Take<'_>],
    operation: BatchCharge,
    now: Timestamp,
    verdicts: &mut Verdicts,
) {
    let Parts { local, shared } = split(batch);
    let mut of_local = Verdicts::new();
    let mut of_shared = Verdicts::new();
    operation.run(local_store, &local, now, &mut of_local).await;
    if of_local.iter().flatten().all(Decision::is_admitted) {
        let charge = LocalCharge { store: local_store, takes: &local, now, is_kept: false };
        operation.run(shared_store, &shared, now, &mut of_shared).await;
        charge.keep_if(of_shared.iter().flatten().all(Decision::is_admitted));
    } else {
        operation.decide_only(shared_store, &shared, now, &mut of_shared).await;
    }
    merge(batch, of_local, of_shared, verdicts);
}

/// The charges of this node's memory while the shared store decides: given back on drop, unless they are
/// kept.
struct LocalCharge<'a, L: Store> {
    store: &'a L,
    takes: &'a [Take<'a>],
    now: Timestamp,
    is_kept: bool,
}

impl<L: Store> LocalCharge<'_, L> {
    fn keep_if(mut self, is_kept: bool) {
        self.is_kept = is_kept;
    }
}

impl<L: Store> Drop for LocalCharge<'_, L> {
    fn drop(&mut self) {
        if !self.is_kept {
            // Memory is ready at once; a drop could not wait for it.
            drop(at_once(self.store.give_all_back(self.takes, self.now)));
        }
    }
}
