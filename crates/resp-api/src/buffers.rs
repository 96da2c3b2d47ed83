//! The buffers of one turn.
//!
//! A connection borrows them when bytes have arrived and returns them when it waits for more, so that a thread needs as
//! many as it has busy connections, and an idle connection has none.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use crate::batch::Batch;
use crate::parse::Span;

/// Bytes read at once. They bound a connection's turn, since they hold a bounded number of commands.
pub(crate) const INPUT: usize = 16 * 1024;
/// Replies are written when they reach this many bytes, so that a client that does not read them ties up few.
pub(crate) const OUTPUT: usize = 32 * 1024;
/// Unused buffers that a thread keeps.
const KEPT: usize = 4;

/// Buffers of one turn.
#[derive(Debug)]
pub(crate) struct Buffers {
    pub(crate) input: Box<[u8]>,
    pub(crate) work: Work,
}

/// Everything except the input, which the arguments of commands point into.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) arguments: Vec<Span>,
    pub(crate) batch: Batch,
    /// Replies to be written.
    pub(crate) out: Vec<u8>,
    /// It was used for a large command, and is not kept.
    pub(crate) is_large: bool,
}

/// Buffers that return to their thread when dropped.
#[derive(Debug)]
pub(crate) struct Borrowed(Option<Box<Buffers>>);

thread_local!(#[expect(clippy::vec_box, reason = "buffers are moved by their address")] static POOL: RefCell<Vec<Box<Buffers>>> = const { RefCell::new(Vec::new()) });

/// Buffers of the current thread.
#[inline]
pub(crate) fn borrow() -> Borrowed {
    let buffers = POOL.with_borrow_mut(Vec::pop);
    Borrowed(Some(buffers.unwrap_or_else(|| Box::new(Buffers::new()))))
}

impl Buffers {
    #[cold]
    fn new() -> Self {
        Self { input: vec![0; INPUT].into_boxed_slice(), work: Work::default() }
    }
}

impl Deref for Borrowed {
    type Target = Buffers;

    fn deref(&self) -> &Buffers {
        self.0.as_deref().unwrap_or_else(|| unreachable!("taken only on drop"))
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut Buffers {
        self.0.as_deref_mut().unwrap_or_else(|| unreachable!("taken only on drop"))
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let Some(mut buffers) = self.0.take() else { return };
        let work = &mut buffers.work;
        if work.is_large {
            *work = Work::default();
        }
        work.batch.clear();
        work.arguments.clear();
        work.out.clear();
        work.out.shrink_to(2 * OUTPUT);
        // At the end of a thread its pool is gone.
        let _ = POOL.try_with(|pool| {
            if let Ok(mut pool) = pool.try_borrow_mut()
                && pool.len() < KEPT
            {
                pool.push(buffers);
            }
        });
    }
}
