//! Why a caller gets no slot.

use std::time::Duration;

/// Not enough slots are free. Nothing was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{asked} slots asked for, {in_use} of {limit} are in use, and {waiting} callers wait")]
#[non_exhaustive]
pub struct NoSlot {
    /// Slots asked for.
    pub asked: u64,
    /// Slots in use.
    pub in_use: u64,
    /// Slots that may be in use at the same time.
    pub limit: u64,
    /// Callers that wait for slots of this limiter; a caller that came earlier goes first.
    pub waiting: usize,
}

/// Why a caller that would wait gets no slot. Nothing was taken, and no place in the line is held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnterError {
    /// The request is for more slots than the limiter has, also where its limit was lowered while the caller
    /// waited.
    #[error("no wait helps: there are {limit} slots in all; ask for fewer")]
    NeverFits {
        /// Slots that may be in use at the same time.
        limit: u64,
    },
    /// The time was over before the slots were free.
    #[error("the slots were not free within {timeout:?}")]
    TimedOut {
        /// Longest wait that the caller allowed.
        timeout: Duration,
    },
    /// The most callers wait already.
    #[error("{waiting} callers wait already; raise the bound with set_max_waiting, or retry later")]
    QueueFull {
        /// Number of callers that wait.
        waiting: usize,
    },
    /// A wait with a timeout was awaited outside of a tokio runtime with a timer.
    #[error("a timeout needs a tokio runtime with time enabled; without one, use the blocking form")]
    NoRuntime,
}
