//! Permits of several limiters and keys, all or nothing.
//!
//! First every request is decided without taking anything; only if all fit are they taken, one after another.
//! A check in between may have been faster: then what was taken already is given back. Fixed windows come
//! last: they count what they deny, so a permit that is given back to them may have been denied to a caller
//! for the rest of the window.

use std::fmt;

use tollgate_core::{Algorithm, Clock, Decision};

use crate::denied::{Denied, DeniedBy};
use crate::engine::Engine;
use crate::key::KeyBytes;
use crate::states::States;

/// What one request asks of an engine.
trait Limit: Send + Sync {
    fn peek(&self, key: &[u8], n: u64) -> Decision;
    /// Whether an attempt counts that is denied.
    fn counts_denials(&self, key: &[u8]) -> bool;
    fn take_or_leave(&self, key: &[u8], n: u64) -> Decision;
    fn give_back(&self, key: &[u8], n: u64);
}

impl<S: States, C: Clock> Limit for Engine<S, C> {
    fn peek(&self, key: &[u8], n: u64) -> Decision {
        self.peek(key, n)
    }

    fn counts_denials(&self, key: &[u8]) -> bool {
        matches!(self.in_force_of(key, self.now()).quota.algorithm(), Algorithm::FixedWindow { .. })
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
/// Of several fixed windows, one may lose a permit for the rest of its window: where this call has taken it,
/// a check is denied and counted meanwhile, and another of the windows then turns out to be full.
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
    let in_order = || {
        let of_kind = |counts: bool| {
            requests.iter().enumerate().filter(move |(_, it)| it.limit.counts_denials(&it.key) == counts)
        };
        of_kind(false).chain(of_kind(true))
    };
    for (taken, (index, Request { limit, key, n })) in in_order().enumerate() {
        if let Err(denied) = Denied::unless_admitted(limit.take_or_leave(key, *n)) {
            for (_, Request { limit, key, n }) in in_order().take(taken) {
                limit.give_back(key, *n);
            }
            return Err(by(index)(denied));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    /// Shows permits to whoever looks; whether it has any is another matter.
    struct Shows {
        counts_denials: bool,
        has_any: bool,
        taken: AtomicI64,
        given_back: AtomicI64,
    }

    impl Shows {
        fn new(counts_denials: bool, has_any: bool) -> Self {
            Self { counts_denials, has_any, taken: AtomicI64::new(0), given_back: AtomicI64::new(0) }
        }
    }

    impl Limit for Shows {
        fn peek(&self, _: &[u8], _: u64) -> Decision {
            Decision::admit(1, 0, 0)
        }

        fn counts_denials(&self, _: &[u8]) -> bool {
            self.counts_denials
        }

        fn take_or_leave(&self, _: &[u8], _: u64) -> Decision {
            if !self.has_any {
                return Decision::deny(1, 0, 1, 1);
            }
            self.taken.fetch_add(1, Ordering::Relaxed);
            Decision::admit(1, 0, 0)
        }

        fn give_back(&self, _: &[u8], _: u64) {
            self.given_back.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_fixed_window_gives_nothing_back_for_a_bucket_that_is_faster_taken() {
        let (window, bucket) = (Shows::new(true, true), Shows::new(false, true));
        let taken_by_another = Shows::new(false, false);
        let request = |limit| Request { limit, key: KeyBytes::borrowed(b""), n: 1 };
        let denied = check_all(&[request(&window), request(&bucket), request(&taken_by_another)]);
        assert_eq!(denied.map_err(|denied| denied.index), Err(2));
        let seen =
            |limit: &Shows| (limit.taken.load(Ordering::Relaxed), limit.given_back.load(Ordering::Relaxed));
        assert_eq!((seen(&window), seen(&bucket)), ((0, 0), (1, 1)));
        assert_eq!(check_all(&[request(&window), request(&bucket)]), Ok(()));
    }
}
