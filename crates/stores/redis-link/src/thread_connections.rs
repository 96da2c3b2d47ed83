//! The part of a client that one thread of one runtime uses: its own connections and their tasks, so that no
//! call crosses a core.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::thread::LocalKey;

use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};

use crate::driver::Driver;
use crate::queue::{ConnectionQueue, Traffic};
use crate::server_error::{Cause, ServerError};
use crate::shared::Shared;
use crate::topology::ServerIndex;
use crate::workload::Workload;

/// All queues of a client, so that they can be ended with it.
#[derive(Debug)]
pub(crate) struct Registry<W: Workload>(Mutex<Vec<Weak<ConnectionQueue<W>>>>);

impl<W: Workload> Default for Registry<W> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<W: Workload> Registry<W> {
    fn add(&self, queue: &Arc<ConnectionQueue<W>>) {
        let mut queues = self.0.lock();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(queue));
        drop(queues);
        if queue.shared().has_ended() {
            queue.end();
        }
    }

    pub(crate) fn end_all(&self) {
        let queues = std::mem::take(&mut *self.0.lock());
        queues.iter().filter_map(Weak::upgrade).for_each(|queue| queue.end());
    }
}

/// The connections of one thread to all servers of one client.
#[derive(Debug)]
pub(crate) struct ThreadConnections<W: Workload> {
    shared: Arc<Shared>,
    workload: W,
    registry: Arc<Registry<W>>,
    runtime: Handle,
    /// By node and kind of traffic; nodes have numbers, see [`ServerIndex`].
    queues: Mutex<Vec<Option<Arc<ConnectionQueue<W>>>>>,
}

/// A workload's place to keep each thread's connections: a thread-local variable of its own, since a generic
/// type cannot have one.
pub trait PerThread: Workload {
    /// The thread's own map of connections.
    fn threads() -> &'static LocalKey<ThreadMap<Self>>;
}

/// The connections of one thread to all clients of one workload.
#[derive(Debug)]
pub struct ThreadMap<W: Workload>(RefCell<Vec<Known<W>>>);

#[derive(Debug)]
struct Known<W: Workload> {
    client: u64,
    runtime: Id,
    connections: Arc<ThreadConnections<W>>,
}

impl<W: Workload> ThreadMap<W> {
    /// No connections to any client yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    /// This thread's connections in the runtime that it is in.
    pub(crate) fn connections(
        &self,
        shared: &Arc<Shared>,
        workload: &W,
        registry: &Arc<Registry<W>>,
    ) -> Result<Arc<ThreadConnections<W>>, ServerError> {
        let runtime = Handle::try_current()
            .map_err(|_| ServerError::new(Cause::Misconfigured, "called from outside of a tokio runtime"))?;
        let client = shared.id();
        let id = runtime.id();
        let mut all = self.0.borrow_mut();
        if let Some(known) = all.iter().find(|known| known.client == client && known.runtime == id) {
            return Ok(known.connections.clone());
        }
        all.retain(|known| !known.connections.has_ended());
        let connections = Arc::new(ThreadConnections {
            shared: shared.clone(),
            workload: workload.clone(),
            registry: registry.clone(),
            runtime,
            queues: Mutex::default(),
        });
        all.push(Known { client, runtime: id, connections: connections.clone() });
        Ok(connections)
    }
}

impl<W: Workload> Default for ThreadMap<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Workload> ThreadConnections<W> {
    /// The queue to a node for one kind of traffic; a new one is driven by a task of this thread's runtime.
    pub(crate) fn queue(self: &Arc<Self>, node: ServerIndex, traffic: Traffic) -> Arc<ConnectionQueue<W>> {
        let mut queues = self.queues.lock();
        let place = 2 * usize::from(node) + traffic as usize;
        if queues.len() <= place {
            queues.resize(place + 1, None);
        }
        match &queues[place] {
            Some(queue) if !queue.has_ended() || self.shared.has_ended() => queue.clone(),
            _ => queues[place].insert(self.start(node, traffic)).clone(),
        }
    }

    fn start(self: &Arc<Self>, node: ServerIndex, traffic: Traffic) -> Arc<ConnectionQueue<W>> {
        let queue = ConnectionQueue::new(&self.shared, node, traffic);
        self.registry.add(&queue);
        let others = Arc::downgrade(self);
        let route = move |node, traffic| others.upgrade().map(|others| others.queue(node, traffic));
        self.runtime.spawn(Driver::new(&queue, self.workload.clone(), Box::new(route)).run());
        queue
    }

    fn has_ended(&self) -> bool {
        let queues = self.queues.lock();
        queues.iter().flatten().all(|queue| queue.has_ended())
    }
}
