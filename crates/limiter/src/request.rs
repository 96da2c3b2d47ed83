//! What a transport asks.

use tollgate_core::QuotaError;
use tollgate_policy::{Entry, Unit};

/// One question: may this request pass, by the rules of `domain` for each of its descriptors?
///
/// # Example
/// ```
/// # use tollgate_limiter::{Descriptor, Entry, Request};
/// let entries = [Entry { key: "api_key", value: "k-17" }];
/// let request = Request { domain: "shop", descriptors: &[Descriptor::new(&entries)], hits: 1 };
/// assert!(request.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Whose rules; not empty.
    pub domain: &'a str,
    /// What is said of the request; at least one.
    pub descriptors: &'a [Descriptor<'a>],
    /// Permits that each descriptor asks for, where it does not say itself; zero peeks. (That a missing addend means one
    /// is the transport's business.)
    pub hits: u64,
}

/// One thing said of a request: entries in order, from the general to the special.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// The entries.
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
/// It takes the place of the rule's limits, and shares the counter of the rule's own fixed window of that unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOverride {
    /// Hits a window; zero refuses everything.
    pub requests_per_unit: u32,
    /// The window.
    pub unit: Unit,
}

/// Why a request cannot be decided. No permit was taken; asking again changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The domain is empty.
    #[error("the domain is empty; name the domain whose rules apply")]
    EmptyDomain,
    /// There is no descriptor.
    #[error("there is no descriptor; send at least one")]
    NoDescriptors,
    /// A number of hits of 2^63 or more, which no limit can mean.
    #[error("{hits} hits are more than can be meant; the most is 2^63 - 1")]
    HugeHits {
        /// Which descriptor says so; the request as a whole where `None`.
        descriptor: Option<usize>,
        /// What it says.
        hits: u64,
    },
    /// A limit that came with the request and cannot be counted.
    #[error("the limit that came with it cannot be counted: {0}")]
    Override(QuotaError),
}

/// The first number of hits that is refused.
const HUGE: u64 = 1 << 63;

impl Request<'_> {
    /// Whether it can be decided at all.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), RequestError> {
        if self.domain.is_empty() {
            return Err(RequestError::EmptyDomain);
        }
        if self.descriptors.is_empty() {
            return Err(RequestError::NoDescriptors);
        }
        if self.hits >= HUGE {
            return Err(RequestError::HugeHits { descriptor: None, hits: self.hits });
        }
        match self.descriptors.iter().position(|descriptor| descriptor.hits.is_some_and(|hits| hits >= HUGE))
        {
            Some(index) => Err(RequestError::HugeHits {
                descriptor: Some(index),
                hits: self.descriptors[index].hits.unwrap_or_default(),
            }),
            None => Ok(()),
        }
    }
}
