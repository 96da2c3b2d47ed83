//! A guard that holds slots.

use std::sync::Arc;

use super::room::Room;

/// Slots held. They are given up when the guard is dropped: at the end of the scope, when the code within
/// panics, when the task that holds it is cancelled.
///
/// A guard cannot be cloned, and giving it up consumes it, so no slot is released twice:
///
/// ```compile_fail,E0382
/// let guard = tollgate::ConcurrencyLimiter::direct(1).try_enter().unwrap();
/// drop(guard);
/// drop(guard); // error: use of moved value
/// ```
///
/// A guard that is leaked, by [`std::mem::forget`] or a cycle of reference counts, keeps its slots for good.
/// [`set_limit`](crate::ConcurrencyLimiter::set_limit) can make up for them.
#[derive(Debug)]
#[must_use = "the slots are given up when the guard is dropped"]
pub struct ConcurrencyGuard {
    room: Arc<Room>,
    slots: u64,
}

impl ConcurrencyGuard {
    /// Holds slots that were taken.
    pub(crate) const fn new(room: Arc<Room>, slots: u64) -> Self {
        Self { room, slots }
    }

    /// Number of slots that it holds.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        self.slots
    }
}

impl Drop for ConcurrencyGuard {
    fn drop(&mut self) {
        self.room.leave(self.slots);
    }
}
