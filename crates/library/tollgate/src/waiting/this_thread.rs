//! A waker for a thread that waits.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;

/// Unparks the thread that has made it.
pub(crate) fn waker() -> Waker {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    Waker::from(Arc::new(Unpark(std::thread::current())))
}
