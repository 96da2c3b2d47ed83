//! The leased keys of a node, each decided under the short lock of one shard: no I/O. Messages to send are
//! put into [`PendingSends`]. Not here: the rules of a lease ([`tollgate_lease`]); the tasks that send.

use std::sync::atomic::AtomicBool;

use tollgate_core::Timestamp;
use tollgate_lease::{Mono, Timing};
use tollgate_store::remote::Stat;
use tollgate_store::{Counter, StoreError};

use super::clock::{Moment, NodeClock};
use super::ledger_client::LedgerClient;
use super::outgoing::PendingSends;
use super::table::{LeaseTable, LeasedKey, Shard};
use super::take::{Begun, LeasedTake};
use crate::keys::bounded;
use crate::stats::LeaseStats;

/// The leased keys of one node. All threads share them.
#[derive(Debug)]
pub(super) struct LocalLeases {
    pub(super) client: LedgerClient,
    pub(super) timing: Timing,
    pub(super) clock: NodeClock,
    /// A task that gives back idle permits is running.
    pub(super) has_reaper: AtomicBool,
    pub(super) table: LeaseTable,
    pub(super) counts: LocalLeaseStats,
}

#[derive(Debug, Default)]
pub(super) struct LocalLeaseStats {
    pub(super) requests: Stat,
    pub(super) granted: Stat,
    pub(super) central: Stat,
}

impl LocalLeases {
    pub(super) fn new(client: LedgerClient, clock: NodeClock, most_keys: usize) -> Self {
        Self {
            client,
            timing: Timing::default(),
            clock,
            has_reaper: AtomicBool::new(false),
            table: LeaseTable::new(most_keys),
            counts: LocalLeaseStats::default(),
        }
    }

    /// Begins a take. `None`: the quota cannot be leased.
    #[inline]
    pub(super) fn begin(
        &self,
        counter: Counter<'_>,
        take: LeasedTake,
        now: Timestamp,
        sends: &mut PendingSends,
    ) -> Option<Begun> {
        let now = self.clock.moment(now);
        let mut kept = Vec::new();
        let counter = bounded(counter, &mut kept);
        let Counter { key, quota, .. } = counter;
        let mut guard = self.table.shard(key.0);
        let shard = &mut *guard;
        let begun = match shard.keys.get_mut(key.0).filter(|found| found.shared.quota.is_equivalent_to(quota))
        {
            Some(found) => {
                found.note_use(now);
                self.take(found, take, now.mono, sends)
            }
            None => match self.find(shard, counter, now, sends)? {
                Ok(found) => self.take(found, take, now.mono, sends),
                Err(error) => Begun::Done(Err(error)),
            },
        };
        shard.local_decisions += u64::from(matches!(begun, Begun::Done(Ok(_))));
        shard.watched.append(&mut sends.watched);
        Some(begun)
    }

    /// Runs an operation on a key. `None`: the quota cannot be leased.
    pub(super) fn with<T>(
        &self,
        counter: Counter<'_>,
        now: Moment,
        sends: &mut PendingSends,
        what: impl FnOnce(&mut LeasedKey, &mut PendingSends) -> T,
    ) -> Option<Result<T, StoreError>> {
        let mut kept = Vec::new();
        let counter = bounded(counter, &mut kept);
        let mut shard = self.table.shard(counter.key.0);
        let done =
            self.find(&mut shard, counter, now, sends).map(|found| found.map(|found| what(found, sends)));
        shard.watched.append(&mut sends.watched);
        done
    }

    /// Forgets the lease of a key that was reset.
    pub(super) fn forget(&self, key: &mut LeasedKey, now: Mono, sends: &mut PendingSends) {
        key.node.forget();
        key.in_flight = None;
        self.deal(key, now, sends);
    }

    /// The counts of this node.
    pub(super) fn stats(&self) -> LeaseStats {
        let now = self.clock.now();
        let mut stats = LeaseStats {
            lease_requests: self.counts.requests.get(),
            permits_leased: self.counts.granted.get(),
            central_takes: self.counts.central.get(),
            ..LeaseStats::default()
        };
        for shard in self.table.shards() {
            stats.local_decisions += shard.local_decisions;
            stats.permits_lost += shard.lapsed;
            stats.permits_returned += shard.given_back;
            stats.leased_keys_evicted += shard.evicted;
            stats.leased_keys += shard.keys.len() as u64;
            for key in shard.keys.values() {
                let held = key.node.live(now);
                stats.permits_held += held;
                stats.leases_held += u64::from(held > 0);
                stats.permits_lost += key.node.lapsed();
                stats.permits_returned += key.node.given_back();
            }
        }
        stats
    }

    /// The key in the table: changed to `quota` if it had another, or added. `None`: the quota cannot be
    /// leased.
    fn find<'a>(
        &self,
        shard: &'a mut Shard,
        Counter { key, quota, .. }: Counter<'_>,
        now: Moment,
        sends: &mut PendingSends,
    ) -> Option<Result<&'a mut LeasedKey, StoreError>> {
        let shared = shard.shared_terms(quota, self.timing)?;
        match shard.keys.get_mut(key.0) {
            Some(found) if found.shared.quota.is_equivalent_to(quota) => {}
            Some(found) => {
                if let Some(request) = found.change(shared, now.mono) {
                    self.send(found, request, now.mono, sends);
                }
                self.deal(found, now.mono, sends);
            }
            None => {
                if !self.table.has_room(shard) {
                    let returns = shard.make_room(now.mono);
                    self.send_returns(returns, now.mono, sends);
                }
                if !self.table.has_room(shard) {
                    let why = "more leased keys are in use than there may be";
                    return Some(Err(self.client.queue_full(why)));
                }
                self.table.insert(shard, key.0, self.client.redis_key(key.0), shared, now);
            }
        }
        let found = shard.keys.get_mut(key.0)?;
        found.note_use(now);
        Some(Ok(found))
    }
}
