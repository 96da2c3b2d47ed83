//! A link: what one lane has of one server for one kind of traffic: a queue, the connections behind it and the task that drives both.
//! What arrives while as many flights are in the air as may be (`pace`) rides the next. Not here: which server keeps which key, and
//! what flights hold.

mod drive;
mod fly;
mod line;
mod pace;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::time::Instant;

use crate::figures::add;
use crate::flight::Item;
use crate::hub::{Hub, Traffic};
use crate::lane::Lane;
use crate::topology::Node;
use crate::trouble::{Kind, Trouble};

/// Places of an empty queue that are kept.
const KEPT: usize = 1024;

/// One connection's end that callers see.
#[derive(Debug)]
pub(crate) struct Link {
    hub: Arc<Hub>,
    /// By which number health knows it.
    witness: u64,
    /// To which server.
    node: Node,
    /// For what: calls that another node redirects stay what they are.
    traffic: Traffic,
    queue: Mutex<Queue>,
    /// Its task has ended, or is about to.
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    /// No item's time is over before this; it may be earlier than the first whose is.
    soonest: Option<Instant>,
    /// The task, while it rests.
    rests: Option<Rest>,
    /// The breaker is open: why.
    open: Option<Trouble>,
}

/// What the resting task waits for.
#[derive(Debug)]
struct Rest {
    waker: Waker,
    /// An item whose time is over before this matters, and any where there is no such instant;
    before: Option<Instant>,
    /// so does the one that makes so many.
    count: usize,
}

impl Queue {
    /// Puts an item in; whom to wake, once the lock is free.
    #[must_use]
    fn put(&mut self, item: Item, in_front: bool) -> Option<Waker> {
        let by = item.gives_up();
        self.soonest = earlier(self.soonest, by);
        if in_front {
            self.items.push_front(item);
        } else {
            self.items.push_back(item);
        }
        let count = self.items.len();
        let matters = |rest: &Rest| {
            count >= rest.count || rest.before.is_none_or(|before| by.is_some_and(|by| by < before))
        };
        if self.rests.as_ref().is_some_and(matters) { self.rouse() } else { None }
    }

    #[must_use]
    fn rouse(&mut self) -> Option<Waker> {
        self.rests.take().map(|rest| rest.waker)
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The earlier of two instants that may both be absent.
fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Link {
    /// A link to `node`, driven by a task of the lane's runtime.
    pub(crate) fn begin(lane: &Arc<Lane>, node: Node, traffic: Traffic) -> Arc<Self> {
        let hub = lane.hub().clone();
        let link = Arc::new(Self {
            witness: hub.next_witness(),
            node,
            traffic,
            queue: Mutex::default(),
            ended: AtomicBool::new(false),
            hub: hub.clone(),
        });
        hub.add_link(&link);
        lane.runtime().spawn(drive::Driver::new(&link, lane).run());
        link
    }

    /// Puts `item` at the end of the queue.
    ///
    /// Gives it back, with the reason, where it cannot be sent: the breaker is open, the queue full, or the link has ended.
    pub(crate) fn push(&self, item: Item) -> Result<(), (Item, Trouble)> {
        let mut queue = self.lock();
        let counters = &self.hub.context().counters;
        if let Some(why) = &queue.open {
            add(&counters.breaker_refused, 1);
            return Err((item, why.clone()));
        }
        if self.has_ended() {
            return Err((item, ended()));
        }
        if queue.items.len() >= self.hub.config().max_queued {
            add(&counters.queue_full, 1);
            let why = format!("{} calls are waiting to be sent already", queue.items.len());
            return Err((item, Trouble::new(Kind::NotNow, why)));
        }
        let waker = queue.put(item, false);
        drop(queue);
        wake(waker);
        Ok(())
    }

    /// Puts what was in the air before the others. Its callers wait since longer, and it was counted already.
    pub(crate) fn push_front(&self, item: Item) {
        let mut queue = self.lock();
        let why = if self.has_ended() { Some(ended()) } else { queue.open.clone() };
        match why {
            Some(why) => {
                drop(queue);
                item.refuse(self.hub.context(), &why);
            }
            None => {
                let waker = queue.put(item, true);
                drop(queue);
                wake(waker);
            }
        }
    }

    /// Its task has ended: with its runtime, with the store, or with the node.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Ends it; what waits is refused.
    pub(crate) fn end(&self) {
        let mut queue = self.lock();
        self.ended.store(true, Relaxed); // under the lock, so that nothing is put in afterwards
        let items = std::mem::take(&mut queue.items);
        let waker = queue.rouse();
        drop(queue);
        self.refuse(items, &ended());
        wake(waker);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, items: impl IntoIterator<Item = Item>, why: &Trouble) {
        for item in items {
            item.refuse(self.hub.context(), why);
        }
    }

    /// Refuses all that waits, and from now on what comes where `open` is set.
    fn refuse_all(&self, why: &Trouble, open: bool) {
        let mut queue = self.lock();
        if open {
            queue.open = Some(why.clone());
        }
        queue.soonest = None;
        let waiting = std::mem::take(&mut queue.items);
        drop(queue);
        self.refuse(waiting, why);
    }

    /// Moves what waits to `items`, at most `most`.
    fn take(&self, items: &mut Vec<Item>, most: usize) {
        let mut queue = self.lock();
        let count = queue.items.len().min(most);
        items.extend(queue.items.drain(..count));
        if queue.items.is_empty() {
            queue.soonest = None;
            queue.items.shrink_to(KEPT);
        }
    }

    /// Whether anything waits, and an instant before which nobody's time is over.
    fn waiting(&self) -> (usize, Option<Instant>) {
        let queue = self.lock();
        (queue.items.len(), queue.soonest)
    }

    /// The task is about to rest. It is woken by the item that makes `count`, and by one whose time is over before all that wait.
    /// False when there are as many already.
    fn rest(&self, waker: &Waker, count: usize) -> bool {
        let mut queue = self.lock();
        if queue.items.len() >= count {
            return false;
        }
        let before = queue.soonest;
        match &mut queue.rests {
            Some(rest) if rest.waker.will_wake(waker) => (rest.before, rest.count) = (before, count),
            rests => *rests = Some(Rest { waker: waker.clone(), before, count }),
        }
        true
    }

    /// Takes out what waits no longer: nothing was sent. True when there was a caller whose time was over.
    fn expire(&self, now: Instant) -> bool {
        let context = self.hub.context();
        let mut queue = self.lock();
        if queue.soonest.is_none_or(|by| by > now) {
            return false;
        }
        let (mut over, mut soonest) = (Vec::new(), None);
        for _ in 0..queue.items.len() {
            let Some(item) = queue.items.pop_front() else { break };
            match item.waits_until() {
                Some(by) if by > now => {
                    soonest = earlier(soonest, Some(by));
                    queue.items.push_back(item);
                }
                _ => over.push(item),
            }
        }
        queue.soonest = soonest;
        if queue.items.is_empty() {
            queue.items.shrink_to(KEPT);
        }
        drop(queue);
        let mut told = 0;
        for item in over {
            let (rest, gone) = item.expire(now, context);
            told += gone;
            if let Some(rest) = rest {
                self.push_front(rest); // of callers that share a count, others have longer
            }
        }
        add(&context.counters.unsent, told);
        told > 0
    }
}

fn ended() -> Trouble {
    Trouble::new(Kind::NotNow, "the store's connection has ended with its runtime")
}

#[cfg(test)]
pub(crate) mod tests;
