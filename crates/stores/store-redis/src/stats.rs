//! Counters of the store's work. Plain numbers; names of metrics are chosen where they are exported.

use tollgate_redis_link::FlightStats;
use tollgate_store::remote::ConnStats;

/// A snapshot; all except the gauges only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisStats {
    /// Counts of connections and their requests.
    pub conn: ConnStats,
    /// Counts of flights and their sizes.
    pub flights: FlightStats,
    /// Gauge: nodes that share these counters, this one included; 1 until the store has answered.
    pub live_nodes: u64,
    /// Counts of leases on this node.
    pub leases: LeaseStats,
}

/// The counts of leases; all except the gauges only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseStats {
    /// Decisions made from a lease, or from its ledger's last reply: without asking the store.
    pub local_decisions: u64,
    /// Takes of leased keys that went to the ledger, merged ones too: those not worth a lease.
    pub central_takes: u64,
    /// Requests for leases sent, returns too.
    pub lease_requests: u64,
    /// Permits that ledgers granted.
    pub permits_leased: u64,
    /// Permits given back unspent.
    pub permits_returned: u64,
    /// Permits that expired unspent, or that the ledger did not know of any more.
    pub permits_lost: u64,
    /// Gauge: permits held now and not spent.
    pub permits_held: u64,
    /// Gauge: leases that hold permits now.
    pub leases_held: u64,
    /// Gauge: leased keys in the node's table.
    pub leased_keys: u64,
    /// Leased keys that made room for others.
    pub leased_keys_evicted: u64,
}
