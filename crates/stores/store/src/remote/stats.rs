//! The counts of a remote store's work. Plain numbers; names of metrics are chosen where they are exported.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A counter or a gauge that threads share.
#[derive(Debug, Default)]
pub struct Stat(AtomicU64);

impl Stat {
    /// Adds `n` to the count.
    pub fn add(&self, n: u64) {
        if n > 0 {
            self.0.fetch_add(n, Relaxed);
        }
    }

    /// Lowers a gauge by `n`.
    pub fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Relaxed);
    }

    /// Sets a gauge.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The current value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! conn_stats {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// The work of one store's connections; all counts except the gauges only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct ConnStats {
            $($(#[$doc])* pub $field: u64,)*
        }

        /// The counters behind [`ConnStats`].
        #[derive(Debug, Default)]
        pub struct ConnCounters {
            $($(#[$doc])* pub $field: Stat,)*
        }

        impl ConnCounters {
            /// The counts since the start.
            #[must_use]
            pub fn snapshot(&self) -> ConnStats {
                ConnStats { $($field: self.$field.get(),)* }
            }
        }
    };
}

conn_stats! {
    /// Decisions and other requests made to the store.
    requests,
    /// Commands sent, retries included: script calls of Redis, commands of memcached.
    calls,
    /// Keys that these commands counted; keys that are charged together count as one.
    keys,
    /// Requests that shared the count of a key with another request.
    merged,
    /// Round trips to the server.
    flights,
    /// Connections made, the first ones included.
    connects,
    /// Attempts to connect that failed.
    connect_failures,
    /// Requests that failed because too many were waiting.
    queue_full,
    /// Requests that failed at once because a breaker was open.
    breaker_blocked,
    /// Requests whose time ran out before they were sent: nothing was taken.
    unsent,
    /// Requests that were sent and not answered in time, or whose connection broke.
    silent,
    /// Requests that the server rejected.
    rejected,
    /// Times a breaker opened.
    breaker_opened,
    /// Gauge: breakers that are open now.
    breakers_open,
    /// Gauge: connections that are open now.
    connections,
    /// Gauge: recent mean round trip in microseconds; 0 for memcached.
    round_trip_us,
}

impl ConnCounters {
    /// Counts a round trip of `took` into the mean. Threads may overwrite each other here, which hardly
    /// changes it.
    pub fn round_trip(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let before = self.round_trip_us.get();
        let mean = if before == 0 { us } else { (before.saturating_mul(7).saturating_add(us)) / 8 };
        self.round_trip_us.set(mean);
    }
}
