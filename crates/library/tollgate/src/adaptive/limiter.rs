//! A limiter whose number of slots adapts to its calls.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tollgate_clock::MonotonicClock;
use tollgate_core::Clock;

use super::feed::Feed;
use super::guard::AdaptiveGuard;
use super::limit::{AdaptiveLimit, SettingError};
use super::window::Window;
use crate::concurrency::error::{EnterError, NoSlot};

/// Caps the number of concurrent calls at the number that does not slow them down, without a setting for it.
/// It measures the calls that it admits, and an [`AdaptiveLimit`] learns from them.
///
/// Never more calls begin than the limit of that moment allows. A lowered limit ends no call: nothing begins
/// until enough calls have ended. Clones share their slots and what they learn.
///
/// # Example
/// ```
/// use tollgate::AdaptiveLimiter;
/// use tollgate::adaptive::Vegas;
///
/// let backend = AdaptiveLimiter::new(Vegas::default().initial(10).max(100))?;
/// let call = backend.try_enter()?;
/// let reply: Result<&str, u16> = Ok("42"); // ask the backend
/// match reply {
///     Ok(_) => call.success(),
///     Err(429 | 503) => call.overload(),
///     Err(_) => call.ignore(),
/// }
/// assert_eq!((backend.limit(), backend.in_flight()), (10, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AdaptiveLimiter<C = MonotonicClock> {
    pub(super) feed: Arc<Feed<C>>,
}

impl<C> Clone for AdaptiveLimiter<C> {
    fn clone(&self) -> Self {
        Self { feed: Arc::clone(&self.feed) }
    }
}

impl AdaptiveLimiter {
    /// A limiter that learns once per [`Window`] of the default settings.
    ///
    /// # Errors
    /// [`SettingError`] names a setting of `limit` that is out of its bounds.
    pub fn new(limit: impl AdaptiveLimit) -> Result<Self, SettingError> {
        Self::with_clock(limit, Window::default(), MonotonicClock::new())
    }
}

impl<C: Clock> AdaptiveLimiter<C> {
    /// A limiter that learns once per `window`, on the time of `clock`.
    ///
    /// # Errors
    /// [`SettingError`] names a setting of `limit` or `window` that is out of its bounds.
    pub fn with_clock(limit: impl AdaptiveLimit, window: Window, clock: C) -> Result<Self, SettingError> {
        Ok(Self { feed: Arc::new(Feed::new(Box::new(limit), window, clock)?) })
    }

    /// Begins a call if fewer than the limit are in flight and no caller waits.
    ///
    /// # Errors
    /// [`NoSlot`] says how many are in flight. Nothing was taken.
    pub fn try_enter(&self) -> Result<AdaptiveGuard<C>, NoSlot> {
        Ok(AdaptiveGuard::new(self.feed.slots.try_enter()?, &self.feed))
    }

    /// Waits until a call may begin, first in, first out. The wait is not measured.
    ///
    /// Dropped while it waits, it leaves the line and takes nothing. Works on every runtime.
    ///
    /// # Errors
    /// [`EnterError::QueueFull`]. Nothing was taken.
    pub fn enter(&self) -> impl Future<Output = Result<AdaptiveGuard<C>, EnterError>> + Send + use<C> {
        let slot = self.feed.slots.enter(1);
        let feed = Arc::clone(&self.feed);
        async move { Ok(AdaptiveGuard::new(slot.await?, &feed)) }
    }

    /// As [`enter`](Self::enter), for at most `timeout`. Waiting needs a tokio runtime with time enabled.
    ///
    /// # Errors
    /// As there, and [`EnterError::TimedOut`].
    #[cfg(feature = "tokio")]
    pub fn enter_within(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<AdaptiveGuard<C>, EnterError>> + Send + use<C> {
        let slot = self.feed.slots.enter_within(1, timeout);
        let feed = Arc::clone(&self.feed);
        async move { Ok(AdaptiveGuard::new(slot.await?, &feed)) }
    }

    /// As [`enter`](Self::enter) on this thread, for at most `timeout`.
    ///
    /// # Errors
    /// As there, and [`EnterError::TimedOut`].
    pub fn blocking_enter_within(&self, timeout: Duration) -> Result<AdaptiveGuard<C>, EnterError> {
        Ok(AdaptiveGuard::new(self.feed.slots.blocking_enter_within(1, timeout)?, &self.feed))
    }

    /// Does `work` as a call that succeeds when it returns; a panic is ignored. Where a result may mean
    /// overload, use [`try_enter`](Self::try_enter).
    ///
    /// # Errors
    /// [`NoSlot`]: `work` was not begun.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T, NoSlot> {
        let call = self.try_enter()?;
        let result = work();
        call.success();
        Ok(result)
    }

    /// Number of calls that may be in flight now.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.feed.slots.limit()
    }

    /// Number of calls in flight, including those of leaked guards.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.feed.slots.in_use()
    }

    /// Number of callers that wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.feed.slots.waiting()
    }

    /// The most callers that may wait at a time; 100,000 if nothing is set. More get
    /// [`EnterError::QueueFull`].
    pub fn set_max_waiting(&self, most: usize) {
        self.feed.slots.set_max_waiting(most);
    }
}
