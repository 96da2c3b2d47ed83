//! Tasks on a time of their own: it moves when a test says so, to the nanosecond.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::{Timestamp, nanos};

/// Greatest lateness of a late timer, the rest of its millisecond included.
pub(crate) const MOST_LATE: Duration = Duration::from_millis(6);

/// The time, and who is to be woken when.
#[derive(Default)]
pub(crate) struct SimClock {
    now: AtomicU64,
    /// Seconds by which the clock is ahead of the time.
    skew_s: AtomicI64,
    next: AtomicU64,
    /// Lateness of timers, drawn from a seed; 0: they are on time.
    late: AtomicU64,
    timers: Mutex<std::collections::BTreeMap<(u64, u64), Waker>>,
}

impl SimClock {
    pub(crate) fn at(now: Timestamp) -> Arc<Self> {
        let world = Self::default();
        world.now.store(now.as_nanos(), SeqCst);
        Arc::new(world)
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now.load(SeqCst))
    }

    /// The time that the clock shows, which may have jumped.
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

    /// From now on timers fire at whole milliseconds, and up to [`MOST_LATE`] late.
    pub(crate) fn be_late(&self, seed: u64) {
        self.late.store(seed.max(1), SeqCst);
    }

    pub(crate) fn sleep(self: &Arc<Self>, span: Duration) -> Sleep {
        let mut at = (self.now() + span).as_nanos();
        if self.late.load(SeqCst) > 0 {
            at = at.next_multiple_of(1_000_000) + self.draw() % (nanos(MOST_LATE) - 1_000_000);
        }
        self.sleep_until(Timestamp::from_nanos(at))
    }

    /// As long as it says, like a network and unlike a timer.
    pub(crate) fn pass(self: &Arc<Self>, span: Duration) -> Sleep {
        self.sleep_until(self.now() + span)
    }

    fn sleep_until(self: &Arc<Self>, at: Timestamp) -> Sleep {
        let id = self.next.fetch_add(1, SeqCst);
        Sleep { world: Arc::clone(self), key: (at.as_nanos(), id) }
    }

    /// The next of the numbers of its seed (SplitMix64).
    fn draw(&self) -> u64 {
        let mut z = self.late.fetch_add(0x9e37_79b9_7f4a_7c15, SeqCst);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

pub(crate) struct Sleep {
    world: Arc<SimClock>,
    key: (u64, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.key.0 <= self.world.now().as_nanos() {
            return Poll::Ready(());
        }
        self.world.timers.lock().insert(self.key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.world.timers.lock().remove(&self.key);
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
    world: Arc<SimClock>,
    tasks: Vec<(Arc<Flag>, Option<Task<'t>>)>,
}

impl<'t> Tasks<'t> {
    pub(crate) fn new(world: &Arc<SimClock>) -> Self {
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
                let mut timers = self.world.timers.lock();
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
            let is_more = self.world.timers.lock().keys().next().is_some_and(|key| key.0 <= at);
            if !is_more {
                self.settle();
            }
        }
        self.world.set(end);
        self.settle();
    }
}
