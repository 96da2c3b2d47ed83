//! The store's statistics, for metrics.

use std::ops::Add;

/// A reading of the store's counters. They are read one after another, so that they may differ by changes
/// meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Keys that have a place in the store. Includes states that have expired and whose place was not reused
    /// yet, so this is an upper bound of the live keys.
    pub tracked_keys: u64,
    /// Bytes held for states.
    pub bytes: u64,
    /// The most bytes that may be held ([`MemoryConfig::max_bytes`](crate::MemoryConfig::max_bytes)).
    pub max_bytes: u64,
    /// States dropped before they expired, because the store was at its cap.
    pub evictions: u64,
    /// Places of expired states that were given to other keys.
    pub expired_reuses: u64,
}

impl Add for MemoryStats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            tracked_keys: self.tracked_keys + other.tracked_keys,
            bytes: self.bytes + other.bytes,
            max_bytes: self.max_bytes + other.max_bytes,
            evictions: self.evictions + other.evictions,
            expired_reuses: self.expired_reuses + other.expired_reuses,
        }
    }
}
