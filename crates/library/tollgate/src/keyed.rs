//! The limiter with keys.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_clock::MonotonicClock;
use tollgate_core::{Clock, Decision, Inherit, QuotaError, Timestamp};
use tollgate_store_memory::{MemoryConfig, MemoryStats};

use crate::acquire_error::AcquireError;
use crate::bounds::Bounds;
use crate::denied::{Admitted, Denied};
use crate::engine::Engine;
use crate::key::{KeyBytes, LimitKey};
use crate::quota::Quota;
use crate::quotas::{QuotaStats, Quotas, Resolver};
use crate::reservation::Reservation;
use crate::snapshot::{RestoreError, Snapshot};
use crate::states::Table;
use crate::together::Request;
#[cfg(feature = "tokio")]
use crate::waiting::driver::Acquire;

/// Limits each key by itself: users, addresses, API keys.
///
/// `K` is the type of the keys: `str` for texts, `IpAddr`, `u64`, or a type of your own with [`LimitKey`]. A
/// key takes 25 to 34 bytes while it has something to count; after that its place is free for other keys, but
/// the table does not shrink. Keys themselves are not kept, only a hash of them that two keys never share in
/// practice. Checks of a known key take no lock and allocate nothing. Clones share their permits.
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
    resolver: Option<Resolver<K>>,
}

impl<K: ?Sized, C> Clone for KeyedRateLimiter<K, C> {
    fn clone(&self) -> Self {
        Self { engine: Arc::clone(&self.engine), resolver: self.resolver.clone() }
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
    pub fn with_clock(quota: impl Into<Quotas<K>>, clock: C) -> Result<Self, QuotaError> {
        Self::with_memory(quota, clock, MemoryConfig::default().max_bytes)
    }

    /// As [`with_clock`](KeyedRateLimiter::with_clock), with `max_bytes` of memory for all keys together
    /// instead of 1 GiB; at least 64 KiB. At the bound a new key takes the place of one nearby that is
    /// nearest to its full quota, as [`memory`](KeyedRateLimiter::memory) shows.
    ///
    /// # Errors
    /// As [`KeyedRateLimiter::with_clock`].
    pub fn with_memory(quota: impl Into<Quotas<K>>, clock: C, max_bytes: u64) -> Result<Self, QuotaError> {
        let Quotas { otherwise, resolver, asking } = quota.into();
        let states = Table::new(max_bytes);
        let engine = match resolver {
            Some(_) => Engine::with_tiers(otherwise, states, clock, asking)?,
            None => Engine::new(otherwise.checked()?, states, clock),
        };
        Ok(Self { engine: Arc::new(engine), resolver })
    }

    /// The time by the limiter's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.engine.now()
    }

    /// Bounds of the quota in force for the keys that have none of their own.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds::of(&self.engine.in_force().quota)
    }

    /// Asks the function of [`Quotas`] again for every key, before it is decided next.
    pub fn ask_all_again(&self) {
        if let Some(tiers) = &self.engine.tiers {
            tiers.ask_all_again();
        }
    }

    /// Numbers about the quotas of keys.
    #[must_use]
    pub fn quota_stats(&self) -> QuotaStats {
        let Some(tiers) = &self.engine.tiers else {
            return QuotaStats { quotas: 1, ..QuotaStats::default() };
        };
        let (answers, quotas, unusable, last_fault) = tiers.stats();
        QuotaStats {
            remembered_keys: answers.tracked_keys,
            evicted_keys: answers.evictions,
            quotas,
            unusable,
            last_fault,
        }
    }

    /// Tracked keys, the memory that they take, and the number of evicted keys.
    #[must_use]
    pub fn memory(&self) -> MemoryStats {
        self.engine.in_force().states.stats()
    }
}

impl<K: LimitKey + ?Sized, C: Clock + 'static> KeyedRateLimiter<K, C> {
    /// The bytes of `key`, whose quota is known after the call.
    #[inline]
    fn known<'a>(&self, key: &'a K) -> KeyBytes<'a> {
        let bytes = key.key_bytes();
        if let Some(quota_of) = &self.resolver {
            self.engine.know(&bytes, || quota_of(key));
        }
        bytes
    }

    /// The bytes of `key`, and the quota that counts it now.
    #[cfg(feature = "redis")]
    pub(crate) fn known_quota<'a>(&self, key: &'a K) -> (KeyBytes<'a>, tollgate_core::Quota) {
        let bytes = self.known(key);
        let quota = self.engine.in_force_of(&bytes, self.now()).quota.clone();
        (bytes, quota)
    }

    /// Bounds of the quota of `key`.
    ///
    /// # Example
    /// ```
    /// # use tollgate::{Quota, Quotas, RateLimiter};
    /// let of = |user: &u32| (*user < 100).then(|| Quota::per_second(100));
    /// let limiter = RateLimiter::keyed(Quotas::by(Quota::per_second(1), of))?;
    /// assert_eq!((limiter.bounds_of(&7).limit, limiter.bounds_of(&700).limit), (100, 1));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn bounds_of(&self, key: &K) -> Bounds {
        Bounds::of(&self.engine.in_force_of(&self.known(key), self.now()).quota)
    }

    /// Asks the function of [`Quotas`] again for the quota of `key`, before `key` is decided next. (One in 64
    /// of the other keys is asked about again as well.)
    ///
    /// # Example
    /// ```
    /// # use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// # use std::sync::Arc;
    /// # use tollgate::{Quota, Quotas, RateLimiter};
    /// let limit = Arc::new(AtomicU64::new(10));
    /// let seen = Arc::clone(&limit);
    /// let of = move |_: &str| Some(Quota::per_hour(seen.load(Relaxed)));
    /// let limiter = RateLimiter::keyed(Quotas::by(Quota::per_hour(1), of))?;
    /// assert_eq!(limiter.take_at_most("ann", 4), 4);
    /// limit.store(20, Relaxed); // ann pays from now on
    /// limiter.ask_again("ann");
    /// assert_eq!(limiter.take_at_most("ann", 50), 16);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn ask_again(&self, key: &K) {
        if let Some(tiers) = &self.engine.tiers {
            tiers.ask_again(&key.key_bytes());
        }
    }

    /// Takes one permit of `key` if it has one.
    ///
    /// A quota that paces ([`Quota::leaky_queue`]) admits with a [`delay`](Admitted::delay): act after it.
    ///
    /// # Errors
    /// [`Denied`] says when its next permit is there. Nothing was taken (a fixed window has counted the
    /// attempt).
    #[inline(always)] // what the caller does not look at need not be worked out
    pub fn check(&self, key: &K) -> Result<Admitted, Denied> {
        self.check_n(key, 1)
    }

    /// Takes `n` permits of `key` if it has all of them. 0 takes nothing, and shows the permits left.
    ///
    /// # Errors
    /// [`Denied`] says when they are there; never, for more than the burst. Nothing was taken, except in a
    /// [fixed window](Quota::fixed_window): that counts what it denies, so more than its limit at once closes
    /// it until it ends.
    #[inline(always)]
    pub fn check_n(&self, key: &K, n: u64) -> Result<Admitted, Denied> {
        let bytes = key.key_bytes();
        let bytes: &[u8] = &bytes; // what is borrowed by the closure is put into memory
        self.engine.check_or_else(bytes, n, |now| match &self.resolver {
            None => self.engine.check_special(bytes, n, now),
            Some(quota_of) => self.engine.check_asking(bytes, n, now, || quota_of(key)),
        })
    }

    /// Permits of `key` left, and when more come; takes nothing.
    pub fn peek(&self, key: &K) -> Decision {
        self.engine.peek(&self.known(key), 0)
    }

    /// Takes up to `n` permits of `key`, as many as it has, and returns how many.
    #[must_use = "this number of permits was taken"]
    pub fn take_at_most(&self, key: &K, n: u64) -> u64 {
        self.engine.take_at_most(&self.known(key), n)
    }

    /// Gives back `n` permits of `key` that were taken and not used, never above a full quota.
    pub fn give_back(&self, key: &K, n: u64) {
        self.engine.give_back(&self.known(key), n)
    }

    /// Takes `n` permits of `key` whether it has them or not; later ones repay the debt before anything is
    /// admitted.
    pub fn penalise(&self, key: &K, n: u64) {
        self.engine.penalise(&self.known(key), n)
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
    /// # use tollgate::{KeyedRateLimiter, ManualClock, Quota};
    /// # let clock = ManualClock::default();
    /// let tokens = KeyedRateLimiter::<str, _>::with_clock(Quota::per_second(10).burst(1_000), clock)?;
    /// for _ in 0..2 {
    ///     assert!(tokens.pay("ann", 0).is_ok()); // the work may start
    ///     let _ = tokens.pay("ann", 900); // and has used this
    /// }
    /// let denied = tokens.pay("ann", 0).unwrap_err();
    /// assert_eq!(denied.decision().owed(), 800);
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(80_100)));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn pay(&self, key: &K, n: u64) -> Result<Admitted, Denied> {
        self.engine.pay(&self.known(key), n)
    }

    /// Denies `key` until that instant, whatever it has left. An instant in the past lifts the block.
    ///
    /// About half a million keys can be blocked at a time; beyond, a new block replaces one that ends soon.
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

    /// Forgets the counts of `key`. A [block](KeyedRateLimiter::block) stays.
    pub fn reset(&self, key: &K) {
        self.engine.reset(&self.known(key));
    }

    /// The counts of `key`, as a value.
    #[must_use]
    pub fn snapshot(&self, key: &K) -> Snapshot {
        self.engine.snapshot(&self.known(key))
    }

    /// Continues with the counts of `snapshot` in place of those of `key`.
    ///
    /// # Errors
    /// [`RestoreError`]: the snapshot is of another quota.
    pub fn restore(&self, key: &K, snapshot: &Snapshot) -> Result<(), RestoreError> {
        self.engine.restore(&self.known(key), snapshot)
    }

    /// Counts all keys by `quota` from now on. Permits that were taken stay taken; if the algorithm changes,
    /// counting begins anew.
    ///
    /// # Errors
    /// As [`KeyedRateLimiter::with_clock`]; the quota before stays in force.
    pub fn reconfigure(&self, quota: Quota) -> Result<(), QuotaError> {
        self.reconfigure_as(quota, Inherit::Taken)
    }

    /// Counts all keys by `quota` from now on, except those that have [a quota of their own](Quotas). Each
    /// keeps the counts that `inherit` says, as of now, even if it is asked for much later. A key that has
    /// nothing taken counts as never seen: it is full. So does a key that is not asked for while the quota
    /// changes four times.
    ///
    /// Until then the earlier states are kept beside the new ones, in the same amount of memory each. (Where
    /// some keys have quotas of their own, a key keeps its counts as of when it is asked for, and `inherit`
    /// also applies to later changes of answers.)
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
        Request::new(&*self.engine, self.known(key), n)
    }

    /// Takes `n` permits of `key` now, or reserves them for the first instant at which they are there, if
    /// that is at most `max_wait` away: the [`Reservation`] says when to act. Waiters that came earlier go
    /// first.
    ///
    /// # Errors
    /// [`AcquireError`] says why not. Nothing was taken.
    pub fn reserve(&self, key: &K, n: u64, max_wait: Duration) -> Result<Reservation, AcquireError> {
        Reservation::new(&self.engine, &self.known(key), n, max_wait)
    }

    /// Waits for `n` permits of `key` on this thread, first in, first out; returns the time that it waited.
    /// See [`acquire`](KeyedRateLimiter::acquire).
    ///
    /// # Errors
    /// [`AcquireError`] says why there was nothing to wait for. Nothing was taken.
    pub fn blocking_acquire(&self, key: &K, n: u64) -> Result<Duration, AcquireError> {
        self.engine.blocking_acquire(&self.known(key), n, Duration::MAX)
    }

    /// As [`blocking_acquire`](KeyedRateLimiter::blocking_acquire), for at most `timeout`.
    ///
    /// # Errors
    /// As there; at once, where the permits cannot be there in time.
    pub fn blocking_try_acquire(&self, key: &K, n: u64, timeout: Duration) -> Result<Duration, AcquireError> {
        self.engine.blocking_acquire(&self.known(key), n, timeout)
    }

    /// Number of callers that wait now.
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
    /// Waits for `n` permits of `key`; returns the time that it waited. First in, first out, for each key: in
    /// the order in which the calls were first polled.
    ///
    /// Dropped while it waits, it leaves the line and gives its permits back, so that those behind it wait
    /// less. Needs a tokio runtime with time enabled.
    ///
    /// # Errors
    /// [`AcquireError`] says why there was nothing to wait for. Nothing was taken.
    pub fn acquire<'a>(
        &'a self,
        key: &'a K,
        n: u64,
    ) -> impl Future<Output = Result<Duration, AcquireError>> + Send {
        Acquire::new(&self.engine, self.known(key), n, Duration::MAX)
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
        Acquire::new(&self.engine, self.known(key), n, timeout)
    }
}
