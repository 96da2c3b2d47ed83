//! Requests of transports to the limiter.

use tollgate_core::QuotaError;
use tollgate_policy::{Entry, Unit};

/// A request to decide by the rules of `domain`.
///
/// # Example
/// ```
/// # use tollgate_limiter::{Descriptor, Entry, Request};
/// let entries = [Entry::new("api_key", "k-17")];
/// let request = Request { domain: "shop", descriptors: &[Descriptor::new(&entries)], hits: 1 };
/// assert!(request.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The domain whose rules apply; not empty.
    pub domain: &'a str,
    /// Descriptions of the request; at least one descriptor.
    pub descriptors: &'a [Descriptor<'a>],
    /// Permits for each descriptor without a number of its own, at most [`MAX_HITS`]; zero peeks. (Transports
    /// turn a missing number into one.)
    pub hits: u64,
}

/// One description of a request: entries in order, from the general to the specific.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// Key and value of each entry, from the general to the specific.
    pub entries: &'a [Entry<'a>],
    /// Permits asked for by this descriptor; the request's where `None`. Zero peeks.
    pub hits: Option<u64>,
    /// A limit to use instead of the rules'.
    pub limit: Option<LimitOverride>,
}

impl<'a> Descriptor<'a> {
    /// A descriptor that leaves hits to the request and limits to the rules.
    #[must_use]
    pub const fn new(entries: &'a [Entry<'a>]) -> Self {
        Self { entries, hits: None, limit: None }
    }
}

/// A limit that came with a request: `requests_per_unit` hits a calendar window of `unit`.
///
/// It takes the place of the rule's limits, and shares the counter of the rule's own fixed window of that
/// unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOverride {
    /// Hits per window; zero denies everything.
    pub requests_per_unit: u32,
    /// The window, by its unit.
    pub unit: Unit,
}

/// Why a request is invalid. No permit was taken; a retry fails the same way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The domain is empty.
    #[error("the domain is empty; name the domain whose rules apply")]
    EmptyDomain,
    /// There is no descriptor.
    #[error("there is no descriptor; send at least one")]
    NoDescriptors,
    /// The rule caps concurrency, which needs a holder.
    #[error(
        "rule {rule} limits what runs at the same time, so there are no permits to take; acquire a slot and \
         release it (docs/concurrency.md)"
    )]
    NeedsHolder {
        /// Path of the rule, such as `api_key → plan=gold`.
        rule: String,
    },
    /// The request's own limit cannot be counted.
    #[error("the limit that came with it cannot be counted: {0}")]
    Override(QuotaError),
}

/// The most permits that a descriptor asks for; larger numbers are reduced to it, since a client may have
/// chosen them.
pub const MAX_HITS: u64 = (1 << 63) - 1;

impl Request<'_> {
    /// Checks that it can be decided.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> Result<(), RequestError> {
        if self.domain.is_empty() {
            return Err(RequestError::EmptyDomain);
        }
        if self.descriptors.is_empty() {
            return Err(RequestError::NoDescriptors);
        }
        Ok(())
    }
}
