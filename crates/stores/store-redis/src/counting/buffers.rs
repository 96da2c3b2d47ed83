//! The buffers of one flight, which the next one uses again, so that they are allocated once.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate_redis_link::Waiter;

use crate::ask::{Answer, Ask};

/// Most emptied lists that are kept for the next flight, and the largest capacity of one.
const MOST_SPARE: usize = 256;
const SPARE_CAPACITY: usize = 4;

/// The lists of a request that is over.
type Emptied = (Vec<Ask>, Vec<Option<Waiter<Answer>>>);

/// The buffers of one flight, which the next one uses again.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// Arguments of steps.
    pub(super) arguments: Vec<u8>,
    /// By the hash of a key: the last request about it, to merge with.
    pub(super) last: HashMap<u64, usize, RandomState>,
    pub(super) hasher: RandomState,
    pub(super) answers: Vec<Answer>,
    spare: Vec<Emptied>,
}

impl Buffers {
    /// Empty lists, those of an earlier request where there are any.
    pub(super) fn lists(&mut self) -> Emptied {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps the lists of a request that is over.
    pub(super) fn keep(&mut self, asks: &mut Vec<Ask>, waiters: &mut Vec<Option<Waiter<Answer>>>) {
        if self.spare.len() < MOST_SPARE && asks.capacity() <= SPARE_CAPACITY {
            asks.clear();
            self.spare.push((std::mem::take(asks), std::mem::take(waiters)));
        }
    }
}
