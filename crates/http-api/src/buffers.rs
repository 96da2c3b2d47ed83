//! Buffers of one request, used again by the next on the same thread.

use std::cell::RefCell;

use tollgate_limiter::Scratch;

use crate::parsed::Room;

/// What a request needs besides its own bytes.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) room: Room,
    pub(crate) scratch: Scratch,
    pub(crate) out: Vec<u8>,
}

/// Desks that a thread keeps: as many as requests are usually under way at once, since only a slow store makes more than one.
const KEPT: usize = 16;
/// What is kept of a grown buffer; a rare large answer does not hold its memory for ever.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    #[expect(clippy::vec_box, reason = "a desk is some hundred bytes, and moves twice a request")]
    static DESKS: RefCell<Vec<Box<Desk>>> = const { RefCell::new(Vec::new()) };
}

impl Desk {
    /// One of this thread's, or a new one.
    pub(crate) fn take() -> Box<Self> {
        DESKS.with(|desks| desks.try_borrow_mut().ok().and_then(|mut desks| desks.pop())).unwrap_or_default()
    }

    /// Back to this thread. One that is not put back, as after a panic, is simply gone.
    pub(crate) fn put_back(mut self: Box<Self>) {
        self.out.clear();
        self.out.shrink_to(KEPT_BYTES);
        DESKS.with(|desks| {
            if let Ok(mut desks) = desks.try_borrow_mut()
                && desks.len() < KEPT
            {
                desks.push(self);
            }
        });
    }
}
