//! The queue of a limiter behind its lock, and the work after the lock is released.

use std::mem::take;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::task::{Poll, Waker};

use parking_lot::{Mutex, MutexGuard};

use tollgate_core::{Clock, Timestamp};

use super::queue::{Queue, Ticket};
use super::waiter::Waiter;
#[cfg(feature = "tokio")]
use crate::tokio_clock::TokioClock as RealTime;
#[cfg(not(feature = "tokio"))]
use tollgate_clock::MonotonicClock as RealTime;

/// The most waiters of a limiter, of all its keys together, unless it is set otherwise.
const MOST_WAITING: usize = 100_000;

#[derive(Debug)]
pub(crate) struct Waiting {
    /// Number of callers that wait, readable without the lock. Changed before the state when a waiter comes,
    /// so that a caller that changes a state and then finds 0 here has changed it before any waiter saw it.
    count: AtomicUsize,
    most: AtomicUsize,
    queue: Mutex<Queue>,
    real: RealTime,
    #[cfg(feature = "tokio")]
    pub(crate) changed: tokio::sync::Notify,
}

impl Waiting {
    pub(crate) fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            most: AtomicUsize::new(MOST_WAITING),
            queue: Mutex::default(),
            real: RealTime::new(),
            #[cfg(feature = "tokio")]
            changed: tokio::sync::Notify::new(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        fence(Ordering::SeqCst); // after what the caller has changed
        self.count.load(Ordering::SeqCst)
    }

    /// The time that passes for callers, independent of the limiter's clock.
    pub(crate) fn real_time(&self) -> Timestamp {
        self.real.now()
    }

    /// The most callers that may wait.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    pub(crate) fn set_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.queue.is_locked()
    }

    /// Takes the waiter of `ticket` out once it stands in no line any more; until then, `waker` is woken when
    /// that happens. `None` if there is no such waiter; the ticket is used up.
    pub(crate) fn poll(&self, ticket: &mut Option<Ticket>, waker: &Waker) -> Poll<Option<Waiter>> {
        let mut queue = self.lock();
        let waiter = ticket.and_then(|ticket| queue.waiter(ticket));
        if let Some(in_line) = waiter.and_then(Waiter::in_line_mut) {
            let old = in_line.waker.replace(waker.clone());
            drop(queue);
            drop(old); // it may be the last of a task
            return Poll::Pending;
        }
        Poll::Ready(ticket.take().and_then(|ticket| queue.collect(ticket)))
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked {
            queue: self.queue.lock(),
            after: AfterUnlock { of: self, is_changed: false, wake: Vec::new() },
        }
    }
}

/// The queue, locked. Wakers run after it is unlocked: they may come back here.
pub(crate) struct Locked<'a> {
    queue: MutexGuard<'a, Queue>,
    after: AfterUnlock<'a>, // dropped after the guard
}

impl Locked<'_> {
    /// Wakes a waiter after the lock is released.
    pub(crate) fn wake(&mut self, waker: Option<Waker>) {
        self.after.wake.extend(waker);
    }

    /// Announces a waiter before it joins.
    pub(crate) fn announce(&self) {
        self.after.of.count.store(self.queue.waiting() + 1, Ordering::SeqCst);
        fence(Ordering::SeqCst); // before what the waiter changes
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.after.of.count.store(self.queue.waiting(), Ordering::SeqCst);
        let next = self.queue.next_turn();
        let looks = self.queue.driven_at;
        // Whether the task with the timer has to look earlier, or has nothing more to do.
        self.after.is_changed =
            looks.is_some_and(|looks| !self.queue.has_tasks() || next.is_some_and(|next| next < looks));
    }
}

impl Deref for Locked<'_> {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.queue
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }
}

struct AfterUnlock<'a> {
    of: &'a Waiting,
    is_changed: bool,
    wake: Vec<Waker>,
}

impl Drop for AfterUnlock<'_> {
    fn drop(&mut self) {
        #[cfg(feature = "tokio")]
        if self.is_changed {
            self.of.changed.notify_one();
        }
        take(&mut self.wake).into_iter().for_each(Waker::wake);
    }
}
