//! A server's limits, as read from the fields of its reply.

use std::time::Duration;

/// The form in which a server reported its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Generation {
    /// `RateLimit: "short";r=3;t=7`, IETF drafts 8 to 11.
    Draft11,
    /// `RateLimit: limit=10, remaining=3, reset=7`, IETF draft 7.
    Draft07,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset`, IETF drafts up to 6.
    Draft03,
    /// `X-RateLimit-…` or `X-Rate-Limit-…`.
    Legacy,
    /// Nothing but `Retry-After` or the like.
    RetryAfter,
}

/// A server's limits, as it reported them. If it reported several, this is the one with the fewest permits
/// left.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// The form of the server's report.
    pub generation: Generation,
    /// The limit's name.
    pub name: Option<String>,
    /// Permits per window.
    pub limit: Option<u64>,
    /// Length of the window, where the server reported it.
    pub window: Option<Duration>,
    /// Permits left, where the server reported them.
    pub remaining: Option<u64>,
    /// Time until there are more permits, or all, depending on the server.
    pub reset_after: Option<Duration>,
    /// Time until a retry can succeed, where the server reported it.
    pub retry_after: Option<Duration>,
}

impl Reading {
    pub(crate) const fn nothing(generation: Generation) -> Self {
        Self {
            generation,
            name: None,
            limit: None,
            window: None,
            remaining: None,
            reset_after: None,
            retry_after: None,
        }
    }

    /// The time to hold back: as long as the server asked, otherwise until the reset when no permit is left.
    ///
    /// `Retry-After` comes first, as the IETF drafts ask.
    #[must_use]
    pub fn wait(&self) -> Duration {
        let reset_after = || if self.remaining == Some(0) { self.reset_after } else { None };
        self.retry_after.or_else(reset_after).unwrap_or_default()
    }
}
