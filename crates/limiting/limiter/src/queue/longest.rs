//! The longest span of the last seconds, to be ready for the next one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate_core::Timestamp;

/// The longest of the spans that were noted in the last seconds.
#[derive(Debug, Default)]
pub(super) struct Longest {
    ns: AtomicU64,
    /// When it was noted, or last became shorter.
    since_ns: AtomicU64,
}

impl Longest {
    /// Interval at which it becomes an eighth shorter, while all spans are shorter.
    const FADES: Duration = Duration::from_millis(250);

    pub(super) fn get(&self) -> u64 {
        self.ns.load(Relaxed)
    }

    /// Notes a span. If two threads note one at the same time, one of the two may be overwritten.
    pub(super) fn note(&self, span: Duration, now: Timestamp) {
        let longest = self.get();
        let ns = tollgate_core::nanos(span);
        let since = Timestamp::from_nanos(self.since_ns.load(Relaxed));
        let fades = since > now || now.since(since) >= Self::FADES; // a clock may jump
        if ns >= longest {
            self.ns.store(ns, Relaxed);
        } else if fades {
            self.ns.store(ns.max(longest - longest / 8), Relaxed);
        } else {
            return;
        }
        self.since_ns.store(now.as_nanos(), Relaxed);
    }
}
