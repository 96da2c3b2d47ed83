//! One limit on requests: a quota, its keys, and the treatment of requests without a key.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::StatusCode;
use tollgate::{Bounds, Clock, Decision, KeyedRateLimiter, MonotonicClock, Quota, QuotaError, Quotas};
use tollgate_headers::LimitState;

use crate::key::{Head, Key, KeyBytes, key_of};

/// Treatment of a request that lacks the key of a limit, or has one that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKey {
    /// All such requests share the permits of one key, so that leaving the key out gains nothing.
    Share,
    /// The limit does not count it.
    Admit,
    /// The request is rejected with this status, and takes no permits.
    Reject(StatusCode),
}

/// One limit on requests. Clones count together.
///
/// # Example
/// ```
/// use http::{HeaderName, StatusCode};
/// use tollgate_tower::{Key, Limit, MissingKey, Quota};
///
/// // Ten requests per second and API key; a request without one is rejected.
/// let limit = Limit::new(Quota::per_second(10))?
///     .named("per key")
///     .by(Key::header(HeaderName::from_static("x-api-key")))
///     .on_missing_key(MissingKey::Reject(StatusCode::UNAUTHORIZED));
///
/// // Its limiter serves other code as well, and changes at run time.
/// limit.limiter().reconfigure(Quota::per_second(20))?;
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub struct Limit<C = MonotonicClock> {
    name: Box<str>,
    limiter: KeyedRateLimiter<[u8], C>,
    keys: Vec<Key>,
    /// `None`: the keys decide.
    missing: Option<MissingKey>,
    /// Whether a missing key was logged already.
    is_logged: Arc<AtomicBool>,
    cost: u64,
    /// Keys may have quotas of their own.
    has_own_quotas: bool,
}

impl Limit {
    /// A limit that all requests share, until [`by`](Limit::by) sets a key.
    ///
    /// # Errors
    /// [`QuotaError`] says which number of the quota is out of its bounds, and the bound.
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Self::with_clock(quota, MonotonicClock::new())
    }

    /// A limit whose keys have quotas of their own, which fields and bodies show.
    ///
    /// # Errors
    /// As [`Limit::new`].
    ///
    /// # Example
    /// ```
    /// use http::HeaderName;
    /// use tollgate_tower::{Key, Limit, Quota, Quotas};
    ///
    /// let quotas = Quotas::by(Quota::per_second(10), |key: &[u8]| {
    ///     key.starts_with(b"premium-").then(|| Quota::per_second(100))
    /// });
    /// let limit = Limit::with_quotas(quotas)?.by(Key::header(HeaderName::from_static("x-api-key")));
    /// assert_eq!(limit.limiter().bounds_of(b"premium-7").limit, 100);
    /// # Ok::<(), tollgate_tower::QuotaError>(())
    /// ```
    pub fn with_quotas(quotas: Quotas<[u8]>) -> Result<Self, QuotaError> {
        Self::with_clock(quotas, MonotonicClock::new())
    }
}

impl<C: Clock + 'static> Limit<C> {
    /// As [`Limit::new`], on the time of `clock`.
    ///
    /// # Errors
    /// As there.
    pub fn with_clock(quota: impl Into<Quotas<[u8]>>, clock: C) -> Result<Self, QuotaError> {
        let quotas = quota.into();
        let has_own_quotas = quotas.differ();
        Ok(Self {
            name: "default".into(),
            limiter: KeyedRateLimiter::with_clock(quotas, clock)?,
            keys: Vec::new(),
            missing: None,
            is_logged: Arc::default(),
            cost: 1,
            has_own_quotas,
        })
    }

    /// The name that clients see in the fields and bodies of replies; `default` if nothing is set.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Counts by `key`. After further calls, by each combination of the keys.
    #[must_use]
    pub fn by(mut self, key: Key) -> Self {
        self.keys.push(key);
        self
    }

    /// Sets the treatment of requests without the key. If nothing is set, that depends on the key, and the
    /// first such request is logged:
    ///
    /// - An address or an [extension](Key::extension) is there if the service is set up well. A request
    ///   without it gets 500, since a limit that all clients share would let one shut out the others.
    /// - A header, or what [`Key::from_fn`] finds, may be left out by a client. All that do share the permits
    ///   of one key ([`MissingKey::Share`]).
    #[must_use]
    pub const fn on_missing_key(mut self, missing: MissingKey) -> Self {
        self.missing = Some(missing);
        self
    }

    /// Permits that one request takes; 1 if nothing is set.
    #[must_use]
    pub const fn cost(mut self, permits: u64) -> Self {
        self.cost = permits;
        self
    }

    /// The limiter that counts the requests, for other code: it penalises, blocks, shows what is left, or
    /// changes the quota. A limit without [keys](Limit::by) counts under the empty key; address keys are the
    /// octets.
    #[must_use]
    pub const fn limiter(&self) -> &KeyedRateLimiter<[u8], C> {
        &self.limiter
    }

    pub(crate) const fn permits(&self) -> u64 {
        self.cost
    }

    /// The counter of a request, if it has one.
    #[inline]
    pub(crate) fn place(&self, head: &Head<'_>) -> RequestCounter {
        let (key, is_whole) = key_of(&self.keys, head);
        match self.missing {
            _ if is_whole => RequestCounter::Counted(key),
            None => self.place_without_key(key, head),
            Some(MissingKey::Share) => RequestCounter::Counted(key),
            Some(MissingKey::Admit) => RequestCounter::Uncounted,
            Some(MissingKey::Reject(status)) => RequestCounter::Rejected(status, NO_KEY),
        }
    }

    /// The counter of a request whose key lacks a part, if no treatment is set.
    #[cold]
    fn place_without_key(&self, key: KeyBytes, head: &Head<'_>) -> RequestCounter {
        let of_server = self.keys.iter().find(|key| key.is_of_server() && key.is_missing(head));
        let is_first = !self.is_logged.swap(true, Relaxed);
        if let Some(missing) = of_server {
            if is_first {
                let why = missing.why_missing();
                tracing::error!(limit = %self.name, "requests are rejected with 500: {why}; \
                    Limit::on_missing_key says what else becomes of such requests");
            }
            return RequestCounter::Rejected(StatusCode::INTERNAL_SERVER_ERROR, NO_KEY_OF_SERVER);
        }
        let missing = self.keys.iter().find(|key| key.is_missing(head)).filter(|_| is_first);
        if let Some(missing) = missing {
            let why = missing.why_missing();
            tracing::warn!(limit = %self.name, "requests share the permits of one key: {why}; \
                Limit::on_missing_key says what else becomes of such requests");
        }
        RequestCounter::Counted(key)
    }

    /// The permits of a request that has taken them from `key`.
    pub(crate) fn paid(&self, key: KeyBytes) -> Paid<C> {
        Paid::new(&self.limiter, key, self.cost)
    }

    /// `decision` for `key`, with the bounds that its reply needs.
    #[inline]
    pub(crate) fn stated(&self, key: &[u8], decision: Decision) -> Stated {
        let own = self.has_own_quotas.then(|| Box::new(self.limiter.bounds_of(key)));
        Stated { decision, own }
    }

    /// Values of the fields of a reply for a decision.
    pub(crate) fn state(&self, Stated { decision, own }: &Stated) -> LimitState<'_> {
        let bounds = own.as_ref().map_or_else(|| self.limiter.bounds(), |own| **own);
        LimitState {
            burst: bounds.burst.max(decision.remaining()),
            ..LimitState::new(&self.name, bounds.window.unwrap_or_default(), decision)
        }
    }
}

/// A decision, with the bounds of the key's own quota where keys have one: on the heap, since it is moved
/// with each request.
pub(crate) struct Stated {
    decision: Decision,
    own: Option<Box<Bounds>>,
}

/// Counter of a request.
#[derive(Debug)]
pub(crate) enum RequestCounter {
    Counted(KeyBytes),
    Uncounted,
    Rejected(StatusCode, &'static str),
}

const NO_KEY: &str = "the request lacks what it is counted by";
const NO_KEY_OF_SERVER: &str = "the server does not know whom to count the request for; its log says why";

/// Permits that a request has taken; given back if it is dropped before it is passed on.
pub(crate) struct Paid<C: Clock + 'static> {
    limiter: KeyedRateLimiter<[u8], C>,
    key: KeyBytes,
    permits: u64,
}

impl<C: Clock + 'static> Paid<C> {
    pub(crate) fn new(limiter: &KeyedRateLimiter<[u8], C>, key: KeyBytes, permits: u64) -> Self {
        Self { limiter: limiter.clone(), key, permits }
    }

    pub(crate) fn used(mut self) {
        self.permits = 0;
    }
}

impl<C: Clock + 'static> Drop for Paid<C> {
    fn drop(&mut self) {
        if self.permits > 0 {
            self.limiter.give_back(&self.key, self.permits);
        }
    }
}

impl<C> Clone for Limit<C> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            limiter: self.limiter.clone(),
            keys: self.keys.clone(),
            missing: self.missing,
            is_logged: Arc::clone(&self.is_logged),
            cost: self.cost,
            has_own_quotas: self.has_own_quotas,
        }
    }
}

impl<C> fmt::Debug for Limit<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limit")
            .field("name", &self.name)
            .field("keys", &self.keys)
            .field("missing", &self.missing)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}
