//! Quotas by key: a function returns the quota of each key.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Inherit, QuotaError};

use crate::quota::Quota;
use crate::tiers::Asking;

pub(crate) type Resolver<K> = Arc<dyn Fn(&K) -> Option<Quota> + Send + Sync>;

/// The quotas of a keyed limiter: one for all keys, or a function that returns the quota of each key.
///
/// The function is asked when a key comes that it has not been asked about, and its answer is remembered, so
/// that a check of a known key neither asks nor allocates nor locks. It is called on the thread of the
/// caller, with nothing locked: it may use the limiter, and a panic reaches the caller, with nothing taken.
/// An answer that is not a valid quota, or the 10,001st different one, counts as `None`;
/// [`quota_stats`](crate::KeyedRateLimiter::quota_stats) shows that.
///
/// An answer that has changed, when the function [is asked again](crate::KeyedRateLimiter::ask_again),
/// changes the key's quota and keeps what it has counted, as [`inherit`](Quotas::inherit) says; callers that
/// wait keep their places if the algorithm stays the same.
///
/// # Example
/// ```
/// use tollgate::{Quota, Quotas, RateLimiter};
///
/// // Ten per second for everybody, and more for those who pay.
/// let limiter = RateLimiter::keyed(Quotas::by(Quota::per_second(10), |user: &str| {
///     user.starts_with("premium:").then(|| Quota::per_second(100))
/// }))?;
/// assert_eq!(limiter.take_at_most("ann", 1_000), 10);
/// assert_eq!(limiter.take_at_most("premium:bob", 1_000), 100);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub struct Quotas<K: ?Sized> {
    pub(crate) otherwise: Quota,
    pub(crate) resolver: Option<Resolver<K>>,
    pub(crate) asking: Asking,
}

impl<K: ?Sized> Quotas<K> {
    /// Whether keys may have quotas of their own.
    #[must_use]
    pub const fn differ(&self) -> bool {
        self.resolver.is_some()
    }

    /// The quota that `of` returns for a key, or `otherwise` if it returns `None`.
    pub fn by(otherwise: Quota, of: impl Fn(&K) -> Option<Quota> + Send + Sync + 'static) -> Self {
        Self { resolver: Some(Arc::new(of)), ..Self::from(otherwise) }
    }

    /// Asks again for a key whose answer is older than this, in whole seconds, rounded up; never if nothing
    /// is set, except by [`ask_again`](crate::KeyedRateLimiter::ask_again).
    ///
    /// # Example
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    /// use std::time::Duration;
    /// use tollgate::{KeyedRateLimiter, ManualClock, Quota, Quotas};
    ///
    /// static PAYS: AtomicBool = AtomicBool::new(false);
    /// let of = |_: &str| PAYS.load(Relaxed).then(|| Quota::per_hour(100));
    /// let quotas = Quotas::by(Quota::per_hour(10), of).remember_for(Duration::from_secs(60));
    /// let clock = ManualClock::default();
    /// let limiter = KeyedRateLimiter::with_clock(quotas, clock.clone())?;
    /// assert_eq!(limiter.take_at_most("ann", 7), 7);
    ///
    /// PAYS.store(true, Relaxed);
    /// assert_eq!(limiter.peek("ann").remaining(), 3);
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(limiter.peek("ann").remaining(), 93); // seven stay taken
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn remember_for(mut self, span: Duration) -> Self {
        self.asking.remember_for = span;
        self
    }

    /// Remembers the answers about this many keys, at 25 to 48 bytes each; a million if nothing is set.
    /// Beyond, a new key takes the place of another one, which is asked about again when it comes back. If
    /// its answer has changed by then, it begins anew.
    #[must_use]
    pub const fn remember_keys(mut self, keys: u64) -> Self {
        self.asking.most_keys = keys;
        self
    }

    /// Sets the counts that a key keeps when its answer changes; [`Inherit::Taken`] if nothing is set.
    #[must_use]
    pub const fn inherit(mut self, inherit: Inherit) -> Self {
        self.asking.how = inherit;
        self
    }
}

/// One quota for all keys.
impl<K: ?Sized> From<Quota> for Quotas<K> {
    fn from(quota: Quota) -> Self {
        let asking = Asking { remember_for: Duration::MAX, most_keys: 1_000_000, how: Inherit::Taken };
        Self { otherwise: quota, resolver: None, asking }
    }
}

impl<K: ?Sized> Clone for Quotas<K> {
    fn clone(&self) -> Self {
        Self { otherwise: self.otherwise.clone(), resolver: self.resolver.clone(), asking: self.asking }
    }
}

impl<K: ?Sized> fmt::Debug for Quotas<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quotas")
            .field("otherwise", &self.otherwise)
            .field("is_by_key", &self.resolver.is_some())
            .field("asking", &self.asking)
            .finish()
    }
}

/// Numbers about the quotas of a limiter's keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaStats {
    /// Keys whose answers are remembered.
    pub remembered_keys: u64,
    /// Answers that were evicted by those about other keys before they were a day old.
    pub evicted_keys: u64,
    /// Different quotas so far, including that of all other keys.
    pub quotas: usize,
    /// Answers that could not be used.
    pub unusable: u64,
    /// The error of the last of these answers.
    pub last_fault: Option<QuotaError>,
}
