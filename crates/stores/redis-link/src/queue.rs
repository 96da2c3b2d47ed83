//! The calls that wait for one server: the end of a connection that callers see. Not here: the task that
//! sends them (`driver`), and which server keeps which key (`topology`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;
use tollgate_store::remote::Reporter;

use crate::flight::QueueEntry;
use crate::server_error::{Cause, ServerError};
use crate::shared::Shared;
use crate::topology::ServerIndex;
use crate::workload::Workload;

/// Kinds of calls that must not hold each other up: each has connections of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// A caller waits for the answer.
    Foreground,
    /// Work ahead of need: no caller waits for it directly.
    Background,
}

/// Places of an empty queue that are kept.
const KEPT: usize = 1024;

/// The entries that wait to be sent to one server, for one thread and one kind of traffic.
#[derive(Debug)]
pub(crate) struct ConnectionQueue<W: Workload> {
    shared: Arc<Shared>,
    reporter: Reporter,
    node: ServerIndex,
    /// Calls that another node redirects stay of this kind.
    traffic: Traffic,
    queue: Mutex<Queue<W>>,
    attempt: watch::Sender<Attempt>,
    /// Its task has ended, or is about to.
    ended: AtomicBool,
}

/// The outcome of the first attempt to connect since there was no connection.
#[derive(Clone, Debug)]
pub(crate) enum Attempt {
    /// The attempt is not over.
    Connecting,
    Connected,
    Failed(ServerError),
}

#[derive(Debug)]
struct Queue<W: Workload> {
    entries: VecDeque<QueueEntry<W>>,
    /// No entry's time is over before this; it may be earlier than the first end of an entry's time.
    soonest: Option<Instant>,
    /// The task, while it rests.
    rests: Option<Rest>,
    /// The reason, while the breaker is open.
    open: Option<ServerError>,
}

/// The event that wakes the resting task.
#[derive(Debug)]
struct Rest {
    waker: Waker,
    /// An entry whose time is over before this wakes the task; without such an instant, every entry does.
    before: Option<Instant>,
    /// The entry that makes this many wakes it, too.
    count: usize,
}

impl<W: Workload> Queue<W> {
    /// Adds an entry; returns the task to wake once the lock is free.
    #[must_use]
    fn put(&mut self, entry: QueueEntry<W>, in_front: bool) -> Option<Waker> {
        let by = entry.deadline();
        self.soonest = earlier(self.soonest, by);
        if in_front {
            self.entries.push_front(entry);
        } else {
            self.entries.push_back(entry);
        }
        let count = self.entries.len();
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
pub(crate) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl<W: Workload> ConnectionQueue<W> {
    /// An empty queue for `node`, whose task is yet to be started.
    pub(crate) fn new(shared: &Arc<Shared>, node: ServerIndex, traffic: Traffic) -> Arc<Self> {
        let queue = Queue { entries: VecDeque::new(), soonest: None, rests: None, open: None };
        Arc::new(Self {
            reporter: shared.health().reporter(0),
            shared: shared.clone(),
            node,
            traffic,
            queue: Mutex::new(queue),
            attempt: watch::Sender::new(Attempt::Connecting),
            ended: AtomicBool::new(false),
        })
    }

    /// Reports the outcome of the attempt to connect.
    pub(crate) fn report_attempt(&self, attempt: Attempt) {
        self.attempt.send_replace(attempt);
    }

    /// Whether callers need not wait for an attempt to connect.
    pub(crate) fn is_settled(&self) -> bool {
        !matches!(*self.attempt.borrow(), Attempt::Connecting)
    }

    /// Waits for the end of an attempt to connect.
    pub(crate) async fn settled(&self) -> Result<(), ServerError> {
        let mut attempts = self.attempt.subscribe();
        let settled = attempts.wait_for(|attempt| !matches!(attempt, Attempt::Connecting)).await;
        match settled.as_deref() {
            Ok(Attempt::Failed(why)) => Err(why.clone()),
            _ => Ok(()),
        }
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) const fn node(&self) -> ServerIndex {
        self.node
    }

    pub(crate) const fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// The breaker is closed: calls go through, and the server is reported as up.
    pub(crate) fn close_breaker(&self) {
        self.lock().open = None;
        self.shared.health().up(self.reporter);
    }

    /// The breaker is open: fails all waiting entries, and new ones from now on; the server is reported as
    /// down.
    pub(crate) fn open_breaker(&self, why: &ServerError) {
        self.fail_waiting(why, true);
        self.shared.health().down(self.reporter, &why.why);
    }

    /// Puts `entry` at the end of the queue.
    ///
    /// Gives `entry` back, with the reason, where it cannot be sent: the breaker is open, the queue is full
    /// or has ended.
    pub(crate) fn push(&self, entry: QueueEntry<W>) -> Result<(), (QueueEntry<W>, ServerError)> {
        let mut queue = self.lock();
        let counters = &self.shared.counters().conn;
        if let Some(why) = &queue.open {
            counters.breaker_blocked.add(1);
            return Err((entry, why.clone()));
        }
        if self.has_ended() {
            return Err((entry, ended()));
        }
        if queue.entries.len() >= self.shared.settings().max_queued {
            counters.queue_full.add(1);
            let why = format!("{} calls are waiting to be sent already", queue.entries.len());
            return Err((entry, ServerError::new(Cause::Unavailable, why)));
        }
        let waker = queue.put(entry, false);
        drop(queue);
        wake(waker);
        Ok(())
    }

    /// Puts entries that were in flight before the others: their callers have waited longer, and they were
    /// counted already.
    pub(crate) fn push_front(&self, entry: QueueEntry<W>) {
        let mut queue = self.lock();
        let why = if self.has_ended() { Some(ended()) } else { queue.open.clone() };
        match why {
            Some(why) => {
                drop(queue);
                entry.fail(&why);
            }
            None => {
                let waker = queue.put(entry, true);
                drop(queue);
                wake(waker);
            }
        }
    }

    /// Its task has ended: with its runtime, with the store, or with the node.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Ends the queue; waiting entries fail.
    pub(crate) fn end(&self) {
        let mut queue = self.lock();
        self.ended.store(true, Relaxed); // under the lock, so that nothing is put in afterwards
        let entries = std::mem::take(&mut queue.entries);
        let waker = queue.rouse();
        drop(queue);
        self.report_attempt(Attempt::Failed(ended()));
        entries.into_iter().for_each(|entry| entry.fail(&ended()));
        wake(waker);
    }

    fn lock(&self) -> MutexGuard<'_, Queue<W>> {
        self.queue.lock()
    }

    /// Fails all waiting entries, and new ones from now on where `open` is set.
    fn fail_waiting(&self, why: &ServerError, open: bool) {
        let mut queue = self.lock();
        if open {
            queue.open = Some(why.clone());
        }
        queue.soonest = None;
        let waiting = std::mem::take(&mut queue.entries);
        drop(queue);
        waiting.into_iter().for_each(|entry| entry.fail(why));
    }

    /// Fails all waiting entries.
    pub(crate) fn fail_all(&self, why: &ServerError) {
        self.fail_waiting(why, false);
    }

    /// Its task ends: so does the queue, and nothing more is reported of the server.
    pub(crate) fn task_ended(&self) {
        self.end();
        self.shared.health().gone(self.reporter);
    }

    /// Moves waiting entries to `entries`, at most `most`.
    pub(crate) fn take(&self, entries: &mut Vec<QueueEntry<W>>, most: usize) {
        let mut queue = self.lock();
        let count = queue.entries.len().min(most);
        entries.extend(queue.entries.drain(..count));
        if queue.entries.is_empty() {
            queue.soonest = None;
            queue.entries.shrink_to(KEPT);
        }
    }

    /// The number of entries that wait, and an instant before which the time of no caller is over.
    pub(crate) fn waiting(&self) -> (usize, Option<Instant>) {
        let queue = self.lock();
        (queue.entries.len(), queue.soonest)
    }

    /// The task is about to rest. It is woken by the entry that makes `count`, and by one whose time is over
    /// before all waiting ones. False when `count` entries wait already.
    pub(crate) fn rest(&self, waker: &Waker, count: usize) -> bool {
        let mut queue = self.lock();
        if queue.entries.len() >= count {
            return false;
        }
        let before = queue.soonest;
        match &mut queue.rests {
            Some(rest) if rest.waker.will_wake(waker) => (rest.before, rest.count) = (before, count),
            rests => *rests = Some(Rest { waker: waker.clone(), before, count }),
        }
        true
    }

    /// Removes entries without a waiting caller: nothing was sent. True when there was a caller whose time
    /// was over.
    pub(crate) fn expire(&self, now: Instant) -> bool {
        let mut queue = self.lock();
        if queue.soonest.is_none_or(|by| by > now) {
            return false;
        }
        let mut over = Vec::new();
        let mut soonest = None;
        for _ in 0..queue.entries.len() {
            let Some(entry) = queue.entries.pop_front() else { break };
            match entry.waits_until() {
                Some(by) if by > now => {
                    soonest = earlier(soonest, Some(by));
                    queue.entries.push_back(entry);
                }
                _ => over.push(entry),
            }
        }
        queue.soonest = soonest;
        if queue.entries.is_empty() {
            queue.entries.shrink_to(KEPT);
        }
        drop(queue);
        let mut failed = 0;
        for entry in over {
            let (rest, gone) = entry.expire(now, &self.shared);
            failed += gone;
            if let Some(rest) = rest {
                self.push_front(rest); // of callers that share a request, others have longer
            }
        }
        self.shared.counters().conn.unsent.add(failed);
        failed > 0
    }
}

fn ended() -> ServerError {
    ServerError::new(Cause::Unavailable, "the store's connection has ended with its runtime")
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::Duration;
    use tollgate_store::StoreName;

    use super::*;
    use crate::echo::{Echo, EchoCall};
    use crate::request::Waiter;
    use crate::settings::LinkSettings;

    #[tokio::test]
    async fn a_queue_that_was_long_releases_its_memory() {
        let mut settings = LinkSettings::parse_url("redis://h").expect("a URL");
        settings.max_queued = 100_000;
        let shared = Shared::new(settings, StoreName::new("redis"), None).expect("settings");
        let queue = ConnectionQueue::<Echo>::new(&Arc::new(shared), 0, Traffic::Foreground);
        let by = Instant::now() + Duration::from_secs(1);
        let fill = || {
            let waiters = (0..10_000).map(|_| {
                let (to, answer) = oneshot::channel();
                queue.push(QueueEntry::New(EchoCall::new(b"k", Waiter::new(to, by)))).expect("room");
                answer
            });
            waiters.collect::<Vec<_>>()
        };
        let capacity = || queue.lock().entries.capacity();
        let waiting = fill();
        assert!(queue.expire(by), "callers whose time is over");
        assert!(capacity() <= 2 * KEPT, "{}", capacity());
        drop((waiting, fill()));
        queue.take(&mut Vec::new(), usize::MAX);
        assert!(capacity() <= 2 * KEPT, "{}", capacity());
    }
}
