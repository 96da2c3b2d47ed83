//! What is counted of the store's work. Plain numbers; names of metrics are the binary's business.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Upper edges of [`Figures::flight_sizes`]: keys in a flight; one bucket more holds what is above the last.
pub const FLIGHT_EDGES: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// A snapshot; all but the gauges only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Decisions and other requests asked of the store.
    pub asked: u64,
    /// Script calls sent, also again. Keys that are counted by one algorithm share one.
    pub calls: u64,
    /// Keys that these calls counted, keys that are charged together as one.
    pub keys: u64,
    /// Requests that shared the count of a key with another's.
    pub merged: u64,
    /// Round trips.
    pub flights: u64,
    /// Flights by the number of keys they counted, see [`FLIGHT_EDGES`].
    pub flight_sizes: [u64; FLIGHT_EDGES.len() + 1],
    /// Connections made, the first ones too.
    pub connects: u64,
    /// Connections that were tried in vain.
    pub connect_failures: u64,
    /// Requests refused because too many were waiting.
    pub queue_full: u64,
    /// Requests refused at once because a breaker was open.
    pub breaker_refused: u64,
    /// Requests whose time ran out before they were sent: nothing was taken.
    pub unsent: u64,
    /// Requests that were sent and not answered in time, or whose connection broke.
    pub silent: u64,
    /// Requests that the server refused.
    pub refused: u64,
    /// Scripts that had to be loaded anew.
    pub reloads: u64,
    /// Calls that another node of the Cluster had to be asked (MOVED and ASK).
    pub redirects: u64,
    /// Times a breaker opened.
    pub breaker_opened: u64,
    /// Gauge: breakers that are open now.
    pub breakers_open: u64,
    /// Gauge: connections that are open now.
    pub connections: u64,
    /// Gauge: how long round trips take lately, in microseconds.
    pub round_trip_us: u64,
    /// Gauge: nodes that share these counters, this one included; 1 until the store was heard of.
    pub live_nodes: u64,
    /// Decisions made from a lease, or from what its ledger said last: without asking the store.
    pub local_decisions: u64,
    /// Takes of leased keys that went to the ledger, merged ones too: what is not worth a lease.
    pub central_takes: u64,
    /// Requests for leases sent, returns too.
    pub lease_requests: u64,
    /// Permits that ledgers granted.
    pub permits_leased: u64,
    /// Permits given back unspent.
    pub permits_returned: u64,
    /// Permits whose time ran out unspent, or that the ledger knew nothing of any more.
    pub permits_lost: u64,
    /// Gauge: permits held now and not spent.
    pub permits_held: u64,
    /// Gauge: leases that hold permits now.
    pub leases_held: u64,
    /// Gauge: leased keys in mind.
    pub leased_keys: u64,
    /// Leased keys that made room for others.
    pub leased_keys_evicted: u64,
}

/// Where it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) asked: AtomicU64,
    pub(crate) calls: AtomicU64,
    keys: AtomicU64,
    pub(crate) merged: AtomicU64,
    pub(crate) flights: AtomicU64,
    flight_sizes: [AtomicU64; FLIGHT_EDGES.len() + 1],
    pub(crate) connects: AtomicU64,
    pub(crate) connect_failures: AtomicU64,
    pub(crate) queue_full: AtomicU64,
    pub(crate) breaker_refused: AtomicU64,
    pub(crate) unsent: AtomicU64,
    pub(crate) silent: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) reloads: AtomicU64,
    pub(crate) redirects: AtomicU64,
    pub(crate) breaker_opened: AtomicU64,
    pub(crate) breakers_open: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) round_trip_us: AtomicU64,
    pub(crate) live_nodes: AtomicU64,
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
    /// One flight with so many calls, on so many keys, left.
    pub(crate) fn flight(&self, calls: u64, keys: u64) {
        add(&self.flights, 1);
        add(&self.calls, calls);
        add(&self.keys, keys);
        let at = FLIGHT_EDGES.partition_point(|edge| *edge < keys);
        add(&self.flight_sizes[at], 1);
    }

    /// A round trip took so long. Those of several threads may overwrite each other, which hardly changes the mean.
    pub(crate) fn round_trip(&self, took: std::time::Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let before = self.round_trip_us.load(Relaxed);
        let mean = if before == 0 { us } else { (before.saturating_mul(7).saturating_add(us)) / 8 };
        self.round_trip_us.store(mean, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Figures {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        Figures {
            asked: get(&self.asked),
            calls: get(&self.calls),
            keys: get(&self.keys),
            merged: get(&self.merged),
            flights: get(&self.flights),
            flight_sizes: self.flight_sizes.each_ref().map(get),
            connects: get(&self.connects),
            connect_failures: get(&self.connect_failures),
            queue_full: get(&self.queue_full),
            breaker_refused: get(&self.breaker_refused),
            unsent: get(&self.unsent),
            silent: get(&self.silent),
            refused: get(&self.refused),
            reloads: get(&self.reloads),
            redirects: get(&self.redirects),
            breaker_opened: get(&self.breaker_opened),
            breakers_open: get(&self.breakers_open),
            connections: get(&self.connections),
            round_trip_us: get(&self.round_trip_us),
            live_nodes: get(&self.live_nodes).max(1),
            ..Figures::default()
        }
    }
}
