//! The state of one limit as these fields need it, and which of several is shown.

use std::cmp::Reverse;
use std::time::Duration;

use tollgate_core::{Decision, RetryAfter};

/// The state of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitState<'a> {
    /// The name that clients see: a `name` of the rule file, or the path of the rule; empty reads `default`.
    pub name: &'a str,
    /// Permits per window.
    pub limit: u64,
    /// The most permits that can remain; never less than `remaining`.
    pub burst: u64,
    /// The window; zero where there is none, as of a total.
    pub window: Duration,
    /// Permits that an immediate take could still get.
    pub remaining: u64,
    /// Until the quota is fully restored; [`u64::MAX`] ns and more when that is never.
    pub reset_after: Duration,
    /// Until the request would be admitted.
    pub retry_after: RetryAfter,
    /// It denied because the store was unavailable: the number of remaining permits is unknown.
    pub is_unknown: bool,
}

impl<'a> LimitState<'a> {
    /// The state of the limit `name` with this window after `decision`.
    #[must_use]
    pub const fn new(name: &'a str, window: Duration, decision: &Decision) -> Self {
        Self {
            name,
            limit: decision.limit(),
            burst: if decision.remaining() > decision.limit() {
                decision.remaining()
            } else {
                decision.limit()
            },
            window,
            remaining: decision.remaining(),
            reset_after: decision.reset_after(),
            retry_after: decision.retry_after(),
            is_unknown: false,
        }
    }
}

/// The limit that a client should respect: of those that deny the one with the longest wait, otherwise the
/// one with the fewest permits left (in permits, as the IETF drafts ask, not as a share), and among equals
/// the one that is full last.
///
/// `None` only for an empty list.
#[must_use]
pub fn most_restrictive<'s, 'a>(limits: &'s [LimitState<'a>]) -> Option<&'s LimitState<'a>> {
    // The first of equals: `min_by_key` keeps it.
    limits
        .iter()
        .min_by_key(|limit| (Reverse(limit.retry_after), limit.remaining, Reverse(limit.reset_after)))
}
