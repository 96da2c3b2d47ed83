//! Whether a server that answers does so in time.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Duration;
use tollgate_store::StoreName;

use crate::settings::DEADLINE_SETTING;

/// Fewer calls without an answer mean nothing.
const FEW: u64 = 5;

/// Late answers among the calls of the last seconds.
#[derive(Debug)]
pub(crate) struct Slowness {
    store: StoreName,
    recent: Mutex<Recent>,
}

/// Calls of the last seconds, older ones weighted less, and the warning about them.
#[derive(Debug, Default)]
struct Recent {
    requests: u64,
    silent: u64,
    why: Option<Arc<str>>,
}

/// Calls since the last report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    /// Calls that were made.
    pub(crate) requests: u64,
    /// Calls that were not answered in time.
    pub(crate) silent: u64,
    pub(crate) round_trip: Duration,
    pub(crate) deadline: Duration,
}

impl Slowness {
    pub(crate) fn new(store: StoreName) -> Self {
        Self { store, recent: Mutex::default() }
    }

    /// A warning about a server that is up and answers more than 1 % of the calls too late.
    pub(crate) fn why(&self, is_up: bool) -> Option<Arc<str>> {
        if !is_up {
            return None; // which says more
        }
        self.recent.lock().why.clone()
    }

    /// Calls since the last report, about once a second. Logs one line when they become too slow, and one
    /// when that is over.
    pub(crate) fn report(&self, is_up: bool, calls: Calls) {
        let mut recent = self.recent.lock();
        (recent.requests, recent.silent) =
            (recent.requests / 2 + calls.requests.max(calls.silent), recent.silent / 2 + calls.silent);
        if !is_up {
            (recent.requests, recent.silent) = (0, 0); // an outage is reported as such
        }
        match &recent.why {
            None if is_up && recent.silent >= FEW && recent.silent * 100 > recent.requests => {
                let share = recent.silent * 100 / recent.requests.max(1);
                let why = format!(
                    "too slow: round trip {:.1?}, deadline {:?}: {share} % of calls were not answered in time; \
                     raise {DEADLINE_SETTING}, or look at the server's load and the network",
                    calls.round_trip, calls.deadline
                );
                tracing::warn!(store = %self.store, "the store is {why}");
                recent.why = Some(why.into());
            }
            Some(_) if !is_up || recent.silent * 200 <= recent.requests => {
                if is_up {
                    tracing::info!(store = %self.store, "the store answers in time again");
                }
                recent.why = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_too_slow_while_more_than_one_call_in_a_hundred_gets_no_answer() {
        let slowness = Slowness::new(StoreName::new("redis"));
        let round_trip = Duration::from_millis(12);
        let deadline = Duration::from_millis(10);
        let report = |is_up, requests, silent| {
            slowness.report(is_up, Calls { requests, silent, round_trip, deadline });
            slowness.why(is_up)
        };
        assert_eq!(report(false, 1000, 900), None, "it is not known to be up");
        let why = report(true, 1000, 900).expect("slow");
        assert!(why.contains("round trip 12.0ms, deadline 10ms: 90 %"), "{why}");
        assert_eq!(report(true, 100_000, 0), None);
        for _ in 0..20 {
            assert_eq!(report(true, 1000, 10), None, "one in a hundred");
        }
        assert!(report(true, 1000, 20).is_some());
        assert_eq!(slowness.why(false), None, "it is down, which says more");
        assert_eq!(report(false, 0, 0), None);
        assert_eq!(report(true, 0, 0), None);
        assert_eq!(report(true, 1, 1), None, "one call");
    }
}
