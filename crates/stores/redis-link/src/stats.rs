//! Counters of the client's work. Plain numbers; names of metrics are chosen where they are exported.

use tollgate_store::remote::{ConnCounters, Stat};

/// Upper edges of [`FlightStats::sizes`]: requests in a flight; one more bucket holds larger flights.
pub const FLIGHT_EDGES: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// A snapshot; all except the gauges only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlightStats {
    /// Flights by the number of requests they carried, see [`FLIGHT_EDGES`].
    pub sizes: [u64; FLIGHT_EDGES.len() + 1],
    /// Scripts that had to be loaded again.
    pub script_loads: u64,
    /// Calls that another node of the Cluster had to answer (MOVED and ASK).
    pub redirects: u64,
}

/// The counters behind [`ConnStats`](tollgate_store::remote::ConnStats) and [`FlightStats`].
#[derive(Debug, Default)]
pub struct LinkCounters {
    /// The counts that every remote store has.
    pub conn: ConnCounters,
    flight_sizes: [Stat; FLIGHT_EDGES.len() + 1],
    pub(crate) script_loads: Stat,
    pub(crate) redirects: Stat,
}

impl LinkCounters {
    /// Records a flight with this many calls for this many requests.
    pub(crate) fn flight(&self, calls: u64, requests: u64) {
        self.conn.flights.add(1);
        self.conn.calls.add(calls);
        self.conn.keys.add(requests);
        self.flight_sizes[FLIGHT_EDGES.partition_point(|edge| *edge < requests)].add(1);
    }

    /// The counts of flights since the start.
    #[must_use]
    pub fn flights(&self) -> FlightStats {
        FlightStats {
            sizes: self.flight_sizes.each_ref().map(Stat::get),
            script_loads: self.script_loads.get(),
            redirects: self.redirects.get(),
        }
    }
}
