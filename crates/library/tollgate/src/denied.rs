//! The two answers of a check: a denial is an error.

use std::time::Duration;

use tollgate_core::{Decision, RetryAfter};

/// The permits were taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Admitted(Decision);

impl Admitted {
    /// Delay after which to act: zero, except where the quota paces ([`Quota::leaky_queue`](crate::Quota)).
    #[must_use]
    #[inline]
    pub const fn delay(&self) -> Duration {
        self.0.delay()
    }

    /// Permits that are left now.
    #[must_use]
    #[inline]
    pub const fn remaining(&self) -> u64 {
        self.0.remaining()
    }

    /// The decision, with further numbers for replies to clients: limit, time until full.
    #[inline]
    pub const fn decision(&self) -> Decision {
        self.0
    }
}

/// A limit denied the request. Nothing was taken (a fixed window has counted the attempt).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Denied(Decision);

impl Denied {
    /// The decision as a result.
    #[inline(always)]
    pub(crate) fn unless_admitted(decision: Decision) -> Result<Admitted, Self> {
        if decision.is_admitted() { Ok(Admitted(decision)) } else { Err(Self(decision)) }
    }

    /// Time until the same permits would be there, if nothing else is taken meanwhile: a retry after exactly
    /// this span passes. `None` when they never are: more than the quota can ever hold.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.0.retry_after() {
            RetryAfter::Now => Some(Duration::ZERO),
            RetryAfter::After(span) => Some(span),
            RetryAfter::Never => None,
        }
    }

    /// The decision, with the numbers for replies to clients: limit, remaining permits, time until full.
    pub const fn decision(&self) -> Decision {
        self.0
    }
}

impl std::fmt::Display for Denied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.retry_after() {
            Some(span) => write!(f, "rate limit exceeded; retry in {span:?}"),
            None => write!(f, "rate limit exceeded; no wait helps, ask for fewer permits"),
        }
    }
}

impl std::error::Error for Denied {}

/// The text for people: `main` and `unwrap` print errors in this form.
impl std::fmt::Debug for Denied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Denied")
            .field("retry_after", &self.retry_after())
            .field("limit", &self.0.limit())
            .field("remaining", &self.0.remaining())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Admitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admitted")
            .field("delay", &self.delay())
            .field("limit", &self.0.limit())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// One of several limits denied. Nothing was taken from any limit. Its message says which one; `denied`, its
/// source, says when to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit {index} of those asked")]
pub struct DeniedBy {
    /// Index of the request, counted from 0.
    pub index: usize,
    /// Denial of that request.
    #[source]
    pub denied: Denied,
}
