//! Caps concurrency in this process, with slots that guards hold.
//!
//! Not here: slots that a fleet shares. The server's rules with `algorithm: concurrency` have those.

pub(crate) mod error;
pub(crate) mod guard;
pub(crate) mod partitions;
mod room;
mod wait;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use self::error::{EnterError, NoSlot};
use self::guard::ConcurrencyGuard;
use self::room::{Room, Rooms};
use crate::key::LimitKey;

/// Caps concurrency: calls of a database, threads of a pool, requests of a caller.
///
/// A call holds a slot by a [`ConcurrencyGuard`], which gives it up when it is dropped. Clones share their
/// slots. Taking a slot that is free takes no lock and needs no runtime.
///
/// # Example
/// ```
/// use tollgate::ConcurrencyLimiter;
///
/// let database = ConcurrencyLimiter::direct(2);
/// let (first, second) = (database.try_enter()?, database.try_enter()?);
/// assert!(database.try_enter().is_err());
/// assert_eq!((database.in_use(), database.limit()), (2, 2));
/// drop(first);
/// assert!(database.try_enter().is_ok());
/// # drop(second);
/// # Ok::<(), tollgate::NoSlot>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConcurrencyLimiter {
    room: Arc<Room>,
}

impl ConcurrencyLimiter {
    /// A limiter without keys, with `limit` slots. 0 admits nothing.
    #[must_use]
    pub fn direct(limit: u64) -> Self {
        Self { room: Arc::new(Room::only(limit)) }
    }

    /// A limiter with `limit` slots for each key.
    ///
    /// # Example
    /// ```
    /// use tollgate::ConcurrencyLimiter;
    ///
    /// let per_user = ConcurrencyLimiter::keyed(1);
    /// let guard = per_user.try_enter("ann")?;
    /// assert!(per_user.try_enter("ann").is_err());
    /// assert!(per_user.try_enter("bob").is_ok());
    /// assert_eq!((per_user.in_use("ann"), per_user.in_use("bob")), (1, 0));
    /// # drop(guard);
    /// # Ok::<(), tollgate::NoSlot>(())
    /// ```
    #[must_use]
    pub fn keyed<K: ?Sized>(limit: u64) -> KeyedConcurrencyLimiter<K> {
        KeyedConcurrencyLimiter { rooms: Arc::new(Rooms::new(limit)), key: PhantomData }
    }

    /// Takes a slot if one is free and no caller waits for one.
    ///
    /// # Errors
    /// [`NoSlot`] says how many are in use. Nothing was taken.
    pub fn try_enter(&self) -> Result<ConcurrencyGuard, NoSlot> {
        self.try_enter_n(1)
    }

    /// Takes `n` slots if all of them are free, under one guard. See [`try_enter`](Self::try_enter).
    ///
    /// # Errors
    /// As there.
    pub fn try_enter_n(&self, n: u64) -> Result<ConcurrencyGuard, NoSlot> {
        self.room.try_enter(n)?;
        Ok(ConcurrencyGuard::new(Arc::clone(&self.room), n))
    }

    /// Takes a slot even if no slot is free.
    fn enter_beyond(&self) -> ConcurrencyGuard {
        self.room.enter_beyond();
        ConcurrencyGuard::new(Arc::clone(&self.room), 1)
    }

    /// Waits for `n` slots, first in, first out: in the order in which the calls were first polled. A caller
    /// that waits for many slots holds up those behind it; otherwise it would never get its slots.
    ///
    /// Dropped while it waits, it leaves the line and takes nothing. Works on every runtime.
    ///
    /// # Errors
    /// [`EnterError`] says why there was nothing to wait for. Nothing was taken.
    ///
    /// # Example
    /// ```
    /// use tollgate::ConcurrencyLimiter;
    ///
    /// # #[cfg(feature = "tokio")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let uploads = ConcurrencyLimiter::direct(4);
    /// let first = uploads.enter(3).await?;
    /// let task = tokio::spawn({
    ///     let uploads = uploads.clone();
    ///     async move { uploads.enter(2).await.map(|guard| guard.slots()) }
    /// });
    /// tokio::task::yield_now().await;
    /// drop(first);
    /// assert_eq!(task.await?, Ok(2));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "tokio"))]
    /// # fn main() {}
    /// ```
    pub fn enter(&self, n: u64) -> impl Future<Output = Result<ConcurrencyGuard, EnterError>> + Send + use<> {
        wait::enter(Arc::clone(&self.room), n)
    }

    /// As [`enter`](Self::enter), for at most `timeout`. Waiting needs a tokio runtime with time enabled.
    ///
    /// # Errors
    /// As there, and [`EnterError::TimedOut`].
    #[cfg(feature = "tokio")]
    pub fn enter_within(
        &self,
        n: u64,
        timeout: Duration,
    ) -> impl Future<Output = Result<ConcurrencyGuard, EnterError>> + Send + use<> {
        wait::enter_within(Arc::clone(&self.room), n, timeout)
    }

    /// Waits for `n` slots on this thread, in the same line as [`enter`](Self::enter).
    ///
    /// # Errors
    /// As there.
    pub fn blocking_enter(&self, n: u64) -> Result<ConcurrencyGuard, EnterError> {
        self.blocking_enter_within(n, Duration::MAX)
    }

    /// As [`blocking_enter`](Self::blocking_enter), for at most `timeout`.
    ///
    /// # Errors
    /// As there, and [`EnterError::TimedOut`].
    pub fn blocking_enter_within(&self, n: u64, timeout: Duration) -> Result<ConcurrencyGuard, EnterError> {
        wait::block(Arc::clone(&self.room), n, timeout)
    }

    /// Slots that may be in use at the same time.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.room.shared.limit()
    }

    /// Sets another number of slots, for all clones. If more are in use, no call gets a slot until enough are
    /// given up. Callers that wait for more slots than there are now get [`EnterError::NeverFits`].
    ///
    /// # Example
    /// ```
    /// use tollgate::ConcurrencyLimiter;
    ///
    /// let limiter = ConcurrencyLimiter::direct(2);
    /// let (first, second) = (limiter.try_enter()?, limiter.try_enter()?);
    /// limiter.set_limit(1);
    /// drop(first);
    /// assert!(limiter.try_enter().is_err()); // one of one is in use
    /// drop(second);
    /// assert!(limiter.try_enter().is_ok());
    /// # Ok::<(), tollgate::NoSlot>(())
    /// ```
    pub fn set_limit(&self, limit: u64) {
        self.set_limit_to(|| limit);
    }

    /// As [`set_limit`](Self::set_limit); `limit` is called while no other change is made.
    pub(crate) fn set_limit_to(&self, limit: impl FnOnce() -> u64) {
        self.room.shared.set_limit(limit, |_| Arc::clone(&self.room));
    }

    /// Slots in use, including those of leaked guards.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.room.in_use()
    }

    /// Most slots that were in use at the same time.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.room.shared.peak()
    }

    /// Sets whether later callers are served before those that wait already: last in, first out. Under
    /// overload the callers that came last still wait for an answer; those that came first may wait for good,
    /// so use it with [`enter_within`](Self::enter_within) or [`set_max_waiting`](Self::set_max_waiting).
    /// First in, first out if nothing is set.
    pub fn set_last_first(&self, last_first: bool) {
        self.room.shared.last_first.store(last_first, Relaxed);
    }

    /// Number of callers that wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.room.shared.waiting.count()
    }

    /// The most callers that may wait at a time; 100,000 if nothing is set. More get
    /// [`EnterError::QueueFull`].
    pub fn set_max_waiting(&self, most: usize) {
        self.room.shared.waiting.set_most(most);
    }
}

/// Caps concurrency per key: users, addresses, tenants.
///
/// `K` is the type of the keys, as in [`KeyedRateLimiter`](crate::KeyedRateLimiter). A key is kept while a
/// slot of it is held or waited for, so memory is bounded by the guards and waiters. Clones share their
/// slots.
pub struct KeyedConcurrencyLimiter<K: ?Sized> {
    rooms: Arc<Rooms>,
    key: PhantomData<fn(&K)>,
}

impl<K: ?Sized> Clone for KeyedConcurrencyLimiter<K> {
    fn clone(&self) -> Self {
        Self { rooms: Arc::clone(&self.rooms), key: PhantomData }
    }
}

impl<K: ?Sized> fmt::Debug for KeyedConcurrencyLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedConcurrencyLimiter").field("rooms", &self.rooms).finish_non_exhaustive()
    }
}

impl<K: LimitKey + ?Sized> KeyedConcurrencyLimiter<K> {
    fn room(&self, key: &K) -> Arc<Room> {
        self.rooms.room(&key.key_bytes())
    }

    /// Takes a slot of `key` if one is free and no caller waits for one.
    ///
    /// # Errors
    /// [`NoSlot`] says how many are in use. Nothing was taken.
    pub fn try_enter(&self, key: &K) -> Result<ConcurrencyGuard, NoSlot> {
        self.try_enter_n(key, 1)
    }

    /// Takes `n` slots of `key` if all of them are free, under one guard.
    ///
    /// # Errors
    /// As [`try_enter`](Self::try_enter).
    pub fn try_enter_n(&self, key: &K, n: u64) -> Result<ConcurrencyGuard, NoSlot> {
        let room = self.room(key);
        room.try_enter(n)?;
        Ok(ConcurrencyGuard::new(room, n))
    }

    /// Waits for `n` slots of `key`; see [`ConcurrencyLimiter::enter`].
    ///
    /// # Errors
    /// As there.
    pub fn enter(
        &self,
        key: &K,
        n: u64,
    ) -> impl Future<Output = Result<ConcurrencyGuard, EnterError>> + Send + use<K> {
        wait::enter(self.room(key), n)
    }

    /// As [`enter`](Self::enter), for at most `timeout`. Waiting needs a tokio runtime with time enabled.
    ///
    /// # Errors
    /// As there, and [`EnterError::TimedOut`].
    #[cfg(feature = "tokio")]
    pub fn enter_within(
        &self,
        key: &K,
        n: u64,
        timeout: Duration,
    ) -> impl Future<Output = Result<ConcurrencyGuard, EnterError>> + Send + use<K> {
        wait::enter_within(self.room(key), n, timeout)
    }

    /// Waits for `n` slots of `key` on this thread, in the same line as [`enter`](Self::enter).
    ///
    /// # Errors
    /// As there.
    pub fn blocking_enter(&self, key: &K, n: u64) -> Result<ConcurrencyGuard, EnterError> {
        self.blocking_enter_within(key, n, Duration::MAX)
    }

    /// As [`blocking_enter`](Self::blocking_enter), for at most `timeout`.
    ///
    /// # Errors
    /// As there, and [`EnterError::TimedOut`].
    pub fn blocking_enter_within(
        &self,
        key: &K,
        n: u64,
        timeout: Duration,
    ) -> Result<ConcurrencyGuard, EnterError> {
        wait::block(self.room(key), n, timeout)
    }

    /// Slots of `key` in use.
    #[must_use]
    pub fn in_use(&self, key: &K) -> u64 {
        self.rooms.find(&key.key_bytes()).map_or(0, |room| room.in_use())
    }
}

impl<K: ?Sized> KeyedConcurrencyLimiter<K> {
    /// Slots of each key that may be in use at the same time.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.rooms.shared.limit()
    }

    /// Sets another number of slots for every key; see [`ConcurrencyLimiter::set_limit`].
    pub fn set_limit(&self, limit: u64) {
        self.rooms.shared.set_limit(|| limit, |key| self.rooms.room(key));
    }

    /// Most slots of one key that were in use at the same time.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.rooms.shared.peak()
    }

    /// Keys of which a slot is held or waited for.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.rooms.len()
    }

    /// Number of callers that wait now, of all keys together.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.rooms.shared.waiting.count()
    }

    /// The most callers that may wait at a time, of all keys together; 100,000 if nothing is set. More get
    /// [`EnterError::QueueFull`].
    pub fn set_max_waiting(&self, most: usize) {
        self.rooms.shared.waiting.set_most(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_while_no_other_can_be_set() {
        let limiter = ConcurrencyLimiter::direct(3);
        limiter.set_limit_to(|| if limiter.room.shared.waiting.is_locked() { 5 } else { 0 });
        assert_eq!(limiter.limit(), 5);
    }
}
