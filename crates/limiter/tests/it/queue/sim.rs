//! Tasks on a time of their own: it moves when a test says so, to the nanosecond.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate_core::Timestamp;

/// The time, and who is to be woken when.
#[derive(Default)]
pub(crate) struct World {
    now: AtomicU64,
    /// How many seconds the clock is ahead of it.
    skew_s: AtomicI64,
    next: AtomicU64,
    timers: Mutex<std::collections::BTreeMap<(u64, u64), Waker>>,
}

impl World {
    pub(crate) fn at(now: Timestamp) -> Arc<Self> {
        let world = Self::default();
        world.now.store(now.as_nanos(), SeqCst);
        Arc::new(world)
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now.load(SeqCst))
    }

    /// What the clock shows, which may have jumped.
    pub(crate) fn clock(&self) -> Timestamp {
        let skew = self.skew_s.load(SeqCst) * 1_000_000_000;
        Timestamp::from_nanos(self.now().as_nanos().saturating_add_signed(skew))
    }

    /// Sets the clock ahead of the time that timers keep.
    pub(crate) fn skew(&self, seconds: i64) {
        self.skew_s.store(seconds, SeqCst);
    }

    fn set(&self, to: Timestamp) {
        self.now.store(to.as_nanos(), SeqCst);
    }

    pub(crate) fn sleep(self: &Arc<Self>, span: Duration) -> Sleep {
        let id = self.next.fetch_add(1, SeqCst);
        Sleep { world: Arc::clone(self), key: ((self.now() + span).as_nanos(), id) }
    }
}

pub(crate) struct Sleep {
    world: Arc<World>,
    key: (u64, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.key.0 <= self.world.now().as_nanos() {
            return Poll::Ready(());
        }
        self.world.timers.lock().unwrap().insert(self.key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.world.timers.lock().unwrap().remove(&self.key);
    }
}

/// Whether a task is to be polled.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

type Task<'t> = Pin<Box<dyn Future<Output = ()> + 't>>;

/// Tasks, polled in the order in which they were started.
pub(crate) struct Tasks<'t> {
    world: Arc<World>,
    tasks: Vec<(Arc<Flag>, Option<Task<'t>>)>,
}

impl<'t> Tasks<'t> {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self { world: Arc::clone(world), tasks: Vec::new() }
    }

    /// Starts a task and polls whatever is due.
    pub(crate) fn start(&mut self, task: impl Future<Output = ()> + 't) -> usize {
        self.tasks.push((Arc::new(Flag(AtomicBool::new(true))), Some(Box::pin(task))));
        self.settle();
        self.tasks.len() - 1
    }

    /// Drops a task.
    pub(crate) fn drop_task(&mut self, index: usize) {
        self.tasks[index].1 = None;
        self.settle();
    }

    /// Polls until nothing is to be polled.
    pub(crate) fn settle(&mut self) {
        while let Some((flag, task)) =
            self.tasks.iter_mut().find(|(flag, task)| task.is_some() && flag.0.load(SeqCst))
        {
            flag.0.store(false, SeqCst);
            let waker = Waker::from(Arc::clone(flag));
            if let Some(running) = task
                && running.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
            {
                *task = None;
            }
        }
    }

    /// Lets time pass until `end`, from timer to timer.
    pub(crate) fn run_until(&mut self, end: Timestamp) {
        self.settle();
        loop {
            let next = {
                let mut timers = self.world.timers.lock().unwrap();
                match timers.first_entry() {
                    Some(first) if first.key().0 <= end.as_nanos() => Some((first.key().0, first.remove())),
                    _ => None,
                }
            };
            let Some((at, waker)) = next else { break };
            if self.world.now().as_nanos() < at {
                self.world.set(Timestamp::from_nanos(at));
            }
            waker.wake();
            // All timers of an instant fire before anybody acts.
            let is_more = self.world.timers.lock().unwrap().keys().next().is_some_and(|key| key.0 <= at);
            if !is_more {
                self.settle();
            }
        }
        self.world.set(end);
        self.settle();
    }
}
