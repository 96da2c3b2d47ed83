//! The waits of remote stores: for an answer, and before the next try.

use std::time::Duration;

/// The wait for an answer after which a call ends at `deadline`, or 1 ms after it at the latest: tokio's
/// timers fire at whole milliseconds, and so does the operating system's wait: together up to 2 ms late. At
/// least 1 ms.
///
/// # Example
/// ```
/// use std::time::Duration;
/// assert_eq!(tollgate_store::remote::patience(Duration::from_millis(10)), Duration::from_millis(9));
/// ```
#[must_use]
pub fn patience(deadline: Duration) -> Duration {
    const TICK: Duration = Duration::from_millis(1);
    deadline.saturating_sub(TICK).max(TICK)
}

/// A random pause from half of `longest` to all of it, before a server is tried again, so that nodes do not
/// retry all at once.
///
/// # Example
/// ```
/// use std::time::Duration;
/// let pause = tollgate_store::remote::jittered(Duration::from_millis(400));
/// assert!(pause >= Duration::from_millis(200) && pause <= Duration::from_millis(400));
/// ```
#[must_use]
pub fn jittered(longest: Duration) -> Duration {
    longest / 2 + longest / 2048 * fastrand::u32(..1024)
}
