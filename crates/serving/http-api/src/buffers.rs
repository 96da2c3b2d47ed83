//! The buffers of one request, used again by the next on the same thread.

use std::thread::LocalKey;

use tollgate_buffers::{BufferPool, Buffers};
use tollgate_limiter::Scratch;

use crate::parsed::Lists;

/// Buffers of a request besides its own bytes.
#[derive(Debug, Default)]
pub(crate) struct RequestBuffers {
    pub(crate) lists: Lists,
    pub(crate) scratch: Scratch,
    pub(crate) out: Vec<u8>,
}

/// Bytes that a grown output keeps; a rare large reply does not hold its memory for ever.
const KEPT_BYTES: usize = 64 * 1024;

thread_local!(static POOL: BufferPool<RequestBuffers> = const { BufferPool::new() });

impl Buffers for RequestBuffers {
    /// As many as requests are usually in flight, since only a slow store makes more than one.
    const KEPT: usize = 16;

    fn pool() -> &'static LocalKey<BufferPool<Self>> {
        &POOL
    }

    fn reset(&mut self) {
        self.out.clear();
        self.out.shrink_to(KEPT_BYTES);
    }
}
