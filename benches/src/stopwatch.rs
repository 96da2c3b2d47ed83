//! The one reading of the clock that is not a decision's: how long a run took.

use std::time::{Duration, Instant};

/// Runs `work` and says how long it took.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let result = work();
    (result, begun.elapsed())
}
