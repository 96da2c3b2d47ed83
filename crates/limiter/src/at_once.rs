//! Several decisions under way at once, for a store that must be waited for.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use tollgate_store::Store;

use crate::limiter::Limiter;

/// Decisions that one caller has under way at a time, at most: each holds its buffers, and all are looked at when one goes on.
pub const AT_ONCE: usize = 256;

impl<S: Store, L: Store> Limiter<S, L> {
    /// Whether the store is not this node's memory, so that its answers are waited for: then several decisions are better made
    /// [`at_once`] than one after another.
    pub const fn waits(&self) -> bool {
        self.local.is_some()
    }

    /// Whether the store's last answer was none.
    pub fn misses_the_store(&self) -> bool {
        self.store_fails.load(Relaxed)
    }
}

/// Runs all of `futures` on this task, each begun in its turn; their outputs in the same order.
///
/// # Example
/// ```
/// # use tollgate_limiter::at_once;
/// # use tollgate_store::block_on;
/// assert_eq!(block_on(at_once((1..=3).map(|it| async move { it * it }))), [1, 4, 9]);
/// ```
pub async fn at_once<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut left: Vec<Option<Pin<Box<F>>>> = futures.into_iter().map(|it| Some(Box::pin(it))).collect();
    let mut outputs: Vec<Option<F::Output>> = left.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, output) in left.iter_mut().zip(&mut outputs) {
            if let Some(running) = future
                && let Poll::Ready(done) = running.as_mut().poll(cx)
            {
                (*future, *output) = (None, Some(done));
            }
        }
        if left.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
