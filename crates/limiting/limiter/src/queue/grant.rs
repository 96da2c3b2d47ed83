//! What a request is granted.

use tollgate_core::Timestamp;

use crate::settle::ItemResult;

/// What a request was granted.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    /// From when on it may use its permits.
    pub(crate) act_at: Timestamp,
    /// When it was granted them.
    pub(crate) granted_at: Timestamp,
    /// The store has granted it, so that it can be given back there; else this node by its share.
    pub(crate) is_of_store: bool,
    /// For each of its hard items.
    pub(crate) results: Vec<ItemResult>,
    /// For each of its counters, in the order of its claims, if permits come back one by one there.
    pub(crate) acts: Vec<Option<Act>>,
}

/// What one counter has granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Act {
    /// From when on the permits may be used.
    pub(crate) at: Timestamp,
    /// When the counter has none left, if nobody takes any more.
    pub(crate) base: Timestamp,
    /// It may also be later.
    pub(crate) is_later: bool,
}

/// A grant of one that waits, or has left meanwhile.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) id: u64,
    /// What it wants of each of its counters.
    pub(crate) permits: Vec<u64>,
    pub(crate) grant: Grant,
}
