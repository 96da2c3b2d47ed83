//! Wakes a connection's task, except when `hyper` wakes itself for nothing.
//!
//! A body hands each part over through a channel within one task. Taking a part wakes the channel's sender,
//! which is the very task that takes it. After the last part there is nothing to do: the task would be polled
//! a second time for each request, and would read from the socket in vain.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context, Wake, Waker};

use parking_lot::Mutex;

/// Passes wakes on to the task that drives a connection.
#[derive(Debug)]
pub(crate) struct TaskWake {
    task: Mutex<Waker>,
    /// 0: wakes are passed on. Otherwise they are held back; one more than have been.
    held: AtomicU32,
}

impl TaskWake {
    pub(crate) fn new() -> Self {
        Self { task: Mutex::new(Waker::noop().clone()), held: AtomicU32::new(0) }
    }

    /// From now on wakes the task of `cx`.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        let mut task = self.task.lock();
        if !task.will_wake(cx.waker()) {
            task.clone_from(cx.waker());
        }
    }

    /// Runs `work`, which must not wait, and holds back what wakes the task meanwhile. Afterwards wakes the
    /// task if it was woken more often than the `needless` times that `work` returns beside its result.
    pub(crate) fn hold<T>(&self, work: impl FnOnce() -> (T, u32)) -> T {
        self.held.store(1, SeqCst);
        let (result, needless) = work();
        // Also counts what other threads woke: no wake is lost.
        if self.held.swap(0, SeqCst) > 1 + needless {
            self.task.lock().wake_by_ref();
        }
        result
    }
}

impl Wake for TaskWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let is_held =
            self.held.fetch_update(SeqCst, SeqCst, |held| (held > 0).then(|| held.saturating_add(1)));
        if is_held.is_err() {
            self.task.lock().wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn task() -> (Arc<TaskWake>, Arc<Count>) {
        let wake = Arc::new(TaskWake::new());
        let count = Arc::new(Count::default());
        wake.register(&Context::from_waker(&Arc::clone(&count).into()));
        (wake, count)
    }

    #[test]
    fn a_wake_is_passed_on_to_the_task_that_polled_last() {
        let (wake, first) = task();
        wake.wake_by_ref();
        let second = Arc::new(Count::default());
        wake.register(&Context::from_waker(&Arc::clone(&second).into()));
        wake.wake_by_ref();
        Waker::from(Arc::clone(&wake)).wake();
        assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (1, 2));
    }

    #[test]
    fn only_needless_wakes_are_dropped() {
        for (wakes, needless, expected) in [(0, 0, 0), (1, 1, 0), (1, 0, 1), (2, 1, 1), (0, 1, 0), (5, 0, 1)]
        {
            let (wake, count) = task();
            wake.hold(|| {
                (0..wakes).for_each(|_| wake.wake_by_ref());
                assert_eq!(count.0.load(SeqCst), 0, "held back");
                ((), needless)
            });
            assert_eq!(count.0.load(SeqCst), expected, "{wakes} wakes, {needless} of them needless");
            wake.wake_by_ref();
            assert_eq!(count.0.load(SeqCst), expected + 1, "not held back afterwards");
        }
    }

    /// Another thread's wake always arrives, at whatever instant of a hold it comes.
    #[test]
    fn a_wake_from_another_thread_is_never_lost() {
        let (wake, count) = task();
        let others = (Arc::clone(&wake), Arc::clone(&count));
        let other = thread::spawn(move || {
            let (wake, count) = others;
            for _ in 0..20_000 {
                let before = count.0.load(SeqCst);
                wake.wake_by_ref();
                let has_arrived = || count.0.load(SeqCst) > before;
                if !(0..1_000_000).any(|_| {
                    has_arrived() || {
                        thread::yield_now();
                        false
                    }
                }) {
                    return false;
                }
            }
            true
        });
        while !other.is_finished() {
            wake.hold(|| {
                wake.wake_by_ref(); // the needless one, which is not counted
                ((), 1)
            });
        }
        assert!(other.join().expect("it only wakes"), "a wake was lost");
    }
}
