//! Listing the counters that a store keeps by name.

use crate::error::StoreName;

/// Most keys of one page of a listing.
pub const MAX_SCANNED: usize = 5_000;

/// A part of the counters of one listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// The counters, in no order. A key may come twice, also on two pages.
    pub keys: Vec<ScannedKey>,
    /// The beginning of the next page; `None` after the last.
    pub next: Option<String>,
}

/// One counter of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedKey {
    /// The counter's key, or the stored form of a long one.
    pub key: Vec<u8>,
    /// The kind of record under the key.
    pub kept: Kept,
}

/// The kind of record that a store keeps under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The state of a counter.
    Counter,
    /// The ledger of a leased counter.
    Ledger,
    /// The holders of slots.
    Slots,
}

impl Kept {
    /// The name in replies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Ledger => "leased",
            Self::Slots => "slots",
        }
    }
}

/// The reason why a store does not list its counters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The store keeps hashes of keys, or has no command that lists them.
    #[error("store {store} cannot list its keys; only a Redis store can")]
    Unsupported {
        /// The store that was asked.
        store: StoreName,
    },
    /// The cursor is not one of this store in its present state.
    #[error(
        "invalid cursor {0:?}: expected `next` of the page before; if a server was replaced, begin again"
    )]
    Cursor(String),
    /// The store did not answer.
    #[error("store {store} does not list its keys: {reason}")]
    Failed {
        /// The store that was asked.
        store: StoreName,
        /// The store's message.
        reason: String,
    },
}
