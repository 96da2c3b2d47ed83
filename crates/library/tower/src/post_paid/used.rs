//! Counts the use of a request.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use smallvec::SmallVec;
use tollgate::{Clock, KeyedRateLimiter};

use crate::key::KeyBytes;

/// Counts the use of a request. A [`PostPaidLayer`](crate::PostPaidLayer) puts one among the extensions of
/// each request that it passes on; with axum, a handler takes `Extension<Used>`. Clones count for the same
/// request, also after its response: in a stream, or in a task of its own.
#[derive(Clone)]
pub struct Used(Arc<dyn Count>);

impl Used {
    pub(super) fn of(count: impl Count + 'static) -> Self {
        Self(Arc::new(count))
    }

    /// Counts `n` more permits at once, whatever is left: missing permits become a debt.
    pub fn add(&self, n: u64) {
        if n > 0 {
            self.0.count(n);
        }
    }
}

impl fmt::Debug for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Used").finish_non_exhaustive()
    }
}

/// Permits that a response has used, by its status and its fields.
pub(super) type ByFields = dyn Fn(StatusCode, &HeaderMap) -> u64 + Send + Sync;

pub(super) trait Count: Send + Sync {
    fn count(&self, n: u64);
}

/// A limiter that counts a request, and its key there.
pub(super) struct Account<C> {
    pub(super) limiter: KeyedRateLimiter<[u8], C>,
    pub(super) key: KeyBytes,
    /// Permits that each used permit takes from the limit.
    pub(super) cost: u64,
}

impl<C: Clock + 'static> Count for SmallVec<[Account<C>; 1]> {
    fn count(&self, n: u64) {
        for Account { limiter, key, cost } in self {
            limiter.penalise(key, n.saturating_mul(*cost));
        }
    }
}
