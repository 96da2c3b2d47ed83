//! The limiter with keys.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tollgate_clock::MonotonicClock;
use tollgate_core::{Clock, Decision, Inherit, QuotaError, Timestamp};
use tollgate_store_memory::{MemoryConfig, MemoryStats};

use crate::acquire_error::AcquireError;
use crate::bounds::Bounds;
use crate::denied::{Admitted, Denied};
use crate::engine::Engine;
use crate::key::LimitKey;
use crate::quota::Quota;
use crate::reservation::Reservation;
use crate::snapshot::{RestoreError, Snapshot};
use crate::states::Table;
use crate::together::Request;
#[cfg(feature = "tokio")]
use crate::waiting::driver::Acquire;

/// Limits each key by itself: users, addresses, API keys.
///
/// `K` is what it counts by: `str` where keys are texts, `IpAddr`, `u64`, or a type of your own with
/// [`LimitKey`]. A key takes 25 to 34 bytes while it has something to count, and nothing after; keys
/// themselves are not kept, only a hash of them that two keys never share in practice. Checks of a known key
/// take no lock and allocate nothing. Clones share their permits.
///
/// # Example
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use tollgate::{KeyedRateLimiter, Quota, RateLimiter};
///
/// struct Service {
///     per_address: KeyedRateLimiter<IpAddr>,
/// }
///
/// let service = Service { per_address: RateLimiter::keyed(Quota::per_second(10))? };
/// assert!(service.per_address.check(&Ipv4Addr::LOCALHOST.into()).is_ok());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub struct KeyedRateLimiter<K: ?Sized, C = MonotonicClock> {
    engine: Arc<Engine<Table, C>>,
    key: PhantomData<fn(&K)>,
}

impl<K: ?Sized, C> Clone for KeyedRateLimiter<K, C> {
    fn clone(&self) -> Self {
        Self { engine: Arc::clone(&self.engine), key: PhantomData }
    }
}

impl<K: ?Sized, C: fmt::Debug> fmt::Debug for KeyedRateLimiter<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedRateLimiter").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl<K: ?Sized, C: Clock> KeyedRateLimiter<K, C> {
    /// As [`RateLimiter::keyed`](crate::RateLimiter::keyed), on the time of `clock`.
    ///
    /// # Errors
    /// [`QuotaError`] says which number of the quota is out of its bounds, and the bound.
    pub fn with_clock(quota: Quota, clock: C) -> Result<Self, QuotaError> {
        Self::with_memory(quota, clock, MemoryConfig::default().max_bytes)
    }

    /// The same with room of its own: `max_bytes` for all keys together (at least 64 KiB; otherwise 1 GiB).
    /// At the bound a new key takes the place of one nearby that is nearest to its full quota, as
    /// [`memory`](KeyedRateLimiter::memory) shows.
    ///
    /// # Errors
    /// As [`KeyedRateLimiter::with_clock`].
    pub fn with_memory(quota: Quota, clock: C, max_bytes: u64) -> Result<Self, QuotaError> {
        let engine = Engine::new(quota.checked()?, Table::new(max_bytes), clock);
        Ok(Self { engine: Arc::new(engine), key: PhantomData })
    }

    /// The time by the limiter's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.engine.now()
    }

    /// What the quota in force allows.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds::of(&self.engine.in_force().quota)
    }

    /// How many keys are tracked, the memory that they take, and how many had to give way.
    #[must_use]
    pub fn memory(&self) -> MemoryStats {
        self.engine.in_force().states.stats()
    }
}

impl<K: LimitKey + ?Sized, C: Clock + 'static> KeyedRateLimiter<K, C> {
    /// Takes one permit of `key` if it has one.
    ///
    /// A quota that paces ([`Quota::leaky_queue`]) admits with a [`delay`](Admitted::delay): act that much
    /// later.
    ///
    /// # Errors
    /// [`Denied`] says when its next permit is there. Nothing was taken.
    #[inline]
    pub fn check(&self, key: &K) -> Result<Admitted, Denied> {
        self.engine.check(&key.key_bytes(), 1)
    }

    /// Takes `n` permits of `key` if it has all of them. 0 takes nothing, and shows what is left.
    ///
    /// # Errors
    /// [`Denied`] says when they are there; never, for more than the burst. Nothing was taken.
    #[inline]
    pub fn check_n(&self, key: &K, n: u64) -> Result<Admitted, Denied> {
        self.engine.check(&key.key_bytes(), n)
    }

    /// What is left of `key`; takes nothing.
    pub fn peek(&self, key: &K) -> Decision {
        self.engine.peek(&key.key_bytes(), 0)
    }

    /// Takes up to `n` permits of `key`, as many as it has, and returns how many.
    #[must_use = "this number of permits was taken"]
    pub fn take_at_most(&self, key: &K, n: u64) -> u64 {
        self.engine.take_at_most(&key.key_bytes(), n)
    }

    /// Gives `n` permits of `key` back that were taken and not used, never above a full quota.
    pub fn give_back(&self, key: &K, n: u64) {
        self.engine.give_back(&key.key_bytes(), n)
    }

    /// Takes `n` permits of `key` whether it has them or not; later ones repay the debt before anything is
    /// admitted.
    pub fn penalise(&self, key: &K, n: u64) {
        self.engine.penalise(&key.key_bytes(), n)
    }

    /// Denies `key` everything until then, whatever it has left. An instant that has passed lifts the block.
    ///
    /// About half a million keys can be blocked at a time; beyond, a new block takes the place of one that
    /// ends soon.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::keyed(Quota::per_second(10))?;
    /// limiter.block("mallory", limiter.now() + Duration::from_secs(600));
    /// assert!(limiter.check("mallory").is_err());
    /// assert!(limiter.check("ann").is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn block(&self, key: &K, until: Timestamp) {
        self.engine.block(&key.key_bytes(), until);
    }

    /// Forgets what `key` has taken. A [block](KeyedRateLimiter::block) stays.
    pub fn reset(&self, key: &K) {
        self.engine.reset(&key.key_bytes());
    }

    /// What was counted for `key`, as a value.
    #[must_use]
    pub fn snapshot(&self, key: &K) -> Snapshot {
        self.engine.snapshot(&key.key_bytes())
    }

    /// Counts on from `snapshot`, in place of what was counted for `key`.
    ///
    /// # Errors
    /// [`RestoreError`]: the snapshot is of another quota.
    pub fn restore(&self, key: &K, snapshot: &Snapshot) -> Result<(), RestoreError> {
        self.engine.restore(&key.key_bytes(), snapshot)
    }

    /// Counts all keys by `quota` from here on. Permits that were taken stay taken; where the algorithm is
    /// another one, counting begins anew.
    ///
    /// # Errors
    /// As [`KeyedRateLimiter::with_clock`]; the quota before stays in force.
    pub fn reconfigure(&self, quota: Quota) -> Result<(), QuotaError> {
        self.reconfigure_as(quota, Inherit::Taken)
    }

    /// Counts all keys by `quota` from here on; each keeps what `inherit` says, as of now, also where it is
    /// asked for much later. A key that has nothing taken counts as never seen: it is full. So does one that
    /// is not asked for while the quota changes four times.
    ///
    /// Until then the states before are kept beside the new ones, in room of the same size each.
    ///
    /// # Errors
    /// As [`KeyedRateLimiter::with_clock`]; the quota before stays in force.
    ///
    /// # Example
    /// ```
    /// # use tollgate::{Inherit, Quota, RateLimiter};
    /// let limiter = RateLimiter::keyed(Quota::per_hour(10))?;
    /// limiter.check_n("ann", 7)?;
    /// limiter.reconfigure_as(Quota::per_hour(20), Inherit::AsIs)?;
    /// assert_eq!((limiter.take_at_most("ann", 50), limiter.take_at_most("bob", 50)), (3, 20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure_as(&self, quota: Quota, inherit: Inherit) -> Result<(), QuotaError> {
        self.engine.reconfigure(&quota, inherit)
    }

    /// `n` permits of `key`, for [`check_all`](crate::check_all).
    #[must_use]
    pub fn request<'a>(&'a self, key: &'a K, n: u64) -> Request<'a> {
        Request::new(&*self.engine, key.key_bytes(), n)
    }

    /// Takes `n` permits of `key` now, or reserves them for the first instant at which they are there, if
    /// that is at most `max_wait` away: the [`Reservation`] says when to act. Waiters that came earlier go
    /// first.
    ///
    /// # Errors
    /// [`AcquireError`] says why not. Nothing was taken.
    pub fn reserve(&self, key: &K, n: u64, max_wait: Duration) -> Result<Reservation, AcquireError> {
        Reservation::new(&self.engine, &key.key_bytes(), n, max_wait)
    }

    /// Waits for `n` permits of `key` on this thread, first in, first out; how long it waited. See
    /// [`acquire`](KeyedRateLimiter::acquire).
    ///
    /// # Errors
    /// [`AcquireError`] says why there was nothing to wait for. Nothing was taken.
    pub fn blocking_acquire(&self, key: &K, n: u64) -> Result<Duration, AcquireError> {
        self.engine.blocking_acquire(&key.key_bytes(), n, Duration::MAX)
    }

    /// As [`blocking_acquire`](KeyedRateLimiter::blocking_acquire), for at most `timeout`.
    ///
    /// # Errors
    /// As there; at once, where the permits cannot be there in time.
    pub fn blocking_try_acquire(&self, key: &K, n: u64, timeout: Duration) -> Result<Duration, AcquireError> {
        self.engine.blocking_acquire(&key.key_bytes(), n, timeout)
    }

    /// How many callers wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.engine.waiting()
    }

    /// The most callers that may wait at a time, of all keys together; 100,000 if nothing is set. More get
    /// [`AcquireError::QueueFull`].
    pub fn set_max_waiting(&self, most: usize) {
        self.engine.waiting.set_most(most);
    }
}

#[cfg(feature = "tokio")]
impl<K: LimitKey + ?Sized, C: Clock + 'static> KeyedRateLimiter<K, C> {
    /// Waits for `n` permits of `key`; how long it waited. First in, first out, for each key: in the order in
    /// which the calls were first polled.
    ///
    /// Dropped while it waits, it leaves the line and gives its permits back, which is a gain for those
    /// behind it. Needs a tokio runtime with time enabled.
    ///
    /// # Errors
    /// [`AcquireError`] says why there was nothing to wait for. Nothing was taken.
    pub fn acquire<'a>(
        &'a self,
        key: &'a K,
        n: u64,
    ) -> impl Future<Output = Result<Duration, AcquireError>> + Send {
        Acquire::new(&self.engine, key.key_bytes(), n, Duration::MAX)
    }

    /// As [`acquire`](KeyedRateLimiter::acquire), for at most `timeout`.
    ///
    /// # Errors
    /// As there; at once, where the permits cannot be there in time.
    pub fn try_acquire<'a>(
        &'a self,
        key: &'a K,
        n: u64,
        timeout: Duration,
    ) -> impl Future<Output = Result<Duration, AcquireError>> + Send {
        Acquire::new(&self.engine, key.key_bytes(), n, timeout)
    }
}
