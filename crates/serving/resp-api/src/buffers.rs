//! The buffers of one turn.
//!
//! A connection takes them when bytes have arrived and returns them when it waits for more, so that a thread
//! needs as many as it has busy connections, and an idle connection has none.

use std::thread::LocalKey;

use tollgate_buffers::{BufferPool, Buffers};

use crate::batch::Batch;
use crate::parse::ArgumentRange;

/// Bytes read at once. They bound a connection's turn, since they hold a bounded number of commands.
pub(crate) const INPUT: usize = 16 * 1024;
/// Replies are written when they reach this many bytes, so that a client that does not read them ties up few.
pub(crate) const OUTPUT: usize = 32 * 1024;

thread_local!(static POOL: BufferPool<TurnBuffers> = const { BufferPool::new() });

/// Buffers of one turn.
#[derive(Debug)]
pub(crate) struct TurnBuffers {
    pub(crate) input: Box<[u8]>,
    pub(crate) work: Work,
}

/// Everything except the input, which the arguments of commands point into.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) arguments: Vec<ArgumentRange>,
    pub(crate) batch: Batch,
    /// Replies to be written.
    pub(crate) out: Vec<u8>,
    /// It was used for a large command, and is not kept.
    pub(crate) is_large: bool,
}

impl Default for TurnBuffers {
    #[cold]
    fn default() -> Self {
        Self { input: vec![0; INPUT].into_boxed_slice(), work: Work::default() }
    }
}

impl Buffers for TurnBuffers {
    const KEPT: usize = 4;

    fn pool() -> &'static LocalKey<BufferPool<Self>> {
        &POOL
    }

    fn reset(&mut self) {
        let work = &mut self.work;
        if work.is_large {
            *work = Work::default();
        }
        work.batch.clear();
        work.arguments.clear();
        work.out.clear();
        work.out.shrink_to(2 * OUTPUT);
    }
}
