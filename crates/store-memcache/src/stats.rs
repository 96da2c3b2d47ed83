//! What is counted of the store's work. Plain numbers; names of metrics are the binary's business.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A snapshot; all but the gauges only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Decisions and other requests asked of the store.
    pub asked: u64,
    /// Commands sent, also again.
    pub calls: u64,
    /// Requests that shared another's command.
    pub merged: u64,
    /// Round trips.
    pub flights: u64,
    /// Times another connection changed an item between our reading and our writing of it, so that both were done again.
    pub lost_races: u64,
    /// Permits that a batch gave back in vain, because its item was contended or the server did not answer: they count as used until
    /// their window ends.
    pub left_counted: u64,
    /// Connections made, the first ones too.
    pub connects: u64,
    /// Connections that were tried in vain.
    pub connect_failures: u64,
    /// Requests refused because too many were waiting.
    pub queue_full: u64,
    /// Requests refused at once because a breaker was open.
    pub breaker_refused: u64,
    /// Requests whose time ran out before anything was changed: nothing was taken.
    pub unsent: u64,
    /// Requests that were sent and not answered in time, or whose connection broke.
    pub silent: u64,
    /// Requests that the server refused, or whose item holds what is not ours.
    pub refused: u64,
    /// Times a breaker opened.
    pub breaker_opened: u64,
    /// Gauge: breakers that are open now.
    pub breakers_open: u64,
    /// Gauge: connections that are open now.
    pub connections: u64,
}

/// Where it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) asked: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) merged: AtomicU64,
    pub(crate) flights: AtomicU64,
    pub(crate) lost_races: AtomicU64,
    pub(crate) left_counted: AtomicU64,
    pub(crate) connects: AtomicU64,
    pub(crate) connect_failures: AtomicU64,
    pub(crate) queue_full: AtomicU64,
    pub(crate) breaker_refused: AtomicU64,
    pub(crate) unsent: AtomicU64,
    pub(crate) silent: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) breaker_opened: AtomicU64,
    pub(crate) breakers_open: AtomicU64,
    pub(crate) connections: AtomicU64,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    if n > 0 {
        counter.fetch_add(n, Relaxed);
    }
}

/// Lowers a gauge.
pub(crate) fn sub(gauge: &AtomicU64, n: u64) {
    gauge.fetch_sub(n, Relaxed);
}

impl Counters {
    pub(crate) fn snapshot(&self) -> Figures {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        Figures {
            asked: get(&self.asked),
            calls: get(&self.calls),
            merged: get(&self.merged),
            flights: get(&self.flights),
            lost_races: get(&self.lost_races),
            left_counted: get(&self.left_counted),
            connects: get(&self.connects),
            connect_failures: get(&self.connect_failures),
            queue_full: get(&self.queue_full),
            breaker_refused: get(&self.breaker_refused),
            unsent: get(&self.unsent),
            silent: get(&self.silent),
            refused: get(&self.refused),
            breaker_opened: get(&self.breaker_opened),
            breakers_open: get(&self.breakers_open),
            connections: get(&self.connections),
        }
    }
}
