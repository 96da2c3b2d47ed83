//! Tokio's time as a clock.

use tokio::time::Instant;
use tollgate_clock::MonotonicClock;
use tollgate_core::{Clock, Timestamp};

/// Tokio's time, which a test pauses and advances (`#[tokio::test(start_paused = true)]`): for tests of code
/// that waits. Begins at the time of day.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter, TokioClock};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
/// runtime.block_on(async {
///     let limiter = RateLimiter::direct_with_clock(Quota::per_hour(1), TokioClock::new())?;
///     limiter.acquire(1).await?;
///     assert_eq!(limiter.acquire(1).await?, Duration::from_secs(3_600)); // takes no time
///     Ok(())
/// })
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    began: Instant,
    starts: Timestamp,
}

impl TokioClock {
    /// A clock of the current runtime.
    #[must_use]
    pub fn new() -> Self {
        Self { began: Instant::now(), starts: MonotonicClock::new().now() }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.starts + self.began.elapsed()
    }
}
