//! Permits of several limiters and keys, all or nothing.
//!
//! First every request is decided without taking anything; only if all fit are they taken, one after another.
//! A check in between may have been faster: then the permits taken so far are given back. Fixed windows come
//! last: they count denied requests, so a permit that is given back to them may have been denied to a caller
//! for the rest of the window.
//!
//! If several limits deny, the denial with the longest wait is returned: no retry passes before its end.
//! Requests of one limiter and key are one request for their sum, since only the sum says how long all of
//! them wait.

use std::fmt;

use tollgate_core::{Algorithm, Clock, Decision};

use crate::denied::{Denied, DeniedBy};
use crate::engine::Engine;
use crate::key::KeyBytes;
use crate::states::States;

/// The operations that one request needs of an engine.
trait Limit: Send + Sync {
    fn peek(&self, key: &[u8], n: u64) -> Decision;
    /// Whether a denied attempt is counted.
    fn counts_denials(&self, key: &[u8]) -> bool;
    fn take_or_leave(&self, key: &[u8], n: u64) -> Decision;
    /// Makes a key that does not start full begin to fill.
    fn start_refill(&self, key: &[u8]);
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

    fn start_refill(&self, key: &[u8]) {
        if self.in_force_of(key, self.now()).quota.starts_partial() {
            self.start_refill(key);
        }
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

    fn is_of_the_same(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self.limit, other.limit) && self.key[..] == other.key[..]
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("key", &self.key).field("n", &self.n).finish_non_exhaustive()
    }
}

/// Takes the permits of every request, or of none: several limits on one thing, several keys, or both.
/// Requests of the same limiter and key count as one, for the sum of their permits.
///
/// # Errors
/// [`DeniedBy`] says which request was denied, and when all may pass: of several that are denied, the one
/// with the longest wait. A retry after exactly this wait passes if nothing else is taken meanwhile. Nothing
/// was taken of any, also where a check would have counted the attempt.
///
/// With several fixed windows, one of them may lose a permit for the rest of its window: while this call
/// holds the permit, a check is denied and counted, and then another of the windows turns out to be full.
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
    if let Some(denied) = longest_denial(requests) {
        return Err(denied);
    }
    let in_order = || {
        let of_kind = |counts: bool| {
            sums(requests).filter(move |(index, _)| {
                let Request { limit, key, .. } = &requests[*index];
                limit.counts_denials(key) == counts
            })
        };
        of_kind(false).chain(of_kind(true))
    };
    for (taken, (index, sum)) in in_order().enumerate() {
        let Request { limit, key, .. } = &requests[index];
        if let Err(denied) = Denied::unless_admitted(limit.take_or_leave(key, sum)) {
            for (index, sum) in in_order().take(taken) {
                let Request { limit, key, .. } = &requests[index];
                limit.give_back(key, sum);
            }
            // Other callers were faster, maybe also at limits further down.
            let denied = DeniedBy { index, denied };
            return Err(longer(Some(denied), longest_denial(requests)).unwrap_or(denied));
        }
    }
    Ok(())
}

/// The first request of each limiter and key, with the sum of the permits of all its requests.
fn sums<'a>(requests: &'a [Request<'_>]) -> impl Iterator<Item = (usize, u64)> + 'a {
    let sum = |first: &Request<'_>| {
        let same = requests.iter().filter(|request| request.is_of_the_same(first));
        same.fold(0, |sum: u64, request| sum.saturating_add(request.n))
    };
    let is_first = |index: usize| !requests[..index].iter().any(|it| it.is_of_the_same(&requests[index]));
    (0..requests.len()).filter(move |index| is_first(*index)).map(move |index| (index, sum(&requests[index])))
}

/// The denial with the longest wait, if any request does not fit. Takes nothing.
fn longest_denial(requests: &[Request<'_>]) -> Option<DeniedBy> {
    let mut longest = None;
    for (index, sum) in sums(requests) {
        let Request { limit, key, .. } = &requests[index];
        if let Err(denied) = Denied::unless_admitted(limit.peek(key, sum)) {
            limit.start_refill(key); // as any denied request does
            let index = first_denied(requests, index);
            longest = longer(longest, Some(DeniedBy { index, denied }));
        }
    }
    longest
}

/// Index of the first request that does not fit, among those of the limiter and key at `first`.
#[cold]
fn first_denied(requests: &[Request<'_>], first: usize) -> usize {
    let Request { limit, key, .. } = &requests[first];
    let mut sum = 0_u64;
    let mut last = first;
    for (index, request) in requests.iter().enumerate().skip(first) {
        if !request.is_of_the_same(&requests[first]) {
            continue;
        }
        (sum, last) = (sum.saturating_add(request.n), index);
        if !limit.peek(key, sum).is_admitted() {
            break;
        }
    }
    last
}

/// The denial with the longer wait; the first one if the waits are equal.
fn longer(first: Option<DeniedBy>, second: Option<DeniedBy>) -> Option<DeniedBy> {
    let wait = |denied: &DeniedBy| denied.denied.decision().retry_after();
    match (first, second) {
        (Some(first), Some(second)) if wait(&second) > wait(&first) => Some(second),
        (first, second) => first.or(second),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    /// Reports permits to a look, whether it has any or not.
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

        fn start_refill(&self, _: &[u8]) {}

        fn give_back(&self, _: &[u8], _: u64) {
            self.given_back.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_fixed_window_gives_nothing_back_for_a_bucket_that_is_faster_taken() {
        let window = Shows::new(true, true);
        let bucket = Shows::new(false, true);
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
