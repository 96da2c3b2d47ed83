//! Permits granted to a request that waits.

use tollgate_core::Timestamp;

use crate::settle::ItemResult;

/// The permits that were granted to a request.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    /// The instant from which it may use its permits.
    pub(crate) act_at: Timestamp,
    /// The instant at which the permits were granted.
    pub(crate) granted_at: Timestamp,
    /// The store has granted it, so it can be given back there; otherwise this node granted it by its share.
    pub(crate) is_of_store: bool,
    /// Results of its hard items.
    pub(crate) results: Vec<ItemResult>,
    /// The grants of its counters, in the order of its claims; `None` where permits do not come back one by
    /// one.
    pub(crate) acts: Vec<Option<Act>>,
}

/// The permits that one counter has granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Act {
    /// The instant from which the permits may be used.
    pub(crate) at: Timestamp,
    /// The instant at which the counter has no permits left, if no other caller takes any.
    pub(crate) base: Timestamp,
    /// `base` may also be later.
    pub(crate) is_later: bool,
}

/// A grant for a request that waits, or has left meanwhile.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) id: u64,
    /// The permits that it wants of each of its counters.
    pub(crate) permits: Vec<u64>,
    pub(crate) grant: Grant,
}
