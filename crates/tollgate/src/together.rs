//! Permits of several limiters and keys, all or nothing.
//!
//! First every request is decided without taking anything; only if all fit are they taken, one after another.
//! A check in between may have been faster: then what was taken already is given back.

use std::fmt;

use tollgate_core::{Clock, Decision};

use crate::denied::{Denied, DeniedBy};
use crate::engine::Engine;
use crate::key::KeyBytes;
use crate::states::States;

/// What one request asks of an engine.
trait Limit: Send + Sync {
    fn peek(&self, key: &[u8], n: u64) -> Decision;
    fn take_or_leave(&self, key: &[u8], n: u64) -> Decision;
    fn give_back(&self, key: &[u8], n: u64);
}

impl<S: States, C: Clock> Limit for Engine<S, C> {
    fn peek(&self, key: &[u8], n: u64) -> Decision {
        self.peek(key, n)
    }

    fn take_or_leave(&self, key: &[u8], n: u64) -> Decision {
        self.take_or_leave(key, n)
    }

    fn give_back(&self, key: &[u8], n: u64) {
        self.give_back(key, n);
    }
}

/// Permits of one limiter, as a part of [`check_all`].
pub struct Request<'a> {
    limit: &'a dyn Limit,
    key: KeyBytes<'a>,
    n: u64,
}

impl<'a> Request<'a> {
    pub(crate) fn new<S: States, C: Clock>(engine: &'a Engine<S, C>, key: KeyBytes<'a>, n: u64) -> Self {
        Self { limit: engine, key, n }
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("key", &self.key).field("n", &self.n).finish_non_exhaustive()
    }
}

/// Takes the permits of every request, or of none: several limits on one thing, several keys, or both.
///
/// # Errors
/// [`DeniedBy`] says which request was denied, and when it may pass. Nothing was taken of any, also where
/// a check would have counted the attempt.
///
/// # Example
/// ```
/// use tollgate::{Quota, RateLimiter, check_all};
///
/// let everybody = RateLimiter::direct(Quota::per_second(1_000))?;
/// let per_user = RateLimiter::keyed(Quota::per_second(2))?;
/// let ask = |user: &str| check_all(&[everybody.request(1), per_user.request(user, 1)]);
///
/// assert!(ask("ann").is_ok() && ask("ann").is_ok());
/// let denied = ask("ann").expect_err("the third in a second");
/// assert_eq!(denied.index, 1);
/// assert!(ask("bob").is_ok());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub fn check_all(requests: &[Request<'_>]) -> Result<(), DeniedBy> {
    let by = |index: usize| move |denied: Denied| DeniedBy { index, denied };
    for (index, Request { limit, key, n }) in requests.iter().enumerate() {
        Denied::unless_admitted(limit.peek(key, *n)).map_err(by(index))?;
    }
    for (index, Request { limit, key, n }) in requests.iter().enumerate() {
        if let Err(denied) = Denied::unless_admitted(limit.take_or_leave(key, *n)) {
            for Request { limit, key, n } in requests[..index].iter().rev() {
                limit.give_back(key, *n);
            }
            return Err(by(index)(denied));
        }
    }
    Ok(())
}
