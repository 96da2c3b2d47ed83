//! Metrics of a shared store.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tollgate_store::remote::ConnStats;
use tollgate_store_redis::{FLIGHT_EDGES, LeaseStats, RedisStats};

use crate::any_store::AnyStore;
use crate::family::Family;

/// Writes them, if the store is shared.
pub(super) fn encode(to: &mut DescriptorEncoder<'_>, store: &AnyStore) -> fmt::Result {
    let is_up = u64::from(store.is_up());
    let help = "1 while the store answers, else 0; of memory always 1";
    Family::gauge("tollgate_store_up", help).write(to, is_up)?;
    match store {
        AnyStore::Memory(_) => Ok(()),
        AnyStore::Redis(store) => {
            let stats = store.shared().stats();
            work(to, &stats.conn)?;
            flights(to, &stats)?;
            leases(to, &stats.leases)
        }
        AnyStore::Memcache { store, .. } => {
            let stats = store.shared().stats();
            work(to, &stats.conn)?;
            let more = [
                (
                    "tollgate_store_lost_races",
                    "Writes that came too late and were made again",
                    stats.lost_races,
                ),
                (
                    "tollgate_store_left_counted",
                    "Permits that could not be given back and count as used until their window ends",
                    stats.left_counted,
                ),
            ];
            Family::counters(to, more)
        }
    }
}

fn work(to: &mut DescriptorEncoder<'_>, of: &ConnStats) -> fmt::Result {
    let counters = [
        ("tollgate_store_requests", "Decisions and other requests asked of the shared store", of.requests),
        ("tollgate_store_calls", "Script calls, or commands of memcached, sent to it", of.calls),
        ("tollgate_store_counted_keys", "Keys that these counted, once a call each", of.keys),
        ("tollgate_store_round_trips", "Flights of calls that were sent together", of.flights),
        (
            "tollgate_store_merged_requests",
            "Requests that shared the count of a key with another's",
            of.merged,
        ),
        ("tollgate_store_connects", "Connections made to it", of.connects),
        ("tollgate_store_connect_failures", "Connections that were tried in vain", of.connect_failures),
        ("tollgate_store_breaker_opened", "Times that a breaker opened", of.breaker_opened),
    ];
    Family::counters(to, counters)?;
    let failures = [
        ("breaker_open", of.breaker_blocked),
        ("queue_full", of.queue_full),
        ("unsent", of.unsent),
        ("silent", of.silent),
        ("refused", of.rejected),
    ];
    let help = "Requests without a decision: rejected by an open breaker or a full queue, not sent in time, sent without a reply \
                in time, rejected by the server";
    Family::counter("tollgate_store_failures", help).write_by(to, "reason", failures)?;
    let gauges = [
        ("tollgate_store_breakers_open", "Breakers that are open", of.breakers_open),
        ("tollgate_store_connections", "Connections to the store", of.connections),
        (
            "tollgate_store_round_trip_microseconds",
            "How long round trips to the store take lately; 0 of memcached",
            of.round_trip_us,
        ),
    ];
    Family::gauges(to, gauges)
}

fn flights(to: &mut DescriptorEncoder<'_>, of: &RedisStats) -> fmt::Result {
    let counters = [
        ("tollgate_store_script_loads", "Scripts that had to be loaded anew", of.flights.script_loads),
        (
            "tollgate_store_redirects",
            "Calls that another node of the Cluster had to be asked",
            of.flights.redirects,
        ),
    ];
    Family::counters(to, counters)?;
    let help = "Nodes that share its counters, this one included";
    Family::gauge("tollgate_store_live_nodes", help).write(to, of.live_nodes)?;
    let bounds = FLIGHT_EDGES.iter().map(|edge| *edge as f64).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(of.flights.sizes).collect();
    let number = of.flights.sizes.iter().sum();
    to.encode_descriptor(
        "tollgate_store_flight_keys",
        "Keys that each round trip counted",
        None,
        MetricType::Histogram,
    )?
    .encode_histogram::<NoLabelSet>(of.conn.keys as f64, number, &buckets, None)
}

fn leases(to: &mut DescriptorEncoder<'_>, of: &LeaseStats) -> fmt::Result {
    let counters = [
        (
            "tollgate_lease_decisions",
            "Decisions made from a lease, without asking the store",
            of.local_decisions,
        ),
        ("tollgate_lease_central_takes", "Takes of leased rules that went to the store", of.central_takes),
        ("tollgate_lease_requests", "Requests for leases, and returns, sent to the store", of.lease_requests),
        ("tollgate_leased_keys_evicted", "Leased keys that made room for others", of.leased_keys_evicted),
    ];
    Family::counters(to, counters)?;
    let help =
        "Permits leased: granted by the store, returned unspent, lost because their time ran out unspent";
    let permits =
        [("granted", of.permits_leased), ("returned", of.permits_returned), ("lost", of.permits_lost)];
    Family::counter("tollgate_lease_permits", help).write_by(to, "what", permits)?;
    let gauges = [
        ("tollgate_leases_held", "Leases that hold permits", of.leases_held),
        ("tollgate_lease_permits_held", "Permits held and not spent", of.permits_held),
        ("tollgate_leased_keys", "Leased keys in mind", of.leased_keys),
    ];
    Family::gauges(to, gauges)
}
