//! The current time, for tests of windows that begin and end with the calendar.
//!
//! The process under test reads the machine's clock, so a test that asks "how long until its window ends"
//! must read the same one. Not here: durations; nothing measures how long something took.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since the Unix epoch.
#[allow(
    clippy::disallowed_methods,
    reason = "the only reading: the calendar that the process under test goes by"
)]
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set")
}

/// Seconds in `unit`, and the number that the protocol gives it.
pub(crate) fn unit(name: &str) -> (u64, i32) {
    match name.to_ascii_lowercase().as_str() {
        "second" => (1, 1),
        "minute" => (60, 2),
        "hour" => (3_600, 3),
        "day" => (86_400, 4),
        "week" => (604_800, 7),
        "month" => (2_592_000, 5),
        "year" => (31_536_000, 6),
        "unknown" => (1, 0),
        other => panic!("no unit {other:?}"),
    }
}

/// Which window of `seconds` it is now, counted from the epoch.
pub(crate) fn window(seconds: u64) -> u64 {
    now().as_secs() / seconds
}

/// Seconds until the window of `seconds` ends, as the service rounds them: 1 to `seconds`.
pub(crate) fn until_end(seconds: u64) -> u64 {
    seconds - now().as_secs() % seconds
}

/// Returns when a new window of `seconds` has begun.
pub(crate) async fn next_window(seconds: u64) {
    let began = now();
    let window = Duration::from_secs(seconds);
    let into = Duration::from_nanos((began.as_nanos() % window.as_nanos()) as u64);
    tokio::time::sleep(window - into).await; // the wait is for the calendar itself
    while now().as_secs() / seconds == began.as_secs() / seconds {
        tokio::task::yield_now().await; // the timer and the calendar are two clocks
    }
}
