//! Waiting for a future without a runtime, for tests and tools.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Runs `future` on this thread, which sleeps while there is nothing to do. It is enough for stores that need
/// no runtime.
///
/// # Example
/// ```
/// assert_eq!(tollgate_store::block_on(async { 1 + 1 }), 2);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    // A store in memory is ready at once: no waker is made for it.
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

/// The output of `future` if the first poll completes it; `None` where it has to be waited for. For code that
/// must not wait, such as a drop.
///
/// # Example
/// ```
/// assert_eq!(tollgate_store::at_once(async { 1 + 1 }), Some(2));
/// assert_eq!(tollgate_store::at_once(std::future::pending::<u32>()), None);
/// ```
pub fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
