//! Counts of events of slots at this node, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate_core::Acquired;
use tollgate_observe::SlotStats;

/// Counts of events of slots at this node.
#[derive(Debug, Default)]
pub(crate) struct SlotEvents {
    acquired: AtomicU64,
    renewed: AtomicU64,
    denied: AtomicU64,
    released: AtomicU64,
    not_held: AtomicU64,
    expired: AtomicU64,
}

impl SlotEvents {
    /// Numbers for an observer.
    pub(crate) fn stats(&self) -> SlotStats {
        SlotStats {
            acquired: self.acquired.load(Relaxed),
            renewed: self.renewed.load(Relaxed),
            denied: self.denied.load(Relaxed),
            released: self.released.load(Relaxed),
            not_held: self.not_held.load(Relaxed),
            expired: self.expired.load(Relaxed),
        }
    }

    /// An attempt to acquire.
    pub(crate) fn acquired(&self, acquired: &Acquired) {
        let event = match (acquired.is_admitted(), acquired.is_renewal) {
            (true, false) => &self.acquired,
            (true, true) => &self.renewed,
            (false, _) => &self.denied,
        };
        event.fetch_add(1, Relaxed);
        self.expired.fetch_add(acquired.expired, Relaxed);
    }

    /// A release that freed a slot, or none.
    pub(crate) fn released(&self, was_held: bool) {
        let event = if was_held { &self.released } else { &self.not_held };
        event.fetch_add(1, Relaxed);
    }

    /// Slots that a release found expired.
    pub(crate) fn expired(&self, slots: u64) {
        self.expired.fetch_add(slots, Relaxed);
    }
}
