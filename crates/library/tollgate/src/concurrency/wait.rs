//! Waiting for slots: in a task, in a task with a timeout, on a thread.

use std::future::poll_fn;
#[cfg(feature = "tokio")]
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate_clock::MonotonicClock;
use tollgate_core::Clock;

use super::error::EnterError;
use super::guard::ConcurrencyGuard;
use super::room::Room;
use crate::waiting::this_thread;

/// Waits for `n` slots; needs no runtime.
pub(crate) async fn enter(room: Arc<Room>, n: u64) -> Result<ConcurrencyGuard, EnterError> {
    if let Some(mut place) = room.enter(n)? {
        poll_fn(|context| place.poll(context.waker())).await?;
    }
    Ok(ConcurrencyGuard::new(room, n))
}

/// Waits for `n` slots for at most `timeout`, on tokio's time.
#[cfg(feature = "tokio")]
pub(crate) async fn enter_within(
    room: Arc<Room>,
    n: u64,
    timeout: Duration,
) -> Result<ConcurrencyGuard, EnterError> {
    if let Some(mut place) = room.enter(n)? {
        if timeout.is_zero() {
            return Err(EnterError::TimedOut { timeout });
        }
        // Making a timer panics if the runtime has none; there is no other way to find out.
        let timer = std::panic::catch_unwind(|| tokio::time::sleep(timeout));
        let mut timer = pin!(timer.map_err(|_| EnterError::NoRuntime)?);
        poll_fn(|context| match place.poll(context.waker()) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => timer.as_mut().poll(context).map(|()| Err(EnterError::TimedOut { timeout })),
        })
        .await?;
    }
    Ok(ConcurrencyGuard::new(room, n))
}

/// Waits for `n` slots on this thread, for at most `timeout`.
pub(crate) fn block(room: Arc<Room>, n: u64, timeout: Duration) -> Result<ConcurrencyGuard, EnterError> {
    if let Some(mut place) = room.enter(n)? {
        let clock = MonotonicClock::new();
        let waker = this_thread::waker();
        let until = clock.now() + timeout;
        loop {
            if let Poll::Ready(result) = place.poll(&waker) {
                result?;
                break;
            }
            let left = until.since(clock.now());
            if left.is_zero() {
                return Err(EnterError::TimedOut { timeout });
            }
            std::thread::park_timeout(left);
        }
    }
    Ok(ConcurrencyGuard::new(room, n))
}
