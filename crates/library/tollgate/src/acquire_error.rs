//! Why a caller that would wait gets no permits.

use std::time::Duration;

/// Why a caller that would wait gets no permits. Nothing was taken, and no place in the line is held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The permits cannot be there in time; this is known at once.
    #[error("the permits are not there in time; the same call would pass in {retry_after:?}")]
    TooLong {
        /// Time until the same call would pass, if nothing else is taken or given up meanwhile.
        retry_after: Duration,
    },
    /// The request is for more permits than the quota can ever hold.
    #[error("no wait helps: at most {burst} permits are there at once; ask for fewer")]
    NeverFits {
        /// Most permits at once.
        burst: u64,
    },
    /// The most callers wait already.
    #[error("{waiting} callers wait already; raise the bound with set_max_waiting, or retry later")]
    QueueFull {
        /// Number of callers that wait.
        waiting: usize,
    },
    /// A penalty, a block, a new quota or a clock that was set back has made the wait longer than the caller
    /// would wait.
    #[error(
        "the permits are no longer there in time: a penalty, a block, a new quota or a step back of the clock \
         came first"
    )]
    Late,
    /// The quota was replaced by one of another algorithm.
    #[error("the quota was replaced by one of another algorithm; call again")]
    Reconfigured,
    /// The call was awaited outside of a tokio runtime with a timer.
    #[error("waiting needs a tokio runtime with time enabled; without one, use the blocking form")]
    NoRuntime,
}
