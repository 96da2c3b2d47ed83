//! Listing the counters that a store keeps by name.

use crate::error::StoreName;

/// Most keys of one page of a listing.
pub const MAX_SCANNED: usize = 5_000;

/// A part of the counters of one listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// In no order. A key may come twice, also on two pages.
    pub keys: Vec<ScannedKey>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<String>,
}

/// One counter of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedKey {
    /// The counter's key, or what the store keeps of one that is long.
    pub key: Vec<u8>,
    /// What is kept under it.
    pub kept: Kept,
}

/// What a store keeps under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The counter.
    Counter,
    /// The ledger of a leased counter.
    Ledger,
    /// The holders of slots.
    Slots,
}

impl Kept {
    /// As replies name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Ledger => "leased",
            Self::Slots => "slots",
        }
    }
}

/// Why a store does not list its counters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// It keeps hashes of keys, or has no command that lists them.
    #[error("store {store} cannot list its keys; only a Redis store can")]
    Unsupported {
        /// Which store.
        store: StoreName,
    },
    /// The cursor is not of this store as it is now.
    #[error(
        "invalid cursor {0:?}: expected `next` of the page before; if a server was replaced, begin again"
    )]
    Cursor(String),
    /// The store did not answer.
    #[error("store {store} does not list its keys: {reason}")]
    Failed {
        /// Which store.
        store: StoreName,
        /// What it said.
        reason: String,
    },
}
