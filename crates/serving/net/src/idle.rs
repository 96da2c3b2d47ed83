//! Timers that requests do not touch: a connection that is busy pays nothing for its timeouts.
//!
//! Both are polled by the one task that drives a connection, at the end of its turn. Not here: which timeout
//! applies.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Fires when a deadline has passed that is moved again and again.
///
/// Moving it later costs nothing: the timer is left alone until it fires and is then set to where the
/// deadline is now.
#[derive(Debug, Default)]
pub struct LazyTimer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// Whom the sleep wakes.
    wakes: Option<Waker>,
}

impl LazyTimer {
    /// No timer is set.
    #[must_use]
    pub const fn new() -> Self {
        Self { sleep: None, wakes: None }
    }

    /// Ready when `deadline` has passed. Wakes the task then, or earlier.
    pub fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        // Polling the sleep again costs more than to see that it need not be.
        let wakes_us = self.wakes.as_ref().is_some_and(|wakes| wakes.will_wake(cx.waker()));
        if wakes_us && sleep.deadline() <= deadline && !sleep.is_elapsed() {
            return Poll::Pending;
        }
        self.wakes = Some(cx.waker().clone());
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        while sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

/// Fires when a connection has waited too long for the same thing.
///
/// `W` says what it waits for, and changes with every bit of progress: a phase, with the number of requests
/// or bytes.
#[derive(Debug)]
pub struct IdleTimer<W> {
    timer: LazyTimer,
    waits_for: W,
    /// Since when, once the timer has been asked.
    since: Option<Instant>,
}

impl<W: PartialEq> IdleTimer<W> {
    /// A timer of a connection that waits for its first `waits_for`.
    #[must_use]
    pub const fn new(waits_for: W) -> Self {
        Self { timer: LazyTimer::new(), waits_for, since: None }
    }

    /// Ready when the connection has waited for the same thing for `timeout`; never with `None`.
    ///
    /// Call it whenever the connection's task is about to wait. Reads the time once for each change of
    /// `waits_for`.
    pub fn poll(&mut self, cx: &mut Context<'_>, waits_for: W, timeout: Option<Duration>) -> Poll<()> {
        if self.waits_for != waits_for {
            self.waits_for = waits_for;
            self.since = None;
        }
        let Some(timeout) = timeout else { return Poll::Pending };
        let since = *self.since.get_or_insert_with(Instant::now);
        match since.checked_add(timeout) {
            Some(deadline) => self.timer.poll(cx, deadline),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::timeout;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MOMENT: Duration = Duration::from_millis(2); // the clock of the runtime ticks in milliseconds

    /// Time until it fires, when `progress` says what is waited for at each instant.
    async fn fires_after(progress: impl Fn(Duration) -> u32, limit: Duration) -> Option<Duration> {
        let began = Instant::now();
        let mut timer = IdleTimer::new(0);
        let mut ticks = tokio::time::interval(SECOND / 4);
        let fired = poll_fn(|cx| {
            while ticks.poll_tick(cx).is_ready() {}
            timer.poll(cx, progress(began.elapsed()), Some(SECOND)).map(|()| began.elapsed())
        });
        timeout(limit, fired).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn it_fires_once_nothing_has_changed_for_the_timeout_and_not_before() {
        let after = fires_after(|_| 7, 10 * SECOND).await.expect("nothing ever changes");
        assert!((SECOND..SECOND + MOMENT).contains(&after), "{after:?}");
        let until = 3 * SECOND;
        let after = fires_after(|at| at.min(until).as_millis() as u32 / 500, 10 * SECOND).await;
        let after = after.expect("nothing changes after three seconds");
        assert!((until + SECOND..until + SECOND + MOMENT).contains(&after), "{after:?}");
        assert_eq!(fires_after(|at| at.as_millis() as u32 / 900, 100 * SECOND).await, None, "it is busy");
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_deadline_holds_also_when_a_later_one_was_set() {
        let began = Instant::now();
        let mut timer = LazyTimer::new();
        let pending = poll_fn(|cx| Poll::Ready(timer.poll(cx, began + 10 * SECOND))).await;
        assert!(pending.is_pending());
        poll_fn(|cx| timer.poll(cx, began + SECOND)).await;
        let after = began.elapsed();
        assert!((SECOND..SECOND + MOMENT).contains(&after), "{after:?}");
    }
}
