//! Buffers of one request, used again by the next on the same thread.

use std::cell::RefCell;

use bytes::BytesMut;
use tollgate_limiter::Scratch;

use crate::sheet::Room;

/// What a request needs besides its own bytes.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) room: Room,
    pub(crate) scratch: Scratch,
    pub(crate) out: BytesMut,
}

/// Desks that a thread keeps: as many as requests are usually under way at once, since only a slow store makes more than one.
const KEPT: usize = 16;

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
    pub(crate) fn put_back(self: Box<Self>) {
        DESKS.with(|desks| {
            if let Ok(mut desks) = desks.try_borrow_mut()
                && desks.len() < KEPT
            {
                desks.push(self);
            }
        });
    }
}
