//! Counters of the store's work. Plain numbers; names of metrics are chosen where they are exported.

use tollgate_store::remote::{ConnCounters, ConnStats, Stat};

/// A snapshot; all except the gauges only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemcacheStats {
    /// The counts that every remote store has.
    pub conn: ConnStats,
    /// Times another connection changed an item between our reading and our writing of it, so that both were
    /// done again.
    pub lost_races: u64,
    /// Permits that a batch could not give back, because its item was contended or the server did not answer:
    /// they count as used until their window ends.
    pub left_counted: u64,
}

/// The counters behind [`MemcacheStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) conn: ConnCounters,
    pub(crate) lost_races: Stat,
    pub(crate) left_counted: Stat,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> MemcacheStats {
        MemcacheStats {
            conn: self.conn.snapshot(),
            lost_races: self.lost_races.get(),
            left_counted: self.left_counted.get(),
        }
    }
}
