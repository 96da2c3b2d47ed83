//! Time and timer of a caller that may wait.

use std::task::{Context, Poll};
use std::time::Duration;

use tollgate_core::Timestamp;

/// Time, timer and longest wait of a caller that may wait for its turn.
///
/// The timer may be early or late; it decides nothing, except when the wait is over.
pub struct Patience<'a, F> {
    /// Reads the clock that the request's own time is from.
    pub now: &'a (dyn Fn() -> Timestamp + Sync),
    /// A future that is ready after a span, such as `tokio::time::sleep`.
    pub sleep: F,
    /// The longest wait, if the rules allow more; for a caller with a deadline, the time that it has left.
    /// Zero: no wait.
    pub longest: Duration,
    /// Ready, with its task woken, when the caller has left: then the request stops waiting and is denied.
    /// `None`: the driver of the request drops it then.
    pub left: Option<&'a PollLeft<'a>>,
}

/// Whether the caller of a request that waits has left.
pub type PollLeft<'a> = dyn Fn(&mut Context<'_>) -> Poll<()> + Sync + 'a;

impl<F> std::fmt::Debug for Patience<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience").field("longest", &self.longest).finish_non_exhaustive()
    }
}
