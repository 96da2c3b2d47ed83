//! A take of a leased key, at its caller and in the queues of its key.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tollgate_core::{Cost, Decision};
use tollgate_store::StoreError;

/// One take of a leased key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeasedTake {
    pub(crate) cost: Cost,
    /// The treatment of the hit where a window denies the take.
    pub(crate) hit: DeniedHit,
}

/// The treatment of the hit when a window denies a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DeniedHit {
    /// It is counted.
    Counts,
    /// It is answered as if it were counted, but is not: for limits that are charged together.
    TakenBack,
    /// A reservation makes no hit.
    None,
}

/// A take that has begun.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It was decided here, or could not even be sent.
    Done(Result<Decision, StoreError>),
    /// It waits for the ledger.
    Waits(PendingTake),
}

/// A take that waits for the ledger. Dropped, it may still be charged.
#[derive(Debug)]
pub(crate) struct PendingTake {
    pub(super) answer: oneshot::Receiver<Result<Decision, StoreError>>,
    pub(super) sent: Arc<AtomicBool>,
    pub(super) by: Instant,
}

/// A caller that waits for its take.
#[derive(Debug)]
pub(super) struct WaitingTake {
    pub(super) take: LeasedTake,
    pub(super) to: oneshot::Sender<Result<Decision, StoreError>>,
    /// Its take was sent to the ledger.
    pub(super) sent: Arc<AtomicBool>,
    pub(super) by: Instant,
}
