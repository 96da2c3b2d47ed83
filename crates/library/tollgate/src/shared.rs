//! Limits without rules whose counters a fleet shares.
//!
//! Not here: rules (`rules.rs`), how a store counts (`store-redis`).

use std::fmt;
use std::sync::Arc;

use tollgate_clock::MonotonicClock;
use tollgate_core::{Clock, Cost, Decision, Quota};
use tollgate_human_text::with_causes;
use tollgate_store::{Charge, Counter, Key, Store, StoreError, Verdicts};
use tollgate_store_redis::{ConfigError, RedisConfig, RedisStore};

use crate::denied::{Admitted, Denied};
use crate::key::LimitKey;
use crate::keyed::KeyedRateLimiter;

/// A Redis or Valkey that keeps the counters of limiters. Clones share its connections, which are opened at
/// the first call.
#[derive(Clone)]
pub struct SharedStore {
    store: Arc<RedisStore>,
}

impl SharedStore {
    /// The server at `url`: `redis://host:port`, and the other forms of the server's `--store`.
    ///
    /// # Errors
    /// [`ConfigError`]: the URL has none of the known forms.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{RedisConfig, SharedStore};
    ///
    /// let store = SharedStore::at("redis://10.0.0.7")?; // a call may take 1 s, connecting 2 s
    /// let config = RedisConfig::parse_url("redis://10.0.0.7")?.with_deadline(Duration::from_millis(50));
    /// let impatient = SharedStore::by(config)?;
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn at(url: &str) -> Result<Self, ConfigError> {
        Self::by(RedisConfig::parse_url(url)?)
    }

    /// The same with all settings: how long a [call](RedisConfig::with_deadline) and
    /// [connecting](RedisConfig::with_connect_timeout) may take, the prefix of keys, and, in its field
    /// `link`, TLS and passwords.
    ///
    /// # Errors
    /// [`ConfigError`]: settings contradict each other, or a certificate cannot be read.
    pub fn by(config: RedisConfig) -> Result<Self, ConfigError> {
        Ok(Self { store: Arc::new(RedisStore::new(config)?) })
    }
}

/// A limit per key whose counters are in a [`SharedStore`]: all limiters with the same store and name take
/// from the same permits. [`KeyedRateLimiter::shared`] makes one.
///
/// The quota of a key is that of the limiter that it was made of, also after a change there, and also where
/// [`Quotas`](crate::Quotas) say it: each process asks its own function. Until a change has reached all
/// processes, each decides by the quota that it knows; permits taken stay taken. Blocks, waiters and counts
/// of that limiter are its own and play no part here.
///
/// A call must be made within a tokio runtime. It waits no longer than the deadline of the store's settings
/// (1 s by default), and at first also for a connection (2 s). Dropped before its end, the permits may or may
/// not be taken.
///
/// # Example
/// ```no_run
/// use tollgate::{Quota, Quotas, RateLimiter, SharedError, SharedStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pays = |user: &str| user.starts_with("premium:"); // ask a database
/// let quotas = Quotas::by(Quota::per_minute(10), move |user| pays(user).then(|| Quota::per_minute(100)));
/// let redis = SharedStore::at("redis://127.0.0.1:6379")?;
/// let limiter = RateLimiter::keyed(quotas)?.shared("logins", &redis);
/// match limiter.check("premium:bob").await {
///     Ok(admitted) => println!("{} left", admitted.remaining()),
///     Err(SharedError::Denied(denied)) => println!("{denied}"),
///     Err(unavailable) => println!("{unavailable}"), // admit or deny, as you like
/// }
/// # Ok(())
/// # }
/// ```
pub struct SharedRateLimiter<K: ?Sized, C = MonotonicClock> {
    store: SharedStore,
    /// Beginning of its keys in the store.
    head: Arc<[u8]>,
    here: KeyedRateLimiter<K, C>,
}

/// Reason why a shared limit gave no permits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SharedError {
    /// The limit denied the request. Nothing was taken (a fixed window has counted the attempt).
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The store cannot be reached, or answered with an error. Nothing was taken or changed; a retry is safe.
    #[error("{0}")]
    NotTaken(String),
    /// The store did not answer in time. The permits may or may not have been taken.
    #[error("{0}")]
    Unknown(String),
    /// The store cannot count such a quota. Nothing was taken; a retry fails the same way.
    #[error("a shared store cannot count {algorithm}; use another algorithm, or a limiter of this process")]
    Unsupported {
        /// Name of the quota's algorithm.
        algorithm: &'static str,
    },
}

impl From<StoreError> for SharedError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unsupported { algorithm, .. } => Self::Unsupported { algorithm },
            StoreError::Silent { .. } => Self::Unknown(format!(
                "{error}; where the network is that slow, raise RedisConfig::with_deadline"
            )),
            other => Self::NotTaken(with_causes(&other).to_string()),
        }
    }
}

impl<K: LimitKey + ?Sized, C: Clock + 'static> KeyedRateLimiter<K, C> {
    /// The same limit, counted in `store` under `name`, together with all that share it by that name. Counts
    /// of this process are not carried over.
    ///
    /// See [`SharedRateLimiter`] for an example.
    #[must_use]
    pub fn shared(&self, name: &str, store: &SharedStore) -> SharedRateLimiter<K, C> {
        // A control character, with which no key of a rule or of `CL.THROTTLE` begins; the length keeps names
        // from running into keys.
        const LIBRARY: u8 = 15;
        let length = (name.len() as u64).to_be_bytes();
        let head = [&[LIBRARY][..], &length, name.as_bytes()].concat().into();
        SharedRateLimiter { store: store.clone(), head, here: self.clone() }
    }
}

/// One call's counter: its key, and the quota by which it is counted.
struct Named {
    key: Vec<u8>,
    quota: Quota,
}

impl Named {
    fn counter(&self) -> Counter<'_> {
        Counter::new(Key(&self.key), &self.quota)
    }
}

impl<K: LimitKey + ?Sized, C: Clock + 'static> SharedRateLimiter<K, C> {
    /// The limiter that supplies the quotas: change them there.
    #[must_use]
    pub const fn here(&self) -> &KeyedRateLimiter<K, C> {
        &self.here
    }

    fn named(&self, key: &K) -> Named {
        let (bytes, quota) = self.here.known_quota(key);
        Named { key: [&self.head, &*bytes].concat(), quota }
    }

    async fn take(&self, key: &K, n: u64) -> Result<Decision, SharedError> {
        let named = self.named(key);
        let now = self.here.now();
        let mut verdicts = Verdicts::with_capacity(1);
        let take = named.counter().take(Cost(n));
        self.store.store.take(&[take], Charge::Each, now, &mut verdicts).await;
        match verdicts.pop() {
            Some(verdict) => Ok(verdict?),
            None => Err(SharedError::NotTaken("the store gave no answer; nothing was taken".to_owned())),
        }
    }

    /// Takes one permit of `key` if it has one.
    ///
    /// # Errors
    /// [`SharedError`] says why not, and whether the permit may have been taken.
    pub async fn check(&self, key: &K) -> Result<Admitted, SharedError> {
        self.check_n(key, 1).await
    }

    /// Takes `n` permits of `key` if it has all of them. 0 takes nothing, and shows the permits left.
    ///
    /// # Errors
    /// [`SharedError`] says why not, and whether the permits may have been taken.
    pub async fn check_n(&self, key: &K, n: u64) -> Result<Admitted, SharedError> {
        Ok(Denied::unless_admitted(self.take(key, n).await?)?)
    }

    /// Permits of `key` left, and when more come; takes nothing.
    ///
    /// # Errors
    /// [`SharedError`], but never a denial.
    pub async fn peek(&self, key: &K) -> Result<Decision, SharedError> {
        self.take(key, 0).await
    }

    /// Gives back `n` permits of `key` that were taken and not used, never above a full quota.
    ///
    /// # Errors
    /// [`SharedError`], but never a denial; [`SharedError::Unknown`] where they may have been given back.
    pub async fn give_back(&self, key: &K, n: u64) -> Result<(), SharedError> {
        let named = self.named(key);
        let now = self.here.now();
        let _left = self.store.store.give_back(named.counter(), Cost(n), now).await?;
        Ok(())
    }

    /// Takes `n` permits of `key` whether it has them or not; later ones repay the debt before anything is
    /// admitted.
    ///
    /// # Errors
    /// [`SharedError`], but never a denial.
    pub async fn penalise(&self, key: &K, n: u64) -> Result<(), SharedError> {
        let named = self.named(key);
        let now = self.here.now();
        let _left = self.store.store.charge(named.counter(), Cost(n), now).await?;
        Ok(())
    }

    /// Forgets the counts of `key`.
    ///
    /// # Errors
    /// [`SharedError`], but never a denial.
    pub async fn reset(&self, key: &K) -> Result<(), SharedError> {
        let named = self.named(key);
        let now = self.here.now();
        let _was_there = self.store.store.reset(named.counter(), now).await?;
        Ok(())
    }
}

impl<K: ?Sized, C> Clone for SharedRateLimiter<K, C> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), head: Arc::clone(&self.head), here: self.here.clone() }
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedStore").field(&self.store.name()).finish()
    }
}

impl<K: ?Sized, C: fmt::Debug> fmt::Debug for SharedRateLimiter<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRateLimiter").field("store", &self.store).finish_non_exhaustive()
    }
}
