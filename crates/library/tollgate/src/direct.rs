//! The limiter without keys.

use std::sync::Arc;
use std::time::Duration;

use tollgate_clock::MonotonicClock;
use tollgate_core::{Clock, Decision, Inherit, QuotaError, Timestamp};
use tollgate_store_memory::StateCell;

use crate::acquire_error::AcquireError;
use crate::bounds::Bounds;
use crate::denied::{Admitted, Denied};
use crate::engine::Engine;
use crate::key::KeyBytes;
use crate::keyed::KeyedRateLimiter;
use crate::quota::Quota;
use crate::quotas::Quotas;
use crate::reservation::Reservation;
use crate::snapshot::{RestoreError, Snapshot};
use crate::together::Request;
#[cfg(feature = "tokio")]
use crate::waiting::driver::Acquire;

/// Limits one thing: a function, a connection to a third party, all of a program's requests together.
///
/// Clones share their permits. A check takes no lock where the algorithm's state is one word (every algorithm
/// but the sliding windows and refill by the interval), allocates nothing, and needs no runtime.
///
/// # Example
/// ```
/// use tollgate::{Quota, RateLimiter};
///
/// let limiter = RateLimiter::direct(Quota::per_second(100).burst(200))?;
/// if limiter.check().is_ok() {
///     // do it
/// }
/// # assert_eq!(limiter.take_at_most(1_000), 199);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Debug)]
pub struct RateLimiter<C = MonotonicClock> {
    engine: Arc<Engine<StateCell, C>>,
}

impl<C> Clone for RateLimiter<C> {
    fn clone(&self) -> Self {
        Self { engine: Arc::clone(&self.engine) }
    }
}

impl RateLimiter {
    /// A limiter without keys: all callers share its permits.
    ///
    /// # Errors
    /// [`QuotaError`] says which number of the quota is out of its bounds, and the bound.
    pub fn direct(quota: Quota) -> Result<Self, QuotaError> {
        Self::direct_with_clock(quota, MonotonicClock::new())
    }

    /// A limiter with permits of its own for each key: by one quota for all of them, or by [`Quotas`], which
    /// give each key its quota.
    ///
    /// # Errors
    /// As [`RateLimiter::direct`].
    ///
    /// # Example
    /// ```
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::keyed(Quota::per_minute(2))?;
    /// assert!(limiter.check_n("ann", 2).is_ok());
    /// assert!(limiter.check("ann").is_err());
    /// assert!(limiter.check("bob").is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn keyed<K: ?Sized>(quota: impl Into<Quotas<K>>) -> Result<KeyedRateLimiter<K>, QuotaError> {
        KeyedRateLimiter::with_clock(quota, MonotonicClock::new())
    }
}

impl<C: Clock + 'static> RateLimiter<C> {
    /// As [`RateLimiter::direct`], on the time of `clock`; see [`ManualClock`](crate::ManualClock). A quota
    /// that does not start full begins to fill now.
    ///
    /// # Errors
    /// As [`RateLimiter::direct`].
    pub fn direct_with_clock(quota: Quota, clock: C) -> Result<Self, QuotaError> {
        let quota = quota.checked()?;
        let starts_partial = quota.starts_partial();
        let cell = StateCell::made_for(&quota, clock.now());
        let engine = Engine::new(quota, cell, clock);
        if starts_partial {
            engine.start_refill(b"");
        }
        Ok(Self { engine: Arc::new(engine) })
    }

    /// The time by the limiter's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.engine.now()
    }

    /// Bounds of the quota in force.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds::of(&self.engine.in_force().quota)
    }

    /// Takes one permit if there is one.
    ///
    /// A quota that paces ([`Quota::leaky_queue`]) admits with a [`delay`](Admitted::delay): act after it.
    ///
    /// # Errors
    /// [`Denied`] says when the next permit is there. Nothing was taken (a fixed window has counted the
    /// attempt).
    #[inline(always)] // what the caller does not look at need not be worked out
    pub fn check(&self) -> Result<Admitted, Denied> {
        self.engine.check(b"", 1)
    }

    /// Takes `n` permits if all of them are there. 0 takes nothing, and shows the permits left.
    ///
    /// # Errors
    /// [`Denied`] says when they are there; never, for more than the burst. Nothing was taken, except in a
    /// [fixed window](Quota::fixed_window): that counts what it denies, so more than its limit at once closes
    /// it until it ends.
    #[inline(always)]
    pub fn check_n(&self, n: u64) -> Result<Admitted, Denied> {
        self.engine.check(b"", n)
    }

    /// Permits left, and when more come; takes nothing.
    pub fn peek(&self) -> Decision {
        self.engine.peek(b"", 0)
    }

    /// Takes up to `n` permits, as many as are there, and returns how many.
    ///
    /// # Example
    /// ```
    /// # use tollgate::{Quota, RateLimiter};
    /// let limiter = RateLimiter::direct(Quota::per_hour(10))?;
    /// assert_eq!((limiter.take_at_most(7), limiter.take_at_most(7)), (7, 3));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use = "this number of permits was taken"]
    pub fn take_at_most(&self, n: u64) -> u64 {
        self.engine.take_at_most(b"", n)
    }

    /// Gives back `n` permits that were taken and not used, never above a full quota.
    pub fn give_back(&self, n: u64) {
        self.engine.give_back(b"", n)
    }

    /// Takes `n` permits whether they are there or not; later ones repay the debt before anything is
    /// admitted.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{ManualClock, Quota, RateLimiter};
    /// let limiter = RateLimiter::direct_with_clock(Quota::per_second(10), ManualClock::default())?;
    /// limiter.penalise(30);
    /// let left = limiter.peek();
    /// assert_eq!((left.remaining(), left.reset_after()), (0, Duration::from_secs(3)));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn penalise(&self, n: u64) {
        self.engine.penalise(b"", n)
    }

    /// For work whose cost is known only afterwards: 0 asks whether anything is left and takes nothing; any
    /// other number reports the permits used. They always count in full; missing permits become a debt, which
    /// is repaid before anything passes.
    ///
    /// # Errors
    /// [`Denied`]: nothing is left, or nothing was left before. It says when a permit is left again.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{ManualClock, Quota, RateLimiter};
    /// # let clock = ManualClock::default();
    /// let tokens = RateLimiter::direct_with_clock(Quota::per_second(10).burst(1_000), clock)?;
    /// for _ in 0..2 {
    ///     assert!(tokens.pay(0).is_ok()); // the work may start
    ///     let _ = tokens.pay(900); // and has used this
    /// }
    /// let denied = tokens.pay(0).unwrap_err();
    /// assert_eq!(denied.decision().owed(), 800);
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(80_100)));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn pay(&self, n: u64) -> Result<Admitted, Denied> {
        self.engine.pay(b"", n)
    }

    /// Denies everything until that instant, whatever is left. An instant in the past lifts the block.
    pub fn block(&self, until: Timestamp) {
        self.engine.block(b"", until);
    }

    /// Forgets all counts. A [block](RateLimiter::block) stays.
    pub fn reset(&self) {
        self.engine.reset(b"");
    }

    /// The counts of the limiter, as a value.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.engine.snapshot(b"")
    }

    /// Continues with the counts of `snapshot` in place of the present ones.
    ///
    /// # Errors
    /// [`RestoreError`]: the snapshot is of another quota.
    pub fn restore(&self, snapshot: &Snapshot) -> Result<(), RestoreError> {
        self.engine.restore(b"", snapshot)
    }

    /// Counts by `quota` from now on, for all clones. Permits that were taken stay taken; if the algorithm
    /// changes, counting begins anew.
    ///
    /// # Errors
    /// As [`RateLimiter::direct`]; the quota before stays in force.
    ///
    /// # Example
    /// ```
    /// # use tollgate::{Quota, RateLimiter};
    /// let limiter = RateLimiter::direct(Quota::per_hour(10))?;
    /// limiter.check_n(7)?;
    /// limiter.reconfigure(Quota::per_hour(100))?;
    /// assert_eq!(limiter.take_at_most(1_000), 93);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure(&self, quota: Quota) -> Result<(), QuotaError> {
        self.reconfigure_as(quota, Inherit::Taken)
    }

    /// Counts by `quota` from now on, for all clones, and keeps the counts that `inherit` says. Callers that
    /// wait keep their places as long as the algorithm stays the same; otherwise they get
    /// [`AcquireError::Reconfigured`]. A quota without a limit, and one that admits nothing, are algorithms
    /// of their own.
    ///
    /// # Errors
    /// As [`RateLimiter::direct`]; the quota before stays in force.
    ///
    /// # Example
    /// ```
    /// # use tollgate::{Inherit, Quota, RateLimiter};
    /// let limiter = RateLimiter::direct(Quota::per_hour(10))?;
    /// limiter.check_n(7)?;
    /// limiter.reconfigure_as(Quota::per_hour(100), Inherit::Proportional)?;
    /// assert_eq!(limiter.take_at_most(1_000), 30);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure_as(&self, quota: Quota, inherit: Inherit) -> Result<(), QuotaError> {
        self.engine.reconfigure(&quota, inherit)
    }

    /// `n` permits of this limiter, for [`check_all`](crate::check_all).
    #[must_use]
    pub fn request(&self, n: u64) -> Request<'_> {
        Request::new(&*self.engine, KeyBytes::borrowed(b""), n)
    }

    /// Takes `n` permits now, or reserves them for the first instant at which they are there, if that is at
    /// most `max_wait` away: the [`Reservation`] says when to act. Waiters that came earlier go first.
    ///
    /// # Errors
    /// [`AcquireError`] says why not. Nothing was taken.
    pub fn reserve(&self, n: u64, max_wait: Duration) -> Result<Reservation, AcquireError> {
        Reservation::new(&self.engine, b"", n, max_wait)
    }

    /// Waits for `n` permits on this thread, first in, first out; returns the time that it waited. See
    /// [`acquire`](RateLimiter::acquire).
    ///
    /// # Errors
    /// [`AcquireError`] says why there was nothing to wait for. Nothing was taken.
    pub fn blocking_acquire(&self, n: u64) -> Result<Duration, AcquireError> {
        self.engine.blocking_acquire(b"", n, Duration::MAX)
    }

    /// As [`blocking_acquire`](RateLimiter::blocking_acquire), for at most `timeout`.
    ///
    /// # Errors
    /// As there; at once, where the permits cannot be there in time.
    pub fn blocking_try_acquire(&self, n: u64, timeout: Duration) -> Result<Duration, AcquireError> {
        self.engine.blocking_acquire(b"", n, timeout)
    }

    /// Number of callers that wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.engine.waiting()
    }

    /// The most callers that may wait at a time; 100,000 if nothing is set. More get
    /// [`AcquireError::QueueFull`].
    pub fn set_max_waiting(&self, most: usize) {
        self.engine.waiting.set_most(most);
    }
}

#[cfg(feature = "tokio")]
impl<C: Clock + 'static> RateLimiter<C> {
    /// Waits for `n` permits; returns the time that it waited. First in, first out: in the order in which the
    /// calls were first polled.
    ///
    /// Dropped while it waits, it leaves the line and gives its permits back, so that those behind it wait
    /// less. Needs a tokio runtime with time enabled.
    ///
    /// # Errors
    /// [`AcquireError`] says why there was nothing to wait for. Nothing was taken.
    ///
    /// # Example
    /// ```
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = RateLimiter::direct(Quota::per_second(100).burst(1))?;
    /// for _ in 0..3 {
    ///     limiter.acquire(1).await?; // one every 10 ms
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self, n: u64) -> impl Future<Output = Result<Duration, AcquireError>> + Send {
        Acquire::new(&self.engine, KeyBytes::borrowed(b""), n, Duration::MAX)
    }

    /// As [`acquire`](RateLimiter::acquire), for at most `timeout`.
    ///
    /// # Errors
    /// As there; at once, where the permits cannot be there in time.
    pub fn try_acquire(
        &self,
        n: u64,
        timeout: Duration,
    ) -> impl Future<Output = Result<Duration, AcquireError>> + Send {
        Acquire::new(&self.engine, KeyBytes::borrowed(b""), n, timeout)
    }
}
