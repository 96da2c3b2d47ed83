//! A link: one connection of one lane to one server, the queue before it and the task that drives both. At most one flight is under way;
//! what arrives meanwhile rides the next. Not here: which server keeps which key, and what flights hold.

mod drive;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::figures::add;
use crate::flight::Item;
use crate::hub::Hub;
use crate::lane::Lane;
use crate::topology::Node;
use crate::trouble::{Kind, Trouble};

/// One connection's end that callers see.
#[derive(Debug)]
pub(crate) struct Link {
    hub: Arc<Hub>,
    /// By which number health knows it.
    witness: u64,
    /// To which server.
    node: Node,
    queue: Mutex<Queue>,
    /// Something was put into the empty queue, or the end has come.
    wake: Notify,
    /// Its task has ended, or is about to.
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    /// The breaker is open: why.
    open: Option<Trouble>,
}

impl Link {
    /// A link to `node`, driven by a task of the lane's runtime.
    pub(crate) fn begin(lane: &Arc<Lane>, node: Node) -> Arc<Self> {
        let hub = lane.hub().clone();
        let link = Arc::new(Self {
            witness: hub.next_witness(),
            node,
            queue: Mutex::default(),
            wake: Notify::new(),
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
        queue.items.push_back(item);
        if queue.items.len() == 1 {
            drop(queue);
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Puts what was under way before the others. Its callers wait since longer, and it was counted already.
    pub(crate) fn push_front(&self, item: Item) {
        let mut queue = self.lock();
        let why = if self.has_ended() { Some(ended()) } else { queue.open.clone() };
        match why {
            Some(why) => {
                drop(queue);
                item.refuse(self.hub.context(), &why);
            }
            None => {
                queue.items.push_front(item);
                drop(queue);
                self.wake.notify_one();
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
        drop(queue);
        self.refuse(items, &ended());
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, items: impl IntoIterator<Item = Item>, why: &Trouble) {
        for item in items {
            item.refuse(self.hub.context(), why);
        }
    }

    /// Moves what waits to `items`, at most `most`.
    fn take(&self, items: &mut Vec<Item>, most: usize) {
        let mut queue = self.lock();
        let count = queue.items.len().min(most);
        items.extend(queue.items.drain(..count));
    }

    /// When the first that waits gives up. (Those at the front wait longest.)
    fn waits_until(&self) -> Option<Instant> {
        self.lock().items.iter().find_map(Item::waits_until)
    }

    /// Takes out what waits no longer: nothing was sent. True when there was any whose time was over.
    fn expire(&self, now: Instant) -> bool {
        let mut over = Vec::new();
        let mut queue = self.lock();
        while let Some(first) = queue.items.front() {
            match first.waits_until() {
                Some(by) if by > now => break,
                _ => over.extend(queue.items.pop_front()),
            }
        }
        drop(queue);
        let any = over.iter().any(|item| item.waits_until().is_some());
        let context = self.hub.context();
        add(&context.counters.unsent, over.len() as u64);
        self.refuse(over, &crate::flight::late(context.deadline));
        any
    }
}

fn ended() -> Trouble {
    Trouble::new(Kind::NotNow, "the store's connection has ended with its runtime")
}
