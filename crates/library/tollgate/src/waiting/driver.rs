//! Waiting in tasks, and the task with the timer of a limiter. It lives while tasks wait, on the runtime of
//! one of them.
//!
//! When that runtime shuts down, the task is dropped: then all waiters look once, and the first one on
//! another runtime starts the task there.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use tollgate_core::{Clock, Timestamp};

use super::acquire::{Admission, PlaceInLine};
use super::waiter::{Leaving, WaiterKind};
use crate::acquire_error::AcquireError;
use crate::engine::Engine;
use crate::key::KeyBytes;
use crate::states::States;

/// A caller that waits in a task. It joins the line when it is first polled; dropped, it leaves.
///
/// Written by hand, since the future of an `async fn` is three times as large.
pub(crate) struct Acquire<'a, S: States, C: Clock> {
    engine: &'a Arc<Engine<S, C>>,
    state: AcquireState<'a, S, C>,
}

enum AcquireState<'a, S: States, C: Clock> {
    New { key: KeyBytes<'a>, n: u64, max_wait: Duration },
    Waiting(PlaceInLine<S, C>),
    Done,
}

impl<'a, S: States, C: Clock> Acquire<'a, S, C> {
    /// Waits for `n` permits of `key`, for at most `max_wait`; returns the time that it waited.
    pub(crate) const fn new(
        engine: &'a Arc<Engine<S, C>>,
        key: KeyBytes<'a>,
        n: u64,
        max_wait: Duration,
    ) -> Self {
        Self { engine, state: AcquireState::New { key, n, max_wait } }
    }
}

impl<S: States + 'static, C: Clock + 'static> Future for Acquire<'_, S, C> {
    type Output = Result<Duration, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let AcquireState::New { key, n, max_wait } = &this.state {
            match this.engine.enter(key, *n, *max_wait, WaiterKind::Task) {
                Ok(Admission::Later(place)) => this.state = AcquireState::Waiting(place),
                Ok(Admission::Now(_)) => {
                    this.state = AcquireState::Done;
                    return Poll::Ready(Ok(Duration::ZERO));
                }
                Err(error) => {
                    this.state = AcquireState::Done;
                    return Poll::Ready(Err(error));
                }
            }
        }
        let AcquireState::Waiting(place) = &mut this.state else { return Poll::Pending };
        let joined_at = place.joined_at();
        let result = match place.poll(context.waker()) {
            Poll::Pending => match this.engine.drive() {
                Ok(()) => return Poll::Pending,
                Err(error) => Err(error),
            },
            Poll::Ready(result) => result.map(|taken| taken.at.since(joined_at)),
        };
        this.state = AcquireState::Done;
        Poll::Ready(result)
    }
}

impl<S: States + 'static, C: Clock + 'static> Engine<S, C> {
    /// Starts the task unless it runs already.
    fn drive(self: &Arc<Self>) -> Result<(), AcquireError> {
        let mut queue = self.waiting.lock();
        if queue.driven_at.is_none() {
            let runtime = Handle::try_current().map_err(|_| AcquireError::NoRuntime)?;
            queue.driven_at = Some(Timestamp::ZERO); // it looks at once
            drop(queue);
            runtime.spawn(serve(Driver { engine: Arc::clone(self), is_done: false }));
        }
        Ok(())
    }
}

async fn serve<S: States, C: Clock>(mut driver: Driver<S, C>) {
    while let Some(wait) = driver.look() {
        let changed = driver.engine.waiting.changed.notified();
        let _changed_or_due = timeout(wait, changed).await;
    }
}

struct Driver<S: States, C: Clock> {
    engine: Arc<Engine<S, C>>,
    is_done: bool,
}

impl<S: States, C: Clock> Driver<S, C> {
    /// Serves all waiters whose turn has come; returns the time until the next turn, or `None` if no task
    /// waits.
    fn look(&mut self) -> Option<Duration> {
        let mut queue = self.engine.waiting.lock();
        let now = self.engine.look(&mut queue);
        let next = queue.next_turn().filter(|_| queue.has_tasks());
        queue.driven_at = next;
        self.is_done = next.is_none();
        Some(next?.since(now))
    }
}

impl<S: States, C: Clock> Drop for Driver<S, C> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut queue = self.engine.waiting.lock();
        queue.driven_at = None;
        if std::thread::panicking() {
            self.engine.fail_tasks(&mut queue, Leaving::NoTimer); // they would start a task that panics again
            return;
        }
        for waker in queue.task_wakers() {
            queue.wake(Some(waker));
        }
    }
}
