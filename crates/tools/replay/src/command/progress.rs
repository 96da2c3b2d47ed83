//! Progress of a long read, on a terminal; nothing if the output goes elsewhere.

use std::io::{IsTerminal as _, Write};

use tollgate_clock::MonotonicClock;
use tollgate_core::{Clock as _, Timestamp};

use crate::source::ReadSoFar;

/// Requests from one look at the clock to the next.
const EVERY: u64 = 1 << 16;
const WIDTH: usize = 30;

pub(crate) struct Progress {
    so_far: ReadSoFar,
    size: Option<u64>,
    /// `None` if the output is not a terminal.
    clock: Option<(MonotonicClock, Timestamp)>,
    shown: u64,
}

impl Progress {
    pub(crate) fn new(so_far: ReadSoFar, size: Option<u64>) -> Self {
        let clock = std::io::stderr().is_terminal().then(|| {
            let clock = MonotonicClock::new();
            let began = clock.now();
            (clock, began)
        });
        Self { so_far, size, clock, shown: 0 }
    }

    #[inline]
    pub(crate) fn step(&mut self, requests: u64, talk: &mut dyn Write) {
        if requests.is_multiple_of(EVERY) {
            self.show(requests, talk);
        }
    }

    #[cold]
    fn show(&mut self, requests: u64, talk: &mut dyn Write) {
        let Some((clock, began)) = &self.clock else { return };
        let seconds = clock.now().since(*began).as_secs_f64();
        let text = line(requests, seconds, self.so_far.bytes(), self.size);
        self.shown += 1;
        // A bar that cannot be drawn stops nothing.
        let _ = write!(talk, "\r{text}\u{1b}[K").and_then(|()| talk.flush());
    }

    pub(crate) fn end(&mut self, talk: &mut dyn Write) {
        if self.shown > 0 {
            let _ = write!(talk, "\r\u{1b}[K");
        }
    }
}

/// The bar, the rate and the time that is left.
fn line(requests: u64, seconds: f64, read: u64, size: Option<u64>) -> String {
    let rate = requests as f64 / seconds.max(1e-3);
    let Some(size) = size.filter(|size| *size > 0) else {
        return format!("{requests} requests, {rate:.0} a second");
    };
    let done = (read as f64 / size as f64).min(1.0);
    let full = (done * WIDTH as f64) as usize;
    let left = seconds * (1.0 - done) / done.max(1e-6);
    let (full, empty) = ("█".repeat(full), "░".repeat(WIDTH - full));
    format!("{full}{empty} {:.0} %, {rate:.0} requests a second, {left:.0} s left", done * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_has_the_rate_and_the_time_that_is_left() {
        let bar = line(1_000, 2.0, 25, Some(100));
        assert_eq!(bar, "███████░░░░░░░░░░░░░░░░░░░░░░░ 25 %, 500 requests a second, 6 s left");
        assert_eq!(line(10, 0.0, 0, None), "10 requests, 10000 a second");
    }
}
