//! Limits log lines of one kind: some at once, then a few per second. Peers can provoke lines, such as those
//! of a protocol error on each connection; lines above the limit are counted instead.
//!
//! A kind is one place in the code. Denials are not limited here: their log has a limit of its own
//! (`--denial-log-rate`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::{Algorithm, Clock, Cost, Period, Quota, Refill, State};
use tollgate_observe::DENIED;
use tracing::Metadata;
use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing_subscriber::layer::{Context, Filter};

use crate::log_queue::LogQueue;

/// Lines of one kind at once: a start with many warnings loses none.
const BURST: u64 = 100;
/// Lines of one kind per second, after that.
const PER_SECOND: u64 = 5;

/// Lets events of a level pass, of each kind no more than the limit.
pub(crate) struct LineFilter {
    level: LevelFilter,
    clock: Arc<dyn Clock>,
    /// Always there: its numbers are constants.
    quota: Option<Quota>,
    /// One for each place in the code that has logged.
    kinds: Mutex<HashMap<Identifier, State>>,
    queue: LogQueue,
}

impl LineFilter {
    /// Lines up to `level`; those left out are counted in `queue`.
    pub(crate) fn new(level: LevelFilter, clock: Arc<dyn Clock>, queue: LogQueue) -> Self {
        let bucket = Algorithm::TokenBucket {
            burst: Some(BURST),
            initial: None,
            overdraft: 0,
            refill: Refill::Continuous,
        };
        let quota = Quota::new(PER_SECOND, Period::Span(Duration::from_secs(1)), bucket).ok();
        Self { level, clock, quota, kinds: Mutex::default(), queue }
    }

    fn is_of_level(&self, about: &Metadata<'_>) -> bool {
        about.is_event() && *about.level() <= self.level
    }

    fn has_room(&self, about: &Metadata<'_>) -> bool {
        if about.target() == DENIED {
            return true;
        }
        let Some(quota) = &self.quota else { return true };
        let mut kinds = self.kinds.lock();
        let state = kinds.entry(about.callsite()).or_insert_with(|| quota.fresh());
        let has_room = quota.take(state, Cost::ONE, self.clock.now()).is_admitted();
        if !has_room {
            self.queue.leave_out();
        }
        has_room
    }
}

impl<S> Filter<S> for LineFilter {
    /// Asked before each event. (Not `event_enabled`: what that rejects leaves the filter in a state that
    /// rejects the next event too.)
    fn enabled(&self, about: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.is_of_level(about) && self.has_room(about)
    }

    fn callsite_enabled(&self, about: &'static Metadata<'static>) -> Interest {
        if self.is_of_level(about) { Interest::sometimes() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use tollgate_core::Timestamp;
    use tracing::Event;
    use tracing_subscriber::layer::{Layer, SubscriberExt};

    use super::*;

    #[derive(Default)]
    struct Counting(Arc<AtomicU64>);

    impl<S: tracing::Subscriber> Layer<S> for Counting {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    struct Moved(Arc<AtomicU64>);

    impl Clock for Moved {
        fn now(&self) -> Timestamp {
            Timestamp::from_unix_seconds(1_700_000_000) + Duration::from_millis(self.0.load(Relaxed))
        }
    }

    #[test]
    fn lines_of_one_kind_are_limited_and_those_of_others_and_denials_are_not() {
        let written = Arc::default();
        let millis = Arc::new(AtomicU64::new(0));
        let queue = LogQueue::default();
        let clock = Arc::new(Moved(Arc::clone(&millis)));
        let filter = LineFilter::new(LevelFilter::INFO, clock, queue.clone());
        let layer = Counting(Arc::clone(&written)).with_filter(filter);
        let flood = |lines: u64| (0..lines).for_each(|line| tracing::warn!(line, "provoked by a peer"));
        let count = || written.swap(0, Relaxed);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            flood(BURST);
            assert_eq!((count(), queue.left_out()), (BURST, 0), "as many at once as a start may need");
            flood(50);
            assert_eq!((count(), queue.left_out()), (0, 50));
            tracing::warn!("of another kind");
            (0..500).for_each(|_| tracing::error!(target: "tollgate::denied", "limited by its own rate"));
            assert_eq!(count(), 501);
            tracing::debug!("below the level");
            assert_eq!(count(), 0);
            millis.store(1_000, Relaxed);
            flood(50);
            assert_eq!((count(), queue.left_out()), (PER_SECOND, 95));
        });
    }
}
