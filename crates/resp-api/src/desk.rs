//! The buffers of one turn. A connection borrows them when bytes have come and gives them back when it waits for more, so
//! that a thread needs as many as it has connections at work, and a silent connection has none.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use tollgate_limiter::Scratch;

use crate::check::{Check, Checks};
use crate::parse::Span;
use crate::throttle::Run;

/// Bytes read at once; with what one command costs at most, that bounds a connection's turn.
pub(crate) const INPUT: usize = 16 * 1024;
/// Replies are written when there are so many bytes of them, so that a connection that does not read them holds few.
pub(crate) const OUTPUT: usize = 32 * 1024;
/// Desks a thread keeps that nobody uses.
const KEPT: usize = 4;

/// Buffers, used again and again.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) input: Box<[u8]>,
    pub(crate) tools: Tools,
}

/// All of them but the input, which commands are read from meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    pub(crate) arguments: Vec<Span>,
    pub(crate) run: Run,
    pub(crate) check: Check,
    pub(crate) checks: Checks,
    pub(crate) scratch: Scratch,
    /// Replies to be written.
    pub(crate) out: Vec<u8>,
    /// They were used for a large command, and are not kept.
    pub(crate) is_large: bool,
}

/// A desk that goes back when it is dropped.
#[derive(Debug)]
pub(crate) struct Lent(Option<Box<Desk>>);

thread_local!(#[expect(clippy::vec_box, reason = "a desk is lent by its address")] static DESKS: RefCell<Vec<Box<Desk>>> = const { RefCell::new(Vec::new()) });

/// A desk of this thread.
#[inline]
pub(crate) fn lend() -> Lent {
    let desk = DESKS.with_borrow_mut(Vec::pop);
    Lent(Some(desk.unwrap_or_else(|| Box::new(Desk::new()))))
}

impl Desk {
    #[cold]
    fn new() -> Self {
        Self { input: vec![0; INPUT].into_boxed_slice(), tools: Tools::default() }
    }
}

impl Deref for Lent {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        self.0.as_deref().unwrap_or_else(|| unreachable!("given back on drop only"))
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Desk {
        self.0.as_deref_mut().unwrap_or_else(|| unreachable!("given back on drop only"))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(mut desk) = self.0.take() else { return };
        let tools = &mut desk.tools;
        if tools.is_large {
            *tools = Tools::default();
        }
        tools.run.abandon();
        tools.checks.abandon();
        tools.arguments.clear();
        tools.out.clear();
        tools.out.shrink_to(2 * OUTPUT);
        // At a thread's end there is nowhere to put it.
        let _ = DESKS.try_with(|desks| {
            if let Ok(mut desks) = desks.try_borrow_mut()
                && desks.len() < KEPT
            {
                desks.push(desk);
            }
        });
    }
}
