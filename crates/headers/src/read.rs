//! The client's side: what a server told about its limits, in whichever generation of fields.

use std::time::Duration;

use http::HeaderMap;
use tollgate_core::Timestamp;

/// The form in which a server told it.
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

/// What a server told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Told {
    /// The form in which it did.
    pub generation: Generation,
    /// The limit's name.
    pub name: Option<String>,
    /// Permits per window.
    pub limit: Option<u64>,
    /// The window.
    pub window: Option<Duration>,
    /// Permits left.
    pub remaining: Option<u64>,
    /// Until there is more.
    pub reset_after: Option<Duration>,
    /// Until it makes sense to ask again, where the server said so.
    pub retry_after: Option<Duration>,
}

/// What the fields of an answer tell; `None` when they tell nothing that makes sense.
#[must_use]
pub fn read(fields: &HeaderMap, now: Timestamp) -> Option<Told> {
    let _ = (fields, now);
    None
}
