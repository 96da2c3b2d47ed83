//! The beginning of the end of the process, as a connection's task learns of it.

use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::task::Context;

use tokio::sync::watch;

/// Ends when `drain` turns true; never, if its sender is gone.
///
/// For use in the `select!` of a [`Surface`](crate::Surface).
pub async fn draining(drain: &mut watch::Receiver<bool>) {
    if drain.wait_for(|&drain| drain).await.is_err() {
        pending::<()>().await;
    }
}

/// Whether the drain has begun, for a task that looks at every turn: a look costs a load, where another poll
/// of [`draining`] costs 430 instructions.
pub struct DrainWatch {
    state: watch::Receiver<bool>,
    /// `None` once the drain has begun.
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    is_registered: bool,
}

impl DrainWatch {
    /// Watches `drain`, whose sender turns it true.
    #[must_use]
    pub fn new(drain: watch::Receiver<bool>) -> Self {
        let mut watched = drain.clone();
        let waiting = Box::pin(async move { draining(&mut watched).await });
        Self { state: drain, waiting: Some(waiting), is_registered: false }
    }

    /// Whether the drain has begun. When it begins, the task of `cx` is woken: look from one task only.
    pub fn has_begun(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(waiting) = &mut self.waiting else { return true };
        // The first poll registers the task's waker; polling again is useless until the state changes.
        if self.is_registered && !self.state.has_changed().unwrap_or(true) {
            return false;
        }
        self.is_registered = true;
        if waiting.as_mut().poll(cx).is_ready() {
            self.waiting = None;
        }
        self.waiting.is_none()
    }
}

impl fmt::Debug for DrainWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrainWatch").field("state", &self.state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_wakes_its_task_at_the_beginning_and_says_so_from_then_on() {
        let (sender, drain) = watch::channel(false);
        let mut watch = DrainWatch::new(drain);
        let mut looks = 0;
        let mut ends = 0;
        let mut until_begun = tokio::spawn(async move {
            poll_fn(|cx| {
                looks += 1;
                let has_begun = watch.has_begun(cx) && watch.has_begun(cx);
                ends += u32::from(has_begun);
                if has_begun { Poll::Ready((looks, ends)) } else { Poll::Pending }
            })
            .await
        });
        tokio::task::yield_now().await;
        // Sent again, and still false.
        sender.send_replace(false);
        tokio::task::yield_now().await;
        assert!(!until_begun.is_finished());
        sender.send_replace(true);
        assert_eq!((&mut until_begun).await.expect("no panic"), (3, 1));
    }

    #[tokio::test]
    async fn it_has_begun_for_those_who_come_late_and_never_begins_without_a_sender() {
        let (sender, drain) = watch::channel(true);
        let mut late = DrainWatch::new(drain);
        assert!(poll_fn(|cx| Poll::Ready(late.has_begun(cx))).await);
        drop(sender);
        let mut lost = DrainWatch::new(watch::channel(false).1);
        assert!(!poll_fn(|cx| Poll::Ready(lost.has_begun(cx))).await);
        assert!(!poll_fn(|cx| Poll::Ready(lost.has_begun(cx))).await);
    }
}
