//! The time of all that is measured of the control plane.

use std::sync::LazyLock;
use std::time::Duration;

use tollgate_clock::MonotonicClock;
use tollgate_core::{Clock as _, Timestamp};

static CLOCK: LazyLock<MonotonicClock> = LazyLock::new(MonotonicClock::new);

/// The time of all that is measured here.
pub(crate) fn now() -> Timestamp {
    CLOCK.now()
}

/// Lets time pass.
#[allow(
    clippy::disallowed_methods,
    reason = "a benchmark measures a span of time, and asks again until something is so"
)]
pub(crate) fn pause(span: Duration) {
    std::thread::sleep(span);
}
