//! How long a silent client is waited for.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Measures a client's silence, with one timer at most.
#[derive(Debug, Default)]
pub(super) struct IdleTimer {
    /// When the silence began; `None` until it is polled.
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl IdleTimer {
    /// The silence begins anew with the next poll.
    #[inline]
    pub(super) fn restart(&mut self) {
        self.since = None;
    }

    /// Drops the timer, which nothing needs now.
    pub(super) fn disarm(&mut self) {
        self.timer = None;
    }

    /// Ready when the silence has lasted as long as `allowed`.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, allowed: Duration) -> Poll<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let Some(until) = since.checked_add(allowed) else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        // A timer that was set for an earlier silence is left alone until it fires: most silences are short.
        if timer.deadline() > until {
            timer.as_mut().reset(until);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= until {
                return Poll::Ready(());
            }
            timer.as_mut().reset(until);
        }
        Poll::Pending
    }
}
